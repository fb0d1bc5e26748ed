"""dtrain against PyTorch in Python, from equal weights on equal data: losses, parameters and gradients.

The global batch is the whole set, so that the order of samples does not matter; no augmentation, no dropout.
"""

import math

import h5py
import numpy as np
import torch
import torchvision
from safetensors.torch import load_file, save_file
from torch import nn

import runner

torch.set_num_threads(1)  # on both sides: the kernels sum in an order that depends on it
MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
SAMPLES, STEPS, SIZE = 12, 20, 64
PLAIN = {**runner.SMALL, "data.file": "d.h5", "model.image_size": SIZE, "model.dropout": 0, "train.batch_size": SAMPLES,
         "train.max_steps": STEPS, "train.epochs": STEPS, "data.val_share": 0, "augment.hflip": False, "augment.crop_scale": 1,
         "augment.brightness": 0, "augment.contrast": 0, "augment.saturation": 0, "augment.hue": 0,
         "schedule.name": "constant", "schedule.warmup_steps": 0, "checkpoint.keep_best": False, "train.eval_every": "1000e",
         "model.init": "init.safetensors", "metrics.enabled": False, "device.threads": 1}


class HeadposeCnn(nn.Module):
    """The network of the product's table, written anew in Python with dtrain's parameter names."""

    def __init__(self):
        super().__init__()
        blocks, channels = [], 3
        for width in (32, 64, 128, 256, 512):
            blocks.append(nn.Sequential(nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)))
            channels = width
        self.features = nn.Sequential(*blocks)
        self.fc = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 3))

    def forward(self, x):
        return self.fc(self.features(x).mean((2, 3)))


class SimpleCnn(nn.Module):
    """The other network of that table."""

    def __init__(self, outputs):
        super().__init__()
        widths = (3, 32, 64, 128)
        self.features = nn.Sequential(*[nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
                                        for i, o in zip(widths, widths[1:])])
        self.fc = nn.Sequential(nn.Linear(128 * (SIZE // 8) ** 2, 256), nn.ReLU(), nn.Dropout(0), nn.Linear(256, outputs))

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))


def network(name, outputs=3):
    torch.manual_seed(3)
    if name == "headpose_cnn":
        model = HeadposeCnn()
    elif name == "simple_cnn":
        model = SimpleCnn(outputs)
    else:
        model = getattr(torchvision.models, name)(weights=None, num_classes=outputs, **({"dropout": 0} if name == "mobilenet_v2" else {}))
    return model.to(memory_format=torch.channels_last)


class Headpose:
    """What a task is in Python: number of outputs, targets as the network wants them, the mean loss, dtrain's flags."""

    outputs, flags = 3, {}

    def targets(self, stored, dtype):
        return torch.from_numpy(stored).to(dtype) / 30

    def loss(self, output, targets):
        return torch.nn.functional.smooth_l1_loss(output, targets, reduction="sum") / 3 / len(targets)


class Classify:
    CLASSES, WEIGHTS, SMOOTHING = ["left", "ahead", "right", "none"], [1.0, 0.5, 2.0, 1.0], 0.1
    outputs = len(CLASSES)
    flags = {"task": "classify", "train.class_weights": ",".join(map(str, WEIGHTS)), "train.label_smoothing": SMOOTHING}

    def targets(self, stored, _dtype):
        return torch.from_numpy(stored)

    def loss(self, output, targets):
        return torch.nn.functional.cross_entropy(output, targets, torch.tensor(self.WEIGHTS, dtype=output.dtype),
                                                 label_smoothing=self.SMOOTHING)


def data(folder, dtype, task):
    with h5py.File(folder / "d.h5") as f:
        ids = np.sort(f["splits/train"][...])
        images, targets = f["inputs"][...][ids], f["targets"][...][ids]
    inputs = torch.from_numpy((images.astype(np.float32) / 255 - MEAN) / STD).permute(0, 3, 1, 2).to(dtype)
    return inputs.contiguous(memory_format=torch.channels_last), task.targets(targets, dtype)


def train_in_python(model, inputs, targets, optimizer, task):
    losses, first_gradients = [], None
    model.train()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = task.loss(model(inputs), targets)
        loss.backward()
        if first_gradients is None:
            first_gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return losses, first_gradients


def dataset(folder):
    runner.synth(folder / "d.h5", SAMPLES, size=SIZE)
    with h5py.File(folder / "d.h5", "r+") as f:
        for name in list(f["splits"]):
            del f["splits"][name]
        f["splits/train"] = np.arange(SAMPLES)


def dataset_of_classes(folder):
    """The same pictures, in the three classes of where the head looks; the fourth has no sample."""
    dataset(folder)
    with h5py.File(folder / "d.h5", "r+") as f:
        yaw = f["targets"][...][:, 0]
        del f["targets"]
        f["targets"] = np.digitize(yaw, np.quantile(yaw, [0.3, 0.6])).astype(np.int64)
        f.attrs["task"], f.attrs["class_names"] = "classify", "\n".join(Classify.CLASSES)


def train_in_dtrain(folder, name, np, **options):
    runner.run(runner.flags({**PLAIN, "train.batch_size": math.ceil(SAMPLES / np), "run.name": name, **options}), np=np, cwd=folder).expect(0)
    run = folder / "runs" / name
    checkpoint = run / f"checkpoints/step_{STEPS:08}"
    return [r["loss"] for r in runner.metrics(run)], load_file(checkpoint / "model.safetensors"), run


def float64(folder, model_name, optimizer_name, bound, lr=0.01, task=Headpose()):
    model = network(model_name, task.outputs)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder / "init.safetensors")
    model = model.double()
    make = {"sgd": lambda p: torch.optim.SGD(p, lr=lr, momentum=0.9, nesterov=True, weight_decay=1e-4),
            "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01),
            "adam": lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=1e-4)}[optimizer_name]
    losses, _ = train_in_python(model, *data(folder, torch.float64, task), make(model.parameters()), task)
    options = {"sgd": {"optimizer.lr": lr, "optimizer.momentum": 0.9, "optimizer.nesterov": True, "optimizer.weight_decay": 1e-4},
               "adamw": {"optimizer.lr": 1e-3, "optimizer.weight_decay": 0.01},
               "adam": {"optimizer.lr": 1e-3, "optimizer.weight_decay": 1e-4}}[optimizer_name]
    ours, weights, _ = train_in_dtrain(folder, f"{model_name}-{optimizer_name}", 1,
                                       **{"train.amp": "fp64", "model.name": model_name, "optimizer.name": optimizer_name, **options, **task.flags})
    for step, (a, b) in enumerate(zip(losses, ours, strict=True)):
        assert abs(a - b) <= bound * max(1, abs(a)), (model_name, optimizer_name, step + 1, a, b)
    worst = 0
    for name, value in model.state_dict().items():
        assert weights[name].shape == value.shape, name
        if value.is_floating_point():
            worst = max(worst, ((weights[name] - value).abs().max() / max(1, value.abs().max())).item())
    print(f"        {model_name} {optimizer_name}: parameters and statistics differ by {worst:.1e} at most")
    assert worst <= bound, (model_name, optimizer_name, worst)


