#!/usr/bin/env python3
"""Training steps of the pointer network on the CPU: dtrain compared with eager PyTorch, interleaved on this machine.

usage: bench/pointer_vs_python.py [--tool build/tests/models/pointer_tool] [--steps 12] [--rounds 5] [--threads N] [--json FILE]

Run it with the Python of .deps/venv; build pointer_tool first. Both sides use the same weights, the same batches of 64 sets of
T elements, AdamW (fused), float32, no dropout, and tcmalloc. In Python, (a) decodes step by step, with one cell and one attention
per step; (b) decodes all steps at once, which holds [B, T, T, H]. Prints medians, ratios, by how much the steps raise the peak of
resident memory, by how much the losses of all steps differ, and the share of dtrain's step that oneDNN's LSTM kernels take, which
both sides run. Exits with 1 if a bar is missed.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"
BATCH, WARM = 64, 3
BY_STEP, AT_ONCE = "python (a) by step", "python (b) at once"

# (elements T, form): dtrain must be at least this many times as fast; it may use at most this share of the form's peak memory
FASTER = {(20, BY_STEP): 1.5, (50, BY_STEP): 1.5, (20, AT_ONCE): 1.0, (50, AT_ONCE): 1.0}
SMALLER = {(50, AT_ONCE): 1 / 3}
LOSSES_APART = 1e-5  # relative, for each step: the weights and batches are the same, in float32

PYTHON = r"""
import re, sys, time, torch
sys.path.insert(0, sys.argv[1])
from safetensors.torch import load_file
import pointer_network
form, batch, steps, warm, threads = sys.argv[3], *(int(a) for a in sys.argv[4:8])
torch.set_num_threads(threads)
data = load_file(sys.argv[2])
sets, order, lengths = (data.pop(k) for k in ("sets", "order", "lengths"))
network = pointer_network.PointerNetwork()
network.load_state_dict(data)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
def peak_kib():  # of this process only; getrusage() would include what its parent used before exec
    return int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
before = peak_kib()
losses = []
for step in range(steps):
    if step == warm:
        begin = time.perf_counter()
    at = step % (len(sets) // batch) * batch
    part = slice(at, at + batch)
    optimizer.zero_grad(set_to_none=False)
    loss = getattr(network, form)(sets[part], lengths[part], order[part]).sum() / lengths[part].sum()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
rate = batch * (steps - warm) / (time.perf_counter() - begin)
print(rate, peak_kib() - before, *losses)
"""


def environment(threads):
    return dict(os.environ, OMP_NUM_THREADS=str(threads), LD_PRELOAD=TCMALLOC)


def run(words, threads):
    return subprocess.run([str(w) for w in words], env=environment(threads), check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def onednn_share(command, threads, steps):
    """The share of dtrain's time that oneDNN reports for its LSTM kernels."""
    lines = subprocess.run([str(w) for w in command], env={**environment(threads), "ONEDNN_VERBOSE": "1"}, check=True,
                           stdout=subprocess.PIPE, text=True).stdout.splitlines()
    calls = [line.split(",") for line in lines if line.startswith("onednn_verbose")]
    milliseconds = sum(float(call[-1]) for call in calls if "exec" in call and "rnn" in call)
    rate = float(next(line for line in lines if not line.startswith("onednn_verbose")).split()[0])
    return milliseconds / 1000 / steps / (BATCH / rate)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=str(TOP / "build/tests/models/pointer_tool"))
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json")
    args = parser.parse_args()
    sys.path.insert(0, str(TOP / "tests/models"))
    import pointer_network
    import torch
    from safetensors.torch import load_file, save_file

    torch.set_num_threads(1)
    whos = {"dtrain": None, BY_STEP: "losses_by_step", AT_ONCE: "losses_at_once"}
    print(f"pointer network, batch {BATCH}, {args.threads} threads, {args.rounds} interleaved rounds of {args.steps} steps")
    print(f"{'T':>3} {'':20} {'samples/s':>9} {'min':>8} {'max':>8}  {'dtrain is':>9} {'peak MiB':>8}  last loss  losses apart")
    rows, missed, shares = [], [], {}
    with tempfile.TemporaryDirectory() as name:
        source, target = pathlib.Path(name) / "in.safetensors", pathlib.Path(name) / "out.safetensors"
        for steps in (20, 50):
            sets, order, lengths = pointer_network.generated(2 * BATCH, steps)
            torch.manual_seed(1)
            save_file({**pointer_network.PointerNetwork().state_dict(), "sets": sets, "order": order, "lengths": lengths}, source)
            tool = [args.tool, source, target, "fp32", BATCH, args.steps, WARM, 1e-3]
            results = {who: [] for who in whos}
            for _ in range(args.rounds):
                for who, form in whos.items():
                    if form is None:
                        rate, peak = run(tool, args.threads)
                        losses = load_file(target)["losses"].tolist()
                    else:
                        rate, peak, *losses = run([sys.executable, "-c", PYTHON, TOP / "tests/models", source, form, BATCH, args.steps, WARM,
                                                args.threads], args.threads)
                    results[who].append((float(rate), float(peak) / 1024, [float(loss) for loss in losses]))
            ours, our_peak = (statistics.median(r[i] for r in results["dtrain"]) for i in (0, 1))
            our_losses = results["dtrain"][0][2]
            for who, measured in results.items():
                rates = [r[0] for r in measured]
                row = {"T": steps, "who": who, "median": statistics.median(rates), "min": min(rates), "max": max(rates),
                       "dtrain_ratio": ours / statistics.median(rates), "peak_mib": statistics.median(r[1] for r in measured),
                       "peak_ratio": our_peak / statistics.median(r[1] for r in measured), "loss": measured[0][2][-1],
                       "losses_apart": max(abs(a - b) / abs(b) for r in measured for a, b in zip(our_losses, r[2], strict=True))}
                rows.append(row)
                checks = [("times as fast", row["dtrain_ratio"], FASTER.get((steps, who)), True),
                          ("of the peak memory", row["peak_ratio"], SMALLER.get((steps, who)), False),
                          ("apart in the losses", row["losses_apart"], LOSSES_APART, False)]
                missed += [f"T = {steps}, against {who}: {value:.3g} {what}, the bar is {bar:.3g} at {'least' if more else 'most'}"
                           for what, value, bar, more in checks if bar is not None and not (value >= bar if more else value <= bar)]
                print(f"{steps:3} {who:20} {row['median']:9.1f} {row['min']:8.1f} {row['max']:8.1f}  {row['dtrain_ratio']:7.2f} x {row['peak_mib']:8.0f}"
                      f"  {row['loss']:.6f}  {row['losses_apart']:.1e}", flush=True)
            shares[steps] = onednn_share(tool, args.threads, args.steps)
            print(f"{steps:3} oneDNN's LSTM kernels take {shares[steps]:.0%} of dtrain's step", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"batch": BATCH, "threads": args.threads, "steps": args.steps, "rows": rows, "onednn_share": shares,
                                                       "missed": missed}, indent=2) + "\n")
    for line in missed:
        print("missed:", line)
    return 1 if missed else 0


sys.exit(main())
