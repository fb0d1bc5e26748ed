"""The network of the task sequence in plain PyTorch, with dtrain's parameter names. Tests and benchmarks compare with it."""

import torch
from torch import nn


class MaskedBatchNorm(nn.BatchNorm1d):
    """Statistics over valid positions only; the output is zero elsewhere. mask: [B, 1, T] of ones and zeros."""

    def forward(self, x, mask):
        if not self.training:
            return super().forward(x) * mask
        wide, mask = x.to(self.weight.dtype), mask.to(self.weight.dtype)
        count = mask.sum()
        mean = (wide * mask).sum((0, 2)) / count
        centered = wide - mean[:, None]
        variance = (centered * centered * mask).sum((0, 2)) / count
        with torch.no_grad():
            self.num_batches_tracked += 1
            self.running_mean += self.momentum * (mean - self.running_mean)
            self.running_var += self.momentum * (variance * count / (count - 1) - self.running_var)
        out = centered * (torch.rsqrt(variance + self.eps) * self.weight)[:, None] + self.bias[:, None]
        return (out * mask).to(x.dtype)


def valid(lengths, positions):
    return torch.arange(positions)[None, :] < lengths[:, None]


class CnnLstm(nn.Module):
    def __init__(self, features, classes, hidden=256):
        super().__init__()
        self.conv1 = nn.Conv1d(features, 64, 5, padding=2, bias=False)
        self.bn1 = MaskedBatchNorm(64)
        self.conv2 = nn.Conv1d(64, 128, 5, stride=2, padding=2, bias=False)
        self.bn2 = MaskedBatchNorm(128)
        self.lstm = nn.LSTM(128, hidden, 2, batch_first=True)
        self.fc = nn.Linear(hidden, classes)
        self.reconstruct = nn.ConvTranspose1d(hidden, features, 4, 2, 1)

    def convolved(self, rows, lengths):
        mask = valid(lengths, rows.shape[1])[:, None, :].to(rows.dtype)
        x = torch.relu(self.bn1(self.conv1(rows.transpose(1, 2) * mask), mask))
        x = self.conv2(x)
        mask = valid((lengths + 1) // 2, x.shape[2])[:, None, :].to(rows.dtype)
        return torch.relu(self.bn2(x, mask)).transpose(1, 2)

    def forward(self, rows, lengths, packed=False):
        x, half = self.convolved(rows, lengths), (lengths + 1) // 2
        if packed:
            sequence = nn.utils.rnn.pack_padded_sequence(x, half, batch_first=True, enforce_sorted=False)
            return self.fc(self.lstm(sequence)[1][0][-1])
        states, _ = self.lstm(x)
        return self.fc(states[torch.arange(len(half)), half - 1])

    def rebuild(self, rows, lengths):
        states, _ = self.lstm(self.convolved(rows, lengths))
        states = states * valid((lengths + 1) // 2, states.shape[1])[:, :, None]
        out = self.reconstruct(states.transpose(1, 2)).transpose(1, 2)[:, :rows.shape[1]]
        return out * valid(lengths, rows.shape[1])[:, :, None]