def float64_headpose_cnn_sgd(folder):
    dataset(folder)
    float64(folder, "headpose_cnn", "sgd", 1e-12)


def float64_headpose_cnn_adamw_and_adam(folder):
    dataset(folder)
    float64(folder, "headpose_cnn", "adamw", 1e-10)
    float64(folder, "headpose_cnn", "adam", 1e-10)


def float64_resnet18(folder):
    dataset(folder)
    float64(folder, "resnet18", "sgd", 1e-12, lr=0.001)  # at 0.01 these few samples make it chaotic: rounding grows 10^4-fold
    float64(folder, "resnet18", "adamw", 1e-10)


def float64_two_ranks_with_frozen_statistics(folder):
    dataset(folder)
    model = network("headpose_cnn")
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder / "init.safetensors")
    model = model.double()
    inputs, targets = data(folder, torch.float64, Headpose())
    train = model.train
    model.train = lambda mode=True: [m.eval() for m in train(mode).modules() if isinstance(m, nn.BatchNorm2d)]
    losses, _ = train_in_python(model, inputs, targets, torch.optim.SGD(model.parameters(), lr=0.01), Headpose())
    ours, weights, _ = train_in_dtrain(folder, "two", 2, **{"train.amp": "fp64", "optimizer.name": "sgd", "optimizer.lr": 0.01,
                                                            "optimizer.momentum": 0, "optimizer.weight_decay": 0,
                                                            "train.freeze_batch_norm": True})
    for a, b in zip(losses, ours, strict=True):
        assert abs(a - b) <= 1e-12 * max(1, abs(a)), (a, b)
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            assert (weights[name] - value).abs().max() <= 1e-12 * max(1, value.abs().max()), name


def float32(folder, model_name, lr, task=Headpose()):
    model = network(model_name, task.outputs)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder / "init.safetensors")
    inputs, targets = data(folder, torch.float32, task)
    losses, gradients = train_in_python(model, inputs, targets, torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01), task)
    ours, _, run = train_in_dtrain(folder, f"{model_name}-fp32", 1,
                                   **{"train.amp": "fp32", "model.name": model_name, "optimizer.lr": lr, "checkpoint.every": "1s",
                                      "checkpoint.keep_last": STEPS, **task.flags})
    # after one step AdamW's first moment is the gradient × (1 - beta1)
    moments = load_file(run / "checkpoints/step_00000001/optimizer.safetensors")
    worst = 0
    for name, gradient in gradients.items():
        mine = moments[f"exp_avg.{name}"] / 0.1
        error = (mine - gradient).abs().max() / gradient.abs().max()
        assert error <= 1e-4, (model_name, name, error.item())
        worst = max(worst, error.item())
    print(f"        {model_name} float32: gradients differ by {worst:.1e} of the tensor's maximum at most")
    for step, (a, b) in enumerate(zip(losses, ours, strict=True)):
        assert abs(a - b) <= 1e-2 * max(abs(a), 1e-3), (model_name, step + 1, a, b)


def float32_gradients_and_losses(folder):
    dataset(folder)
    float32(folder, "headpose_cnn", 1e-4)
    float32(folder, "resnet18", 1e-5)  # Adam turns rounding of tiny gradients into whole steps: small ones


def classes_in_float64(folder):
    dataset_of_classes(folder)
    float64(folder, "simple_cnn", "sgd", 1e-12, task=Classify())
    float64(folder, "simple_cnn", "adamw", 1e-10, task=Classify())


def classes_in_float32(folder):
    dataset_of_classes(folder)
    float32(folder, "simple_cnn", 1e-4, task=Classify())
    float32(folder, "mobilenet_v2", 1e-5, task=Classify())


runner.main([float64_headpose_cnn_sgd, float64_headpose_cnn_adamw_and_adam, float64_resnet18,
             float64_two_ranks_with_frozen_statistics, float32_gradients_and_losses, classes_in_float64, classes_in_float32])
