"""`dtrain launch --hosts`: a host that is lost is left out, and taken back when it answers. The hosts are UTS namespaces of this machine, with one
file system and one network (tests/support/pretended_host); tests/hosts has others."""

import os
import pathlib
import signal
import time

import mounts
import runner
from launch_test import KEYS, events, launch, nothing_left, own_folder, undisturbed

AGENT = """#!/usr/bin/env bash
# Hosts on one machine, as tests/support/pretended_host; one for which there is a file `down-HOST` does not answer.
host=$1; shift
[ ! -e "{folder}/down-$host" ] || {{ echo "$host: no route to host" >&2; exit 255; }}
export PRETENDED_HOST={folder}/$host
exec "{source}/tests/support/pretended_host" "$host" "$*"
"""


def processes_of(folder, host):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"PRETENDED_HOST={folder}/{host}\0" in (entry / "environ").read_text():
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def is_rank(process):
    try:
        return pathlib.Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0].endswith(b"/dtrain")
    except OSError:  # it has ended
        return False


def a_lost_host_is_left_out_and_taken_back(folder):
    runner.synth(folder / "d.h5", 64)
    agent = folder / "agent"
    agent.write_text(AGENT.format(folder=folder, source=runner.SOURCE))
    agent.chmod(0o755)
    (folder / "hosts").write_text("".join(f"host{i} slots=1\n" for i in range(2)))
    env = own_folder(folder) | {"OMPI_MCA_plm_rsh_agent": str(agent), "OMPI_MCA_btl_tcp_if_include": "lo"}
    keys = {**KEYS, "device.threads": 1, "train.max_steps": 250, "checkpoint.every": "25steps"}
    flags = ("--hosts", "hosts", "--host-timeout", 10, "--min-ranks", 1)
    # The config file reaches the ranks of all hosts and all jobs, though it is there for a moment only.
    (folder / "my.yaml").write_text("# a = b; 'c' \"d\" $e, é\noptimizer:\n  lr: 0.001\n")
    words = launch("r", {key: value for key, value in keys.items() if key != "optimizer.lr"}, *flags)
    words.insert(words.index("train") + 1, "my.yaml")
    with runner.Running(words, cwd=folder, env=env) as running:
        running.wait_for("launch of run")
        (folder / "my.yaml").unlink()
        running.wait_for("step 32/")
        (folder / "down-host1").touch()
        runner.kill(processes_of(folder, "host1"))
        killed = time.monotonic()
        running.wait_for("host host1 does not answer (host1: no route to host)")
        running.wait_for("global batch 16 = 1 rank × 8 × accumulate 2", timeout=60)
        running.wait_for("resumed")
        print(f"        {time.monotonic() - killed:.1f} s from the death of a host to the next banner")
        (folder / "down-host1").unlink()
        running.wait_for("host host1 answers again: the next job uses it")
        rank = next(filter(is_rank, processes_of(folder, "host0")))
        time.sleep(1)
        runner.kill([rank])
        running.wait_for("global batch 16 = 2 ranks × 8 × accumulate 1", times=2, timeout=60)
        result = running.wait(300).expect(0, "finished: all 250 steps")
    assert runner.ledger(result) == undisturbed(steps=250)[0], "the same samples, whatever the number of ranks"
    starts = [(e["ranks"], e["hosts"]) for e in events(folder, "r", "job_started")]
    assert starts[0] == starts[-1] == (2, "host0:1,host1:1") and (1, "host0:1") in starts, starts
    assert [e["host"] for e in events(folder, "r", "host_lost")] == [e["host"] for e in events(folder, "r", "host_back")] == ["host1"]
    nothing_left(env)
    # Too few hosts.
    (folder / "hosts").write_text("".join(f"host{i} slots=2\n" for i in range(2)))
    (folder / "down-host1").touch()
    result = runner.run(launch("s", keys, "--hosts", "hosts", "--host-timeout", 3, "--min-ranks", 3, np=4), cwd=folder, env=env)
    result.expect(76, "host1", "room for 2 of 4 ranks, and --min-ranks is 3")
    # A run that begins with fewer ranks has the global batch of all.
    del keys["train.global_batch"]
    result = runner.run(launch("u", {**keys, "train.accumulate": 2, "train.max_steps": 2}, "--hosts", "hosts", "--host-timeout", 3, np=4), cwd=folder, env=env)
    result.expect(0, "global batch 64 = 2 ranks × 8 × accumulate 4")
    # One that goes on from it has its global batch, whatever the flags would give.
    words = ["launch", "-np", 4, "--hosts", "hosts", "--host-timeout", 3, "--", "train", "--resume", "runs/u", "--name", "v", "--train.max_steps", 3]
    runner.run(words, cwd=folder, env=env).expect(0, "global batch 64 = 2 ranks × 8 × accumulate 4")


if __name__ == "__main__":
    mounts.own_shared_memory()
    mounts.main([a_lost_host_is_left_out_and_taken_back])
