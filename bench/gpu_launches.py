#!/usr/bin/env python3
"""Launches and host time of one training step on a GPU, without a GPU: dtrain compared with PyTorch eager, task by task.

usage: PYTHON bench/gpu_launches.py [--networks headpose_cnn,...] [--rounds 5] [--seconds 2] [--build build] [--json FILE]
       PYTHON bench/gpu_launches.py --kernels NETWORK,... [--build build]
       PYTHON bench/gpu_launches.py --report --json FILE

PYTHON is that of .deps/venv (launch/bootstrap --tests); the build has the tests, and GPU code. Both sides run on the fake CUDA runtime of
tests/fake_gpu, which counts kernels and does not run them, with the same LibTorch: bfloat16, AdamW, batches of 16, images of 64 pixels,
neither clipping nor an average of the weights. PyTorch is bench/steps/eager_step.py: autocast, fused AdamW, channels_last,
set_to_none. dtrain is measured twice, as it is by default, and with its steps as CUDA graphs (train.cuda_graph).

Launches are the medians of five steps. An operation of cuBLAS or cuDNN is one launch, where the libraries make one or several. Copies and
memsets are not launches, and have columns of their own. dtrain's augmentation is among its launches; PyTorch's images come normalized,
and the encoder's rows noised and masked, from processes that do this on the CPU, at no cost.

Host time is the mean time of a step whose batches are in memory (of dtrain: `bench step --cached`), with one thread. As launches cost
nothing, it is what the host needs to issue them. A round runs all sides one after the other, in the opposite order each time; the table
has the medians of the rounds (min to max), and that of their ratios.

A launch bar that is missed without graphs ends the command with exit code 1. Times depend on the machine and on what else it does: their
bar is only printed. FILE gets a line of JSON for each measurement; --report prints the table of all lines that it has. --kernels prints
what dtrain without graphs and PyTorch launch in a step, by the kernels' shortened names, most of what PyTorch does not launch first.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import signal
import statistics
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
MOST_LAUNCHES, MOST_TIME = 0.85, 0.35  # of PyTorch's
BATCH, PIXELS, SAMPLES = 16, 64, 640
SIDES = ("dtrain", "with graphs", "PyTorch")
COMPARED = ("dtrain", "PyTorch")  # kernel by kernel, and with the bar of launches
OPERATIONS = {"launches": "launch", "copies": "copy", "memsets": "memset", "waits": "wait"}

# case: of tests/fake_gpu/cases.py. network and form: of eager_step.py.
Row = collections.namedtuple("Row", "case network form keys", defaults=("usual", {}))
ROWS = {
    **{name: Row(name, name) for name in ("headpose_cnn", "simple_cnn", "mobilenet_v2", "resnet18", "resnet50")},
    "pointer": Row("pointer", "pointer", "strong"),
    "pointer decoder loop": Row("pointer", "pointer"),
    "sequence encoder": Row("sequence encoder", "sequence", "encoder"),
    "sequence classifier": Row("sequence classifier", "sequence", "frozen"),
    "sequence all layers": Row("sequence classifier", "sequence", keys={"sequence.encoder_lr_ratio": 1}),
    "module": Row("module", "module"),
}


class Bench:
    """The files and programs of both sides."""

    def __init__(self, options, folder):
        os.environ.update(DTRAIN_BUILD=str(options.build.resolve()), DTRAIN=str(options.build.resolve() / "src/dtrain"))
        sys.path[:0] = [str(TOP / "tests/support"), str(TOP / "tests/fake_gpu"), str(TOP / "bench/steps")]
        import cases  # which reads the environment
        import fake_gpu
        import runner
        self.cases, self.fake_gpu, self.runner = cases, fake_gpu, runner
        self.options, self.folder = options, folder
        missing = [str(fake_gpu.FOLDER / name) for name in fake_gpu.LIBRARIES if not (fake_gpu.FOLDER / name).exists()]
        if missing:
            sys.exit(f"{', '.join(missing)}: missing; the build needs GPU code and tests (launch/build --tests)")

    def make_data(self):
        self.cases.make_data(self.folder, samples=SAMPLES, pixels=PIXELS)
        import peer_networks
        import torch
        torch.jit.script(peer_networks.HeadposeCnn(3)).save(str(self.folder / "network.pt"))

    def keys(self, row, side="dtrain"):
        """Of dtrain's run."""
        keys = {**self.cases.COMMON, **self.cases.NETWORKS[row.case], **row.keys, "train.amp": "bf16", "train.batch_size": BATCH, "device.threads": 1,
                "train.cuda_graph": side == "with graphs"}
        return {**keys, "model.image_size": PIXELS} if "model.image_size" in keys else keys

    def run(self, side, arguments, **settings):
        words = [TOP / "bench/steps/eager_step.py", *arguments] if side == "PyTorch" else arguments
        result = self.runner.run(words, cwd=self.folder, env=self.fake_gpu.environment(**settings),
                                 program=sys.executable if side == "PyTorch" else None)
        return result.expect(0).output

    def eager_words(self, row):
        words = ["--network", row.network, "--form", row.form, "--data", self.keys(row)["data.file"], "--batch", BATCH]
        return [*words, "--script", "network.pt"] if row.network == "module" else words

    def counts(self, row, side):
        """(Counts of a run, the number of parameters)"""
        with tempfile.TemporaryDirectory(dir=self.folder) as report:
            if side != "PyTorch":
                output = self.run(side, self.runner.flags({"run.name": "", **self.keys(row, side)}), gpu_report=report)
                parameters = int(re.sub(r"\D", "", re.search(r"([\d\s]+) parameters", output)[1]))
            else:
                output = self.run(side, [*self.eager_words(row), "--steps", self.cases.STEPS], gpu_report=report)
                parameters = result_of(output)["parameters"]
            (counts,) = [counts for counts in map(self.fake_gpu.Counts, pathlib.Path(report).glob("*.tsv")) if counts.lines]  # children have none
            return counts, parameters

    def step_seconds(self, row, side):
        if side == "PyTorch":
            return result_of(self.run(side, [*self.eager_words(row), "--seconds", self.options.seconds]))["step_seconds"]
        words = ["bench", "step", "--json", "step.json", "--force", "--batch-sizes", BATCH, "--rounds", 1, "--seconds", self.options.seconds,
                 "--steps", 1000000, "--cached", *self.runner.flags(self.keys(row, side))]
        self.run(side, words)
        return json.loads((self.folder / "step.json").read_text())["rows"][0]["cached_step_seconds"]


