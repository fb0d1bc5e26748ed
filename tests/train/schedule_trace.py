"""dtrain's learning rates against torch.optim.lr_scheduler, to 1e-9 of the base rate."""

import random
import subprocess
import sys
import warnings

import torch
from torch.optim import lr_scheduler


def ours(name, lr, warmup, ratio, step_epochs, gamma, total, per_epoch):
    args = [sys.argv[1], "schedule", name, repr(lr), warmup, repr(ratio), step_epochs, repr(gamma), total, per_epoch]
    out = subprocess.run([str(a) for a in args], capture_output=True, text=True, check=True).stdout
    return [float(line) for line in out.splitlines()]


def theirs(lr, steps, make):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    scheduler = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def compare(what, lr, a, b):
    assert len(a) == len(b) > 0, f"{what}: {len(a)} against {len(b)} rates"
    for step, (x, y) in enumerate(zip(a, b)):
        assert abs(x - y) <= 1e-9 * lr, f"{what}, step {step}: dtrain {x!r}, torch {y!r}"
    assert max(a) > min(a), f"{what} does not move"
    print(f"{what}: {len(a)} steps equal")


def main():
    warnings.simplefilter("ignore")
    for lr, total, warmup, ratio in [(0.1, 100, 0, 0.0), (1e-3, 257, 17, 0.01), (3.0, 40, 5, 0.5)]:
        after = theirs(lr, total - warmup,
                       lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=total - warmup, eta_min=lr * ratio))
        rise = [lr * (s + 1) / warmup for s in range(warmup)]
        compare(f"cosine {lr} {total} {warmup} {ratio}", lr,
                ours("cosine", lr, warmup, ratio, 1, 0.1, total, 10), rise + after)

    for lr, total, warmup, ratio in [(0.1, 100, 30, 0.01), (1e-3, 250, 10, 0.5), (0.5, 97, 0, 1e-4), (0.5, 50, 2, 0.1)]:
        share = warmup / total if warmup else 0.3
        torchs = theirs(lr, total - 1, lambda o: lr_scheduler.OneCycleLR(
            o, max_lr=lr, total_steps=total, pct_start=share, final_div_factor=1 / (25 * ratio), cycle_momentum=False))
        mine = ours("one_cycle", lr, warmup, ratio, 1, 0.1, total, 10)
        compare(f"one_cycle {lr} {total} {warmup} {ratio}", lr, mine[:-1], torchs)
        assert abs(mine[-1] - lr * ratio) <= 1e-9 * lr, f"one_cycle ends at {mine[-1]!r}"

    for lr, total, epochs, gamma, per_epoch in [(0.1, 120, 3, 0.1, 10), (1.0, 50, 1, 0.7, 7)]:
        torchs = theirs(lr, total, lambda o: lr_scheduler.StepLR(o, step_size=epochs * per_epoch, gamma=gamma))
        compare(f"step {lr} {total} {epochs} {gamma}", lr, ours("step", lr, 0, 0.0, epochs, gamma, total, per_epoch), torchs)


    generator = random.Random(1)
    for mode, patience, gamma, threshold in [("min", 0, 0.5, 1e-4), ("min", 3, 0.1, 0.05), ("max", 2, 0.7, 1e-3), ("max", 5, 0.5, 0.0)]:
        sign = -1 if mode == "min" else 1
        values = [1 + sign * 0.01 * min(step, 30) + 0.1 * generator.random() for step in range(80)]
        values[10] = values[40] = float("nan")
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, mode=mode, factor=gamma, patience=patience, threshold=threshold, eps=0)
        torchs = []
        for value in values:
            scheduler.step(value)
            torchs.append(optimizer.param_groups[0]["lr"])
        args = [sys.argv[1], "plateau", mode, str(patience), repr(gamma), repr(threshold)]
        out = subprocess.run(args, input=" ".join(map(repr, values)), capture_output=True, text=True, check=True).stdout
        compare(f"plateau {mode} {patience} {gamma} {threshold}", 1.0, [float(line) for line in out.splitlines()], torchs)


if __name__ == "__main__":
    main()
