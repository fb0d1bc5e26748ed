#!/usr/bin/env python3
"""How well the verdict of a run names what holds it back: faults of known size in real runs, and healthy runs.

usage: bench/diagnosis.py [--minutes M] [--seed S] [--causes NAME,...] [--tasks headpose,sequence] [--levels weak,edge,full]
                          [--healthy] [--results FILE] [--dtrain build/src/dtrain] [--build build] [--list]
       bench/diagnosis.py --report [--update docs/benchmarks.md] [--results FILE]

Makes one fault after the other, each between two healthy runs of the same task on 2 ranks, until the minutes are over. The measured
gain is the time that the faulty run needs for a sample over that of its two neighbors; where the verdict names a setting, a further run
tries it, and the gain of that counts. With --healthy, only healthy runs are made. Times are divided by what others on the machine did
to them: machine_noise.py says during each run how much they used its cores, and a line through all healthy runs says what that costs.
Strengths are calibrated while it runs: from what earlier runs with the fault measured, so that the gains come near 1.5 % (weak), 3 %
(edge) and 9 to 60 % (full). Each run adds a line to FILE (bench/results/diagnosis.jsonl), and the same seed goes on where it stopped.
--report prints the tables of all lines and of recorded faults (recorded_faults.cpp); --update writes them into the document. Measure on
a machine that does nothing else. A fault with too much noise is made again, and left out of the tables if that does not help, whatever
the verdict said. What the verdict says of the machine in a healthy run is false unless it comes true: the fast ones of the healthy runs
around it have to be faster by what it promises, less one standard error. A fault counts at the level of its measured gain, whatever was
asked for.
"""

import argparse
import collections
import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

from machine_noise import NoiseMeter

TOP = pathlib.Path(__file__).resolve().parent.parent
LEVELS = {"weak": 0.015, "edge": 0.03, "full": None}  # gains to aim at; full: another one each time
FULL = (0.11, 0.45)
MEASURED = {"weak": (0.005, 0.022), "edge": (0.022, 0.06)}  # what counts as such
WARM, STEPS = 5, 43  # the verdict leaves out the first steps, too
DISTURBED = 0.04  # the two healthy runs beside a fault differ by this share, and by a third of its gain: that is not known
# machine_noise.py: with more of it a verdict tells of the machine, not of the fault, and a run tells nothing. Others use the cores' units
# half of the time, or nearly always.
QUIET, NOISY = 1.25, 1.5
FEW = 20  # a share of fewer runs says little

LIMITED = "CPU limit"  # the fault that needs a control group

