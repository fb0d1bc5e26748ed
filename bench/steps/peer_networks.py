"""dtrain's networks as PyTorch users write them, for peer_train.py and eager_step.py. They have dtrain's names and shapes of parameters
and its dropout.

forward() takes a batch and returns its mean loss, so that DistributedDataParallel and torch.compile see all of it. Lengths are on the
CPU, where packing needs them, also if everything else is on a GPU.

Forms of the pointer network:  usual     a decoder loop with one cell and one attention per step; the encoder runs packed sequences
                               strong    teacher forcing at once: one LSTM call over the shifted targets, attention in [B, T, T, H]
                               grouped   the same, and each batch has sets of one length, so that nothing is packed or masked for padding
Forms of the sequence network: usual     padded batches, the last valid hidden state
                               strong    the same network; peer_data.py sorts by length into groups, and denormals are flushed
                               frozen    the encoder, learned before, stays as it is: what dtrain trains second
                               encoder   a batch is (hidden and noised rows, rows, which are hidden): what dtrain trains first
Their batch norm counts padded positions, as users write it, which is less work than dtrain's.
"""

import torch
import torchvision
from torch import nn
from torch.nn.functional import cross_entropy, smooth_l1_loss

ANGLE_SCALE = 30
HIDDEN = 256


class HeadposeCnn(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        blocks, channels = [], 3
        for width in (32, 64, 128, 256, 512):
            blocks.append(nn.Sequential(nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                        nn.MaxPool2d(2)))
            channels = width
        self.features = nn.Sequential(*blocks)
        self.dropout = nn.Dropout(0.3)
        self.fc = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, outputs))

    def forward(self, x):
        return self.fc(self.dropout(self.features(x).mean((2, 3))))


class SimpleCnn(nn.Module):
    def __init__(self, outputs, size):
        super().__init__()
        blocks, channels = [], 3
        for width in (32, 64, 128):
            blocks.append(nn.Sequential(nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)))
            channels = width
        self.features = nn.Sequential(*blocks)
        self.fc = nn.Sequential(nn.Linear(128 * (size // 8) ** 2, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, outputs))

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))


class ImageLoss(nn.Module):
    """A network of images with its loss: smooth L1 on degrees / 30 (headpose) or cross entropy (classify)."""

    def __init__(self, network, of_angles):
        super().__init__()
        self.network, self.of_angles = network, of_angles

    def forward(self, images, targets):
        output = self.network(images).float()
        return smooth_l1_loss(output, targets / ANGLE_SCALE) if self.of_angles else cross_entropy(output, targets)


class PointerNetwork(nn.Module):
    def __init__(self, features, form):
        super().__init__()
        self.encoder = nn.LSTM(features, HIDDEN, num_layers=2, batch_first=True, dropout=0.2)
        self.decoder = nn.LSTM(features, HIDDEN, batch_first=True)
        self.attention = nn.Module()
        self.attention.key = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.attention.query = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.attention.v = nn.Linear(HIDDEN, 1, bias=False)
        self.form = form

    def forward(self, sets, lengths, order):
        if self.form == "grouped":
            states, (h, c) = self.encoder(sets)
        else:
            packed = nn.utils.rnn.pack_padded_sequence(sets, lengths, batch_first=True, enforce_sorted=False)
            states, (h, c) = self.encoder(packed)
            states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=sets.shape[1])
        decode = self.by_step if self.form == "usual" else self.at_once
        scores = decode(self.attention.key(states), h[-1], c[-1], shifted(sets, order), lengths, order)
        nll = -scores.float().log_softmax(2).gather(2, order[:, :, None]).squeeze(2)
        if self.form != "grouped":
            nll = nll * ~past(lengths, order)
        return nll.sum() / lengths.sum()

    def by_step(self, keys, h, c, rows, lengths, order):
        gone = past(lengths, order)
        d, scores = self.decoder, []
        for t in range(order.shape[1]):
            h, c = torch._VF.lstm_cell(rows[:, t], (h, c), d.weight_ih_l0, d.weight_hh_l0, d.bias_ih_l0, d.bias_hh_l0)
            step = self.attention.v(torch.tanh(keys + self.attention.query(h)[:, None])).squeeze(2)
            scores.append(step.masked_fill(gone, -1e30))
            gone = gone.scatter(1, order[:, t, None], True)
        return torch.stack(scores, 1)

    def at_once(self, keys, h, c, rows, lengths, order):
        states, _ = self.decoder(rows, (h[None].contiguous(), c[None].contiguous()))
        scores = self.attention.v(torch.tanh(keys[:, None] + self.attention.query(states)[:, :, None])).squeeze(3)
        chosen = nn.functional.one_hot(order, order.shape[1])
        gone = (chosen.cumsum(1) - chosen).bool()
        if self.form != "grouped":
            gone = gone | past(lengths, order)[:, None]
        return scores.masked_fill(gone, -1e30)


