"""dtrain compared with PyTorch in Python, from equal weights on equal data: losses, parameters and gradients.

The global batch is the whole data set, so that the order of samples does not matter. No augmentation, no dropout.

usage: python_parity_test.py [campaign | NAME...]
  campaign   the large networks too, and twice as many steps
"""

import math
import sys
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import torch
import torchvision
from safetensors.torch import load_file, save_file
from torch import nn

import runner
from cnn_lstm_reference import CnnLstm

sys.path.append(str(runner.SOURCE / "tests/models"))
from pointer_network import PointerNetwork

torch.set_num_threads(1)  # on both sides, because the order of the kernels' sums depends on it
MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
SAMPLES, SIZE = 12, 64
STEPS = 20 if "campaign" in sys.argv else 10
PLAIN = {**runner.SMALL_ROWS, "data.file": "d.h5", "train.batch_size": SAMPLES,
         "train.max_steps": STEPS, "train.epochs": STEPS, "data.val_share": 0,
         "schedule.name": "constant", "schedule.warmup_steps": 0, "checkpoint.keep_best": False, "train.eval_every": "1000epochs",
         "model.init": "init.safetensors", "metrics.enabled": False, "device.threads": 1,
         "data.verify": False}  # dataset_of_classes() changes targets


class HeadposeCnn(nn.Module):
    """dtrain's headpose_cnn, written again in Python with dtrain's parameter names."""

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
    """dtrain's simple_cnn, with dtrain's parameter names."""

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
    if name == "resnet50":
        for block in (m for m in model.modules() if isinstance(m, torchvision.models.resnet.Bottleneck)):
            nn.init.constant_(block.bn3.weight, 0.1)  # see classes_in_float64_resnet50
    return model.to(memory_format=torch.channels_last)


class Headpose:
    """A task in Python: number of outputs, targets as the network needs them, the mean loss, dtrain's flags."""

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


def train_on_all(file):
    for name in list(file["splits"]):
        del file["splits"][name]
    file["splits/train"] = np.arange(file.attrs["num_samples"])


def dataset(folder, samples=SAMPLES):
    runner.synth(folder / "d.h5", samples, size=SIZE)
    with h5py.File(folder / "d.h5", "r+") as f:
        train_on_all(f)


def samples_of_rows(file, name):
    """The rows of each sample in the dataset; samples differ in length."""
    offsets = file[name + "/offsets"][...]
    return [torch.from_numpy(file[name + "/values"][a:b]) for a, b in zip(offsets, offsets[1:])]


def dataset_of_classes(folder, samples=SAMPLES):
    """The same pictures in three classes by where the head looks; the fourth class has no sample."""
    dataset(folder, samples)
    with h5py.File(folder / "d.h5", "r+") as f:
        yaw = f["targets"][...][:, 0]
        del f["targets"]
        f["targets"] = np.digitize(yaw, np.quantile(yaw, [0.3, 0.6])).astype(np.int64)
        f.attrs["task"], f.attrs["class_names"] = "classify", "\n".join(Classify.CLASSES)
        del f.attrs["attributes_checksum"]  # which covered the task of before


PICTURES = {"model.image_size": SIZE, "augment.hflip": False, "augment.crop_scale": 1, "augment.brightness": 0, "augment.contrast": 0,
            "augment.saturation": 0, "augment.hue": 0}


def train_in_dtrain(folder, name, np, **options):
    pictures = PICTURES if options.get("task", "headpose") in ("headpose", "classify") else {}
    dropout = {} if options.get("model.name", "").startswith("resnet") else {"model.dropout": 0}
    runner.run(runner.flags({**PLAIN, **pictures, **dropout, "train.batch_size": math.ceil(SAMPLES / np), "run.name": name, **options}), np=np, cwd=folder).expect(0)
    run = folder / "runs" / name
    checkpoint = run / f"checkpoints/step_{STEPS:08}"
    return [r["loss"] for r in runner.metrics(run)], load_file(checkpoint / "model.safetensors"), run


def check_training(what, model, losses, ours, weights, bound):
    """Compares in float64: the loss of each step, then parameters and statistics."""
    for step, (a, b) in enumerate(zip(losses, ours, strict=True)):
        assert abs(a - b) <= bound * max(1, abs(a)), (what, step + 1, a, b)
    worst = 0
    for name, value in model.state_dict().items():
        assert weights[name].shape == value.shape, name
        if value.is_floating_point():
            worst = max(worst, ((weights[name] - value).abs().max() / max(1, value.abs().max())).item())
    print(f"        {what}: parameters and statistics differ by at most {worst:.1e}")
    assert worst <= bound, (what, worst)


