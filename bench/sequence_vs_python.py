#!/usr/bin/env python3
"""Training samples per second of the sequence network: dtrain compared with eager PyTorch, with packed and with padded sequences.

usage: bench/sequence_vs_python.py [--step build/bench/sequence_step] [--batch 64] [--batches 2] [--rounds 3] [--threads N]
                                   [--precision fp32] [--skip-packed] [--json FILE]

Run it with the Python of .deps/venv, after `cmake --build build --target sequence_step`. All sides use the same ragged batches
(50 to 400 rows of 8 features, uniformly distributed), weights, threads, precision, optimizer (fused AdamW) and allocator (tcmalloc),
and their runs are interleaved. Outputs are compared first. `padded` also runs with denormals flushed, as dtrain does:
torch.set_flush_denormal(True). Prints medians, spread and ratios, of wall time and of CPU time (which other load on the machine
affects less). Exits with 1 if a bar is missed.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from safetensors.torch import load_file, save_file

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests/support"))
from cnn_lstm_reference import CnnLstm  # noqa: E402

TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"
FEATURES, CLASSES, LONGEST = 8, 5, 400
BARS = {"packed": 3.0, "padded": 1.2, "padded + flush": 1.2}  # dtrain must be at least this many times as fast, by wall time


def draw(folder, batch, batches):
    torch.manual_seed(0)
    network = CnnLstm(FEATURES, CLASSES)
    tensors = {k: v.contiguous() for k, v in network.state_dict().items()}
    for i in range(batches):
        lengths = torch.randint(50, LONGEST + 1, (batch,))
        rows = torch.randn(batch, int(lengths.max()), FEATURES)
        rows *= (torch.arange(rows.shape[1])[None, :] < lengths[:, None])[:, :, None]
        tensors.update({f"rows.{i}": rows, f"lengths.{i}": lengths, f"targets.{i}": torch.randint(0, CLASSES, (batch,))})
    save_file(tensors, folder / "in.safetensors")
    return sum(int(tensors[f"lengths.{i}"].sum()) for i in range(batches)) / sum(tensors[f"rows.{i}"].shape[0] * tensors[f"rows.{i}"].shape[1] for i in range(batches))


def python_side(words):
    """Runs in a separate process: the counterpart of bench/sequence_step.cpp."""
    source, target, precision, threads, rounds, form = words
    if form == "padded + flush":
        torch.set_flush_denormal(True)
    torch.set_num_threads(int(threads))
    tensors = load_file(source)
    batches = []
    while f"rows.{len(batches)}" in tensors:
        batches.append([tensors.pop(f"{name}.{len(batches)}") for name in ("rows", "lengths", "targets")])
    network = CnnLstm(FEATURES, CLASSES)
    network.load_state_dict(tensors)
    network.reconstruct.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in network.parameters() if p.requires_grad], fused=True)

    def logits(rows, lengths):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            return network(rows, lengths, packed=form == "packed").float()

    outputs = {}
    network.eval()
    with torch.no_grad():
        for i, (rows, lengths, _) in enumerate(batches):
            outputs[f"eval.{i}"] = logits(rows, lengths)
    network.train()
    for round_ in range(int(rounds) + 1):
        if round_ == 1:
            begin, cpu = time.perf_counter(), time.process_time()
        for rows, lengths, targets in batches:
            optimizer.zero_grad(set_to_none=False)
            result = logits(rows, lengths)
            torch.nn.functional.cross_entropy(result, targets).backward()
            outputs.setdefault("train.0", result.detach())
            optimizer.step()
    seconds = time.perf_counter() - begin
    print(len(batches) * len(batches[0][0]) * int(rounds) / seconds, (time.process_time() - cpu) / int(rounds))
    save_file(outputs, target)


def measure(command, folder, args, form=None):
    rounds = 1 if form == "packed" else args.steps
    words = [*command, folder / "in.safetensors", folder / "out.safetensors", args.precision, args.threads, rounds]
    env = dict(os.environ, OMP_NUM_THREADS=str(args.threads), LD_PRELOAD=TCMALLOC)
    done = subprocess.run([str(w) for w in words] + ([form] if form else []), env=env, check=True, stdout=subprocess.PIPE, text=True)
    rate, cpu = map(float, done.stdout.split())
    return rate, args.batch * args.batches / cpu, load_file(folder / "out.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", default=str(TOP / "build/bench/sequence_step"))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="timed passes over the batches in each run")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--skip-packed", action="store_true", help="it takes minutes")
    parser.add_argument("--json")
    args = parser.parse_args()
    forms = ["padded", "padded + flush"] + ([] if args.skip_packed else ["packed"])
    python = [sys.executable, __file__, "--python"]
    results, worst = {}, 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        share = draw(folder, args.batch, args.batches)
        for _ in range(args.rounds):
            *rates, ours = measure([args.step], folder, args)
            results.setdefault("dtrain", []).append(rates)
            for form in forms:
                *rates, theirs = measure(python, folder, args, form)
                results.setdefault(form, []).append(rates)
                for key, expected in theirs.items():
                    worst = max(worst, ((ours[key] - expected).abs().max() / expected.abs().max()).item())
    bound = 1e-4 if args.precision == "fp32" else 5e-2
    print(f"cnn_lstm, batch {args.batch}, 50 to {LONGEST} rows ({100 * share:.0f} % of the padded batch valid), {args.precision}, {args.threads} threads, "
          f"{args.rounds} interleaved rounds; outputs differ by at most {worst:.1e} of the largest")
    assert worst <= bound, f"the outputs differ by {worst}"
    print(f"{'samples/s':16} {'median':>8} {'min':>8} {'max':>8}  dtrain is    {'by CPU time':>12}  dtrain is")
    rows = []
    for who, pairs in results.items():
        wall, cpu = [statistics.median(column) for column in zip(*pairs)]
        ours = [statistics.median(column) for column in zip(*results["dtrain"])]
        rows.append({"who": who, "median": wall, "min": min(p[0] for p in pairs), "max": max(p[0] for p in pairs), "dtrain_ratio": ours[0] / wall,
                     "per_cpu_second": cpu, "dtrain_ratio_by_cpu_time": ours[1] / cpu})
        r = rows[-1]
        print(f"{who:16} {wall:8.1f} {r['min']:8.1f} {r['max']:8.1f}  {r['dtrain_ratio']:6.2f} x     {cpu:12.1f}  {r['dtrain_ratio_by_cpu_time']:6.2f} x")
    missed = [f"against {r['who']}: {r['dtrain_ratio']:.3g} times as fast, the bar is {BARS[r['who']]:.3g} at least"
              for r in rows if r["dtrain_ratio"] < BARS.get(r["who"], 0)]
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"batch": args.batch, "threads": args.threads, "precision": args.precision, "valid_share": share,
                                                       "largest_output_difference": worst, "rows": rows, "missed": missed}, indent=2) + "\n")
    for line in missed:
        print("missed:", line)
    return 1 if missed else 0


if sys.argv[1:2] == ["--python"]:
    python_side(sys.argv[2:])
else:
    sys.exit(main())
