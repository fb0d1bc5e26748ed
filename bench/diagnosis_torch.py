#!/usr/bin/env python3
"""What TraceML and gpuprof say of the faults of diagnosis.py, in an equivalent PyTorch script on 2 ranks; side by side with dtrain.

usage: PYTHON bench/diagnosis_torch.py [--gain 0.3] [--rounds 1] [--faults NAME,...] [--tools traceml,gpuprof] [--results FILE]
       PYTHON bench/diagnosis_torch.py --report [--results FILE] [--dtrain-results bench/results/diagnosis.jsonl]

PYTHON is that of an environment of its own with torch 2.11 (CPU), traceml-ai 0.5.0 and "gpuprof[host,torch]" 0.7.1 from PyPI; dtrain
needs none of them. The script trains headpose_cnn with DistributedDataParallel over gloo. Each fault runs without a tool between two
healthy runs, which measures its gain, and then once with each tool. A tool names a fault if what it prints as a finding holds the words
that PyTorch users would need to look at the right thing: a generous rule (see FAULTS), and the same for all; a tool that says the
same of healthy runs is not ahead for it, so both are counted, and the best of a row is bold. The printed text of every run is in FILE,
so that the rule can be checked. Padding is not among the faults, because the script trains on pictures.
"""

import argparse
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import diagnosis

TOP = pathlib.Path(__file__).resolve().parent.parent
WARM, STEPS = 10, 100

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


OF_LOADER = {fault for fault, (rank, words) in FAULTS.items() if LOADER in words}


# ---- the training script, one rank ------------------------------------------------------------------------------------------------