def check_first_gradients_and_losses(what, run, gradients, losses, ours, prefix="", size="maximum", bound=1e-4):
    """Compares in float32, relative to the `size` of each tensor. After one step, the first moment of AdamW is the gradient × (1 - beta1)."""
    size_of = {"maximum": lambda tensor: tensor.abs().max(), "norm": torch.linalg.vector_norm}[size]
    moments = load_file(run / "checkpoints/step_00000001/optimizer.safetensors")
    worst = 0
    for name, gradient in gradients.items():
        mine = moments[f"{prefix}exp_avg.{name}"] / 0.1
        error = (size_of(mine - gradient) / size_of(gradient)).item()
        assert error <= bound, (what, name, error)
        worst = max(worst, error)
    print(f"        {what} float32: gradients differ by at most {worst:.1e} of the tensor's {size}")
    for step, (a, b) in enumerate(zip(losses, ours, strict=True)):
        assert abs(a - b) <= 1e-2 * max(abs(a), 1e-3), (what, step + 1, a, b)


def decayed(parameters, decay, everything=False):
    """The groups of an optimizer in Python: norms and biases have one dimension, and decay only with everything."""
    parameters = list(parameters)
    return [{"params": [p for p in parameters if everything or p.dim() > 1], "weight_decay": decay},
            {"params": [p for p in parameters if not everything and p.dim() < 2], "weight_decay": 0.0}]


def float64(folder, model_name, optimizer_name, bound, lr=None, task=Headpose(), decay_all=False, **more):
    lr = lr or (0.01 if optimizer_name == "sgd" else 1e-3)
    model = network(model_name, task.outputs)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder / "init.safetensors")
    model = model.double()
    make = {"sgd": lambda p: torch.optim.SGD(decayed(p, 1e-4, decay_all), lr=lr, momentum=0.9, nesterov=True),
            "adamw": lambda p: torch.optim.AdamW(decayed(p, 0.01, decay_all), lr=lr),
            "adam": lambda p: torch.optim.Adam(decayed(p, 1e-4, decay_all), lr=lr)}[optimizer_name]
    options = {"sgd": {"optimizer.lr": lr, "optimizer.momentum": 0.9, "optimizer.nesterov": True, "optimizer.weight_decay": 1e-4},
               "adamw": {"optimizer.lr": lr, "optimizer.weight_decay": 0.01},
               "adam": {"optimizer.lr": lr, "optimizer.weight_decay": 1e-4}}[optimizer_name]
    inputs, targets = data(folder, torch.float64, task)
    with ThreadPoolExecutor() as pool:  # both at once, with one thread each
        run = pool.submit(train_in_dtrain, folder, f"{model_name}-{optimizer_name}-{decay_all}", 1,
                          **{"train.amp": "fp64", "optimizer.decay_norms_and_biases": decay_all, "model.name": model_name, "optimizer.name": optimizer_name, **options, **task.flags, **more})
        losses, _ = train_in_python(model, inputs, targets, make(model.parameters()), task)
        ours, weights, _ = run.result()
    check_training(f"{model_name} {optimizer_name}", model, losses, ours, weights, bound)


def float64_headpose_cnn_sgd(folder):
    dataset(folder)
    float64(folder, "headpose_cnn", "sgd", 1e-12)
    float64(folder, "headpose_cnn", "sgd", 1e-12, decay_all=True)


def float64_headpose_cnn_adamw_and_adam(folder):
    dataset(folder)
    float64(folder, "headpose_cnn", "adamw", 1e-10)
    float64(folder, "headpose_cnn", "adamw", 1e-10, decay_all=True)
    float64(folder, "headpose_cnn", "adam", 1e-10)


def float64_resnet18(folder):
    dataset(folder)
    float64(folder, "resnet18", "sgd", 1e-12, lr=0.001)  # at 0.01 training on so few samples is chaotic: rounding errors grow 10^4-fold
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
    check_training("headpose_cnn sgd, two ranks, frozen statistics", model, losses, ours, weights, 1e-12)


