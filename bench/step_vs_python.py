#!/usr/bin/env python3
"""Training samples per second of whole trainers on the CPU: dtrain compared with PyTorch, network by network.

usage: PYTHON bench/step_vs_python.py [--networks headpose_cnn,...] [--sizes 224,64] [--ranks 1,2] [--precisions fp32,bf16] [--peers NAME,...]
                                      [--rounds 20] [--minutes M] [--seconds 12] [--json FILE]
       PYTHON bench/step_vs_python.py --report [--networks NAME,...] [--builds ID,...] [--json FILE]

PYTHON is that of .deps/venv (launch/bootstrap --tests); --python names another one for PyTorch: it needs torch, torchvision, h5py,
numpy and safetensors. Both sides train the same network (PyTorch loads dtrain's weights, so names and shapes are the same) on the same HDF5
file, with the same batch of each rank (16 images, 64 sets or sequences), dropout, fused AdamW, cosine schedule, ranks and threads.
Nothing is augmented: images are only normalized. dtrain is the program that users start (mpirun -np 2 for 2 ranks); PyTorch is
bench/steps/peer_train.py, with a DataLoader that has the fastest of 0, 1 or 2 workers, and torchrun with DistributedDataParallel over gloo.

eager: as installed. All others have tcmalloc preloaded and images in channels_last. compile: torch.compile. strong, grouped: the
forms of bench/steps/peer_networks.py, with denormals flushed. two alone: two independent runs of dtrain with one rank, each on its own core.

A round runs every side once, dtrain in the middle, in the opposite order each time. A ratio is that of the rates of one round, after a warm-up, if the host was
as noisy during both (bench/machine_noise.py); it counts
by the lower end of the 95 % interval of its mean. Rounds end when all intervals are at most 3 % wide. Lines are added to FILE, so that a long
measurement can be made in pieces; --report, which exits with 1 if a bar is not met, reads them all. Before the first round of a
cell, runs of their own measure the memory (the sum over all processes) and choose the workers. At most 5 % of a step may be waiting for gradients.
"""

import argparse
import collections
import contextlib
import fcntl
import hashlib
import itertools
import json
import pathlib
import signal
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "bench/steps"))
import step_data  # noqa: E402
import step_report  # noqa: E402
import step_sides  # noqa: E402

TASKS = {"headpose_cnn": "headpose", "simple_cnn": "classify", "mobilenet_v2": "classify", "resnet18": "classify", "resnet50": "classify",
         "pointer": "pointer", "sequence": "sequence"}
# About what dtrain does on 2 cores with 224 pixels, in samples per second: how many steps the first run has.
GUESS = {"headpose_cnn": 40, "simple_cnn": 55, "mobilenet_v2": 40, "resnet18": 28, "resnet50": 9, "pointer": 2000, "sequence": 250}
WIDEST = 0.03
LEAST_WARM = 5  # steps
WARM_SECONDS = 3


