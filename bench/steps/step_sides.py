"""Runs one side of step_vs_python.py once: dtrain, two of it alone, or PyTorch. All return a dictionary of what was measured."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import machine_noise
import process_tree

HERE = pathlib.Path(__file__).resolve().parent
TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"
ALONE = "two alone"
CORES = len(os.sched_getaffinity(0))

MOST_OTHER_LOAD = 0.05  # of all cores; runs with more do not count
QUIET_SECONDS = 45      # to wait for less before a run

# What PyTorch runs with. `plain`: as it is installed. Forms are those of peer_networks.py.
PEERS = {
    "eager": {"plain": True},
    "tcmalloc": {},
    "compile": {"compile": True},
    "strong": {"form": "strong"},
    "grouped": {"form": "grouped"},
    "strong+compile": {"form": "strong", "compile": True},
    "grouped+compile": {"form": "grouped", "compile": True},
}
FORMS = {"pointer": ("usual", "strong", "grouped"), "sequence": ("usual", "strong")}

# Augmentation is off on both sides, because PyTorch's would take longer; and nothing is evaluated or saved before the end.
SETTINGS = {"train.epochs": 100000, "train.eval_every": "1000000steps", "checkpoint.every": "1000000steps", "checkpoint.keep_best": "false",
            "run.progress": "lines", "device.type": "cpu", "data.val_share": 0}
OF_IMAGES = {"augment.hflip": "false", "augment.crop_scale": 1, "augment.brightness": 0, "augment.contrast": 0, "augment.saturation": 0,
             "augment.hue": 0}
OF_SEQUENCES = {"sequence.encoder_epochs": 0, "sequence.encoder_lr_ratio": 1}  # all of the network learns the classes
UNDER_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Failed(Exception):
    pass


class Process:
    """A command in a process group of its own, whose output is in a file."""

    def __init__(self, words, environment, log):
        self.words, self.log, self.launched = [str(word) for word in words], log, time.time()
        with log.open("w") as output:
            self.popen = subprocess.Popen(self.words, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=output,
                                          stderr=subprocess.STDOUT, start_new_session=True)

    def wait(self):
        try:
            code = self.popen.wait(timeout=900)
        except BaseException:
            self.end()
            raise
        if code != 0:
            raise Failed(f"{' '.join(self.words)}\n{self.log.read_text()[-3000:]}\nended with {code}")
        return self.log.read_text()

    def end(self):
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGTERM)
            self.popen.wait()


def run_all(processes_of, watch_memory):
    """Starts the processes on a quiet machine, waits for them, and returns them with what they took of it."""
    process_tree.wait_until_quiet(MOST_OTHER_LOAD, QUIET_SECONDS)
    with process_tree.OtherLoad() as load, machine_noise.NoiseMeter() as meter:
        processes = processes_of()
        memory = [process_tree.PeakMemory(each.popen.pid) for each in processes] if watch_memory else []
        for each in memory:
            each.start()
        for each in processes:
            each.wait()
        peak = sum(each.stop() for each in memory)
    return processes, {"other_load": load.share, "noise": meter.noise, **({"pss_bytes": peak} if watch_memory else {})}


def flags_of(cell, more):
    """The flags of dtrain for the network and the data of the cell, and for more keys."""
    keys = {**SETTINGS, "task.name": cell.task, "data.file": cell.file, "train.batch_size": cell.batch, "train.amp": cell.precision, **more}
    if cell.is_image:
        keys |= {**OF_IMAGES, "model.name": cell.network, "model.image_size": cell.size}
    if cell.task == "sequence":
        keys |= OF_SEQUENCES
    return [word for key, value in keys.items() for word in (f"--{key}", value)]


def dtrain_words(cell, options, name, steps, warm, threads):
    keys = {"train.max_steps": steps, "run.name": name, "run.folder": options.scratch / "runs", "run.log_every": f"{warm}steps"}
    if threads:
        keys["device.threads"] = threads
    return [options.dtrain, *flags_of(cell, keys)]


def of_records(folder, warm, launched):
    """From metrics.jsonl, by its wall-clock times."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = {record["step"]: record for record in records if record["kind"] == "step"}
    last = max(steps)
    samples = steps[last]["samples"] * (last - warm)  # of all ranks
    phases = {key: sum(steps[s]["phase_seconds"][key] for s in steps if s > warm) / sum(s > warm for s in steps) for key in steps[last]["phase_seconds"]}
    return {"rate": samples / (steps[last]["time"] - steps[warm]["time"]), "first_step_seconds": steps[1]["time"] - launched,
            "phase_seconds": phases, "step_seconds": (steps[last]["time"] - steps[warm]["time"]) / (last - warm)}