def float32(folder, model_name, lr, task=Headpose(), **compared):
    model = network(model_name, task.outputs)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder / "init.safetensors")
    inputs, targets = data(folder, torch.float32, task)
    losses, gradients = train_in_python(model, inputs, targets, torch.optim.AdamW(decayed(model.parameters(), 0.01), lr=lr), task)
    ours, _, run = train_in_dtrain(folder, f"{model_name}-fp32", 1,
                                   **{"train.amp": "fp32", "model.name": model_name, "optimizer.lr": lr, "checkpoint.every": "1step",
                                      "checkpoint.keep_last": STEPS, **task.flags})
    check_first_gradients_and_losses(model_name, run, gradients, losses, ours, **compared)


def float32_gradients_and_losses(folder):
    dataset(folder)
    float32(folder, "headpose_cnn", 1e-4)
    # A low rate, because Adam turns rounding errors of tiny gradients into whole steps. Kernels that round in another order than Python's
    # give a ReLU of the deep network whose input is nearly 0 the other sign: single entries of the gradient then differ by several percent
    # (SSE4.1: 6 % of the maximum), its norm hardly does (0.7 %). In float64 both are equal.
    float32(folder, "resnet18", 1e-5, size="norm", bound=3e-2)


def classes_in_float64(folder):
    dataset_of_classes(folder)
    float64(folder, "simple_cnn", "sgd", 1e-12, task=Classify())
    float64(folder, "simple_cnn", "adamw", 1e-10, task=Classify())


def classes_in_float64_mobilenet_v2(folder):
    # Batch norm over the 48 values per channel in the last stages makes training on so few pictures chaotic at the usual rates.
    # In Python alone, changing one weight by 2^-52 of itself (or making the layout contiguous) changes the losses of SGD at 0.001
    # by 2.0e-12 (1.5e-12) at step 5, 1.1e-8 (1.4e-9) at step 10 and 6.3e-3 (9.8e-3) at step 20; at 1e-4 by 4.4e-10 at step 20.
    # Two threads instead of one change the first loss of Python by 2.7e-14; that of dtrain differs by 1.4e-14.
    # At 1e-5 the losses change by 1.7e-15 and the parameters by 6.5e-15 (AdamW: 2.2e-16 and 1.1e-11; at 1e-4 7.5e-11,
    # close to the bound), and the loss still falls from 1.46 to 0.94 (0.76): the bounds separate a defect from rounding.
    # At this rate dtrain differs from Python by 3.2e-14 in the losses and 1.2e-13 in the parameters (AdamW: 5.1e-14 and 1.8e-11).
    dataset_of_classes(folder)
    float64(folder, "mobilenet_v2", "sgd", 1e-12, lr=1e-5, task=Classify())
    float64(folder, "mobilenet_v2", "adamw", 1e-10, lr=1e-5, task=Classify())


def classes_in_float64_resnet50(folder):
    # Four pictures, to save time. Training with 16 values per channel in the last stage is not chaotic if the blocks start near
    # the identity (bn3 at 0.1; torchvision's zero_init_residual starts them at 0, with no gradient inside). In Python alone,
    # changing one weight by 2^-52 of itself then changes the losses of SGD at 0.001 by 3.3e-16 and the parameters by 1.7e-15
    # (AdamW at 1e-5: 4.4e-16 and 4.9e-15); with bn3 at 1 it changes those of SGD by 0.42 and 0.31 even at 1e-5. The loss falls
    # from 1.5 to 0.4 (0.7).
    dataset_of_classes(folder, 4)
    float64(folder, "resnet50", "sgd", 1e-12, lr=1e-3, task=Classify(), **{"train.batch_size": 4})
    float64(folder, "resnet50", "adamw", 1e-10, lr=1e-5, task=Classify(), **{"train.batch_size": 4})


def classes_in_float32(folder):
    # Not mobilenet_v2: with so few pictures its float32 gradients are mostly amplified rounding errors. Those of Python differ
    # from float64 by 2.3e-2, those of dtrain by 1.7e-1 (the pixels differ in their last bit). tests/models/parity_test.py compares
    # them on equal inputs, where they have the same bits.
    dataset_of_classes(folder)
    float32(folder, "simple_cnn", 1e-4, task=Classify())


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def keyed(key, *rest):
    return keyed(mix64(key) ^ rest[0], *rest[1:]) if rest else mix64(key)


