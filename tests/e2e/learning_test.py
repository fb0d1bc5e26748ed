"""The whole program learns each task's generated set within a minute: usage: learning_test.py TASK

A lower bar than bench/, for CI: what fails here does not learn at all. One entry per task in TASKS.
"""

import sys

import runner

# Flags of `dtrain synth`, flags of the run, metric, the least it must reach (the most, where smaller is better).
TASKS = {
    "pointer": {
        "synth": ["--samples", 6000],
        "run": {"train.epochs": 5, "train.batch_size": 64, "optimizer.lr": 0.002, "optimizer.clip_norm": 1,
                "schedule.name": "cosine", "schedule.warmup_steps": 50, "model.dropout": 0},
        "metric": "position_accuracy", "at_least": 0.8},
}


def learn(task):
    def test(folder):
        bar = TASKS[task]
        runner.run(["synth", task, "--seed", 1, "--out", folder / "d.h5", *bar["synth"]]).expect(0)
        flags = runner.flags({"task": task, "data.file": folder / "d.h5", "run.folder": folder, "run.name": "r", "metrics.enabled": False,
                              "run.progress": "lines", "checkpoint.every": "never", **bar["run"]})
        runner.run(flags, timeout=600, env=runner.environment(threads=2)).expect(0)
        reached = runner.metrics(folder / "r", "eval")[-1]["metrics"][bar["metric"]]
        print(f"        {task}: {bar['metric']} {reached:.4f}")
        if "at_least" in bar:
            assert reached >= bar["at_least"], (reached, bar["at_least"])
        else:
            assert reached <= bar["at_most"], (reached, bar["at_most"])

    test.__name__ = f"{task}_is_learned"
    return test


runner.main([learn(name) for name in sys.argv[1:] or TASKS])
