"""`dtrain doctor` as users run it: real faults are planted and named. And the check at the start of every training that ranks are alike."""

import fcntl
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import mounts
import runner

ODD_MACHINE = pathlib.Path(os.environ.get("DTRAIN_BUILD", ".")) / "tests/e2e/libodd_machine.so"
HEALTHY = {"other load", "governor"}  # what this machine may really have


def options(**changes):
    keys = {"data.file": "d.h5", "model.image_size": 32, "train.batch_size": 8, "data.workers": 1, "device.threads": 1, "device.type": "cpu",
            "metrics.port": 0, "run.folder": "runs", **{key.replace("__", "."): value for key, value in changes.items()}}
    return runner.flags({key: value for key, value in keys.items() if value is not None})


def shell(folder, words, prepare=":", timeout=120):
    """Runs a command after the lines of `prepare`, in a mount namespace of its own."""
    done = subprocess.run(["unshare", "--mount", "bash", "-c", prepare + '; exec "$@"', "bash", *map(str, words)], cwd=folder,
                          env=runner.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=timeout)
    return runner.Result(done.returncode, done.stdout, 0)


def doctor(folder, *arguments, np=2, prepare=":", before=(), **changes):
    """Returns the result and the JSON of one job."""
    words = [runner.DTRAIN, "doctor", *options(**changes), "--json", "found.json", "--force", *arguments]
    return found(folder, shell(folder, [*before, *(["mpirun", "-np", str(np)] if np else []), *words], prepare))


def found(folder, result):
    file = folder / "found.json"
    report = json.loads(file.read_text()) if file.exists() else {"findings": []}
    file.unlink(missing_ok=True)
    return result, report


def expect(answer, code, check, severity, evidence, ranks=None):
    result, report = answer
    matching = [f for f in report["findings"] if f["check"] == check and evidence in f["evidence"]]
    assert matching, f"no finding of {check!r} with {evidence!r}: {report['findings']}\n{result.output}"
    assert matching[0]["severity"] == severity, matching
    assert ranks is None or matching[0]["ranks"] == ranks, matching
    assert matching[0]["fix"] and matching[0]["cause"] and matching[0]["hosts"], matching
    result.expect(code, matching[0]["evidence"].split(";")[0][:40], matching[0]["fix"][:30])
    return report


def a_healthy_machine(folder):
    runner.synth(folder / "d.h5", 40)
    for np in (None, 2):
        result, report = doctor(folder, np=np)
        result.expect(0, f"{np or 1} rank", "right: ", "not checked: ", "no GPU")
        names = {f["check"] for f in report["findings"]}
        assert names <= HEALTHY, report["findings"]
        for check in ("same data", "core binding", "memory per rank", "disk space", "open files", "HDF5 locks", "run folder", "metrics port"):
            assert check in report["right"], (check, report["right"], report["unchecked"])
        assert {"check": "power cap", "why": "no GPU"} in report["unchecked"]
        assert len(report["ranks"]) == (np or 1) and report["ranks"][0]["network"]["parameters"] > 1e6
        assert not (folder / "runs").exists() and sorted(p.name for p in folder.iterdir()) == ["d.h5"], "nothing is written"