def train(fault, seconds, tool, folder):
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.utils.data import DataLoader, Dataset, DistributedSampler

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    torch.set_num_threads(4 if fault == "threads for more cores" else 1)
    batch = 1 if fault == "batch of 1" else 16
    workers = {"slow disk": 2, "slow disk of rank 0": 2, "too many reader threads": 4}.get(fault, 1)
    disk, reading = torch.multiprocessing.Lock(), torch.multiprocessing.Value("i", 0)  # of all workers of this rank

    def is_my_turn():
        return time.monotonic() // 0.5 % 2 == rank

    def load_slowly():
        each = seconds / batch
        if (fault == "too few reader threads" or fault == "too few, rank 1 alone" and rank == 1 or
                fault == "too few, another rank each time" and is_my_turn()):
            time.sleep(each)
        elif fault == "slow disk" or fault == "slow disk of rank 0" and rank == 0:
            with disk:
                time.sleep(each)
        elif fault == "expensive augmentation":
            end = time.thread_time() + each
            while time.thread_time() < end:
                pass
        elif fault == "too many reader threads":
            with reading.get_lock():
                reading.value += 1
                together = reading.value
            with disk:
                time.sleep(each / workers * together)
            with reading.get_lock():
                reading.value -= 1

    class Heads(Dataset):
        def __init__(self):
            self.images = torch.randint(0, 255, (2048, 3, 64, 64), dtype=torch.uint8)

        def __len__(self):
            return 100_000

        def __getitem__(self, i):
            load_slowly()
            return self.images[i % len(self.images)].float() / 255, torch.zeros(3)

    class Slow(torch.autograd.Function):  # the identity, which sleeps
        @staticmethod
        def forward(ctx, x):
            if fault == "rank 1 late in forward" and rank == 1 or fault == "another rank late each time" and is_my_turn():
                time.sleep(seconds)
            return x.view_as(x)

        @staticmethod
        def backward(ctx, gradient):
            if fault == "rank 0 late in backward" and rank == 0:
                time.sleep(seconds)
            return gradient

    blocks, channels = [], 3
    for width in (32, 64, 128, 256, 512):
        blocks += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        channels = width

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features, self.head = nn.Sequential(*blocks), nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 3))

        def forward(self, x):
            return self.head(Slow.apply(self.features(x)).mean((2, 3)))

    net = nn.parallel.DistributedDataParallel(Net())
    if fault == "delayed messages":
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        def late(state, bucket):
            time.sleep(seconds / 2)
            return allreduce_hook(state, bucket)
        net.register_comm_hook(None, late)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    data = Heads()
    loader = DataLoader(data, batch_size=batch, sampler=DistributedSampler(data), num_workers=workers, drop_last=True)
    kept = []

    def after_step(step):
        if fault == "checkpoints" and rank == 0:
            torch.save([net.state_dict(), optimizer.state_dict()], pathlib.Path(folder) / "checkpoint.pt")
            time.sleep(max(0.0, seconds - 0.03))
        if fault == "evaluations":
            with torch.no_grad():
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    net.module(torch.zeros(batch, 3, 64, 64))
        if fault == "growing memory, rank 0" and rank == 0:
            kept.append(torch.ones(500_000))

    def one_step(images, targets):
        loss = nn.functional.smooth_l1_loss(net(images), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def loop(scope):
        begin = None
        for step, (images, targets) in enumerate(loader):
            if step == WARM:
                begin = time.perf_counter()
            if step == WARM + STEPS:
                break
            with scope():
                one_step(images, targets)
            after_step(step)
        return (time.perf_counter() - begin) / STEPS / batch

    if tool == "traceml":
        import traceml_ai as traceml
        traceml.init(mode="auto")
        per_sample = loop(lambda: traceml.trace_step(net.module))
    elif tool == "gpuprof":
        import contextlib
        import gpuprof
        os.chdir(folder)
        with gpuprof.profile("run"):
            per_sample = loop(contextlib.nullcontext)
    else:
        import contextlib
        per_sample = loop(contextlib.nullcontext)
    if rank == 0:
        (pathlib.Path(folder) / "per_sample").write_text(str(per_sample))
    dist.destroy_process_group()


# ---- the harness ------------------------------------------------------------------------------------------------------------------

def busy(share):
    return [sys.executable, "-c", "import time\nwhile True:\n    end = time.perf_counter() + 0.02\n    while time.perf_counter() < end: pass\n"
            f"    time.sleep({0.02 * (1 / share - 1):.5f})"]


def run(fault, seconds, tool, gain):
    """Returns the seconds per sample, and what the tool printed."""
    with tempfile.TemporaryDirectory() as folder:
        script = [__file__, "--worker", fault, "--seconds", str(seconds), "--tool", tool, "--folder", folder]
        beside = subprocess.Popen(busy(min(0.98, 2 * gain))) if fault == "another process" else None
        group = diagnosis.ControlGroup(2 / (1 + gain)) if fault == diagnosis.LIMITED else None
        bound = ["taskset", "-c", "0"] if fault == "bound to one core" else group.prefix() if group else []
        if tool == "traceml":
            command = [*bound, str(pathlib.Path(sys.executable).parent / "traceml"), "run", script[0], "--nproc-per-node", "2", "--interval", "1", "--args", *script[1:]]
        else:
            command = [*bound, sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *script]
        try:
            done = subprocess.run(command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=600)
        finally:
            if beside:
                beside.send_signal(signal.SIGTERM)
                beside.wait()
            if group:
                group.remove()
        text = done.stdout
        if tool == "gpuprof":
            text += subprocess.run([sys.executable, "-m", "gpuprof.insights", "gpuprof.db"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors="replace").stdout
        file = pathlib.Path(folder) / "per_sample"
        if done.returncode != 0 or not file.exists():
            sys.exit(f"{' '.join(command)}\n{done.stdout[-3000:]}\nended with {done.returncode}")
        return float(file.read_text()), text


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
        for tool in options.tools:
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


def read_lines(file):
    return [json.loads(text) for text in file.read_text().splitlines()] if file.exists() else []


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
    case = next(case for case in diagnosis.cases() if case.name == fault)
    full = [line for line in lines if line["case"] == fault and "failed" not in line and diagnosis.level_of(line, case) == "full"]
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
    lines, ours = read_lines(options.results), read_lines(options.dtrain_results)
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
    parser.add_argument("--worker")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--tool", default="none")
    parser.add_argument("--folder")
    options = parser.parse_args()
    if options.worker:
        return train(options.worker, options.seconds, options.tool, options.folder)
    if not options.report:
        measure(options)
    report(options)


if __name__ == "__main__":
    main()
