#!/usr/bin/env python3
"""What TraceML and gpuprof say of the faults of diagnosis.py, in an equivalent PyTorch script on 2 ranks; side by side with dtrain.

usage: PYTHON bench/diagnosis_torch.py [--gain 0.3] [--rounds 1] [--faults NAME,...] [--tools traceml,gpuprof] [--results FILE]
       PYTHON bench/diagnosis_torch.py --report [--results FILE] [--dtrain-results bench/results/diagnosis.jsonl]

PYTHON is that of an environment of its own with torch 2.11 (CPU), traceml-ai 0.5.0 and "gpuprof[host,torch]" 0.7.1 from PyPI; dtrain
needs none of them. train_with_fault_torch.py trains headpose_cnn with DistributedDataParallel over gloo. Each fault runs without a
tool between two healthy runs, which measures its gain, and then once with each tool. A tool names a fault if what it prints as a
finding holds the words that PyTorch users would need to look at the right thing: a generous rule (see FAULTS), and the same for all; a
tool that says the same of healthy runs is not ahead for it, so both are counted, and the best of a row is bold. The printed text of
every run is in FILE, so that the rule can be checked. Padding is not among the faults, because the script trains on pictures.
"""

import argparse
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import diagnosis

TOP = pathlib.Path(__file__).resolve().parent.parent
TRAIN = TOP / "bench/train_with_fault_torch.py"

# Names of cases of diagnosis.py: (rank, words that name it in the output of a tool).
LOADER = r"INPUT[- ]BOUND|dataloader|loader|num_workers"
FAULTS = {
    "too few reader threads": (None, LOADER),
    "too few, rank 1 alone": (1, "INPUT STRAGGLER|" + LOADER),
    "too few, another rank each time": (None, "INPUT STRAGGLER|" + LOADER),
    "slow disk": (None, LOADER),
    "slow disk of rank 0": (0, "INPUT STRAGGLER|" + LOADER),
    "expensive augmentation": (None, LOADER),
    "too many reader threads": (None, LOADER),
    "rank 1 late in forward": (1, r"STRAGGLER|[Rr]ank skew|is late"),
    "rank 0 late in backward": (0, r"STRAGGLER|[Rr]ank skew|is late"),
    "another rank late each time": (None, r"STRAGGLER|[Rr]ank skew|is late|variance"),
    "batch of 1": (None, r"[Ss]mall.batch|batch size|launch"),
    "delayed messages": (None, r"comm|allreduce|all-reduce|collective|NCCL"),
    "another process": (None, r"CPU (contention|usage|pegged)|HIGH (PROCESS |SYSTEM )?CPU|noisy|oversubscri"),
    "threads for more cores": (None, r"thread|oversubscri|HIGH (PROCESS |SYSTEM )?CPU"),
    "bound to one core": (None, r"affinity|bound to|core"),
    diagnosis.LIMITED: (None, r"[Tt]hrottl|cgroup|CPU (limit|quota)"),
    "checkpoints": (None, r"[Cc]heckpoint|RESIDUAL"),
    "evaluations": (None, r"[Ee]valuat|[Vv]alidat|RESIDUAL"),
    "growing memory, rank 0": (0, r"MEMORY (CREEP|RISING)|[Mm]emory (grow|leak|pressure)"),
}

HEALTHY = 3  # runs with each tool, per round

OF_LOADER = {fault for fault, (rank, words) in FAULTS.items() if LOADER in words}


