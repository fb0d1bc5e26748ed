"""The real program at 1 to 4 ranks, with accumulation and a tail: the same samples and, in float64, the same numbers."""

import runner
from run_numbers import Numbers, difference

STEPS = 10  # two epochs
# Augmentation and dropout stay on: they are keyed by sample, not by rank.
OPTIONS = {**runner.SMALL, "data.file": "d.h5", "train.amp": "fp64", "train.global_batch": 16, "train.max_steps": STEPS,
           "train.epochs": 30, "data.val_share": 0, "checkpoint.keep_best": False, "schedule.name": "constant"}
SGD = {"optimizer.name": "sgd", "optimizer.lr": 0.01, "optimizer.momentum": 0}
CASES = [(1, 16), (1, 5), (2, 8), (2, 3), (4, 4), (3, 2)]  # ranks, batch size per micro-step


def train(folder, name, ranks, batch, options):
    words = runner.flags({**OPTIONS, **options, "run.name": name, "train.batch_size": batch})
    return Numbers(runner.run(words, np=ranks, cwd=folder).expect(0), folder / "runs" / name, STEPS)


def compare(folder, options, bound, cases=CASES):
    runs = {case: train(folder, "r{}b{}".format(*case), *case, options) for case in cases}
    first = runs[cases[0]]
    for case, run in runs.items():
        assert run.ledger == first.ledger, case
        assert difference(first, run) <= bound, (case, difference(first, run))
    return first


def sgd(folder):
    runner.synth(folder / "d.h5", 75)  # a tail of 11
    compare(folder, {**SGD, "train.freeze_batch_norm": True}, 1e-12)


def adamw(folder):
    runner.synth(folder / "d.h5", 75)
    compare(folder, {"optimizer.name": "adamw", "optimizer.lr": 0.001, "train.freeze_batch_norm": True}, 1e-10,
            [(1, 16), (2, 3), (4, 4), (3, 2)])


def shared_batch_statistics(folder):
    runner.synth(folder / "d.h5", 66)  # a tail of 2: one of three ranks has no sample; before, they have 6, 5 and 5
    shared = {**SGD, "train.sync_batch_norm": True}
    one = compare(folder, shared, 1e-10, [(1, 16), (2, 8), (3, 6)])
    own = train(folder, "own", 3, 6, SGD)
    assert difference(one, own) > 1e-4, "the test would not see a difference"


runner.main([sgd, adamw, shared_batch_statistics])
