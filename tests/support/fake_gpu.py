"""Runs the real program on the fake GPUs of tests/fake_gpu, and reads what it asked of them."""

import collections
import os
import pathlib
import tempfile

import runner

FOLDER = pathlib.Path(os.environ.get("DTRAIN_BUILD", "build")) / "tests/fake_gpu"
LIBRARIES = ["libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libnccl.so.2", "libcuda.so.1"]
ORDERS = [0, 1, 2, 3]  # of streams: cuda/schedule.h
SOME_ORDERS, OTHER_ORDERS = [0, 3], [1, 2]  # of the default run, and of campaigns
OPERATORS = FOLDER / "libfake_numbers.so"  # that compute


def environment(threads=1, **settings):
    """Of a process on fake GPUs. `settings`: those of tests/fake_gpu/cuda/settings.h, in lower case and without FAKE_."""
    env = runner.environment(threads)
    # An RPATH is searched before LD_LIBRARY_PATH, and what is loaded already before both.
    env["LD_PRELOAD"] = " ".join(str(FOLDER / name) for name in LIBRARIES)
    env["LD_LIBRARY_PATH"] = str(FOLDER)
    env["NVTX_INJECTION64_PATH"] = str(FOLDER / LIBRARIES[0])
    for name, value in settings.items():
        env["FAKE_" + name.upper()] = str(value)
    return env


def run(arguments, np=None, cwd=None, timeout=120, threads=1, **settings):
    """As runner.run(), on fake GPUs."""
    return runner.run(arguments, np=np, cwd=cwd, timeout=timeout, env=environment(threads, **settings))


def compute(arguments, np=None, cwd=None, timeout=300, threads=1, **settings):
    """As run(), with numbers: LibTorch's operators run on the CPU, and our kernels are emulated (tests/fake_gpu/numbers)."""
    env = environment(threads, gpu_numbers=OPERATORS, **settings)
    return runner.run(arguments, np=np, cwd=cwd, timeout=timeout, env=env, program=str(FOLDER / "numbers/dtrain_numbers"))


def main(tests, campaign=()):
    """runner.main(), where GPU code is built."""
    if not all((FOLDER / name).exists() for name in LIBRARIES):
        runner.skip("this build has no GPU code")
    runner.main(tests, campaign)


class Counts:
    """What one process asked of its GPUs: counts by step, phase, operation and name."""

    def __init__(self, file):
        self.lines = []
        self.first = collections.defaultdict(list)  # by step: the launches at which a kernel comes for the first time in its phase
        for line in file.read_text().splitlines():
            step, phase, operation, name, count, first = line.split("\t")
            self.lines.append((int(step), phase, operation, name, int(count)))
            if operation == "launch":
                self.first[int(step)].append(int(first))

    def names(self, operation, steps=None):
        found = collections.Counter()
        for step, _, what, name, count in self.lines:
            if what == operation and (steps is None or step in steps):
                found[name] += count
        return found

    def of(self, operation, steps=None):
        return sum(self.names(operation, steps).values())

    def steps(self):
        return max(step for step, *_ in self.lines)


def counted(arguments, np=None, **keywords):
    """The result of a run, and the Counts of its processes in the order of their process ids."""
    with tempfile.TemporaryDirectory() as folder:
        result = run(arguments, np=np, gpu_report=folder, **keywords)
        files = sorted(pathlib.Path(folder).glob("*.tsv"), key=lambda file: int(file.stem))
        return result, [counts for counts in map(Counts, files) if counts.lines]  # mpirun has none
