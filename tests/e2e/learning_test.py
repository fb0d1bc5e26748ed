"""The whole program learns the generated data set of each task in a short run.

usage: learning_test.py TASK...

The bars are lower than those of bench/learning.py, for CI: a task that fails here does not learn at all. The built-in quick
start of the task is shortened to `epochs`, about half a minute on one core. The seconds are printed, not checked, because CI
machines differ; the timeout only ends a run that hangs.
"""

import sys

import runner

sys.path.insert(0, str(runner.SOURCE / "bench"))
import learning  # noqa: E402  (bench/learning.py)

# task: (flags that shorten the run, metric of the test split, its minimum, its maximum)
TASKS = {
    "classify": ({"train.epochs": 1}, "top1", 0.75, None),
    "headpose": ({"train.epochs": 2}, "mae", None, 7.0),
    "pointer": ({"train.epochs": 2}, "position_accuracy", 0.93, None),
    "sequence": ({"train.epochs": 2, "sequence.encoder_epochs": 1, "sequence.classifier_epochs": 1}, "accuracy", 0.75, None),
}


def learn(task):
    def test(folder):
        shortened, metric, at_least, at_most = TASKS[task]
        options = {"run.name": "r", "metrics.enabled": False, "run.progress": "lines", **shortened}
        result = runner.run(["--task", task, *runner.flags(options)], cwd=folder, timeout=600,
                            env=runner.environment(threads=1)).expect(0)
        last = runner.metrics(folder / "runs/r", "eval")[-1]
        assert last["split"] == "test", last
        reached = last["metrics"][metric]
        blind = learning.without_inputs(next((folder / "data").iterdir()))
        print(f"        {task}: {metric} {reached:.4f} (without the inputs: {blind}) in {result.seconds:.0f} s")
        assert blind is None or (reached > blind if learning.BARS[task][2] else reached < blind), (reached, blind)
        assert at_least is None or reached >= at_least, (reached, at_least)
        assert at_most is None or reached <= at_most, (reached, at_most)

    test.__name__ = f"{task}_is_learned"
    return test


runner.main([learn(name) for name in sys.argv[1:] or TASKS])