def run(fault, seconds, tool, gain):
    """Returns the seconds per sample, and what the tool printed."""
    with tempfile.TemporaryDirectory() as folder:
        script = [str(TRAIN), "--fault", fault, "--seconds", str(seconds), "--tool", tool, "--folder", folder]
        beside = diagnosis.busy(gain)["beside"] if fault == "another process" else None
        group = diagnosis.ControlGroup(2 / (1 + gain)) if fault == diagnosis.LIMITED else None
        bound = ["taskset", "-c", "0"] if fault == "bound to one core" else group.prefix() if group else []
        if tool == "traceml":
            command = [*bound, str(pathlib.Path(sys.executable).parent / "traceml"), "run", script[0], "--nproc-per-node", "2", "--interval", "1", "--args", *script[1:]]
        else:
            command = [*bound, sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *script]
        with diagnosis.beside_and_limited(beside, group):
            done = diagnosis.output_of(command, folder, {"OMP_NUM_THREADS": "1"})
        text = done.stdout
        if tool == "gpuprof":
            text += subprocess.run([sys.executable, "-m", "gpuprof.insights", "gpuprof.db"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors="replace").stdout
        file = pathlib.Path(folder) / "per_sample"
        if done.returncode != 0 or not file.exists():
            sys.exit(f"{' '.join(command)}\n{done.stdout[-3000:]}\nended with {done.returncode}")
        return float(file.read_text()), without_paths(text, folder)


def without_paths(text, folder):
    """The same text on every machine."""
    for path, name in ((folder, "FOLDER"), (sys.prefix, "ENVIRONMENT"), (str(TOP), "DTRAIN")):
        text = text.replace(path, name)
    return text


def measure(options):
    options.results.parent.mkdir(parents=True, exist_ok=True)
    rng = random.Random(options.seed)

    def add(line):
        print(f"{line['fault']:30}{line['tool']:10}{1e3 * line['per_sample']:8.2f} ms per sample", flush=True)
        with options.results.open("a") as out:
            out.write(json.dumps({"seed": options.seed, **line}) + "\n")

    for _ in range(options.rounds):
        names = [name for name in FAULTS if not options.faults or name in options.faults]
        if not diagnosis.can_limit():
            names = [name for name in names if name != diagnosis.LIMITED]
        rng.shuffle(names)
        for tool in options.tools * HEALTHY:
            per_sample, text = run("healthy", 0, tool, 0)
            add({"fault": "healthy", "tool": tool, "per_sample": per_sample, "text": text[-8000:]})
        for fault in names:
            before, _ = run("healthy", 0, "none", 0)
            seconds = (options.gain + (fault in OF_LOADER)) * before * 16
            slow, _ = run(fault, seconds, "none", options.gain)
            after, _ = run("healthy", 0, "none", 0)
            add({"fault": fault, "tool": "none", "per_sample": slow, "measured": slow / ((before + after) / 2) - 1})
            for tool in options.tools:
                with_tool, text = run(fault, seconds, tool, options.gain)
                add({"fault": fault, "tool": tool, "per_sample": with_tool, "text": text[-8000:]})


class Score:
    """In how many runs a fault was named, with its rank if it has one, and in how many healthy runs the same was said."""

    def __init__(self, named, of_rank, runs, on_healthy, healthy, rank):
        self.text = "–" if not runs else f"{named} of {runs}" + (f" (rank {of_rank})" if rank is not None else "") + (f"; healthy {on_healthy}" if on_healthy else "")
        # A tool that says the same of all healthy runs has not named a fault.
        self.value = ((named + (of_rank if rank is not None else named)) / 2 / max(1, runs)) - on_healthy / max(1, healthy)


def score_of_tool(lines, tool, fault, rank, words):
    texts = {which: [line["text"] for line in lines if line["fault"] == which and line["tool"] == tool] for which in (fault, "healthy")}
    named = {which: [text for text in all_texts if re.search(words, text)] for which, all_texts in texts.items()}
    of_rank = [text for text in named[fault] if rank is None or re.search(rf"\b[Rr](ank)? ?{rank}\b", text)]
    return Score(len(named[fault]), len(of_rank), len(texts[fault]), len(named["healthy"]), len(texts["healthy"]), rank)


def score_of_dtrain(lines, fault, rank):
    """Of all runs, however much the machine was disturbed: nothing is known about that of the other tools' runs."""
    case = next(case for case in diagnosis.cases() if case.name == fault)
    full = [line for line, of in diagnosis.known_faults(lines, disturbed=True) if of.name == fault and diagnosis.level_of(line, case) == "full"]
    found = [cause for cause in (diagnosis.naming(line, case) for line in full) if cause]
    of_rank = [cause for cause in found if cause["rank"] == rank]
    healthy = [line for line in lines if line["case"] == "healthy"]
    alarms = [line for line in healthy if line["cause"] and line["cause"]["cause"] in case.causes]
    return Score(len(found), len(of_rank), len(full), len(alarms), len(healthy), rank)


def row_of(fault, gain, scores):
    """The best in bold, where one is the best."""
    best = max(score.value for score in scores)
    alone = sum(1 for score in scores if score.value == best) == 1 and best > 0
    cells = [f"**{score.text}**" if alone and score.value == best else score.text for score in scores]
    return f"| {fault} | {100 * gain:.0f} % | " + " | ".join(cells) + " |"


def report(options):
    lines, ours = diagnosis.read_lines(options.results), diagnosis.read_lines(options.dtrain_results)
    print("| fault | measured gain | " + " | ".join([*options.tools, "dtrain"]) + " |\n|" + "---|" * (len(options.tools) + 3))
    for fault, (rank, words) in FAULTS.items():
        gains = [line["measured"] for line in lines if line["fault"] == fault and line["tool"] == "none"]
        if not gains:
            continue
        scores = [*(score_of_tool(lines, tool, fault, rank, words) for tool in options.tools), score_of_dtrain(ours, fault, rank)]
        print(row_of(fault, statistics.median(gains), scores))
    healthy = len({line["seed"] for line in lines})
    print(f"\nHealthy runs with each tool: {sum(1 for line in lines if line['fault'] == 'healthy' and line['tool'] == options.tools[0])}, "
          f"with dtrain: {sum(1 for line in ours if line['case'] == 'healthy')}. Seeds: {healthy}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    parser.add_argument("--gain", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=words, default=[])
    parser.add_argument("--tools", type=words, default=["traceml", "gpuprof"])
    parser.add_argument("--results", type=pathlib.Path, default=TOP / "bench/results/diagnosis_torch.jsonl")
    parser.add_argument("--dtrain-results", type=pathlib.Path, default=TOP / "bench/results/diagnosis.jsonl")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if not options.report:
        measure(options)
    report(options)


if __name__ == "__main__":
    main()
