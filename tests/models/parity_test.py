"""Compares the networks with those of torchvision: names, shapes and order; outputs, gradients and statistics from equal weights."""

import copy
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torchvision
from image_networks import headpose_cnn, simple_cnn
from safetensors.torch import load_file, save_file
from torch import nn

PARITY = sys.argv[1]
SIZE = 64
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}  # so that sums have the same order on both sides

NETWORKS = {
    "headpose_cnn": headpose_cnn,
    "simple_cnn": lambda outputs: simple_cnn(outputs, SIZE, dropout=0),
    "mobilenet_v2": lambda outputs: torchvision.models.mobilenet_v2(num_classes=outputs, dropout=0),
    "resnet18": lambda outputs: torchvision.models.resnet18(num_classes=outputs),
    "resnet50": lambda outputs: torchvision.models.resnet50(num_classes=outputs),
}


WIDE = 1e-7  # of float64, after layers that amplify its rounding a million times


def randomise(network):
    """Weights, and running statistics far from 0 and 1, that give activations of ordinary size."""
    torch.manual_seed(5)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.2)
            module.running_mean.normal_(std=0.3)
            module.running_var.uniform_(0.5, 2.0)
            module.num_batches_tracked.fill_(7)


def check_close(name, actual, expected, tolerance):
    worst = (actual.double() - expected.double()).abs().max().item()
    scale = expected.double().abs().max().item()
    assert actual.shape == expected.shape, f"{name}: {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    assert worst <= tolerance * scale, f"{name}: differs by {worst:.3g} of {scale:.3g}"
    return worst / scale if scale else 0.0


def train(network, x):
    network.train()
    output = network(x)
    (output * torch.arange(1, output.numel() + 1).view_as(output)).sum().backward()
    return output


def check_names(name, network, outputs):
    expected = [f"parameter {n} {'x'.join(map(str, p.shape)) or 'scalar'}" for n, p in network.named_parameters()]
    expected += [f"buffer {n} {'x'.join(map(str, b.shape)) or 'scalar'}" for n, b in network.named_buffers()]
    printed = subprocess.run([PARITY, "names", name, str(outputs)], check=True, capture_output=True, text=True)
    assert printed.stdout.splitlines() == expected, f"{name}: names differ"
    return len(expected)


def run(name, outputs, network, x, folder):
    source, target = folder / "in.safetensors", folder / "out.safetensors"
    save_file({**{k: v.contiguous() for k, v in network.state_dict().items()}, "input": x}, source)
    done = subprocess.run([PARITY, "run", name, str(outputs), source, target], check=True, capture_output=True, text=True, env=ONE_THREAD)
    assert done.stdout.splitlines() == [f"loaded {len(network.state_dict())} tensors"], done.stdout
    return load_file(target)


def check_values(name, network, outputs, folder):
    """The evaluation in float32; the training in float64: in float32 the gradients of deep networks differ by percents, as one rounding decides which side of
    a ReLU a value is on."""
    randomise(network)
    x = torch.randn(4, 3, SIZE, SIZE)
    network.eval()
    worst = check_close("eval output", run(name, outputs, network, x, folder)["eval"], network(x), 1e-5)

    wide = copy.deepcopy(network).double()
    results = run(name, outputs, network, x.double(), folder)
    worst = max(worst, check_close("train output", results["train"], train(wide, x.double()), WIDE))
    gradients = {key: parameter.grad for key, parameter in wide.named_parameters()}
    smallest = 1e-9 * max(gradient.abs().max().item() for gradient in gradients.values())  # others are 0 but for rounding
    for key, gradient in gradients.items():
        if gradient.abs().max() > smallest:
            worst = max(worst, check_close("gradient of " + key, results["grad." + key], gradient, WIDE))
    for key, buffer in wide.named_buffers():
        worst = max(worst, check_close(key + " after training", results["after." + key], buffer, WIDE))
    return worst


def main():
    torch.set_num_threads(1)
    for name, make in NETWORKS.items():
        with tempfile.TemporaryDirectory() as folder:
            count = check_names(name, make(7), 7)
            worst = check_values(name, make(7), 7, Path(folder))
            print(f"{name}: {count} tensors with torchvision's names and shapes; largest relative difference {worst:.2g}")


if __name__ == "__main__":
    main()