# Nothing is worth changing in them: what is done once per step takes less than 4 % of it on two cores.
TASKS = {
    "headpose": {"model.image_size": 48, "train.batch_size": 16, "train.accumulate": 5, "augment.hue": 0},
    "sequence": {"train.batch_size": 16, "train.accumulate": 2, "sequence.encoder_epochs": 1000},
}
COMMON = {
    "train.max_steps": WARM + STEPS, "train.epochs": 100000, "run.log_every": "5steps", "checkpoint.every": "never", "checkpoint.keep_best": False,
    "train.eval_every": "100000epochs", "metrics.enabled": False, "run.progress": "lines", "data.workers": 1,
}
MPI = {"OMP_NUM_THREADS": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_ALLOW_RUN_AS_ROOT": "1",
       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


# ---- faults ---------------------------------------------------------------------------------------------------------------------
# A fault is a function of the gain that it aims at and of the healthy run (seconds and samples of a rank per step). It gives what to
# change: "flags", "fault" (for the preloaded library), "beside" (another process), "prefix" (of the command).

class Case:
    def __init__(self, name, causes, make, rank=None, setting=None, tasks=tuple(TASKS), levels=tuple(LEVELS), has_gain=True, comes_last=False,
                 disturbs=False, most=None):
        self.name, self.causes, self.make, self.rank, self.setting = name, set(causes), make, rank, setting
        self.tasks, self.levels, self.has_gain, self.comes_last = tasks, levels, has_gain, comes_last
        self.most = most  # of a gain that is asked for, how much longer a run can take because of the fault; None: as long as it likes
        self.disturbs = disturbs  # it is more work for the cores, which the noise meter cannot tell from what others do


class Healthy:
    def __init__(self, seconds, samples, micro_steps=1):
        self.seconds, self.samples, self.micro_steps = seconds, samples, micro_steps  # of a step; samples of one rank


def micro(seconds):
    return max(1, round(1e6 * seconds))


def reads(kind, rank="", workers=1):
    """Reading a step's samples takes `gain` longer than computing it. Reading ahead hides the rest."""
    def make(gain, healthy):
        each = (1 + gain) * healthy.seconds / healthy.samples
        if kind == "read":
            each *= workers
        elif kind == "seek":
            each /= workers
        return {"fault": f"{kind}:{micro(each)}{rank and ':' + rank}", "flags": {"data.workers": workers}}
    return make


def in_step(kind, rank="", pieces=5):
    """The step takes `gain` longer, in this number of pieces of a micro-step."""
    return lambda gain, healthy: {"fault": f"{kind}:{micro(gain * healthy.seconds / pieces / healthy.micro_steps)}{rank and ':' + rank}"}


def in_messages(gain, healthy):
    """The step takes `gain` longer for its two messages: those of MPI, as in shared memory there are none to delay."""
    return {"fault": f"message:{micro(gain * healthy.seconds / 2)}", "flags": {"dist.backend": "mpi"}}


def flags(**keys):
    return lambda gain, healthy: {"flags": {key.replace("__", "."): value for key, value in keys.items()}}


def every(key, cost):
    """An interval at which something that takes `cost` seconds takes `gain` of a step. At most each step, and at least twice."""
    def make(gain, healthy):
        return {"flags": {key: f"{min(STEPS // 2, max(1, round(cost / (gain * healthy.seconds))))}steps"}}
    return make


def busy_share(gain):
    return min(0.98, 2 * gain)


def most_of_busy(gain):
    """A rank loses no more than what the other process takes of one core; what is slower has another reason."""
    return busy_share(gain) / (1 - busy_share(gain)) + DISTURBED


def busy(gain, healthy=None):
    """Another process on the cores of the ranks, for a share of the time."""
    share = busy_share(gain)
    return {"beside": [sys.executable, "-c", "import time\nwhile True:\n    end = time.perf_counter() + 0.02\n"
                       f"    while time.perf_counter() < end: pass\n    time.sleep({0.02 * (1 / share - 1):.5f})"]}


def cpu_limit(gain, healthy):
    """A control group with less time than two ranks on two cores use. Version 1 or 2, whichever this machine lets us make."""
    return {"limit": 2 / (1 + gain)}


def growing(gain, healthy):
    """Twice the growth that would fill this machine's free memory in 10 000 steps."""
    free = 1024 * int(re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])
    return {"fault": f"grow:{max(4000, round(2 * free / 1e7 / healthy.seconds))}:0"}


def cases():
    net = ("headpose",)  # whose kernels the preloaded library knows in both directions
    return [
        Case("too few reader threads", {"disk"}, reads("read"), rank=-1, setting=r"--data\.workers [2-9]"),
        Case("too few, rank 1 alone", {"disk"}, reads("read", "1"), rank=1, setting=r"--data\.workers [2-9]"),
        Case("too few, another rank each time", {"disk"}, reads("read", "rotate"), rank=-1),
        Case("slow disk", {"disk"}, reads("disk", workers=2), rank=-1, setting="$"),
        Case("slow disk of rank 0", {"disk"}, reads("disk", "0", workers=2), rank=0, setting="$"),
        Case("expensive augmentation", {"augment"}, flags(augment__hue=0.1), tasks=net, levels=("full",)),
        Case("too many reader threads", {"readers"}, reads("seek", workers=4), rank=-1, setting=r"--data\.workers [1-3]"),
        Case("rank 1 late in forward", {"late_rank"}, in_step("forward", "1"), rank=1),
        Case("rank 0 late in backward", {"late_rank"}, in_step("backward", "0"), rank=0, tasks=net),
        Case("another rank late each time", {"rotating_rank"}, in_step("forward", "rotate")),
        Case("batch of 1", {"small_batch"}, flags(train__batch_size=1, train__accumulate=1), setting="--batch-size ", levels=("full",)),
        Case("delayed messages", {"latency", "bandwidth", "network", "overlap"}, in_messages, setting="--(accumulate|dist.bucket_mb) "),
        Case("another process", {"oversubscribed"}, busy, disturbs=True, most=most_of_busy),
        Case("threads for more cores", {"oversubscribed"}, flags(device__threads=4), setting=r"--device\.threads 1", levels=("full",), has_gain=False,
             disturbs=True),
        Case("bound to one core", {"binding"}, lambda gain, healthy: {"prefix": ["taskset", "-c", "0"]}, levels=("full",), disturbs=True),
        Case(LIMITED, {"cpu_limit"}, cpu_limit),
        Case("checkpoints", {"checkpoint"}, every("checkpoint.every", 0.05), setting=r"--checkpoint\.every "),
        Case("evaluations", {"evaluation"}, every("train.eval_every", 0.3), setting=r"--train\.eval_every ", levels=("full",)),
        Case("padding", {"padding"}, flags(data__length_window=0), setting=r"--data\.length_window ", tasks=("sequence",), levels=("full",)),
        Case("growing memory, rank 0", {"memory_growth"}, growing, rank=0,
             levels=("full",), has_gain=False, comes_last=True),
    ]


