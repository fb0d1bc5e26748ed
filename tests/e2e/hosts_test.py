"""Ranks on several hosts, which are this machine under other names (tests/support/pretended_host)."""

import os
import pathlib
import re
import signal
import time

import mounts
import runner

ENDED = 20.0  # seconds within which a job ends after a rank has died; without it, dist.timeout (300 s)


def environment(folder, slots, **more):
    """Of a job on hosts with these numbers of ranks."""
    hosts = folder / "hosts"
    hosts.write_text("".join(f"host{i} slots={count}\n" for i, count in enumerate(slots)))
    mca = {"plm_rsh_agent": runner.SOURCE / "tests/support/pretended_host", "orte_default_hostfile": hosts, "btl_tcp_if_include": "lo", **more}
    return runner.environment() | {f"OMPI_MCA_{name}": str(value) for name, value in mca.items()}


def train(folder, env, name, np, **options):
    keys = {**runner.SMALL, "data.file": "d.h5", "run.name": name, "train.max_steps": 6, "train.batch_size": 4, "data.val_share": 0,
            "metrics.enabled": False, "dist.bucket_mb": 1, **options}
    return runner.run(runner.flags(keys), np=np, cwd=folder, env=env)


def losses(folder, name):
    return [step["loss"] for step in runner.metrics(folder / "runs" / name)]


def training_is_the_same_on_one_host_and_on_several(folder):
    """The losses are those of other orders of addition."""
    runner.synth(folder / "d.h5", 96)
    by_host = {"rmaps_base_mapping_policy": "node"}  # one rank to each host, and then again
    one = {np: train(folder, None, f"one{np}", np).expect(0, "finished: all") for np in (2, 4)}
    for name, slots, more, kind in [("even", [2, 2], {}, "hierarchical"), ("uneven", [3, 1], {}, "hierarchical"),
                                    ("mixed", [2, 2], by_host, "hierarchical"), ("alone", [1, 1], {}, "mpi")]:
        np = sum(slots)
        result = train(folder, environment(folder, slots, **more), name, np).expect(0, "finished: all")
        assert re.search(rf"gradients +{kind}\n", result.output), result.output
        assert runner.ledger(result) == runner.ledger(one[np])
        for here, there in zip(losses(folder, f"one{np}"), losses(folder, name), strict=True):
            assert abs(here - there) <= 2e-3 * abs(here), (name, here, there)


def processes_in(folder):
    """The ranks that run in this folder: {rank: process id}. What a rank has started itself has a higher id."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                variables = dict(item.split("=", 1) for item in (entry / "environ").read_text().split("\0") if "=" in item)
                rank = int(variables["OMPI_COMM_WORLD_RANK"])
                found[rank] = min(int(entry.name), found.get(rank, int(entry.name)))
        except (OSError, KeyError, ValueError):
            continue
    return found


def a_killed_rank_ends_the_ranks_of_all_hosts(folder):
    runner.synth(folder / "d.h5", 64)
    keys = {**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.max_steps": 100000, "train.epochs": 100000, "data.val_share": 0,
            "metrics.enabled": False}
    for victim in (0, 3):
        with runner.Running(runner.flags({**keys, "run.name": f"r{victim}"}), np=4, cwd=folder, env=environment(folder, [2, 2])) as running:
            running.wait_for("step 12/")
            ranks = processes_in(folder)
            assert sorted(ranks) == [0, 1, 2, 3], ranks
            os.kill(ranks[victim], signal.SIGKILL)
            result = running.wait(ENDED)
            assert result.code != 0, result.output
            end = time.monotonic() + ENDED
            while processes_in(folder) and time.monotonic() < end:
                time.sleep(0.1)
            assert not processes_in(folder), processes_in(folder)
    assert [name for name in os.listdir("/dev/shm") if name.startswith("dtrain-")] == []


mounts.own_shared_memory()
mounts.main([training_is_the_same_on_one_host_and_on_several, a_killed_rank_ends_the_ranks_of_all_hosts])
