#!/usr/bin/env python3
"""What `dtrain tune` finds against an exhaustive sweep of the same settings: the share of the best rate, and of the sweep's time.

usage: bench/tune.py [--seed S] [--tasks headpose,classify,pointer,sequence,module] [--minutes M] [--seconds T] [--finals R]
                     [--dtrain build/src/dtrain] [--results FILE]
       bench/tune.py --report [--results FILE]

Task module needs a Python with torch, such as that of .deps/venv: its network is a TorchScript file, which is made here.
For each task, `dtrain bench step` measures every combination of precision, memory format, batch, reader threads and read-ahead by whole
optimizer steps, in an order that the seed gives. Then tune runs for M minutes at most. The largest of many rates is the one that noise
favored, so a final decides: the fastest combinations of the sweep, the one that tune found and the one of the configuration are
measured R times in turn, and the largest rate of each counts: others on the machine only make it slower, here by a fifth for seconds or
minutes, so that medians of the same settings differed by 15 %. What tune says of its settings does not count. Its time is divided by
that of the sweep (the steps in which `dtrain bench step` times buckets of gradients are taken off). Every task adds a line to FILE
(bench/results/tune.jsonl), and the table has all lines of it. Exit code 1 if a line misses the bar: 95 % of the best in 15 % of the
time.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent

# Small enough for a CPU, large enough that the settings matter.
TASKS = {
    "headpose": {"samples": 1500, "keys": {"model.image_size": 64, "train.batch_size": 32, "train.global_batch": 128}},
    "classify": {"samples": 1500, "keys": {"model.image_size": 64, "train.batch_size": 32, "train.global_batch": 128}},
    "pointer": {"samples": 4000, "keys": {"train.batch_size": 32, "train.global_batch": 256}},
    "sequence": {"samples": 1500, "keys": {"train.batch_size": 32, "train.global_batch": 128}},
    "module": {"samples": 1500, "data": "classify", "keys": {"task.loss": "cross_entropy", "model.file": "net.pt", "model.image_size": 64,
                                                             "train.batch_size": 32, "train.global_batch": 128}},
}
PICTURES = ("headpose", "classify", "module")
LEAST_RATE, MOST_TIME = 0.95, 0.15  # shares of the best rate, and of the time of the sweep
OF_MINUTES = 0.85  # --minutes in relation to that time: the command also starts, and ends what it has begun
OUT_OF_MEMORY = 1  # exit code of dtrain bench step, if no batch could be measured
FINALISTS = 6  # of the sweep
BUCKET_STEPS = 3  # that dtrain bench step makes to time buckets of gradients


def make_module(file):
    """The network of src/tasks/module/README.md."""
    import torch
    from torch import nn

    def block(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]

    torch.manual_seed(1)
    net = nn.Sequential(*block(3, 32), *block(32, 64), *block(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
    torch.jit.script(net).save(str(file))


def flags(keys):
    return [word for key, value in keys.items() for word in ("--" + key, str(value).lower() if isinstance(value, bool) else str(value))]


def settings_of(task, cores):
    """All combinations, as keys of the configuration; batches are equal parts of the global batch."""
    share = TASKS[task]["keys"]["train.global_batch"]
    choices = {
        "train.amp": ["fp32", "bf16"],
        "model.channels_last": [True, False] if task in PICTURES else [None],
        "train.batch_size": [share // parts for parts in (1, 2, 4, 8, 16)],
        "data.workers": sorted({1, cores}),
        "data.prefetch": [2, 4, 8],
    }
    for values in itertools.product(*choices.values()):
        yield {key: value for key, value in zip(choices, values) if value is not None}


def run(command, folder, keys, *arguments, codes=(0,)):
    """The JSON of a command, and the seconds that it took."""
    began = time.monotonic()
    done = subprocess.run([*command, *arguments, "--json", "-", *flags(keys)], cwd=folder, capture_output=True, text=True)
    if done.returncode not in codes:
        sys.exit(f"{' '.join(done.args)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout), time.monotonic() - began


def rate_of(options, folder, task, settings):
    """Samples/s of a combination, None if it does not fit in memory, and the seconds of the command without those in which it looks for
    more than a rate."""
    keys = {**base_keys(task), **settings}
    found, seconds = run([options.dtrain, "bench", "step"], folder, keys, "--batch-sizes", str(settings["train.batch_size"]), "--rounds", "1",
                         "--seconds", str(options.seconds), "--steps", "1000", codes=(0, OUT_OF_MEMORY))
    row = found["rows"][0]
    if row["out_of_memory"]:
        return None, seconds
    return row["samples_per_second"]["median"], seconds - BUCKET_STEPS * row["step_seconds"]


def sweep(options, folder, task, settings):
    """Samples/s of every combination that fits in memory, and the seconds of all of it."""
    rates, seconds = {}, 0
    for index, one in enumerate(options.random.sample(settings, len(settings))):
        rate, took = rate_of(options, folder, task, one)
        seconds += took
        if rate is not None:
            rates[key_of(one)] = rate
        print(f"\r{task}: {index + 1} of {len(settings)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return rates, seconds


def final(options, folder, task, candidates):
    """The largest of their samples/s, measured in turn."""
    rates = dict.fromkeys(candidates, 0)
    for _ in range(options.finals):
        for key in options.random.sample(list(rates), len(rates)):
            rate = rate_of(options, folder, task, dict(key))[0]
            rates[key] = max(rates[key], rate or 0)  # none: out of memory, which others may have taken meanwhile
    return rates


def base_keys(task):
    return {"data.file": f"{task}.h5", "task.name": task, **TASKS[task]["keys"]}


def key_of(settings):
    return tuple(sorted(settings.items()))


def nearest(found, settings, rates):
    """The combination of the sweep with these settings: of read-ahead, reader threads and batches, the nearest that it has."""
    def distance(other):
        return (sum(found[key] != other[key] for key in ("train.amp", "model.channels_last") if key in other),
                *(abs(found[key] - other[key]) for key in ("train.batch_size", "data.workers", "data.prefetch")))
    return min((one for one in settings if key_of(one) in rates), key=distance)


def measure(options, task):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = TASKS[task].get("data", task)
        subprocess.run([options.dtrain, "synth", data, "--samples", str(TASKS[task]["samples"]), "--seed", str(options.seed), "--out",
                        f"{task}.h5"], cwd=folder, check=True, capture_output=True)
        if task == "module":
            make_module(folder / "net.pt")
        config = {}
        for key, value in base_keys(task).items():
            section, name = key.split(".")
            config.setdefault(section, {})[name] = value
        (folder / "task.yaml").write_text(json.dumps(config))
        settings = list(settings_of(task, options.cores))
        swept, sweep_seconds = sweep(options, folder, task, settings)
        minutes = options.minutes or OF_MINUTES * MOST_TIME * sweep_seconds / 60
        tuned, tune_seconds = run([options.dtrain, "tune", "task.yaml"], folder, {}, "--minutes", f"{minutes:.3f}", "--force")
        if tuned["found"].get("model.checkpointing"):
            sys.exit(f"{task}: tune found checkpointing, which the sweep does not have")
        chosen, given = (key_of(nearest(tuned[name], settings, swept)) for name in ("found", "given"))
        fastest = sorted(swept, key=swept.get, reverse=True)[:FINALISTS]
        rates = final(options, folder, task, dict.fromkeys([*fastest, chosen, given]))
        best = max(rates, key=rates.get)
        return {
            "task": task, "seed": options.seed, "combinations": len(settings), "finals": options.finals,
            "best": dict(best), "best_rate": rates[best], "found": tuned["found"], "looked_up": dict(chosen), "found_rate": rates[chosen],
            "given_rate": rates[given], "share_of_best": rates[chosen] / rates[best], "sweep_seconds": sweep_seconds,
            "tune_seconds": tune_seconds, "share_of_time": tune_seconds / sweep_seconds,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", default=",".join(TASKS), type=lambda text: text.split(","))
    parser.add_argument("--minutes", type=float, default=0, help="of tune; 0: what keeps it within 15 %% of the sweep")
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement of the sweep; 3 is what tune takes for its longest ones")
    parser.add_argument("--finals", type=int, default=8, help="how often the fastest are measured again")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="the most reader threads")
    parser.add_argument("--dtrain", default=str(TOP / "build/src/dtrain"))
    parser.add_argument("--results", type=pathlib.Path, default=TOP / "bench/results/tune.jsonl")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    options.random = random.Random(options.seed)
    for task in [] if options.report else options.tasks:
        row = measure(options, task)
        options.results.parent.mkdir(parents=True, exist_ok=True)
        with options.results.open("a") as out:
            out.write(json.dumps(row) + "\n")
    rows = [json.loads(text) for text in options.results.read_text().splitlines()]
    print("| task | seed | combinations | as given | best of the sweep | found by tune | share of best | tune / sweep, s | share of time |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['task']} | {row['seed']} | {row['combinations']} | {row['given_rate']:.1f} | {row['best_rate']:.1f} | {row['found_rate']:.1f} | "
              f"{100 * row['share_of_best']:.1f} % | {row['tune_seconds']:.0f} / {row['sweep_seconds']:.0f} | {100 * row['share_of_time']:.1f} % |")
    missed = [row["task"] for row in rows if row["share_of_best"] < LEAST_RATE or row["share_of_time"] > MOST_TIME]
    if missed:
        sys.exit(f"missed the bar of {100 * LEAST_RATE:.0f} % of the best in {100 * MOST_TIME:.0f} % of the time: {', '.join(missed)}")


if __name__ == "__main__":
    main()
