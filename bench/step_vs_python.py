#!/usr/bin/env python3
"""Training samples per second: dtrain compared with the same network in eager PyTorch, interleaved on this machine.

usage: bench/step_vs_python.py [--dtrain build/src/dtrain] [--size 64] [--batch 32] [--rounds 5] [--json FILE]

Run it with the Python of .deps/venv. Both sides train headpose_cnn with AdamW, channels_last, the same batch size and threads, in one
process. dtrain reads, augments and trains; Python trains on one batch held in memory, which favors Python. Python runs
with glibc's malloc (the default) and with tcmalloc preloaded (which dtrain links). Prints medians, spread and ratios.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"
STEPS, WARM = 40, 10

PYTHON = """
import sys, time, torch
from torch import nn
size, batch, amp, steps, warm, threads = (int(a) for a in sys.argv[1:7])
torch.set_num_threads(threads)
torch.manual_seed(0)
blocks, channels = [], 3
for width in (32, 64, 128, 256, 512):
    blocks.append(nn.Sequential(nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(2)))
    channels = width
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(*blocks)
        self.fc = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 3))
    def forward(self, x):
        return self.fc(self.features(x).mean((2, 3)))
net = Net().to(memory_format=torch.channels_last)
x = torch.randn(batch, 3, size, size).contiguous(memory_format=torch.channels_last)
y = torch.randn(batch, 3)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
for step in range(warm + steps):
    if step == warm:
        begin = time.perf_counter()
    optimizer.zero_grad(set_to_none=False)
    with torch.autocast("cpu", torch.bfloat16, enabled=bool(amp)):
        loss = nn.functional.smooth_l1_loss(net(x), y)
    loss.backward()
    optimizer.step()
print(batch * steps / (time.perf_counter() - begin))
"""


def python(args, amp, threads, preload):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    if preload:
        env["LD_PRELOAD"] = TCMALLOC
    words = [sys.executable, "-c", PYTHON, args.size, args.batch, int(amp), STEPS, WARM, threads]
    return float(subprocess.run([str(w) for w in words], env=env, check=True, stdout=subprocess.PIPE).stdout)


def dtrain(args, folder, amp, threads, run):
    name = f"r{run}"
    words = [args.dtrain, "--data.file", folder / "d.h5", "--model.image_size", args.size, "--batch-size", args.batch,
             "--train.max_steps", WARM + STEPS, "--epochs", 1000, "--run.log_every", WARM, "--name", name, "--amp",
             "bf16" if amp else "fp32", "--data.val_share", 0, "--metrics.enabled", "false", "--run.folder", folder / "runs",
             "--run.progress", "lines", "--device.threads", threads, "--model.dropout", 0, "--device.type", "cpu",
             "--checkpoint.keep_best", "false"]
    subprocess.run([str(w) for w in words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    records = [json.loads(line) for line in (folder / "runs" / name / "metrics.jsonl").read_text().splitlines()]
    rates = [r["samples_per_second"] for r in records if r["kind"] == "step" and r["step"] > WARM]
    return statistics.harmonic_mean(rates)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--dtrain", default=str(top / "build/src/dtrain"))
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([args.dtrain, "synth", "headpose", "--samples", "2000", "--size", str(args.size), "--out", str(folder / "d.h5")],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        run = 0
        for _ in range(args.rounds):
            for amp in (False, True):
                kind = "bf16" if amp else "fp32"
                run += 1
                for who, rate in (("dtrain", dtrain(args, folder, amp, threads, run)), ("python", python(args, amp, threads, False)),
                                  ("python + tcmalloc", python(args, amp, threads, True))):
                    results.setdefault((kind, who), []).append(rate)
    print(f"headpose_cnn {args.size}x{args.size}, batch {args.batch}, {threads} threads, {args.rounds} interleaved rounds, samples/s")
    print(f"{'':6} {'':18} {'median':>8} {'min':>8} {'max':>8}  dtrain is")
    rows = []
    for (kind, who), rates in sorted(results.items()):
        median = statistics.median(rates)
        ratio = statistics.median(results[(kind, "dtrain")]) / median
        rows.append({"precision": kind, "who": who, "median": median, "min": min(rates), "max": max(rates), "dtrain_ratio": ratio})
        print(f"{kind:6} {who:18} {median:8.1f} {min(rates):8.1f} {max(rates):8.1f}  {ratio:.2f} x")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"size": args.size, "batch": args.batch, "threads": threads, "rows": rows}, indent=2) + "\n")


main()
