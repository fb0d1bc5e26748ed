"""Eight ranks on four hosts compute what one rank computes, in float64: every task, with gradients that cross the network from each rank (mpi) and once for
each host (hierarchical). The data are on every host, the run folder on the first one alone.

usage: equality_test.py [TASK...]"""

import sys

import hosts
import runner
from host import WORK
from run_numbers import Numbers, difference

STEPS = 20
# Augmentation and dropout stay on: they are keyed by sample, not by rank.
OPTIONS = {**runner.SMALL_ROWS, "train.amp": "fp64", "train.global_batch": 16, "train.max_steps": STEPS, "train.epochs": 30, "data.file": "d.h5",
           "data.val_share": 0, "checkpoint.keep_best": False, "schedule.name": "constant", "metrics.enabled": False, "dist.bucket_mb": 1}
SGD = {"optimizer.name": "sgd", "optimizer.lr": 0.01, "optimizer.momentum": 0}
ADAMW = {"optimizer.name": "adamw", "optimizer.lr": 0.001}
FROZEN, SHARED = {"train.freeze_batch_norm": True}, {"train.sync_batch_norm": True}
SAMPLES = 86  # a tail of less than the global batch in every split that a task makes
PICTURES = {"model.image_size": 32}
SMALL_LSTM = {"model.hidden": 32}
TASKS = {
    "headpose": {"task": "headpose", **PICTURES},
    "classify": {"task": "classify", "model.name": "simple_cnn", **PICTURES},
    "pointer": {"task": "pointer", "pointer.teacher_forcing": 0.5, "pointer.teacher_forcing_end": 0.5, **SMALL_LSTM},
    "sequence": {"task": "sequence", "sequence.encoder_epochs": 1, "sequence.classifier_epochs": 1, "sequence.iterations": 2,
                 "sequence.encoder_lr_ratio": 0.5, **SMALL_LSTM},
    "module": {"task": "module", "model.file": "net.pt", "task.loss": "mse", **PICTURES},
}
NORMALIZED = ("headpose", "sequence")  # have batch norm


def variants(task):
    """[(name, options, micro-batch of one rank, bound)]; the micro-batch of each of eight ranks is 2."""
    norm = FROZEN if task in NORMALIZED else {}
    found = [("sgd", {**SGD, **norm}, 16, 1e-12), ("adamw", {**ADAMW, **norm}, 5, 1e-10)]
    if task in NORMALIZED:
        found += [("shared", {**SGD, **SHARED}, 16, 1e-12), ("shared_adamw", {**ADAMW, **SHARED}, 16, 1e-10)]
    return found


def data_for(task, folder):
    words = ["synth", "headpose" if task == "module" else task, "--samples", SAMPLES, "--out", folder / "d.h5"]
    runner.run(words + (["--size", 32] if "model.image_size" in TASKS[task] else [])).expect(0)
    files = [folder / "d.h5"]
    if task == "module":
        runner.save_script_network(folder / "net.pt")
        files.append(folder / "net.pt")
    return files


def others_are_seen(four, alone, keys):
    """Batch norm with the statistics of each rank is another training, and the comparison can tell."""
    own = {**keys, "run.name": "own", "train.sync_batch_norm": False, "train.freeze_batch_norm": False}
    result = four.train(runner.flags(own)).expect(0)
    found = difference(alone, Numbers(result, four[0].inside(WORK) / "runs/own", STEPS))
    assert found > 1e-4, ("the test would not see a difference", found)


def compare(task, backends, chosen=None):
    def test(folder):
        files = data_for(task, folder)
        with hosts.Hosts(4) as four:
            for file in files:
                four.give(file)
            for name, options, batch, bound in variants(task):
                if chosen and name not in chosen:
                    continue
                keys = {**OPTIONS, **TASKS[task], **options, "train.batch_size": batch, "run.name": name}
                alone = Numbers(runner.run(runner.flags(keys), cwd=folder).expect(0), folder / "runs" / name, STEPS)
                for backend in backends:
                    keys |= {"train.batch_size": 2, "run.name": f"{name}-{backend}", "dist.backend": backend}
                    result = four.train(runner.flags(keys)).expect(0, f"gradients  {backend}", "rank 7     host3")
                    together = Numbers(result, four[0].inside(WORK) / "runs" / keys["run.name"], STEPS)
                    found = difference(alone, together)
                    print(f"        {task}, {name}, {backend}: {found:.1e}, in {result.seconds:.1f} s", flush=True)
                    assert together.ledger == alone.ledger, (task, name, backend)
                    assert found <= bound, (task, name, backend, found)
            if task in NORMALIZED:
                others_are_seen(four, alone, keys)
            left = four[1].run(["find", ".", "-type", "f"]).output.split()
            assert sorted(left) == sorted(f"./{file.name}" for file in files), left
    test.__name__ = f"{task}_is_the_same_on_four_hosts"
    return test


if __name__ == "__main__":
    hosts.main([compare(task, ("mpi", "hierarchical")) for task in sys.argv[1:] or TASKS])