def past(lengths, order):
    """[B, T]: true past the length, on the device of the order."""
    return (torch.arange(order.shape[1]) >= lengths[:, None]).to(order.device, non_blocking=True)


def shifted(sets, order):
    """What the decoder receives: zeros, then the elements of all steps but the last, marked as visited."""
    rows = sets.gather(1, order[:, :-1, None].expand(-1, -1, sets.shape[2]))
    rows = torch.cat([rows[:, :, :-1], torch.ones_like(rows[:, :, -1:])], 2)
    return torch.cat([torch.zeros_like(sets[:, :1]), rows], 1)


class CnnLstm(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.conv1 = nn.Conv1d(features, 64, 5, padding=2, bias=False)
        self.bn1 = nn.BatchNorm1d(64)
        self.conv2 = nn.Conv1d(64, 128, 5, stride=2, padding=2, bias=False)
        self.bn2 = nn.BatchNorm1d(128)
        self.lstm = nn.LSTM(128, HIDDEN, 2, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.fc = nn.Linear(HIDDEN, classes)
        self.reconstruct = nn.ConvTranspose1d(HIDDEN, features, 4, 2, 1).requires_grad_(False)  # of dtrain's other phase

    def encode(self, rows):
        x = torch.relu(self.bn1(self.conv1(rows.transpose(1, 2))))
        x = torch.relu(self.bn2(self.conv2(x)))
        return self.lstm(x.transpose(1, 2))[0]

    def forward(self, rows, lengths, targets):
        states, last = self.encode(rows), (lengths + 1) // 2 - 1
        last = states[torch.arange(len(lengths), device=states.device), last.to(states.device, non_blocking=True)]
        return cross_entropy(self.fc(self.dropout(last)).float(), targets)

    def freeze_encoder(self):
        self.requires_grad_(False)
        self.fc.requires_grad_(True)
        self.bn1.eval()
        self.bn2.eval()
        return self


class Reconstruction(nn.Module):
    """The sequence network with the loss of dtrain's encoder phase: the mean squared error of the hidden rows."""

    def __init__(self, network):
        super().__init__()
        self.network = network.requires_grad_(True)
        network.fc.requires_grad_(False)

    def forward(self, seen, rows, hidden):
        rebuilt = self.network.reconstruct(self.network.encode(seen).transpose(1, 2)).transpose(1, 2)[:, :rows.shape[1]]
        return ((rebuilt.float() - rows).square() * hidden[:, :, None]).sum() / (hidden.sum() * rows.shape[2])


def make(name, form, data):
    """The network as a module of batches; dtrain's weights fit into bare(of it)."""
    if name == "pointer":
        return PointerNetwork(data.features, form)
    if name == "sequence":
        network = CnnLstm(data.features, data.classes)
        return Reconstruction(network) if form == "encoder" else network.freeze_encoder() if form == "frozen" else network
    if name == "headpose_cnn":
        return ImageLoss(HeadposeCnn(3), of_angles=True)
    if name == "simple_cnn":
        return ImageLoss(SimpleCnn(data.classes, data.size), of_angles=False)
    return ImageLoss(getattr(torchvision.models, name)(num_classes=data.classes), of_angles=False)


def bare(module):
    return module.network if isinstance(module, ImageLoss) else module
