"""Data on each host, the run folder only where rank 0 is; data that differ or are missing on one host are named before step 1."""

import hosts
import runner
from host import WORK

KEYS = {**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.max_steps": 4, "train.batch_size": 2, "data.val_share": 0, "metrics.enabled": False}


def data_that_differ_on_one_host_are_named(folder):
    runner.synth(folder / "d.h5", 64)
    runner.synth(folder / "other.h5", 64, seed=2)
    with hosts.Hosts(4) as four:
        four.give(folder / "d.h5", [0, 1, 3])
        four.give(folder / "other.h5", [2], "d.h5")
        result = four.train(runner.flags(KEYS)).expect(65, "rank 4 on host2", "rank 5 on host2", "different data", "Copy the same file to all hosts")
        assert "step 1/" not in result.output and "host3:" not in result.output, result.output
        assert not (four[0].inside(WORK) / "runs/r/checkpoints").exists()


def data_that_are_missing_on_one_host_are_named(folder):
    runner.synth(folder / "d.h5", 64)
    with hosts.Hosts(4) as four:
        four.give(folder / "d.h5", [0, 1, 2])
        result = four.train(runner.flags(KEYS))
        assert result.code == 65 and "step 1/" not in result.output, result.output
        assert "d.h5" in result.output and "rank 6" in result.output, result.output
        said = " ".join(line for line in result.output.splitlines() if "error: " in line)
        assert "[rank 6 on host3] error: " in said, said


def a_run_is_resumed_on_other_hosts(folder):
    """Checkpoints lie on rank 0's host alone, and the other hosts need nothing of them."""
    runner.synth(folder / "d.h5", 64)
    with hosts.Hosts(4) as four:
        four.give(folder / "d.h5")
        whole = four.train(runner.flags({**KEYS, "run.name": "whole", "train.global_batch": 16, "train.max_steps": 8})).expect(0)
        four.train(runner.flags({**KEYS, "train.global_batch": 16})).expect(0, "finished: all 4 steps")
        words = ["--resume", "auto", *runner.flags({**KEYS, "train.global_batch": 16, "train.max_steps": 8})]
        rest = four.train(words, hosts=[0, 2]).expect(0, "finished: all 8 steps")
        assert runner.ledger(rest) == runner.ledger(whole)
        for index in (1, 2, 3):
            assert four[index].run(["ls"]).output.split() == ["d.h5"]


if __name__ == "__main__":
    hosts.main([data_that_differ_on_one_host_are_named, data_that_are_missing_on_one_host_are_named, a_run_is_resumed_on_other_hosts])