def ranks_that_differ(folder):
    runner.synth(folder / "d.h5", 40)
    shutil.copy(folder / "d.h5", folder / "same.h5")
    runner.synth(folder / "e.h5", 40, seed=2)
    other = folder / "dtrain"
    shutil.copy(runner.DTRAIN, other)
    with open(other, "ab") as file:
        file.write(b"\0")
    json_to = ["--json", "found.json", "--force"]
    first = [runner.DTRAIN, "doctor", *options(), *json_to]
    answer = found(folder, shell(folder, runner.ranks(first, [runner.DTRAIN, "doctor", *options(train__batch_size=4), *json_to])))
    expect(answer, 1, "same configuration", "blocks", "train.batch_size is 4, not 8", [1])
    answer = found(folder, shell(folder, runner.ranks(first, [other, "doctor", *options(), *json_to])))
    expect(answer, 1, "same program", "blocks", "its binary has hash", [1])
    (folder / "elsewhere").mkdir()
    for place, content in ((folder, "old"), (folder / "elsewhere", "new")):
        (place / "net.pt").write_text(content)
    net = options(task="module", data__file=folder / "d.h5", model__file="net.pt")
    there = ["env", "-C", folder / "elsewhere", runner.DTRAIN, "doctor", *net]
    answer = found(folder, shell(folder, runner.ranks([runner.DTRAIN, "doctor", *net, *json_to], [*there, *json_to])))
    expect(answer, 1, "same configuration", "blocks", "the content of model.file is ", [1])
    answer = found(folder, shell(folder, runner.ranks(first, [runner.DTRAIN, "doctor", *options(data__file="e.h5"), *json_to])))
    expect(answer, 1, "same data", "blocks", "checksum", [1])
    result, report = found(folder, shell(folder, runner.ranks(first, [runner.DTRAIN, "doctor", *options(data__file="same.h5", data__workers=2), *json_to])))
    assert "same data" in report["right"] and "same configuration" in report["right"], report
    answer = found(folder, shell(folder, runner.ranks(first, ["env", f"LD_PRELOAD={ODD_MACHINE}", "ODD_CLOCK=7", *first])))
    expect(answer, 0, "clock skew", "note", "s ahead of that of rank 0", [1])


