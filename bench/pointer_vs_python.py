#!/usr/bin/env python3
"""The pointer network's training steps on the CPU: dtrain against eager PyTorch, interleaved on this machine.

usage: bench/pointer_vs_python.py [--tool build/tests/models/pointer_tool] [--steps 12] [--rounds 5] [--threads N] [--json FILE]

Run it by the Python of .deps/venv; build pointer_tool first. Same weights, same batches of 64 sets of T elements, AdamW
(fused), float32, no dropout, tcmalloc on both sides. In Python (a) the decoder goes step by step, a cell and an attention
each; (b) all steps at once, which holds [B, T, T, H]. Prints medians, ratios, by how much the steps raise the peak of
resident memory, and how far the losses are apart.
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
def peak_kib():  # of this process alone; getrusage() would also tell what its parent used before exec
    return int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
before = peak_kib()
for step in range(steps):
    if step == warm:
        begin = time.perf_counter()
    at = step % (len(sets) // batch) * batch
    part = slice(at, at + batch)
    optimizer.zero_grad(set_to_none=False)
    loss = getattr(network, form)(sets[part], lengths[part], order[part]).sum() / lengths[part].sum()
    loss.backward()
    optimizer.step()
    last = loss.item()
rate = batch * (steps - warm) / (time.perf_counter() - begin)
print(rate, peak_kib() - before, last)
"""


def environment(threads):
    return dict(os.environ, OMP_NUM_THREADS=str(threads), LD_PRELOAD=TCMALLOC)


def run(words, threads):
    return subprocess.run([str(w) for w in words], env=environment(threads), check=True, stdout=subprocess.PIPE, text=True).stdout.split()


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
    whos = {"dtrain": None, "python (a) by step": "losses_by_step", "python (b) at once": "losses_at_once"}
    print(f"pointer network, batch {BATCH}, {args.threads} threads, {args.rounds} interleaved rounds of {args.steps} steps")
    print(f"{'T':>3} {'':20} {'samples/s':>9} {'min':>8} {'max':>8}  {'dtrain is':>9} {'peak MiB':>8}  last loss")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        source, target = pathlib.Path(name) / "in.safetensors", pathlib.Path(name) / "out.safetensors"
        for steps in (20, 50):
            sets, order, lengths = pointer_network.generated(2 * BATCH, steps)
            torch.manual_seed(1)
            save_file({**pointer_network.PointerNetwork().state_dict(), "sets": sets, "order": order, "lengths": lengths}, source)
            results = {who: [] for who in whos}
            for _ in range(args.rounds):
                for who, form in whos.items():
                    if form is None:
                        rate, peak = run([args.tool, source, target, "fp32", BATCH, args.steps, WARM, 1e-3], args.threads)
                        loss = load_file(target)["losses"][-1].item()
                    else:
                        rate, peak, loss = run([sys.executable, "-c", PYTHON, TOP / "tests/models", source, form, BATCH, args.steps, WARM,
                                                args.threads], args.threads)
                    results[who].append((float(rate), float(peak) / 1024, float(loss)))
            ours = statistics.median(r[0] for r in results["dtrain"])
            for who, measured in results.items():
                rates = [r[0] for r in measured]
                row = {"T": steps, "who": who, "median": statistics.median(rates), "min": min(rates), "max": max(rates),
                       "dtrain_ratio": ours / statistics.median(rates), "peak_mib": statistics.median(r[1] for r in measured), "loss": measured[0][2]}
                rows.append(row)
                print(f"{steps:3} {who:20} {row['median']:9.1f} {row['min']:8.1f} {row['max']:8.1f}  {row['dtrain_ratio']:7.2f} x {row['peak_mib']:8.0f}"
                      f"  {row['loss']:.6f}", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"batch": BATCH, "threads": args.threads, "steps": args.steps, "rows": rows}, indent=2) + "\n")


main()
