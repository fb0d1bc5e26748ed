"""Limits of a process and full places for temporary files: one line that says what is missing and how much, before anything else."""

import os
import re
import signal
import subprocess

import mounts
import runner


def shell(folder, prepare, arguments, np=None):
    """Runs dtrain after the commands of `prepare`, in a mount namespace of its own."""
    script = f"{prepare}; exec " + ' "$@"'
    done = subprocess.run(["unshare", "--mount", "bash", "-c", script, "bash", *runner.command(arguments, np)], cwd=folder,
                          env=runner.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=120)
    return runner.Result(done.returncode, done.stdout, 0)


def training(folder):
    runner.synth(folder / "d.h5", 40)
    return runner.flags({**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.max_steps": 2, "metrics.enabled": False})


def one_line(result, code, *texts):
    result.expect(code, *texts)
    assert len([line for line in result.output.splitlines() if line.strip()]) == 1, result.output


def few_open_files(folder):
    words = training(folder)
    for command in [words, ["inspect", "d.h5"], ["synth", "pointer", "--out", "p.h5"]]:
        one_line(shell(folder, "ulimit -n 12", command), 64, "may open 12 files (ulimit -Hn)", "64 or more")
    # A soft limit is raised.
    shell(folder, "ulimit -Sn 12", ["inspect", "d.h5", "--verify"]).expect(0)
    result = shell(folder, "ulimit -n 40", words, np=2)  # mpirun itself may start with these
    assert result.code != 0 and ("may open 40 files" in result.output or "dtrain" not in result.output.splitlines()[0]), result.output


def a_small_stack(folder):
    words = training(folder)
    for command in [words, ["inspect", "d.h5"], ["synth", "pointer", "--out", "p.h5"]]:
        one_line(shell(folder, "ulimit -s 64", command), 64, "a stack of 64.0 KiB (ulimit -s)", "1.0 MiB or more")
    shell(folder, "ulimit -s 1024", ["inspect", "d.h5", "--verify"]).expect(0)


def small_files(folder):
    words = training(folder)
    one_line(shell(folder, "ulimit -f 1000", words), 64, "files of 1000.0 KiB (ulimit -f)", "5.0 MiB")
    shell(folder, "ulimit -f 1", ["synth", "pointer", "--out", "p.h5"]).expect(73, "File too large", "ulimit -f")
    runner.train(folder, train__epochs=1, run__name="e").expect(0)
    one_line(shell(folder, "ulimit -f 1", ["export", "runs/e", "--format", "safetensors", "--out", "e.safetensors"]), 64, "ulimit -f")


def a_small_folder_for_temporary_files(folder):
    words = training(folder)
    (folder / "t").mkdir()
    small = f"mount -t tmpfs -o size=5m tmpfs {folder}/t; export TMPDIR={folder}/t"
    one_line(shell(folder, small, words), 64, f"{folder}/t has ", "MiB free", "16.0 MiB", "TMPDIR")
    shell(folder, f"mount -t tmpfs -o size=20m tmpfs {folder}/t; export TMPDIR={folder}/t", words).expect(0, "finished: all")


def a_lone_process_needs_no_folder_of_a_session(folder):
    """Open MPI gives it the same name for all of them: one that ends removed what another one began in."""
    runner.synth(folder / "d.h5", 40)
    (folder / "t").mkdir()
    words = runner.flags({**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.max_steps": 100000, "train.epochs": 100000})
    with runner.Running(words, cwd=folder, env={**runner.environment(), "TMPDIR": str(folder / "t")}) as running:
        running.wait_for("step 1/")
        found = [path.name for path in (folder / "t").iterdir() if path.name.startswith("ompi")]
        assert not found, found
        running.process.send_signal(signal.SIGUSR1)
        running.wait(60).expect(75)


def a_full_shared_memory(folder):
    words = training(folder)
    result = shell(folder, "mount -t tmpfs -o size=100k tmpfs /dev/shm", words, np=2).expect(
        0, "/dev/shm has 100.0 KiB free, and 2 ranks need 8.0 MiB for the messages of MPI: these take TCP",
        "gradients of CPU ranks of one host take memory of their own", "gradients  shared_memory", "finished: all")
    assert result.output.count("/dev/shm") == 1, result.output


def fewer_cores_than_there_are(folder):
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        print("not tested: there is one core")
        return
    runner.synth(folder / "d.h5", 40)
    keys = {**runner.SMALL, "data.file": "d.h5", "train.max_steps": 2, "metrics.enabled": False}
    train = lambda prepare, name, threads: shell(folder, prepare, runner.flags({**keys, "run.name": name, "device.threads": threads})).expect(0).output
    told = train("export OMP_NUM_THREADS=1", "told", 0)
    assert re.search(r"OMP_NUM_THREADS is 1: rank 0 computes on 1 of its \d+ cores", told), told
    assert "OMP_NUM_THREADS" not in train("export OMP_NUM_THREADS=1", "given", 1)
    limit = mounts.control_group(folder, ("cpu.max", "100000 100000"), ("cpu.cfs_quota_us", 100000), ("cpu.cfs_period_us", 100000))
    limited = train(f"unset OMP_NUM_THREADS; {limit}", "limited", 0)
    assert f"cores per rank: 1 of {cores}, because the control group's time limit is 1 core for 1 rank" in limited, limited
    assert " 1 core, 1 thread, " in limited and "OMP_NUM_THREADS" not in limited, limited


def a_library_held_to_fewer_instructions(folder):
    """oneDNN, whose kernels of bfloat16 the start tries on a CPU that has products of it."""
    runner.run(["synth", "pointer", "--samples", 60, "--out", "p.h5"], cwd=folder).expect(0)
    shell(folder, "export ONEDNN_MAX_CPU_ISA=AVX2",
          ["--task", "pointer", "--data.file", "p.h5", "--model.hidden", 16, "--train.max_steps", 1, "--metrics.enabled", "false"]).expect(0, "finished: ")


mounts.main([few_open_files, a_small_stack, small_files, a_small_folder_for_temporary_files, a_lone_process_needs_no_folder_of_a_session, a_full_shared_memory,
             fewer_cores_than_there_are, a_library_held_to_fewer_instructions])