def files(folder):
    runner.synth(folder / "d.h5", 40)
    expect(doctor(folder, data__file="none.h5"), 1, "same data", "blocks", "none.h5")
    (folder / "bad.h5").write_bytes(b"no data")
    expect(doctor(folder, data__file="bad.h5"), 1, "same data", "blocks", "bad.h5")
    expect(doctor(folder, task="classify"), 1, "task and data", "blocks", "needs two classes", [0])
    with open(folder / "d.h5", "rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        expect(doctor(folder), 0, "HDF5 locks", "note", "d.h5", [0, 1])
    odd = ["env", f"LD_PRELOAD={ODD_MACHINE}", "ODD_LOCKS=none"]
    expect(doctor(folder, before=odd), 0, "HDF5 locks", "note", "d.h5 is on")
    expect(doctor(folder, before=odd), 0, "run folder", "note", "without locks", [0])
    expect(doctor(folder, before=[*odd, "HDF5_USE_FILE_LOCKING=TRUE"]), 1, "HDF5 locks", "blocks", "d.h5 is on")
    (folder / "disk").mkdir()
    expect(doctor(folder, prepare=f"mount -t tmpfs -o size=30m tmpfs {folder}/disk", run__folder=folder / "disk"), 1, "disk space", "blocks",
           "30.0 MiB free; 5 checkpoints", [0])
    expect(doctor(folder, prepare=f"mount -t tmpfs -o size=900m,nr_inodes=50 tmpfs {folder}/disk", run__folder=folder / "disk/runs"), 1,
           "disk space", "blocks", "can be created")
    expect(doctor(folder, prepare=f"mount -t tmpfs -o ro tmpfs {folder}/disk", run__folder=folder / "disk/runs"), 1, "run folder", "blocks",
           "is on a read-only file system")


def limits(folder):
    runner.synth(folder / "d.h5", 40)
    limited = lambda what: ["bash", "-c", f'ulimit {what}; exec "$@"', "bash"]
    under = lambda what, **changes: found(folder, shell(folder, [
        "mpirun", "-np", "2", *limited(what), runner.DTRAIN, "doctor", *options(**changes), "--json", "found.json", "--force"]))
    expect(doctor(folder, device__type="cuda"), 1, "ranks to GPUs", "blocks", "device.type is cuda", [0, 1])
    expect(under("-n 100"), 1, "open files", "blocks", "ulimit -n is 100", [0, 1])
    expect(under("-f 6000"), 1, "file size", "blocks", "ulimit -f is 5.9 MiB", [0])
    expect(under("-v 99000000"), 0, "address space", "note", "ulimit -v is 94.4 GiB", [0, 1])
    expect(doctor(folder, prepare="mount -t tmpfs -o size=100k tmpfs /dev/shm"), 0, "/dev/shm", "slows", "100.0 KiB free for 2 ranks")


def a_control_group(folder):
    runner.synth(folder / "d.h5", 40)
    tree = lambda *lines: mounts.control_group(folder, *lines)

    expect(doctor(folder, prepare=tree(("cpu.max", "50000 100000"), ("cpu.cfs_quota_us", 50000), ("cpu.cfs_period_us", 100000))), 0, "CPU time limit",
           "slows", "a limit of 0.5 cores for 2 threads of 2 ranks")
    small = [(name, 40 << 20) for name in ("memory.max", "memory.limit_in_bytes")] + [(name, 30 << 20) for name in ("memory.current", "memory.usage_in_bytes")]
    expect(doctor(folder, prepare=tree(*small)), 1, "memory per rank", "blocks", "10.0 MiB can be used within the control group's 40.0 MiB")
    expect(doctor(folder, prepare=tree(("pids.max", 20), ("pids.current", 15))), 1, "threads allowed", "blocks", "5 of 20 are left")


def cores(folder):
    runner.synth(folder / "d.h5", 40)
    bound = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    expect(doctor(folder, before=bound, device__threads=2), 0, "core binding", "slows", "2 ranks on 1 core (the ranks are bound to these of")
    many = 2 * len(os.sched_getaffinity(0)) + 2
    expect(doctor(folder, np=None, device__threads=many), 0, "core binding", "slows", f"{many} computing threads on")
    if len(os.sched_getaffinity(0)) > 1:
        expect(doctor(folder, np=None, device__threads=None, before=["env", "OMP_NUM_THREADS=1"]), 0, "core binding", "note", "1 computing thread on")
    expect(doctor(folder, np=None, data__workers=many), 0, "core binding", "slows", f"{many} readers on")
    cpu = f"/sys/devices/system/cpu/cpu{min(os.sched_getaffinity(0))}"
    made = f"mkdir -p {folder}/cpu/cpufreq; echo powersave > {folder}/cpu/cpufreq/scaling_governor; mount --bind {folder}/cpu {cpu}"
    expect(doctor(folder, np=None, prepare=made), 0, "governor", "slows", "governor powersave")
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        expect(doctor(folder), 0, "other load", "slows", "busy")
    finally:
        for process in busy:
            process.kill()
            process.wait()


def a_taken_port(folder):
    runner.synth(folder / "d.h5", 40)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        expect(doctor(folder, np=None, metrics__port=port), 0, "metrics port", "note", f"127.0.0.1:{port}: Address already in use", [0])
    expect(doctor(folder, np=None, metrics__bind="192.0.2.1"), 0, "metrics port", "note", "192.0.2.1:0: Cannot assign")
    _, report = doctor(folder, np=None, metrics__enabled=False)
    assert {"check": "metrics port", "why": "metrics.enabled is false"} in report["unchecked"]


def how_it_is_called(folder):
    runner.synth(folder / "d.h5", 40)
    runner.run(["doctor", "--help"]).expect(0, "Usage: dtrain doctor", "--json", "CONFIG.yaml")
    runner.run(["doctr"], cwd=folder).expect(64, "did you mean 'doctor'?")
    runner.run(["doctor", "--data.fiel", "d.h5"], cwd=folder).expect(78, "did you mean '--data.file'?")
    runner.run(["doctor", "--jsn", "x"], cwd=folder).expect(78, "--json")
    done = subprocess.run([runner.DTRAIN, "doctor", *options(), "--json", "-"], cwd=folder, env=runner.environment(), capture_output=True, text=True, timeout=120)
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["kind"] == "doctor" and report["blocks"] is False, done.stderr
    (folder / "there.json").write_text("mine")
    runner.run(["doctor", *options(), "--json", "there.json"], cwd=folder).expect(73, "--force")
    runner.run(["doctor", *options(), "--json", "d.h5", "--force"], cwd=folder).expect(73, "d.h5")
    assert (folder / "there.json").read_text() == "mine"
    documented = (runner.SOURCE / "docs/doctor.md").read_text()
    for check in [*report["right"], *(f["check"] for f in report["findings"]), *(u["check"] for u in report["unchecked"])]:
        assert f"\n| {check} | " in documented, f"{check} is not in docs/doctor.md"
    # The quick start, which is not generated yet: nothing is made for a diagnosis.
    empty = folder / "empty"
    empty.mkdir()
    said = runner.run(["doctor", "--model.image_size", 32], cwd=empty).expect(0)
    assert "no data file is named" in " ".join(said.output.split()), said.output
    assert not list(empty.iterdir())
    (empty / "dtrain.yaml").write_text("data:\n  file: gone.h5\n")
    runner.run(["doctor"], cwd=empty).expect(1, "gone.h5")


def a_training_does_not_start_with_ranks_that_differ(folder):
    runner.synth(folder / "d.h5", 64)
    runner.synth(folder / "e.h5", 64, seed=2)
    other = folder / "dtrain"
    shutil.copy(runner.DTRAIN, other)
    with open(other, "ab") as file:
        file.write(b"\0")
    small = {**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.max_steps": 2}

    def train(program, second, code, *texts):
        words = runner.ranks([runner.DTRAIN, *runner.flags(small)], [program, *runner.flags({**small, **second})])
        result = shell(folder, words, timeout=60).expect(code, *texts)
        assert result.output.count("error: ") == 1, result.output
        assert not (folder / "runs").exists(), "nothing is left behind"

    train(runner.DTRAIN, {"optimizer.lr": 0.5, "train.seed": 9}, 78, "the ranks have different configurations", "rank 1 on ", "optimizer.lr is 0.5, not 0.001",
          "train.seed is 9, not 1")
    train(runner.DTRAIN, {"task": "classify"}, 78, "different configurations", "rank 1")
    train(runner.DTRAIN, {"run.diagnose": True}, 78, "run.diagnose is true, not false")
    train(other, {}, 64, "the ranks run different programs", "rank 1 on ")
    train(runner.DTRAIN, {"data.file": "e.h5"}, 65, "the ranks have different data", "d.h5", "rank 1 on ")
    words = runner.ranks([runner.DTRAIN, *runner.flags(small)], [runner.DTRAIN, "--dry-run", *runner.flags(small)])
    shell(folder, words, timeout=60).expect(78, "--dry-run")
    # What is a rank's own may differ.
    own = {**small, "data.file": str(folder / "d.h5"), "data.workers": 2, "run.name": "other"}
    shell(folder, runner.ranks([runner.DTRAIN, *runner.flags(small)], [runner.DTRAIN, *runner.flags(own)])).expect(0, "finished: all")
    # A value that is the default, given to one rank only: a resumed run of the other rank keeps its own.
    runner.run(runner.flags({**small, "run.name": "s", "optimizer.lr": 0.002}), np=2, cwd=folder).expect(0)
    again = {key: value for key, value in {**small, "run.name": "s", "run.resume": "auto", "train.max_steps": 4}.items() if key != "optimizer.lr"}
    words = runner.ranks([runner.DTRAIN, *runner.flags(again)], [runner.DTRAIN, *runner.flags({**again, "optimizer.lr": 0.001})])
    shell(folder, words, timeout=60).expect(78, "optimizer.lr is 0.001, not 0.002")


# A test of its own in ctest: it keeps all cores busy.
CORES = [cores]

mounts.main(runner.chosen([a_healthy_machine, ranks_that_differ, files, limits, a_control_group, a_taken_port, how_it_is_called,
                           a_training_does_not_start_with_ranks_that_differ], CORES))