def result_of(output):
    return json.loads(next(line for line in output.splitlines() if line.startswith('{"step_seconds"')))


def count(bench, name, sides):
    """{side: Counts} of a row."""
    found = {side: bench.counts(ROWS[name], side) for side in sides}
    parameters = [parameters for _, parameters in found.values()]
    if len(set(parameters)) != 1:
        sys.exit(f"{name}: {dict(zip(sides, parameters))} parameters")
    return {side: counts for side, (counts, _) in found.items()}


def of_one_step(counts, steps):
    return {name: statistics.median_low(counts.of(operation, steps=[step]) for step in steps) for name, operation in OPERATIONS.items()}


def short(name):
    """The name of a kernel without namespaces, parameters and dispatching lambdas."""
    name = re.sub(r"^void |\bat::native::|\bat::cuda::|\bc10::|\(anonymous namespace\)::", "", name)
    name = name.replace("::operator()() const", "").replace("{lambda()", "{lambda")
    name = re.sub(r"::\{lambda#\d+\}", "", name)
    name = re.sub(r"\{lambda\(([^()]*)\)#\d+\}", r"[\1]", name)
    while True:
        shorter = re.sub(r"\([^()]*\)(?: const&?)?", "", name)
        if shorter == name:
            return re.sub(r", std::array<char\*, \d+ul>|, TrivialOffsetCalculator<[^<>]*>|, memory::\w+(?:<\d>)?", "", name).replace(" >", ">")
        name = shorter


def print_kernels(bench, name):
    """The kernels of the first of the counted steps."""
    step = [bench.cases.COUNTED[0]]
    launched = {side: collections.Counter() for side in COMPARED}
    phases = collections.defaultdict(collections.Counter)
    for side, counts in count(bench, name, COMPARED).items():
        for of_step, phase, operation, kernel, number in counts.lines:
            if of_step in step and operation == "launch":
                launched[side][short(kernel)] += number
                phases[side, short(kernel)][phase] += number
    ours, theirs = (launched[side] for side in COMPARED)
    print(f"{name}\n{'dtrain':>7}{'PyTorch':>9}  kernel (in dtrain's phases)\n{ours.total():7}{theirs.total():9}  all")
    for kernel in sorted(ours | theirs, key=lambda kernel: (theirs[kernel] - ours[kernel], -ours[kernel], kernel)):
        of_phases = ", ".join(f"{phase} {number}" for phase, number in phases["dtrain", kernel].items())
        print(f"{ours[kernel]:7}{theirs[kernel]:9}  {kernel[:bench.options.columns]}{f' ({of_phases})' if of_phases else ''}")
    print()