class Cell(collections.namedtuple("Cell", "network size ranks precision file")):
    """What is compared; size is 0 for those that take no images."""

    task = property(lambda self: TASKS[self.network])
    is_image = property(lambda self: self.size > 0)
    batch = property(lambda self: 16 if self.is_image else 64)
    threads = property(lambda self: step_sides.CORES // self.ranks)
    key = property(lambda self: "_".join(str(part) for part in self[:4]))
    description = property(lambda self: dict(zip(step_report.CELL, self[:4])))

    def peers(self, chosen):
        forms = step_sides.FORMS.get(self.network, ("usual",))
        usual = ["eager", "tcmalloc", *([] if len(forms) > 1 else ["compile"]), *forms[1:], *([step_sides.ALONE] if self.ranks > 1 else [])]
        if self.precision != "fp32":
            usual.remove("eager")
        if not chosen:
            return usual
        return [peer for peer in chosen if (self.ranks > 1 if peer == step_sides.ALONE else step_sides.PEERS[peer].get("form", "usual") in forms)]

    def steps(self, rate, seconds):
        """(steps in all, steps of the warm-up), the first a multiple of the second, because dtrain reports at every such step."""
        per_second = rate / self.batch / self.ranks
        warm = max(LEAST_WARM, round(WARM_SECONDS * per_second))
        return warm * (1 + max(2, round(seconds * per_second / warm))), warm


def undisturbed(measure):
    """What measure() finds, in a second try if others disturbed the first."""
    found = measure()
    return found if step_report.counts(found) else measure()


class Campaign:
    """Measures and adds lines to the file."""

    def __init__(self, options):
        self.options = options
        self.lines = step_lines(options.json)
        self.build = hashlib.sha256(pathlib.Path(options.dtrain).read_bytes()).hexdigest()[:12]
        self.session = f"{time.time():.0f}"
        self.end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
        numbers = itertools.count()
        options.next_name = lambda: f"run{next(numbers)}"

    def is_over(self):
        return time.monotonic() > self.end

    def add(self, kind, cell, side, found, **more):
        line = {"kind": kind, "build": self.build, "session": self.session, **cell.description, "side": side, **more, **found}
        line.pop("weights", None)
        self.lines.append(line)
        with self.options.json.open("a") as out:
            out.write(json.dumps(line) + "\n")
        workers = f", {line['workers']} workers" if "workers" in line else ""
        print(f"{time.strftime('%H:%M:%S')} {cell.key:28} {kind:5} {side + workers:26} {line['rate']:8.1f} samples/s"
              f"{'' if step_report.counts(line) else ' (disturbed)'}", flush=True)

    @contextlib.contextmanager
    def machine(self):
        """The lock that all who measure on this machine take, if one was given."""
        if not self.options.lock:
            yield
            return
        with open(self.options.lock, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def known(self, cell, side):
        return [line for line in self.lines if line["kind"] == "probe" and line["build"] == self.build and
                step_report.cell_of(line) == tuple(cell[:4]) and line["side"] == side]

    def probe(self, cell):
        """Memory of both sides, and the rate by number of workers."""
        guess = GUESS[cell.network] * ((224 / cell.size) ** 2 if cell.is_image else 1)
        steps, warm = cell.steps(guess, self.options.seconds / 2)
        if not self.known(cell, "dtrain"):
            with self.machine():
                self.weights = undisturbed(lambda: step_sides.run_dtrain(cell, self.options, steps, warm, watch_memory=True))
                self.add("probe", cell, "dtrain", self.weights)
        missing = [count for count in self.options.workers if count not in {line["workers"] for line in self.known(cell, step_report.REFERENCE)}]
        for count in missing:
            with self.machine():
                weights = getattr(self, "weights", {}).get("weights") if cell.precision == "fp32" else None
                found = undisturbed(lambda: step_sides.run_peer(cell, self.options, step_report.REFERENCE, count, steps, warm, True, weights))
                self.add("probe", cell, step_report.REFERENCE, found)
                if found["parameters"] != self.known(cell, "dtrain")[0]["parameters"]:
                    sys.exit(f"{cell.key}: PyTorch has {found['parameters']} parameters")

    def run(self, cell, side, number):
        steps, warm = cell.steps(self.known(cell, "dtrain")[-1]["rate"], self.options.seconds)

        def once():
            if side == "dtrain":
                return step_sides.run_dtrain(cell, self.options, steps, warm)
            if side == step_sides.ALONE:
                return step_sides.run_alone(cell, self.options, steps, warm)
            return step_sides.run_peer(cell, self.options, side, step_report.best_workers(self.lines, tuple(cell[:4])), steps, warm)

        self.add("run", cell, side, undisturbed(once), round=number)

    def round(self, cell, number):
        """Every side whose interval is not narrow yet; dtrain in the middle."""
        found = step_report.ratios([line for line in self.lines if line["build"] == self.build]).get(tuple(cell[:4]), {})
        peers = [peer for peer in cell.peers(self.options.peers) if peer not in found or
                 found[peer].rounds < self.options.rounds and not step_report.is_narrow(found[peer], WIDEST)]
        if not peers:
            return False
        sides = [*peers[:len(peers) // 2], "dtrain", *peers[len(peers) // 2:]]
        with self.machine():
            for side in sides if number % 2 == 0 else reversed(sides):
                try:
                    self.run(cell, side, number)
                except step_sides.Failed as error:
                    if side == "dtrain":
                        raise
                    print(f"{cell.key}: {side} failed: {error}", file=sys.stderr)
        return True

    def measure(self, cells):
        """Round by round over all cells, so that a measurement that ends early has something of each."""
        for number in range(self.options.rounds):
            left = []
            for cell in cells:
                if self.is_over():
                    return
                self.weights = {}
                self.probe(cell)
                if not self.is_over() and self.round(cell, number):
                    left.append(cell)
            cells = left


def step_lines(path):
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def names(text):
    return text.split(",")


def numbers(text):
    return [int(word) for word in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtrain", default=str(TOP / "build/src/dtrain"))
    parser.add_argument("--python", default=str(step_sides.default_python()), help="of the other side")
    parser.add_argument("--networks", type=names, default=list(TASKS))
    parser.add_argument("--sizes", type=numbers, default=[224, 64], help="of images")
    parser.add_argument("--ranks", type=numbers, default=[1, 2])
    parser.add_argument("--precisions", type=names, default=["fp32"])
    parser.add_argument("--peers", type=names, default=[], help=f"of {', '.join([*step_sides.PEERS, step_sides.ALONE])}; those of the bars if absent")
    parser.add_argument("--workers", type=numbers, default=[0, 1, 2], help="of the DataLoader, of which the fastest is taken")
    parser.add_argument("--rounds", type=int, default=20, help="the most of each comparison, with those in the file")
    parser.add_argument("--minutes", type=float, default=0, help="start nothing after these; 0: no limit")
    parser.add_argument("--seconds", type=float, default=12, help="of each measurement, after the warm-up")
    parser.add_argument("--data", type=pathlib.Path, help="folder of the generated files, to keep them for the next time")
    parser.add_argument("--lock", type=pathlib.Path, help="hold a lock of this file during each round")
    parser.add_argument("--json", type=pathlib.Path, default=TOP / "bench/results/step_vs_python.jsonl")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--builds", type=names, default=[], help="for --report: programs that are the same for these networks; the last one if absent")
    return parser.parse_args()


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # which ends what is running too
    if not options.report:
        with tempfile.TemporaryDirectory() as scratch:
            options.scratch = pathlib.Path(scratch)
            folder = options.data or options.scratch / "data"
            options.json.parent.mkdir(parents=True, exist_ok=True)
            cells = []
            for network in options.networks:
                for size in options.sizes if TASKS[network] in ("headpose", "classify") else [0]:
                    file = step_data.file_of(options.dtrain, folder, TASKS[network], size)
                    cells += [Cell(network, size, ranks, precision, file) for precision in options.precisions for ranks in options.ranks]
            Campaign(options).measure(cells)
    lines = step_lines(options.json)
    if not lines:
        sys.exit(f"{options.json} has no lines yet")
    builds = options.builds or [lines[-1]["build"]]
    return 1 if step_report.print_report([line for line in lines if line["build"] in builds and line["network"] in options.networks]) else 0


if __name__ == "__main__":
    sys.exit(main())
