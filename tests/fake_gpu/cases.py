"""Trainings on fake GPUs: each task and network, precision and option, as one command line."""

import pathlib

import runner

# Counted are the steps after those in which memory is taken and algorithms are chosen, and before the last one, which logs.
SAMPLES = 240  # so that all steps are of the first epoch, whose last step has other shapes
STEPS = 14
COUNTED = range(8, 13)

COMMON = {
    "device.type": "cuda", "metrics.port": 0, "metrics.enabled": False, "run.log_every": "1000steps", "run.diagnose": False,
    "train.eval_every": "1000epochs", "checkpoint.every": "never", "train.epochs": 1000, "train.max_steps": STEPS,
    "train.batch_size": 8, "data.workers": 1,
}
PICTURES = {"model.image_size": 32}

NETWORKS = {
    "headpose_cnn": {"task": "headpose", "data.file": "headpose.h5", **PICTURES},
    "simple_cnn": {"task": "classify", "data.file": "classify.h5", **PICTURES},
    "mobilenet_v2": {"task": "classify", "data.file": "classify.h5", "model.name": "mobilenet_v2", **PICTURES},
    "resnet18": {"task": "classify", "data.file": "classify.h5", "model.name": "resnet18", **PICTURES},
    "resnet50": {"task": "classify", "data.file": "classify.h5", "model.name": "resnet50", **PICTURES},
    "pointer": {"task": "pointer", "data.file": "pointer.h5"},
    "pointer choosing": {"task": "pointer", "data.file": "pointer.h5", "pointer.teacher_forcing": 0.5, "pointer.teacher_forcing_end": 0},
    "sequence encoder": {"task": "sequence", "data.file": "sequence.h5", "sequence.encoder_epochs": 1000},
    "sequence classifier": {"task": "sequence", "data.file": "sequence.h5", "sequence.encoder_epochs": 0, "sequence.classifier_epochs": 1000},
    "module": {"task": "module", "data.file": "headpose.h5", "model.file": "network.pt", "task.loss": "mse", **PICTURES},
}
WEIGHTED = {**NETWORKS["simple_cnn"], "train.class_weights": "balanced", "train.label_smoothing": 0.1}
PRECISIONS = ["bf16", "fp16", "fp32"]
OPTIONS = {
    "accumulate 3": {"train.accumulate": 3, "train.batch_size": 4},
    "clip_norm": {"optimizer.clip_norm": 1},
    "clip_value": {"optimizer.clip_value": 1},
    "ema": {"train.ema": 0.9},
    "checkpointing": {"model.checkpointing": True},
    "sgd": {"optimizer.name": "sgd"},
    "frozen norms": {"train.freeze_batch_norm": True},
    "LibTorch's norms": {"device.fused_norm": False},
    "deterministic": {"train.deterministic": True},
}
SYNC, GRAPH = {"train.sync_batch_norm": True}, {"train.cuda_graph": True}
JOBS = {  # ranks, GPUs, options
    "2 ranks staged": (2, 1, {}),
    "2 ranks NCCL": (2, 2, {}),
    "staged sync norms": (2, 1, SYNC),
    "NCCL sync norms": (2, 2, SYNC),
    "graph": (None, 1, GRAPH),
    "2 ranks graph": (2, 2, GRAPH),
}


def cases():
    """Ranks, GPUs and the options of each, by name."""
    found = {}
    for network, keys in NETWORKS.items():
        for precision in PRECISIONS:
            found[f"{network} {precision}"] = (None, 1, {**COMMON, **keys, "train.amp": precision})
    base = {**COMMON, **NETWORKS["headpose_cnn"], "train.amp": "bf16"}
    for option, keys in OPTIONS.items():
        found[f"headpose_cnn bf16, {option}"] = (None, 1, {**base, **keys})
    for job, (np, gpus, keys) in JOBS.items():
        found[f"headpose_cnn bf16, {job}"] = (np, gpus, {**base, "train.batch_size": COMMON["train.batch_size"] // (np or 1), **keys})
    return found


def make_data(folder, tasks=("headpose", "classify", "pointer", "sequence"), samples=SAMPLES, pixels=32):
    """A data file per task, and a network of the user's."""
    folder = pathlib.Path(folder)
    for task in tasks:
        size = ["--size", pixels] if task in ("headpose", "classify") else []
        runner.run(["synth", task, "--samples", samples, *size, "--out", folder / f"{task}.h5"]).expect(0)
    runner.save_script_network(folder / "network.pt")
