"""The real program at 1, 2 and 4 ranks, with accumulation and a tail: the same samples and, in float64, the same numbers."""

import numpy as np
from safetensors.numpy import load_file

import runner

# 75 samples in global batches of 16: a tail of 11. Augmentation and dropout stay on: they are keyed by sample, not by rank.
OPTIONS = {**runner.SMALL, "data.file": "d.h5", "train.amp": "fp64", "train.global_batch": 16, "train.max_steps": 20,
           "train.epochs": 30, "train.freeze_batch_norm": True, "data.val_share": 0, "checkpoint.keep_best": False,
           "schedule.name": "constant"}
CASES = [(1, 16), (1, 5), (2, 8), (2, 3), (4, 4), (3, 2)]  # ranks, batch size per micro-step


def compare(folder, optimizer, bound):
    runner.synth(folder / "d.h5", 75)
    runs = {}
    for ranks, batch in CASES:
        name = f"r{ranks}b{batch}"
        result = runner.run(runner.flags({**OPTIONS, **optimizer, "run.name": name, "train.batch_size": batch}), np=ranks, cwd=folder).expect(0)
        runs[name] = (runner.ledger(result), [r["loss"] for r in runner.metrics(folder / "runs" / name)],
                      load_file(folder / "runs" / name / "checkpoints/step_00000020/model.safetensors"))
    ledger, losses, weights = runs["r1b16"]
    assert len(losses) == 20
    for name, (other_ledger, other_losses, other_weights) in runs.items():
        assert other_ledger == ledger, name
        for step, (a, b) in enumerate(zip(losses, other_losses)):
            assert abs(a - b) <= bound * max(1, abs(a)), (name, step + 1, a, b)
        assert weights.keys() == other_weights.keys()
        for key, value in weights.items():
            if value.dtype == np.float64:
                error = np.abs(value - other_weights[key]).max()
                assert error <= bound * max(1, np.abs(value).max()), (name, key, error)


def sgd(folder):
    compare(folder, {"optimizer.name": "sgd", "optimizer.lr": 0.01, "optimizer.momentum": 0}, 1e-12)


def adamw(folder):
    compare(folder, {"optimizer.name": "adamw", "optimizer.lr": 0.001}, 1e-10)


runner.main([sgd, adamw])