# ---- one run --------------------------------------------------------------------------------------------------------------------

class ControlGroup:
    """A control group of this number of cores, removed at the end."""

    def __init__(self, cores):
        name = f"dtrain_diagnosis_{os.getpid()}"
        self.folder = pathlib.Path("/sys/fs/cgroup/cpu") / name
        if not self.folder.parent.exists():
            self.folder = pathlib.Path("/sys/fs/cgroup") / name
        self.folder.mkdir()
        period = 100_000
        try:
            if (self.folder / "cpu.cfs_quota_us").exists():
                (self.folder / "cpu.cfs_period_us").write_text(str(period))
                (self.folder / "cpu.cfs_quota_us").write_text(str(round(cores * period)))
            else:
                (self.folder / "cpu.max").write_text(f"{round(cores * period)} {period}")
        except OSError:
            self.folder.rmdir()
            raise

    def prefix(self):
        return ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh"]

    def remove(self):
        for _ in range(50):
            try:
                return self.folder.rmdir()
            except OSError:
                time.sleep(0.1)


@contextlib.contextmanager
def beside_and_limited(beside, group):
    """While the command `beside` runs, if it is given. Afterwards it is ended, and the control group removed."""
    other = subprocess.Popen(beside) if beside else None
    try:
        yield
    finally:
        if other:
            other.send_signal(signal.SIGTERM)
            other.wait()
        if group:
            group.remove()


def output_of(command, folder, variables):
    """Runs the command with these environment variables; its output and its errors are one text."""
    return subprocess.run(command, cwd=folder, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=600)


def can_limit():
    try:
        ControlGroup(1).remove()
        return True
    except OSError:
        return False


class Bench:
    def __init__(self, dtrain, build, folder, tasks=tuple(TASKS), samples=2000):
        self.dtrain, self.faults, self.folder, self.number = dtrain, build / "bench/faults/libfaults.so", folder, 0
        for task in tasks:
            size = ["--size", "48"] if task == "headpose" else []
            subprocess.run([dtrain, "synth", task, "--samples", str(samples), "--out", folder / f"{task}.h5", *size], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run(self, task, change=None, **options):
        """Trains with the change. Returns seconds per sample, the verdict and what the healthy run is."""
        change = change or {}
        self.number += 1
        name = f"r{self.number}"
        keys = {**COMMON, **TASKS[task], "task": task, "data.file": str(self.folder / f"{task}.h5"), "run.name": name, **options, **change.get("flags", {})}
        words = [w for key, value in keys.items() for w in ("--" + key, str(value).lower() if isinstance(value, bool) else str(value))]
        preload = ["-x", f"LD_PRELOAD={self.faults}", "-x", f"DTRAIN_FAULT={change['fault']}"] if "fault" in change else []
        group = ControlGroup(change["limit"]) if "limit" in change else None
        prefix = [*(group.prefix() if group else []), *change.get("prefix", [])]
        command = [*prefix, "mpirun", "-np", str(change.get("ranks", 2)), *preload, str(self.dtrain), *words]
        with beside_and_limited(change.get("beside"), group), NoiseMeter() as meter:
            done = output_of(command, self.folder, MPI)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}\ndtrain ended with {done.returncode}")
        try:
            return {**read_run(self.folder / "runs" / name), "noise": meter.noise}
        finally:
            shutil.rmtree(self.folder / "runs" / name)


