"""dtrain's loss scaler against torch.amp.GradScaler: scale and growth tracker equal, step by step, over scripted infs."""

import random
import subprocess
import sys
import warnings

import torch

STEPS = 5000
CASES = [  # init_scale, growth, backoff, growth_interval, share of steps with inf
    (65536.0, 2.0, 0.5, 2000, 0.0005),
    (65536.0, 2.0, 0.5, 20, 0.03),
    (1000.0, 1.7, 0.3, 3, 0.1),
    (3e38, 2.0, 0.5, 3, 0.05),  # growth stops before float32 overflows
    (1.0, 4.0, 0.25, 1, 0.45),
]


def torch_trace(bad, init, growth, backoff, interval):
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=init, growth_factor=growth, backoff_factor=backoff, growth_interval=interval
    )
    parameter = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    scaler.scale(torch.zeros(()))  # makes its tensors
    trace, skipped = [], 0
    for is_bad in bad:
        parameter.grad = torch.full((4,), float("inf") if is_bad else 1.0)
        scaler.step(optimizer)
        scaler.update()
        skipped += is_bad
        trace.append((scaler.get_scale(), scaler._get_growth_tracker(), skipped))
    return trace


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    reference = sys.argv[1]
    for number, (init, growth, backoff, interval, share) in enumerate(CASES):
        draw = random.Random(number)
        bad = [int(draw.random() < share) for _ in range(STEPS)]
        out = subprocess.run(
            [reference, "scaler", repr(init), repr(growth), repr(backoff), str(interval)],
            input="\n".join(map(str, bad)), capture_output=True, text=True, check=True,
        ).stdout
        ours = [(float(s), int(g), int(k)) for s, g, k in (line.split() for line in out.splitlines())]
        theirs = torch_trace(bad, init, growth, backoff, interval)
        assert len(ours) == STEPS, f"{len(ours)} lines"
        assert sum(bad) > 0, "the script has no inf"
        for step, (a, b) in enumerate(zip(ours, theirs)):
            assert a == b, f"case {CASES[number]}, step {step}: dtrain {a}, torch {b} (scale, growth tracker, skipped)"
        scales = [scale for scale, _, _ in ours]
        ups = sum(after > before for before, after in zip(scales, scales[1:]))
        downs = sum(after < before for before, after in zip(scales, scales[1:]))
        assert ups > 0 and downs > 0, f"case {CASES[number]}: the scale went one way only"
        print(f"case {CASES[number]}: {STEPS} steps equal, {sum(bad)} skipped, grown {ups} times")


if __name__ == "__main__":
    main()
