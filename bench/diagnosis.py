#!/usr/bin/env python3
"""How well the verdict of a run names what holds it back: faults of known size in real runs, and healthy runs.

usage: bench/diagnosis.py [--minutes M] [--seed S] [--dtrain build/src/dtrain] [--faults build/bench/faults/libfaults.so]
                          [--cases NAME,...] [--tasks headpose,sequence] [--healthy N] [--results FILE] [--report]

Each round makes one fault at one strength in a run on 2 ranks, between two healthy runs of the same command, until the minutes
are over. The gain that a verdict predicts is compared with the measured one: the time of the slow run's steps over that of the
healthy ones. Strengths are chosen so that the measured gain is near 1.5, 3, and 9 % or more. Every run adds a line to FILE
(docs/diagnosis.jsonl by default), by seed; --report prints the tables of all lines and runs nothing.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
STRENGTHS = {"weak": 0.015, "edge": 0.03, "full": 0.15}  # gains that the fault aims at
WARM, STEPS = 8, 100

TASKS = {
    "headpose": {"model.image_size": 64, "train.batch_size": 8},
    "sequence": {"train.batch_size": 8, "sequence.encoder_epochs": 1000},
}
COMMON = {
    "train.max_steps": WARM + STEPS, "train.epochs": 10000, "run.log_every": "10steps", "checkpoint.every": "never", "checkpoint.keep_best": False,
    "train.eval_every": "10000epochs", "metrics.enabled": False, "run.progress": "lines", "data.workers": 1, "augment.hue": 0,
}


class Case:
    """A way to make a run slow. `slow(gain, step)` gives what to change so that a step of `step` seconds takes `gain` more:
    flags, environment, a prefix of the command, or a function that disturbs the running job."""

    def __init__(self, name, causes, slow, rank=None, setting=None, tasks=tuple(TASKS)):
        self.name, self.causes, self.slow, self.rank, self.setting, self.tasks = name, causes, slow, rank, setting, tasks


def fault(kind, where="", per_step=1):
    """A fault of the preloaded library that takes `gain` of a step, in `per_step` pieces."""
    def slow(gain, step):
        microseconds = max(1, round(1e6 * gain * step / per_step))
        return {"env": {"DTRAIN_FAULT": f"{kind}:{microseconds}{':' + where if where else ''}"}}
    return slow


def flags(**keys):
    return lambda gain, step: {"flags": {key.replace("__", "."): value for key, value in keys.items()}}


def every(key, cost):
    """An interval at which something that takes `cost` seconds takes `gain` of the time."""
    def slow(gain, step):
        return {"flags": {key: f"{max(1, round(cost / (gain * step)))}steps"}}
    return slow


def busy(gain, step):
    """Another process on the cores of the ranks, for a share of the time."""
    return {"beside": ["python3", "-c",
                       "import time\nwhile True:\n    end = time.perf_counter() + 0.02\n    while time.perf_counter() < end: pass\n"
                       f"    time.sleep(0.02 * {max(0.0, 0.5 / gain - 1):.4f})"]}


def run_once(options, task, folder, name, change):
    keys = {**COMMON, **TASKS[task], "task": task, "data.file": str(folder / f"{task}.h5"), "run.name": name, **change.get("flags", {})}
    words = [w for key, value in keys.items() for w in ("--" + key, str(value).lower() if isinstance(value, bool) else str(value))]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
                       OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = ["mpirun", "-np", "2"]
    if change.get("env"):
        command += ["-x", f"LD_PRELOAD={options.faults}"] + [w for key, value in change["env"].items() for w in ("-x", f"{key}={value}")]
    command += [str(options.dtrain), *words]
    beside = [subprocess.Popen(change["beside"])] if "beside" in change else []
    try:
        done = subprocess.run(change.get("prefix", []) + command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    finally:
        for process in beside:
            process.send_signal(signal.SIGTERM)
            process.wait()
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}\ndiagnosis.py: dtrain ended with {done.returncode}")
    records = [json.loads(line) for line in (folder / "runs" / name / "metrics.jsonl").read_text().splitlines()]
    steps = [r for r in records if r["kind"] == "step" and r["step"] > WARM + 2]
    verdict = [r for r in records if r["kind"] == "verdict"][-1]
    return {"step_seconds": statistics.median(r["step_seconds"] for r in steps), "mean_seconds": statistics.mean(r["step_seconds"] for r in steps),
            "verdict": verdict}


def cases():
    return [
        Case("slow disk", {"disk"}, fault("read", per_step=8), setting="--data.workers"),
        Case("slow disk of rank 1", {"disk"}, fault("read", "1", per_step=8), rank=1, setting="--data.workers"),
        Case("rank 1 late in forward", {"late_rank"}, fault("forward", "1", per_step=5), rank=1, tasks=("headpose",)),
        Case("rank 0 late in backward", {"late_rank"}, fault("backward", "0", per_step=5), rank=0, tasks=("headpose",)),
        Case("another rank late each time", {"rotating_rank", "late_rank"}, fault("forward", "rotate", per_step=5), tasks=("headpose",)),
        Case("delayed messages", {"latency", "bandwidth"}, fault("message", per_step=4), setting="--accumulate"),
        Case("another process on the cores", {"oversubscribed"}, busy),
        Case("checkpoints too often", {"checkpoint"}, every("checkpoint.every", 0.02), setting="--checkpoint.every"),
        Case("evaluations too often", {"evaluation"}, every("train.eval_every", 0.5), setting="--train.eval_every"),
        Case("growing memory", {"memory_growth"}, lambda gain, step: {"env": {"DTRAIN_FAULT": "grow:20000:0"}}, rank=0),
    ]


def add(options, line):
    with options.results.open("a") as out:
        out.write(json.dumps(line) + "\n")


def first_cause(verdict):
    return verdict["causes"][0] if verdict["causes"] else None


def measure(options, folder):
    chosen = [c for c in cases() if not options.cases or c.name in options.cases]
    randomness = random.Random(options.seed)
    end = time.monotonic() + 60 * options.minutes
    number = 0
    healthy = {}

    def go(task, change, kind):
        nonlocal number
        number += 1
        result = run_once(options, task, folder, f"r{number}", change)
        cause = first_cause(result["verdict"])
        print(f"{kind:40}{task:10}{1e3 * result['mean_seconds']:9.2f} ms  {result['verdict']['text'][9:]}", flush=True)
        return result, cause

    while time.monotonic() < end:
        case = randomness.choice(chosen)
        task = randomness.choice([t for t in case.tasks if t in options.tasks] or [options.tasks[0]])
        strength = randomness.choice(list(STRENGTHS))
        before, cause = go(task, {}, "healthy")
        add(options, {"seed": options.seed, "case": "healthy", "task": task, "cause": cause, "seconds": before["mean_seconds"]})
        slow, cause = go(task, case.slow(STRENGTHS[strength], before["mean_seconds"]), f"{case.name} ({strength})")
        after, own = go(task, {}, "healthy")
        add(options, {"seed": options.seed, "case": "healthy", "task": task, "cause": own, "seconds": after["mean_seconds"]})
        base = (before["mean_seconds"] + after["mean_seconds"]) / 2
        add(options, {"seed": options.seed, "case": case.name, "strength": strength, "task": task, "cause": cause,
                      "expected": sorted(case.causes), "rank": case.rank, "setting": case.setting, "seconds": slow["mean_seconds"],
                      "measured": slow["mean_seconds"] / base - 1, "spread": abs(before["mean_seconds"] - after["mean_seconds"]) / base})
        healthy[task] = base


def report(lines):
    rows = collections.defaultdict(list)
    for line in lines:
        rows[line["case"]].append(line)
    quiet = [line for line in rows.pop("healthy", []) if line["cause"] is None]
    total = sum(1 for line in lines if line["case"] == "healthy")
    print(f"healthy runs: {total}, false alarms: {total - len(quiet)}")
    print(f"{'fault':32}{'runs':>6}{'>= 9 %':>8}{'named':>7}{'rank':>6}{'setting':>9}{'gain error':>12}")
    for case, of_case in sorted(rows.items()):
        full = [line for line in of_case if line["measured"] >= 0.09]
        named = [line for line in full if line["cause"] and line["cause"]["cause"] in line["expected"]]
        rank = [line for line in named if line["rank"] is None or line["cause"]["rank"] == line["rank"]]
        setting = [line for line in named if not line["setting"] or line["cause"]["setting"].startswith(line["setting"])]
        errors = [abs(line["cause"]["gain"] - line["measured"]) / line["measured"] for line in named
                  if line["cause"]["gain"] is not None and 0.03 <= line["measured"] <= 0.6]
        error = f"{100 * statistics.median(errors):.0f} %" if errors else "-"
        print(f"{case:32}{len(of_case):6}{len(full):8}{len(named):7}{len(rank):6}{len(setting):9}{error:>12}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dtrain", type=pathlib.Path, default=TOP / "build/src/dtrain")
    parser.add_argument("--faults", type=pathlib.Path, default=TOP / "build/bench/faults/libfaults.so")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=[])
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=list(TASKS))
    parser.add_argument("--results", type=pathlib.Path, default=TOP / "docs/diagnosis.jsonl")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if not options.report:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for task in options.tasks:
                subprocess.run([options.dtrain, "synth", task, "--samples", "2000", "--out", folder / f"{task}.h5",
                                *(["--size", "64"] if task == "headpose" else [])], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            measure(options, folder)
    report([json.loads(line) for line in options.results.read_text().splitlines()])


if __name__ == "__main__":
    main()