ALIASES = {"batch-size": "train.batch_size", "accumulate": "train.accumulate", "workers": "data.workers", "amp": "train.amp"}


def keys_of(setting):
    """What a verdict advises, as configuration keys: "--accumulate 4" is {"train.accumulate": "4"}. None where it is no flags."""
    words = setting.split()
    if not words or len(words) % 2 or not all(w.startswith("--") for w in words[::2]):
        return None
    return {ALIASES.get(key[2:], key[2:]): value for key, value in zip(words[::2], words[1::2])}


def samples_in(begin, end, run):
    """Of the steps after `begin` up to `end`. The last step of an epoch has what is left."""
    per_epoch, full = run["steps_per_epoch"], run["global_batch"]
    tail = run["samples"]["train"] - (per_epoch - 1) * full
    return sum(full if step % per_epoch else tail for step in range(begin + 1, end + 1))


def read_run(folder):
    run = json.loads((folder / "environment.json").read_text())
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [r for r in records if r["kind"] == "step" and r["step"] >= WARM]
    first, last = steps[0], steps[-1]
    # By the clock of the records: what happens between two steps, such as an evaluation, is in no step.
    seconds = last["time"] - first["time"]
    samples = samples_in(first["step"], last["step"], run)
    verdict = [r for r in records if r["kind"] == "verdict"][-1]
    taken = last["step"] - first["step"]
    return {"step": seconds / taken, "per_sample": seconds / samples, "samples": samples / taken / 2, "verdict": verdict,
            "other": statistics.median(r["other_seconds"] / r["step_seconds"] for r in steps),
            "cause": verdict["causes"][0] if verdict["causes"] else None}


# ---- the plan, and its calibration -----------------------------------------------------------------------------------------------

def plan(seed):
    """(number, case, task, level, gain to aim at), without end; the same for the same seed."""
    rng = random.Random(seed)
    everything = [(c, t, level) for c in cases() for t in c.tasks for level in c.levels]
    number = 0
    while True:
        rng.shuffle(everything)
        # Some of the same task follow each other, so that they share healthy runs.
        for begin in range(0, len(everything), 12):
            for case, task, level in sorted(everything[begin:begin + 12], key=lambda one: one[1]):
                yield number, case, task, level, LEVELS[level] or rng.uniform(*FULL)
                number += 1


def is_wanted(options, case, task, level):
    return (not options.causes or case.name in options.causes) and task in options.tasks and level in options.levels


def factor_of(lines, case, task):
    """What to multiply the gain with that a fault is asked for, so that it comes out right: from what it has been so far."""
    cost = cost_of_noise(lines)
    known = [line for line in lines if line["case"] == case.name and line["task"] == task and line.get("runs") and is_known(line, case, cost)][-6:]
    measured, asked = sum(gain_in(line, cost) for line in known), sum(line["asked"] for line in known)
    return min(10.0, max(0.1, asked / max(measured, 0.01 * len(known)))) if known else 1.0