def run_dtrain(cell, options, steps, warm, watch_memory=False):
    name = options.next_name()
    words = dtrain_words(cell, options, name, steps, warm, 0)
    launcher = ["mpirun", "-np", cell.ranks] if cell.ranks > 1 else []
    log = options.scratch / f"{name}.log"
    (process,), machine = run_all(lambda: [Process([*launcher, *words], UNDER_ROOT, log)], watch_memory)
    text = log.read_text()
    parameters = int(re.sub(r"\D", "", re.search(r"([\d\s]+) parameters", text)[1]))
    weights = next((options.scratch / "runs" / name / "checkpoints").glob("*/model.safetensors"))
    return {**of_records(options.scratch / "runs" / name, warm, process.launched), **machine, "parameters": parameters, "weights": weights}


def run_alone(cell, options, steps, warm):
    """As many independent runs of one rank as the cell has ranks, at the same time, each on a core of its own; the sum of their rates."""
    names = [options.next_name() for _ in range(cell.ranks)]
    cores = sorted(os.sched_getaffinity(0))

    def start():
        return [Process(["taskset", "-c", core, *dtrain_words(cell, options, name, steps, warm, 1)], {}, options.scratch / f"{name}.log")
                for name, core in zip(names, cores)]

    processes, machine = run_all(start, False)
    each = [of_records(options.scratch / "runs" / name, warm, process.launched) for name, process in zip(names, processes)]
    return {"rate": sum(one["rate"] for one in each), "rates": [one["rate"] for one in each], **machine}


def peer_words(cell, options, peer, workers, steps, warm, weights):
    settings = PEERS[peer]
    words = [HERE / "peer_train.py", "--network", cell.network, "--data", cell.file, "--batch", cell.batch, "--steps", steps, "--warm", warm,
             "--workers", workers, "--form", settings.get("form", "usual")]
    words += ["--channels-last"] * (cell.is_image and not settings.get("plain", False)) + ["--compile"] * settings.get("compile", False)
    words += ["--flush"] * (settings.get("form", "usual") != "usual") + ["--bf16"] * (cell.precision == "bf16")
    words += ["--weights", weights] if weights else []
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", cell.ranks] if cell.ranks > 1 else []
    return [options.python, *launcher, *words]


def run_peer(cell, options, peer, workers, steps, warm, watch_memory=False, weights=None):
    environment = {"OMP_NUM_THREADS": str(cell.threads), "TORCHINDUCTOR_CACHE_DIR": str(options.scratch / f"inductor_{cell.key}_{peer}")}
    if not PEERS[peer].get("plain"):
        environment["LD_PRELOAD"] = TCMALLOC
    log = options.scratch / f"{options.next_name()}.log"
    words = peer_words(cell, options, peer, workers, steps, warm, weights)
    (process,), machine = run_all(lambda: [Process(words, environment, log)], watch_memory)
    found = json.loads(next(line for line in log.read_text().splitlines() if line.startswith('{"first_step"')))
    found["first_step_seconds"] = found.pop("first_step") - process.launched
    return {**found, **machine, "workers": workers}


def default_python():
    beside = HERE.parent.parent / ".deps/venv/bin/python"
    return beside if beside.exists() else sys.executable