def hidden_rows(seed, epoch, lengths, longest, share, span):
    """The rows that the encoder phase masks: src/kernels/masked_noise.h, with Python integers."""
    hidden = torch.zeros(len(lengths), longest, dtype=torch.bool)
    for i, length in enumerate(lengths.tolist()):
        key = keyed(2, seed, epoch, i)
        start = keyed(key, 0) % span
        always = keyed(key, 1) % ((length - 1 + start) // span + 1)
        for row in range(length):
            block = (row + start) // span
            hidden[i, row] = block == always or (keyed(key, 2, block) >> 40) / 2**24 < share
    return hidden


SEQUENCES, ENCODER_EPOCHS, ENCODER_RATIO, SHARE, SPAN, HIDDEN = 16, STEPS // 2, 0.5, 0.3, 8, 32


def dataset_of_sequences(folder, dtype):
    runner.run(["synth", "sequence", "--samples", SEQUENCES, "--out", folder / "d.h5"]).expect(0)
    with h5py.File(folder / "d.h5", "r+") as f:
        train_on_all(f)
        rows = [sample.to(dtype) for sample in samples_of_rows(f, "inputs")]
        targets, classes = torch.from_numpy(f["targets"][...]), len(runner.text(f.attrs["class_names"]).split("\n"))
    return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(r) for r in rows]), targets, classes


def train_sequence_in_python(model, rows, lengths, targets, make, encoder_epochs=ENCODER_EPOCHS):
    """Trains both phases, each with its own optimizer; the encoder has its own rate in the second."""
    losses, first_gradients = [], None
    encoder = [p for part in (model.conv1, model.bn1, model.conv2, model.bn2, model.lstm) for p in part.parameters()]
    groups = {"encoder": [(encoder, 1), (model.reconstruct.parameters(), 1)], "classifier": [(encoder, ENCODER_RATIO), (model.fc.parameters(), 1)]}
    optimizers = {phase: make(parts) for phase, parts in groups.items()}
    model.train()
    for epoch in range(STEPS):
        phase = "encoder" if epoch < encoder_epochs else "classifier"
        model.zero_grad()
        if phase == "encoder":
            mask = hidden_rows(1, epoch, lengths, rows.shape[1], SHARE, SPAN)[:, :, None]
            error = model.rebuild(rows.masked_fill(mask, 0), lengths) - rows
            loss = (error * error * mask).sum() / (mask.sum() * rows.shape[2])
        else:
            loss = nn.functional.cross_entropy(model(rows, lengths), targets)
        loss.backward()
        if first_gradients is None:
            first_gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        optimizers[phase].step()
        losses.append(loss.item())
    return losses, first_gradients


def train_sequence_in_dtrain(folder, name, encoder_epochs, **options):
    return train_in_dtrain(folder, name, 1, **{
        "task": "sequence", "model.name": "cnn_lstm", "model.hidden": HIDDEN, "train.batch_size": SEQUENCES, "train.seed": 1, "augment.noise": 0,
        "augment.mask_share": SHARE, "augment.mask_span": SPAN, "sequence.encoder_epochs": encoder_epochs,
        "sequence.classifier_epochs": STEPS - encoder_epochs, "sequence.iterations": 1, "sequence.encoder_lr_ratio": ENCODER_RATIO, **options})


def initial_sequence_network(folder, features, classes):
    torch.manual_seed(3)
    initial = CnnLstm(features, classes, HIDDEN).state_dict()
    save_file({k: v.contiguous() for k, v in initial.items()}, folder / "init.safetensors")
    return initial


def float64_sequence_both_phases(folder):
    rows, lengths, targets, classes = dataset_of_sequences(folder, torch.float64)
    initial = initial_sequence_network(folder, rows.shape[2], classes)
    settings = {"sgd": (1e-12, {"optimizer.lr": 0.02, "optimizer.momentum": 0.9, "optimizer.weight_decay": 1e-4},
                        lambda parts: torch.optim.SGD([{**g, "lr": 0.02 * r} for p, r in parts for g in decayed(p, 1e-4)], momentum=0.9)),
                "adamw": (1e-10, {"optimizer.lr": 1e-3, "optimizer.weight_decay": 0.01},
                          lambda parts: torch.optim.AdamW([{**g, "lr": 1e-3 * r} for p, r in parts for g in decayed(p, 0.01)]))}
    for name, (bound, options, make) in settings.items():
        model = CnnLstm(rows.shape[2], classes, HIDDEN)
        model.load_state_dict(initial)
        losses, _ = train_sequence_in_python(model.double(), rows, lengths, targets, make)
        ours, weights, _ = train_sequence_in_dtrain(folder, f"sequence-{name}", ENCODER_EPOCHS,
                                                    **{"train.amp": "fp64", "optimizer.name": name, **options})
        assert losses[ENCODER_EPOCHS - 1] < losses[0] and losses[-1] < losses[ENCODER_EPOCHS], losses
        check_training(f"sequence {name}, both phases", model, losses, ours, weights, bound)