class Series:
    """The runs of one call. Each adds a line to the results."""

    def __init__(self, options, folder):
        options.results.parent.mkdir(parents=True, exist_ok=True)
        self.options, self.lines = options, read_lines(options.results)
        self.bench = Bench(options.dtrain, options.build, folder, options.tasks)
        version = subprocess.run([options.dtrain, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[0]
        self.always = {"seed": options.seed, "call": int(time.time()), "version": version, "cores": os.cpu_count()}
        self.healthy = {}  # by task: the run without a fault that was the last of all runs

    def add(self, line):
        self.lines.append({**self.always, **line})
        with self.options.results.open("a") as out:
            out.write(json.dumps(self.lines[-1]) + "\n")

    def run_healthy(self, task):
        result = self.bench.run(task)
        show("healthy", task, result)
        self.add({"case": "healthy", "task": task, "cause": result["cause"], "seconds": result["step"], "noise": result["noise"]})
        return result

    def run_fault(self, case, task, level, change):
        """As often as it takes to find the machine quiet, three times at most. The last one counts."""
        for _ in range(3):
            slow = self.bench.run(task, change)
            show(f"{case.name} ({level})", task, slow)
            if case.disturbs or slow["noise"] <= QUIET:
                break
        return slow

    def try_advice(self, task, change, case, cause):
        """The run with the fault and with what the verdict says against it; None: nothing that a command line can set."""
        keys = keys_of(cause["setting"]) if cause and cause["cause"] in case.causes and case.has_gain else None
        return self.bench.run(task, {**change, "flags": {**change.get("flags", {}), **keys}}) if keys else None

    def measure(self, number, case, task, level, aim):
        before = self.healthy.get(task) or self.run_healthy(task)
        asked = aim * factor_of(self.lines, case, task)
        change = case.make(asked, Healthy(before["step"], before["samples"], TASKS[task]["train.accumulate"]))
        slow = self.run_fault(case, task, level, change)
        tried = self.try_advice(task, change, case, slow["cause"])
        after = self.run_healthy(task)
        self.healthy = {task: after}
        runs = {name: [run["per_sample"], run["noise"]] for name, run in (("before", before), ("slow", slow), ("tried", tried), ("after", after)) if run}
        if case.disturbs:  # the meter saw the fault
            runs["slow"][1] = (before["noise"] + after["noise"]) / 2
        self.add({"number": number, "case": case.name, "level": level, "task": task, "cause": slow["cause"], "seconds": slow["step"], "asked": asked,
                  "also": slow["verdict"]["causes"][1:], "runs": runs})


def measure(options, folder):
    series = Series(options, folder)
    end = time.monotonic() + 60 * options.minutes
    done = {(line["number"], line["case"], line["task"], line["level"]) for line in series.lines if line["seed"] == options.seed and "number" in line}
    if options.healthy:
        for task in itertools.cycle(options.tasks):
            if time.monotonic() > end:
                return
            series.run_healthy(task)
    limited = can_limit()
    for number, case, task, level, aim in plan(options.seed):
        if (number, case.name, task, level) in done or not is_wanted(options, case, task, level):
            continue
        if time.monotonic() > end:
            return
        if case.name == LIMITED and not limited:
            print(f"{case.name}: left out, because this user cannot make a control group", flush=True)
            continue
        try:
            series.measure(number, case, task, level, aim)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(error, file=sys.stderr, flush=True)
            series.add({"number": number, "case": case.name, "level": level, "task": task, "failed": str(error)[-500:]})


def show(what, task, result):
    print(f"{what:38}{task:10}{1e3 * result['step']:9.1f} ms  {result['verdict']['text'].removeprefix('verdict: ')}", flush=True)


# ---- tables ---------------------------------------------------------------------------------------------------------------------

def read_lines(file):
    lines = []
    for text in file.read_text().splitlines() if file.exists() else []:
        try:
            lines.append(json.loads(text))
        except ValueError:
            pass  # the last one of a run that was stopped
    return lines


def naming(line, case):
    """What names the fault: the verdict; of a fault whose cause comes after those that have a gain, a runner-up too. None: nothing does."""
    found = [line["cause"], *(line["also"] if case.comes_last else [])]
    return next((cause for cause in found if cause and cause["cause"] in case.causes), None)


def cost_of_noise(lines):
    """By task: how much longer a healthy run takes per unit of noise, as a share; the slope of a line through the runs of each call."""
    cost = {}
    for task in TASKS:
        above = []  # of each run, noise and time above the means of its call
        healthy = [line for line in lines if line["case"] == "healthy" and line["task"] == task and line["noise"] <= NOISY]
        for call in {line["call"] for line in healthy}:
            own = [line for line in healthy if line["call"] == call]
            noise, seconds = (statistics.mean(line[key] for line in own) for key in ("noise", "seconds"))
            above += [(line["noise"] - noise, line["seconds"] / seconds - 1) for line in own]
        squares = sum(x * x for x, y in above)
        cost[task] = max(0.0, sum(x * y for x, y in above) / squares) if squares > 0 else 0.0
    return cost


def undisturbed(run, cost):
    """Seconds per sample, as they would have been without others on the machine."""
    per_sample, noise = run
    return per_sample / (1 + cost * (noise - 1))


def gain_in(line, cost, over=None):
    """What the run with the fault takes longer than its healthy neighbors, or than another of its runs."""
    runs = {name: undisturbed(run, cost[line["task"]]) for name, run in line["runs"].items()}
    base = runs[over] if over else (runs["before"] + runs["after"]) / 2
    return runs["slow"] / base - 1


def is_known(line, case, cost):
    """Whether what was measured of a fault counts: nothing disturbed it much, its two healthy runs agree on what it gains, and it can be so much."""
    runs = line["runs"]
    if runs["slow"][1] > (NOISY if case.disturbs else QUIET) or max(noise for _, noise in runs.values()) > NOISY:
        return False
    if case.most and gain_in(line, cost) > case.most(line["asked"]):
        return False
    before, after = (undisturbed(runs[name], cost[line["task"]]) for name in ("before", "after"))
    spread = abs(before - after) / ((before + after) / 2)
    return not case.has_gain or spread <= max(DISTURBED, gain_in(line, cost) / 3)


def known_faults(lines, disturbed=False):
    """Lines of faults that count, with "measured" and "tried", and their cases; with `disturbed`, all others too."""
    by_name, cost, known = {case.name: case for case in cases()}, cost_of_noise(lines), []
    for line in lines:
        case = by_name.get(line["case"])
        if case and "failed" not in line and (disturbed or is_known(line, case, cost)):
            tried = gain_in(line, cost, "tried") if "tried" in line["runs"] else None
            known.append(({**line, "measured": gain_in(line, cost), "tried": tried}, case))
    return known


def gain_error(line, case, small=False):
    """|predicted - measured| / measured, of measured gains from 3 to 60 %; None: of others. With `small`, one of less counts as 3 %, so that
    advice that gains nothing is an error, too."""
    gain = line["tried"] if line["tried"] is not None else line["measured"]
    named = naming(line, case)
    if not named or named.get("gain") is None or gain > 0.6 or (gain < 0.03 and not small):
        return None
    return abs(named["gain"] - gain) / max(gain, 0.03)


def seconds_of_fast(healthy):
    """By healthy run: the step of the fast ones, a fifth, of the 20 healthy runs of the same task and call around it."""
    fast = {}
    for line in healthy:
        alike = [other for other in healthy if other["task"] == line["task"] and other["call"] == line["call"]]
        at = next(i for i, other in enumerate(alike) if other is line)
        around = sorted(other["seconds"] for other in alike[max(0, at - 10):at + 11])
        fast[id(line)] = around[len(around) // 5]
    return fast


# What the machine can do to a healthy run.
OF_THE_MACHINE = {"late_rank", "rotating_rank", "oversubscribed", "steal"}


def least_slower(line):
    """By how much other runs have to be faster for a gain to be true: by what is promised, less one standard error."""
    return max(0.03, line["cause"]["gain"] - line["cause"]["error"])


def comes_true(line, fast):
    """A healthy run in which the machine did what the verdict says: others are faster by what is promised for a run without that."""
    gain = line["cause"].get("gain")
    slower = line["seconds"] / fast[id(line)] - 1
    return line["cause"]["cause"] in OF_THE_MACHINE and gain is not None and slower >= least_slower(line)


def level_of(line, case):
    """By the measured gain, which is known within some percent, whatever was asked for. None: between two levels, or no gain."""
    if not case.has_gain or line["measured"] >= 0.09:
        return "full"
    return next((level for level, (least, most) in MEASURED.items() if least <= line["measured"] < most), None)


def share(part, whole):
    return f"{part} of {whole}" if whole else "–"


def bar(name, reached, whole, least):
    """`reached` of `whole`, at least this share of them."""
    if whole < FEW:
        return f"{name}: {reached} of {whole}, too few to say"
    return f"{name} {'met' if reached >= least * whole else '**missed**'}"


def text_of_healthy(lines):
    """What the verdict says of healthy runs, as sentences, and whether at most one of at least 300 is a false alarm, as bars."""
    all_healthy = [line for line in lines if line["case"] == "healthy"]
    healthy = [line for line in all_healthy if line["noise"] <= NOISY]
    fast = seconds_of_fast(healthy)
    named = [line for line in healthy if line["cause"]]
    alarms = [line for line in named if not comes_true(line, fast)]
    silent = [line for line in healthy if not line["cause"]]
    true = [line for line in named if line not in alarms]
    middle = statistics.median(map(least_slower, true)) if true else 0.03
    as_slow = sum(1 for line in silent if line["seconds"] / fast[id(line)] - 1 >= middle)
    noise = [line["noise"] for line in healthy]
    noisy = [line for line in all_healthy if line["noise"] > NOISY]
    text = [f"Healthy runs: {len(healthy)}, in which a cause is named: {len(named)}. False alarms: {len(alarms)}.",
            f"In {len(true)} a cause of the machine is named, and comes true: the fast runs around it are faster by at least what the verdict "
            f"promises, less its standard error (median {100 * middle:.1f} %). Of {len(silent)} runs in which nothing is named, {as_slow} are that "
            "much slower than the fast ones, too.",
            f"Others used the cores in most runs (`bench/machine_noise.py`: median {statistics.median(noise) if noise else 1:.2f}). Left out are "
            f"{len(noisy)} healthy runs with more than {NOISY}, of which {sum(1 for line in noisy if line['cause'])} name a cause."]
    most = lambda count: "met" if count <= 1 else "**missed**"
    bars = [f"healthy runs {'met' if len(healthy) >= 300 else f'**{len(healthy)} of 300**'}",
            f"false alarms {most(len(alarms))} (strictly, all that is named: {most(len(named))})"]
    return text, bars


def items(texts):
    """The lines of a list in a document."""
    return [line for text in texts for line in textwrap.wrap(text, 118, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)]


def table_of_runs(lines):
    all_faults = [line for line in lines if line["case"] != "healthy" and "failed" not in line]
    faulty = known_faults(lines)
    rows = ["| fault | runs | ≥ 9 %: named | right rank | right setting | gain: median error | 3 %: named | 1.5 %: silent |", "|---|---|---|---|---|---|---|---|"]
    total = collections.Counter()
    all_errors = []
    for case in cases():
        own = [line for line, c in faulty if c.name == case.name]
        if not own:
            continue
        full, edge, weak = ([line for line in own if level_of(line, case) == level] for level in ("full", "edge", "weak"))
        right = [cause for cause in (naming(line, case) for line in full) if cause]
        rank = [cause for cause in right if case.rank is None or cause["rank"] == case.rank]
        setting = [cause for cause in right if case.setting is None or re.match(case.setting, cause["setting"])]
        errors = [e for e in (gain_error(line, case) for line in own) if e is not None]
        all_errors += errors
        total.update(full=len(full), named=len(right), rank=len(rank), with_rank=len(right) if case.rank is not None else 0,
                     right_rank=len(rank) if case.rank is not None else 0, with_setting=len(right) if case.setting else 0,
                     right_setting=len(setting) if case.setting else 0, weak=len(weak), silent=sum(1 for line in weak if not line["cause"]))
        rows.append(f"| {case.name} | {len(own)} | {share(len(right), len(full))} | {share(len(rank), len(right)) if case.rank is not None else '–'} | "
                    f"{share(len(setting), len(right)) if case.setting else '–'} | {f'{100 * statistics.median(errors):.0f} %' if errors else '–'} | "
                    f"{share(sum(1 for line in edge if naming(line, case)), len(edge))} | {share(sum(1 for line in weak if not line['cause']), len(weak))} |")
    rows.append(f"| **all** | {len(faulty)} | {share(total['named'], total['full'])} | {share(total['right_rank'], total['with_rank'])} | "
                f"{share(total['right_setting'], total['with_setting'])} | {f'{100 * statistics.median(all_errors):.0f} %' if all_errors else '–'} | | "
                f"{share(total['silent'], total['weak'])} |")
    seeds = sorted({line["seed"] for line in lines})
    outside = sum(1 for line, case in faulty if level_of(line, case) is None)
    healthy, bars_of_healthy = text_of_healthy(lines)
    failed = sum(1 for line in lines if "failed" in line)
    rows += ["", *items([
        *healthy,
        f"Of the faults, {len(all_faults) - len(faulty)} are left out: their noise was more than {QUIET} in three tries, or their two healthy runs "
        f"differ by more than {100 * DISTURBED:.0f} % and by more than a third of the gain. The rest were slower than their fault can make them. "
        f"{failed} more ended with an error.",
        f"{outside} came out between two levels (1.5 %: {100 * MEASURED['weak'][0]:.1f} to {100 * MEASURED['weak'][1]:.1f} %; "
        f"3 %: to {100 * MEASURED['edge'][1]:.0f} %). They count for the error of the gain.",
        f"Every run has {WARM + STEPS} steps. Seeds: {', '.join(map(str, seeds))}."])]
    with_small = [e for e in (gain_error(line, case, small=True) for line, case in faulty) if e is not None]
    median, median_with_small = (statistics.median(errors) if errors else 1 for errors in (all_errors, with_small))
    bars = [bar("named at 9 % or more", total["named"], total["full"], 0.95), bar("rank", total["right_rank"], total["with_rank"], 1),
            bar("setting", total["right_setting"], total["with_setting"], 0.95), bar("silent at 1.5 %", total["silent"], total["weak"], 1), *bars_of_healthy,
            f"gain {'met' if median <= 0.25 else '**missed**'} (with those of less than 3 % taken as 3 %: {100 * median_with_small:.0f} %)"]
    return [*rows, "", "Bars:", *items(bars)]


def table_of_records(build, seeds=100):
    done = subprocess.run([build / "bench/recorded_faults", str(seeds)], check=True, stdout=subprocess.PIPE, text=True)
    rows = ["| recorded fault | 9 to 50 %: named | right rank | right setting | gain: median error | 3 %: named | 1.5 %: silent |", "|---|---|---|---|---|---|---|"]
    for line in map(json.loads, done.stdout.splitlines()):
        if line["fault"] == "healthy":
            rows += ["", f"Healthy recorded runs: {line['runs']}, false alarms: {line['alarms']}."]
            continue
        full, edge, weak = line["full"], line["edge"], line["weak"]
        rows.append(f"| {line['fault']} | {share(full['named'], full['runs'])} | {share(full['rank'], full['named'])} | {share(full['setting'], full['named'])} | "
                    f"{'–' if line['gain_error'] < 0 else format(100 * line['gain_error'], '.0f') + ' %'} | {share(edge['named'], edge['runs'])} | "
                    f"{share(weak['silent'], weak['runs'])} |")
    return rows


def update(document, rows):
    begin, end = "<!-- diagnosis: begin -->", "<!-- diagnosis: end -->"
    text = document.read_text()
    head, rest = text.split(begin)
    document.write_text(head + begin + "\n" + "\n".join(rows) + "\n" + end + rest.split(end)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build")
    parser.add_argument("--dtrain", type=pathlib.Path)
    parser.add_argument("--causes", type=words, default=[])
    parser.add_argument("--tasks", type=words, default=list(TASKS))
    parser.add_argument("--levels", type=words, default=list(LEVELS))
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--results", type=pathlib.Path, default=TOP / "bench/results/diagnosis.jsonl")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--update", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    options.dtrain = options.dtrain or options.build / "src/dtrain"
    unknown = [name for name in options.causes if name not in {c.name for c in cases()}]
    if options.list or unknown:
        print("\n".join(c.name for c in cases()))
        sys.exit(f"diagnosis.py: unknown: {', '.join(unknown)}" if unknown else 0)
    if not any(is_wanted(options, c, t, level) for c in cases() for t in c.tasks for level in c.levels):
        sys.exit("diagnosis.py: no fault has these tasks and levels")
    if not options.report:
        with tempfile.TemporaryDirectory() as name:
            measure(options, pathlib.Path(name))
    rows = [*table_of_runs(read_lines(options.results)), "", *table_of_records(options.build)]
    print("\n".join(rows))
    if options.update:
        update(options.update, rows)


if __name__ == "__main__":
    main()
