"""The networks in Python with dtrain's parameter names, random weights for them, and a comparison with onnxruntime."""

import numpy as np
import onnxruntime
import torch
import torchvision
from image_networks import headpose_cnn, simple_cnn
from torch import nn


class CnnLstm(nn.Module):
    """One sequence at a time: no padding, no masks, no packing."""

    def __init__(self, features, classes, hidden=256):
        super().__init__()
        self.conv1 = nn.Conv1d(features, 64, 5, padding=2, bias=False)
        self.bn1 = nn.BatchNorm1d(64)
        self.conv2 = nn.Conv1d(64, 128, 5, stride=2, padding=2, bias=False)
        self.bn2 = nn.BatchNorm1d(128)
        self.lstm = nn.LSTM(128, hidden, num_layers=2, batch_first=True)
        self.fc = nn.Linear(hidden, classes)
        self.reconstruct = nn.ConvTranspose1d(hidden, features, 4, stride=2, padding=1)

    def forward(self, sequence):
        x = self.bn1(self.conv1(sequence.T[None])).relu()
        x = self.bn2(self.conv2(x)).relu()
        return self.fc(self.lstm(x.transpose(1, 2))[0][0, -1])


class PointerNetwork(nn.Module):
    """One set at a time, with greedy decoding."""

    def __init__(self, features, hidden=256):
        super().__init__()
        self.encoder = nn.LSTM(features, hidden, num_layers=2)
        self.decoder = nn.LSTM(features, hidden)
        self.attention = nn.Module()
        self.attention.key = nn.Linear(hidden, hidden, bias=False)
        self.attention.query = nn.Linear(hidden, hidden, bias=False)
        self.attention.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, elements):
        states, (h, c) = self.encoder(elements)
        state, row, order = (h[-1:], c[-1:]), torch.zeros(1, elements.shape[1]), []
        for _ in range(len(elements)):
            asked, state = self.decoder(row, state)
            scores = self.attention.v((self.attention.key(states) + self.attention.query(asked)).tanh())[:, 0]
            scores[order] = -torch.inf
            order.append(int(scores.argmax()))
            row = elements[order[-1]][None].clone()
            row[0, -1] = 1
        return order


IMAGE_NETWORKS = {
    "headpose_cnn": headpose_cnn,
    "simple_cnn": simple_cnn,
    "resnet18": lambda outputs: torchvision.models.resnet18(num_classes=outputs),
    "resnet50": lambda outputs: torchvision.models.resnet50(num_classes=outputs),
    "mobilenet_v2": lambda outputs: torchvision.models.mobilenet_v2(num_classes=outputs),
}


def randomized(network):
    """In eval mode, with running statistics far from 0 and 1 that give activations of ordinary size."""
    for module in network.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.2)
            module.running_mean.normal_(std=0.3)
            module.running_var.uniform_(0.5, 2.0)
    return network.eval()


def session(path):
    options = onnxruntime.SessionOptions()
    # Without VNNI, x86 saturates in the middle of a uint8 x int8 product (docs/export.md). Other processors and models ignore this.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def check_close(name, actual, expected, tolerance=1e-4):
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert actual.shape == expected.shape, f"{name}: {actual.shape}, expected {expected.shape}"
    worst, scale = np.abs(actual - expected).max(), np.abs(expected).max()
    assert worst <= tolerance * scale, f"{name}: differs by {worst:.3g} of {scale:.3g}"
    return worst / scale
