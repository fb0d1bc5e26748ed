#!/usr/bin/env python3
"""What a kernel of src/kernels gains in whole training steps: dtrain as it is, and without that kernel.

usage: PYTHON bench/kernel_gains.py KERNEL... --folder FOLDER [--networks NAME:PIXELS,...] [--rounds 4] [--seconds 6] [--json FILE]

PYTHON is that of .deps/venv (launch/bootstrap --tests). Several kernels are turned off together. FOLDER becomes a clone of this repository at HEAD, so that
what is not committed does not count. There dtrain is built as it is, and once more with LibTorch's operators in place of the kernels: the table below replaces one
line of source for each of them, and the product needs no switch. FOLDER keeps the builds, so that only what changed is compiled the next time.

A round measures whole steps of both programs by `dtrain bench step`, one after the other, in the opposite order each time. The data and the batches are those of
bench/step_vs_python.py. The table on stdout shows the medians of the rounds, in samples per second, and the gain: the speed with the kernels divided by the speed
without them, as the median of the rounds, with the lowest and the highest. Others: the largest share of the cores that other processes used during a run. Set
ATEN_CPU_CAPABILITY=avx2 and ONEDNN_MAX_CPU_ISA=AVX2 to measure a CPU without AVX-512. FILE gets a line for each round.
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from step_vs_python import TASKS, TOP, Cell  # which also makes bench/steps known
import step_data
import step_sides

# header: of the kernel, in src/kernels. In `file`, `text` chooses the kernel; with `without` in its place LibTorch computes. networks: network:pixels.
Kernel = collections.namedtuple("Kernel", "header file text without networks")
KERNELS = {
    "winograd": Kernel("winograd.h", "src/layers/convolution.cpp", "return widest_vectors() != VectorSet::kAny && x.is_cpu()",
                       "return false && x.is_cpu()", "headpose_cnn:64,headpose_cnn:224,resnet18:112,resnet50:112"),
    "linear_bottleneck": Kernel("fused_convolutions.h", "src/layers/linear_bottleneck.cpp", "if (one_by_one > 0 ||",
                                "if (true || one_by_one > 0 ||", "mobilenet_v2:112,mobilenet_v2:224"),
    "batch_norm": Kernel("batch_norm_cpu.h", "src/layers/batch_norm.cpp", "if (is_training() && (sync_scope != nullptr || is_fused(input)))",
                         "if (is_training() && sync_scope != nullptr)", "mobilenet_v2:224,headpose_cnn:224,resnet18:224"),
    "max_pool": Kernel("batch_norm_cpu.h", "src/layers/epilogue.cpp", "if (x.is_cpu() && batch_norm::cpu::can_pool(x))",
                       "if (false && x.is_cpu())", "simple_cnn:64,simple_cnn:224"),
    "lstm": Kernel("lstm.h", "src/layers/lstm.cpp", "return rows.is_cpu() && !(is_bfloat16(rows)", "return false && !(is_bfloat16(rows)",
                   "sequence,pointer"),
}


def run(*words):
    subprocess.run([str(word) for word in words], check=True, stdout=sys.stderr)


def commit_of(folder):
    return subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def clone(folder, commit):
    """The source of this commit in the folder; files that are as they were keep their times."""
    if not (folder / ".git").exists():
        run("git", "clone", "--quiet", "--shared", "--no-checkout", TOP, folder)
    run("git", "-C", folder, "checkout", "--quiet", "--force", commit)


def turned_off(kernel, source):
    """The text of kernel.file without the kernel."""
    if source.count(kernel.text) != 1:
        sys.exit(f"{kernel.file} has {source.count(kernel.text)} times, not once: {kernel.text}")
    return source.replace(kernel.text, kernel.without)


def built(folder, name):
    """The program of the source as it is now, kept under a name."""
    if not (folder / "build/build.ninja").exists():
        run("cmake", "-S", folder, "--preset", "release", "-DDTRAIN_TESTS=OFF", f"-DDTRAIN_DEPS={TOP}/.deps")
    run("cmake", "--build", folder / "build", "--target", "dtrain")
    return shutil.copy(folder / "build/src/dtrain", folder / f"build/{name}")


def programs_of(folder, names):
    """dtrain as it is, and without the kernels."""
    clone(folder, commit_of(TOP))
    usual = built(folder, "dtrain_usual")
    for kernel in (KERNELS[name] for name in names):
        source = folder / kernel.file
        source.write_text(turned_off(kernel, source.read_text()))
    return {"with": usual, "without": built(folder, "dtrain_without_" + "_".join(names))}


def rate_of(program, cell, options):
    """(samples per second, what the run took of the machine)"""
    file, log = options.scratch / "step.json", options.scratch / "step.log"
    words = [program, "bench", "step", "--json", file, "--force", "--batch-sizes", cell.batch, "--rounds", 1, "--seconds", options.seconds,
             "--steps", 1000000, *step_sides.flags_of(cell, {})]
    _, machine = step_sides.run_all(lambda: [step_sides.Process(words, {}, log)], False)
    return json.loads(file.read_text())["rows"][0]["samples_per_second"]["median"], machine


def measure(programs, cell, options):
    """[line] of the rounds."""
    lines = []
    for number in range(options.rounds):
        line = {"commit": options.commit, "without": options.kernels, "network": cell.network, "size": cell.size,
                "vectors": os.environ.get("ATEN_CPU_CAPABILITY", "widest"), "round": number, "rates": {}, "other_load": 0, "noise": 0}
        for side in sorted(programs, reverse=number % 2):
            line["rates"][side], machine = rate_of(programs[side], cell, options)
            line |= {key: max(line[key], machine[key]) for key in ("other_load", "noise")}
        lines.append(line)
        if options.json:
            with options.json.open("a") as out:
                out.write(json.dumps(line) + "\n")
        print(f"{cell.key}, round {number + 1}: {line['rates']}", file=sys.stderr, flush=True)
    return lines


def table_row(lines):
    gains = [line["rates"]["with"] / line["rates"]["without"] for line in lines]
    rates = [statistics.median(line["rates"][side] for line in lines) for side in ("with", "without")]
    first, others = lines[0], max(line["other_load"] for line in lines)
    network = f"{first['network']}, {first['size']}" if first["size"] else first["network"]
    return (f"| {' and '.join(first['without'])} | {network} | {first['vectors']} | {rates[0]:.1f} | {rates[1]:.1f} | "
            f"{statistics.median(gains):.2f} ({min(gains):.2f} to {max(gains):.2f}) | {len(lines)} | {100 * others:.0f} % |")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="+", choices=KERNELS)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="of the clone, the builds and the data")
    parser.add_argument("--networks", help="NAME:PIXELS, joined by commas; those that use the kernels if absent")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=6, help="of each measurement, after the warm-up")
    parser.add_argument("--json", type=pathlib.Path, help="one line for each round")
    return parser.parse_args()


def main():
    options = parse()
    options.folder, options.commit = options.folder.resolve(), commit_of(TOP)
    programs = programs_of(options.folder, options.kernels)
    networks = options.networks or ",".join(KERNELS[name].networks for name in options.kernels)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        options.scratch = pathlib.Path(scratch)
        for named in dict.fromkeys(networks.split(",")):
            network, _, pixels = named.partition(":")
            size = int(pixels or 0)
            file = step_data.file_of(programs["with"], options.folder / "build/data", TASKS[network], size)
            rows.append(table_row(measure(programs, Cell(network, size, 1, "fp32", file), options)))
    print("| without | network, pixels | vectors | with, samples/s | without | gain | rounds | others |\n|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