class Table:
    """What was measured, in lines of JSON, and the table of it."""

    def __init__(self, path):
        self.path, self.launches, self.seconds = path, {}, collections.defaultdict(list)

    def add(self, line):
        if line["kind"] == "counts":
            self.launches[line["network"]] = line["sides"]
        else:
            self.seconds[line["network"]].append(line["sides"])

    def load(self):
        for line in map(json.loads, self.path.read_text().splitlines()):
            if set(line["sides"]) != set(SIDES):
                sys.exit(f"{self.path}: measured by an older form of this command")
            self.add(line)

    def note(self, **line):
        self.add(line)
        if self.path:
            with self.path.open("a") as out:
                out.write(json.dumps(line) + "\n")

    def note_counts(self, name, sides):
        self.note(kind="counts", network=name, sides=sides)

    def note_seconds(self, name, number, sides):
        self.note(kind="step_seconds", network=name, round=number, sides=sides)
        print(f"round {number + 1}, {name}: " + ", ".join(f"{side} {1000 * sides[side]:.2f} ms" for side in SIDES), file=sys.stderr, flush=True)

    def ratio(self, name):
        ours, theirs = (self.launches[name][side]["launches"] for side in COMPARED)
        return ours / theirs

    def times(self, name):
        """The cells of a row that have times."""
        rounds = self.seconds[name]
        if not rounds:
            return ["-"] * 6
        cells = [spread([1000 * sides[side] for sides in rounds], 1) for side in SIDES]
        ratios = [[sides[side] / sides["PyTorch"] for sides in rounds] for side in SIDES[:-1]]
        return [*cells, *(spread(of_side, 2) for of_side in ratios), verdict(statistics.median(ratios[0]), MOST_TIME)]

    def print(self):
        """Of launches, copies and the like, and of host times."""
        print(f"| network | launches: {' | '.join(SIDES)} | ratio | bar {MOST_LAUNCHES} | copies, memsets, waits: {' | '.join(SIDES)} |\n|{'---|' * 9}")
        for name, sides in self.launches.items():
            others = [", ".join(str(sides[side][key]) for key in ("copies", "memsets", "waits")) for side in SIDES]
            print_row(name, *(sides[side]["launches"] for side in SIDES), f"{self.ratio(name):.2f}", verdict(self.ratio(name), MOST_LAUNCHES), *others)
        print(f"\n| network | host ms: {' | '.join(SIDES)} | ratio | ratio with graphs | bar {MOST_TIME} |\n|{'---|' * 7}")
        for name in self.launches:
            print_row(name, *self.times(name))
        missed = [name for name in self.launches if self.ratio(name) > MOST_LAUNCHES]
        print("\nOn a fake CUDA runtime. dtrain's launches include its augmentation; PyTorch's images are normalized, and rows noised, on the CPU, for free.")
        print(f"More than {MOST_LAUNCHES} times PyTorch's launches: {', '.join(missed) or 'none'}")
        return not missed


def print_row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |")


def verdict(ratio, most):
    return "met" if ratio <= most else "missed"


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def names(text):
    chosen = text.split(",")
    unknown = [name for name in chosen if name not in ROWS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no {', '.join(unknown)} among {', '.join(ROWS)}")
    return chosen


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=names, default=list(ROWS), help=f"of {', '.join(ROWS)}")
    parser.add_argument("--kernels", type=names, help="print what these launch, and nothing else")
    parser.add_argument("--columns", type=int, default=150, help="of a kernel's name")
    parser.add_argument("--rounds", type=int, default=5, help="of host time; 0: only launches")
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement, after the warm-up")
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="folder of the build")
    parser.add_argument("--json", type=pathlib.Path, help="a line is added for each measurement")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if options.report and not options.json:
        parser.error("--report needs --json FILE")
    return options


def main():
    options = parse()
    if options.report:
        table = Table(options.json)
        table.load()
        return 0 if table.print() else 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # which ends what is running too
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, pathlib.Path(folder))
        bench.make_data()
        for name in options.kernels or []:
            print_kernels(bench, name)
        if options.kernels:
            return 0
        table = Table(options.json)
        for name in options.networks:
            table.note_counts(name, {side: of_one_step(counts, bench.cases.COUNTED) for side, counts in count(bench, name, SIDES).items()})
        for number in range(options.rounds):
            for name in options.networks:
                order = SIDES if number % 2 == 0 else SIDES[::-1]
                table.note_seconds(name, number, {side: bench.step_seconds(ROWS[name], side) for side in order})
        return 0 if table.print() else 1


if __name__ == "__main__":
    sys.exit(main())