def float32_sequence_gradients_and_losses(folder):
    # The gradients of the first step belong to the phase that comes first: once the encoder phase, once the classifier phase.
    rows, lengths, targets, classes = dataset_of_sequences(folder, torch.float32)
    initial = initial_sequence_network(folder, rows.shape[2], classes)
    for phase, encoder_epochs, prefix in (("encoder", ENCODER_EPOCHS, "encoder/"), ("classifier", 0, "")):  # the prefix is used if there are two phases
        model = CnnLstm(rows.shape[2], classes, HIDDEN)
        model.load_state_dict(initial)
        losses, gradients = train_sequence_in_python(
            model, rows, lengths, targets,
            lambda parts: torch.optim.AdamW([{**g, "lr": 1e-3 * r} for p, r in parts for g in decayed(p, 0.01)]), encoder_epochs)
        ours, _, run = train_sequence_in_dtrain(folder, f"sequence-fp32-{encoder_epochs}", encoder_epochs, **{
            "train.amp": "fp32", "optimizer.lr": 1e-3, "optimizer.weight_decay": 0.01, "checkpoint.every": "1step", "checkpoint.keep_last": STEPS})
        head = "reconstruct" if encoder_epochs else "fc"
        assert {name.split(".")[0] for name in gradients} == {"conv1", "bn1", "conv2", "bn2", "lstm", head}, list(gradients)
        assert losses[-1] < losses[encoder_epochs], losses
        check_first_gradients_and_losses(f"sequence, {phase} first,", run, gradients, losses, ours, prefix)


SETS = 23  # two ranks have 12 and 11 of them


def dataset_of_sets(folder):
    """The sets are padded with zeros, the order with -1."""
    runner.run(["synth", "pointer", "--samples", SETS, "--max-length", 9, "--out", folder / "d.h5"]).expect(0)
    with h5py.File(folder / "d.h5", "r+") as f:
        train_on_all(f)
        sets, order = samples_of_rows(f, "inputs"), samples_of_rows(f, "targets")
    lengths = torch.tensor([len(s) for s in sets])
    assert len(lengths.unique()) > 4, lengths
    return (nn.utils.rnn.pad_sequence(sets, batch_first=True).double(), lengths,
            nn.utils.rnn.pad_sequence(order, batch_first=True, padding_value=-1))


def float64_pointer(folder):
    # The sum over all elements of the global batch is divided once by their number: how the sets are distributed over
    # micro-batches (each with its own padding) and ranks does not matter.
    sets, lengths, order = dataset_of_sets(folder)
    torch.manual_seed(3)
    initial = PointerNetwork().state_dict()
    save_file(initial, folder / "init.safetensors")
    settings = {"sgd": (1e-12, {"optimizer.lr": 0.1, "optimizer.momentum": 0.9, "optimizer.weight_decay": 1e-4},
                        lambda p: torch.optim.SGD(decayed(p, 1e-4), lr=0.1, momentum=0.9)),
                "adamw": (1e-10, {"optimizer.lr": 1e-3, "optimizer.weight_decay": 0.01},
                          lambda p: torch.optim.AdamW(decayed(p, 0.01), lr=1e-3))}
    for name, (bound, options, make) in settings.items():
        model = PointerNetwork()
        model.load_state_dict(initial)
        optimizer, losses = make(model.double().parameters()), []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = model.losses_by_step(sets, lengths, order).sum() / lengths.sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0], losses
        for ranks, batch, accumulate in ((1, SETS, 1), (1, 5, 5), (2, 4, 3)):
            what = f"pointer {name}, {ranks} x {batch} x {accumulate}"
            ours, weights, _ = train_in_dtrain(folder, f"pointer-{name}-{ranks}-{batch}", ranks, **{
                "task": "pointer", "train.amp": "fp64", "train.batch_size": batch, "train.accumulate": accumulate,
                "train.global_batch": SETS, "optimizer.name": name, **options})
            check_training(what, model, losses, ours, weights, bound)


TESTS = [float64_headpose_cnn_sgd, float64_headpose_cnn_adamw_and_adam, float64_two_ranks_with_frozen_statistics,
         float32_gradients_and_losses, classes_in_float64, classes_in_float32,
         float64_sequence_both_phases, float32_sequence_gradients_and_losses, float64_pointer]
runner.main(TESTS, campaign=[*TESTS, classes_in_float64_mobilenet_v2, float64_resnet18, classes_in_float64_resnet50])
