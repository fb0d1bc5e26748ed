#!/usr/bin/env python3
"""What each task learns from its generated data set, and how long that takes: the built-in quick starts, one after the other.

usage: bench/learning.py [--dtrain build/src/dtrain] [--tasks classify,headpose,pointer,sequence] [--np N]
                         [--curves FOLDER] [--json FILE]

Prints the metrics of the test split (samples that were never trained on) next to their bars, what the best answer without looking
at the inputs would reach (the mean of the training targets, the most frequent class), and the seconds of the whole command:
generating the data, training, validation after each epoch, the final test. Needs the Python of .deps/venv (h5py). --curves writes the curves
of each run to FOLDER/learning_TASK.svg.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

# task: (metric, bar, whether more is better)
BARS = {
    "classify": ("top1", 0.95, True),
    "headpose": ("mae", 6.0, False),
    "pointer": ("position_accuracy", 0.97, True),
    "sequence": ("accuracy", 0.95, True),
}


def without_inputs(file):
    """The test metric of the answer that is best for the training split and the same for every sample; None for orders."""
    with h5py.File(file) as f:
        if isinstance(f["targets"], h5py.Group):
            return None
        targets, train, test = f["targets"][:], f["splits/train"][:], f["splits/test"][:]
    if targets.dtype.kind == "f":
        return float(np.abs(targets[test] - targets[train].mean(axis=0)).mean())
    return float((targets[test] == np.bincount(targets[train]).argmax()).mean())


def learn(options, task, folder):
    command = [str(options.dtrain.resolve()), "--task", task, "--name", f"learning_{task}", "--metrics.enabled", "false"]
    if options.np:
        command = ["mpirun", "-np", str(options.np), *command]
    environment = dict(os.environ, OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none")
    begin = time.monotonic()
    done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    seconds = time.monotonic() - begin
    if done.returncode != 0:
        sys.exit(done.stdout[-4000:] + f"\nlearning.py: dtrain ended with {done.returncode}")
    run = folder / "runs" / f"learning_{task}"
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    test = [r for r in records if r["kind"] == "eval" and r["split"] == "test"][-1]
    if options.curves:
        picture = (options.curves / f"learning_{task}.svg").resolve()
        subprocess.run([str(options.dtrain.resolve()), "report", str(run), "--text", "--svg", str(picture), "--force"], check=True, stdout=subprocess.DEVNULL)
    metric, bar, more = BARS[task]
    value = test["metrics"][metric]
    return {"task": task, "metric": metric, "value": value, "bar": bar, "reached": value >= bar if more else value <= bar,
            "without_inputs": without_inputs(next((folder / "data").iterdir())), "seconds": seconds, "steps": test["step"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtrain", type=pathlib.Path, default=pathlib.Path("build/src/dtrain"))
    parser.add_argument("--tasks", default=",".join(BARS))
    parser.add_argument("--np", type=int, default=0)
    parser.add_argument("--curves", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    print(f"{'task':10}{'metric':20}{'test':>9}{'bar':>9}{'no input':>10}{'steps':>8}{'seconds':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for task in options.tasks.split(","):
            own = pathlib.Path(folder, task)  # one task generates one file
            own.mkdir()
            row = learn(options, task, own)
            rows.append(row)
            blind = "-" if row["without_inputs"] is None else f"{row['without_inputs']:.4f}"
            print(f"{row['task']:10}{row['metric']:20}{row['value']:9.4f}{row['bar']:9.4f}{blind:>10}{row['steps']:8}{row['seconds']:9.1f}"
                  + ("" if row["reached"] else "   not reached"), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0 if all(row["reached"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
