"""Runs the real program for the end-to-end tests: real mpirun, real files, a separate folder for each test."""

import atexit
import contextlib
import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

DTRAIN = os.environ.get("DTRAIN", "dtrain")
SOURCE = pathlib.Path(os.environ.get("DTRAIN_SOURCE", "."))

# A small, fast run without randomness that a test would not expect.
SMALL = {
    "model.image_size": 32, "train.batch_size": 8, "train.epochs": 2, "optimizer.lr": 0.001, "metrics.port": 0,
    "run.log_every": 1, "data.workers": 1, "run.progress": "lines", "checkpoint.every": "never",
}
SMALL_ROWS = {key: value for key, value in SMALL.items() if key != "model.image_size"}  # of sequences, sets and rows


def sessions():
    """For temporary files of the jobs of this thread of the script. Open MPI's folder there is shared by all jobs of a user, and the last one
    removes it, also where another one has just begun."""
    return sessions_of(threading.get_ident())


@functools.cache
def sessions_of(thread):
    folder = tempfile.mkdtemp(prefix="dtrain-tmp-")
    os.chmod(folder, 0o1777)  # some tests start programs as another user
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def environment(threads=1):
    env = {"TMPDIR": os.environ.get("TMPDIR") or sessions(), **os.environ}
    env.update(OMP_NUM_THREADS=str(threads), OMPI_MCA_rmaps_base_oversubscribe="1",
               OMPI_MCA_hwloc_base_binding_policy="none", OMPI_ALLOW_RUN_AS_ROOT="1",
               OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return env


def flags(options):
    words = []
    for key, value in options.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words += ["--" + key, text]
    return words


class Result:
    def __init__(self, code, output, seconds):
        self.code, self.output, self.seconds = code, output, seconds

    def expect(self, code, *texts):
        assert self.code == code, f"exit code {self.code}, not {code}; output:\n{self.output}"
        for text in texts:
            assert text in self.output, f"{text!r} is not in the output:\n{self.output}"
        return self


def command(arguments, np=None, program=None):
    words = [program or DTRAIN] + [str(a) for a in arguments]
    return words if np is None else ["mpirun", "-np", str(np)] + words


def ranks(*commands):
    """The command line of a job with a command for each rank (app contexts of mpirun)."""
    words = ["mpirun"]
    for command in commands:
        words += ([":"] if len(words) > 1 else []) + ["-np", "1", *map(str, command)]
    return words


def run(arguments, np=None, cwd=None, timeout=300, env=None, program=None):
    """Runs dtrain (under mpirun if np is given) until it exits; stdout and stderr are merged."""
    begin = time.monotonic()
    done = subprocess.run(command(arguments, np, program), cwd=cwd, env=env or environment(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, text=True, errors="replace")
    return Result(done.returncode, done.stdout, time.monotonic() - begin)


def train(folder, *arguments, np=None, threads=1, **options):
    """Trains a small run `r` on d.h5 in the folder. Options are keys, with __ for the dot (run__name="a"); None omits a default."""
    rows = options.get("task") in ("pointer", "sequence") or options.get("task__inputs", "image") != "image"
    keys = {**(SMALL_ROWS if rows else SMALL), "data.file": "d.h5", "run.name": "r", **{key.replace("__", "."): value for key, value in options.items()}}
    words = flags({key: value for key, value in keys.items() if value is not None})
    return run([*arguments, *words], np=np, cwd=folder, env=environment(threads))


class Running:
    """A running job, for signals and scraping. Leaving the context kills it if it is still running."""

    def __init__(self, arguments, np=None, cwd=None, env=None):
        self.log = tempfile.TemporaryFile("w+")
        self.begin = time.monotonic()
        self.process = subprocess.Popen(command(arguments, np), cwd=cwd, env=env or environment(), stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            kill(self.ranks())
            self.process.kill()
            self.process.wait()
        self.log.close()

    def output(self):
        # With a position of its own: the job writes where the descriptor that it shares stands.
        with open(f"/proc/self/fd/{self.log.fileno()}") as log:
            return log.read()

    def ranks(self):
        """The process ids of the dtrain processes, in the order of their ranks, under mpirun or under `dtrain launch`."""
        parents = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError):
                continue
        launchers = {self.process.pid} | {pid for pid, parent in parents.items() if parent == self.process.pid}
        found = {}
        for pid in sorted(pid for pid, parent in parents.items() if parent in launchers):
            try:
                variables = dict(item.split("=", 1) for item in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in item)
                found.setdefault(int(variables["OMPI_COMM_WORLD_RANK"]), pid)  # what a rank has started has a higher number
            except (OSError, KeyError, ValueError):
                continue
        return [found[rank] for rank in sorted(found)]

    def wait_for(self, text, timeout=120, times=1):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.output().count(text) >= times:
                return
            assert self.process.poll() is None, f"the run ended before {text!r} ({times} ×):\n{self.output()}"
            time.sleep(0.1)
        raise AssertionError(f"no {text!r} ({times} ×) within {timeout} s:\n{self.output()}")

    def wait(self, timeout=120):
        code = self.process.wait(timeout)
        return Result(code, self.output(), time.monotonic() - self.begin)


@contextlib.contextmanager
def paused(processes, timeout=30):
    """All of their threads are stopped within it, so that they see what is done there as if it happened at once."""
    def runs(thread):
        with contextlib.suppress(OSError):  # it has ended
            return (thread / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "TXZ"
        return False

    try:
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        end = time.monotonic() + timeout
        while any(runs(thread) for process in processes for thread in pathlib.Path(f"/proc/{process}/task").glob("*")):
            assert time.monotonic() < end, f"not all of {processes} have stopped within {timeout} s"
            time.sleep(0.01)
        yield
    finally:
        kill(processes, signal.SIGCONT)


def metrics(folder, kind="step"):
    lines = (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def ledger(result):
    return result.output.rsplit("ledger ", 1)[1].split()[0]


def text(attribute):
    """A text attribute of a data file as str: h5py gives bytes for text of a fixed length."""
    return attribute.decode() if isinstance(attribute, bytes) else attribute


def save_script_network(path, dropout=0.0):
    """A TorchScript network for pictures, with three outputs. Its dropout draws from LibTorch's generator."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 3)
            self.dropout = torch.nn.Dropout(dropout) if dropout else torch.nn.Identity()

        def forward(self, x):
            return self.fc(self.dropout(x.mean([2, 3])))

    torch.jit.script(Net()).save(str(path))


def synth(path, samples, size=32, seed=1):
    run(["synth", "headpose", "--samples", samples, "--size", size, "--seed", seed, "--out", path]).expect(0)
    return path


def skip(reason):
    """Ends a script that cannot run here; ctest shows it as skipped."""
    print(f"skipped: {reason}", flush=True)
    sys.exit(77)


def kill(processes, number=signal.SIGKILL):
    """Sends a signal to those of the processes that are still there."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def expect_gone(processes, seconds):
    """That these processes have all ended within this number of seconds."""
    end = time.monotonic() + seconds
    while left := [process for process in processes if os.path.exists(f"/proc/{process}")]:
        assert time.monotonic() < end, f"processes left behind: {left}"
        time.sleep(0.05)


def chosen(tests, campaign=(), words=None):
    """Of the functions of a script: those of the default run, with the word "campaign" those of the label campaigns, and with names these.
    `words`: of the command line, if not all of it."""
    words = sys.argv[1:] if words is None else words
    if words in ([], ["campaign"]):
        return campaign if words else tests
    known = {test.__name__: test for test in (*tests, *campaign)}
    if unknown := set(words) - set(known):
        sys.exit(f"no such tests: {', '.join(sorted(unknown))} (known: campaign, {', '.join(known)})")
    return [known[word] for word in words]


def main(tests, campaign=None):
    """Runs the functions in order, each in its own folder, and exits with 1 if one fails. With `campaign`, functions that take too long for the
    default run, the words of the command choose."""
    if campaign is not None:
        tests = chosen(tests, campaign)
    failed = []
    for test in tests:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="dtrain-e2e-"))
        begin = time.monotonic()
        try:
            test(folder)
            print(f"ok      {test.__name__} ({time.monotonic() - begin:.1f} s)", flush=True)
        except Exception:
            failed.append(test.__name__)
            traceback.print_exc()
            print(f"FAILED  {test.__name__}", flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(tests) - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed or not tests else 0)
