"""The pointer network as usually written in Python, with dtrain's parameter names, and generated sets for it.

Not a test: pointer_parity_test.py and tests/e2e/python_parity_test.py use it.
"""

import torch
from torch import nn

HIDDEN, FEATURES = 256, 8


class PointerNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(FEATURES, HIDDEN, num_layers=2, batch_first=True)
        self.decoder = nn.LSTM(FEATURES, HIDDEN, batch_first=True)
        self.attention = nn.Module()
        self.attention.key = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.attention.query = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.attention.v = nn.Linear(HIDDEN, 1, bias=False)

    def encode(self, sets, lengths):
        """Keys [B, T, H] and the state after each set's last element."""
        if int(lengths.min()) == sets.shape[1]:
            states, (h, c) = self.encoder(sets)
        else:
            packed = nn.utils.rnn.pack_padded_sequence(sets, lengths, batch_first=True, enforce_sorted=False)
            states, (h, c) = self.encoder(packed)
            states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=sets.shape[1])
        return self.attention.key(states), h[-1], c[-1]

    @staticmethod
    def shifted(sets, order):
        rows = sets.gather(1, order.clamp(min=0)[:, :-1, None].expand(-1, -1, FEATURES)).clone()
        rows[:, :, -1] = 1
        return torch.cat([torch.zeros_like(sets[:, :1]), rows], 1)

    def step_scores(self, keys, h):
        return self.attention.v(torch.tanh(keys + self.attention.query(h)[:, None])).squeeze(2)

    def cell(self, row, h, c):
        d = self.decoder
        return torch._VF.lstm_cell(row, (h, c), d.weight_ih_l0, d.weight_hh_l0, d.bias_ih_l0, d.bias_hh_l0)

    def losses_by_step(self, sets, lengths, order):
        """Teacher forcing with a decode loop: a cell and an attention per step."""
        keys, h, c = self.encode(sets, lengths)
        rows, steps = self.shifted(sets, order), sets.shape[1]
        gone = torch.arange(steps) >= lengths[:, None]
        target, scores = order.clamp(min=0), []
        for t in range(steps):
            h, c = self.cell(rows[:, t], h, c)
            scores.append(self.step_scores(keys, h).masked_fill(gone, -1e30))
            gone = gone.scatter(1, target[:, t, None], True)
        return self.nll(torch.stack(scores, 1), target, lengths)

    def losses_at_once(self, sets, lengths, order):
        """Teacher forcing without a loop: [B, T, T, H]."""
        keys, h, c = self.encode(sets, lengths)
        states, _ = self.decoder(self.shifted(sets, order), (h[None], c[None]))
        scores = self.attention.v(torch.tanh(keys[:, None] + self.attention.query(states)[:, :, None])).squeeze(3)
        steps, target = sets.shape[1], order.clamp(min=0)
        chosen = nn.functional.one_hot(target, steps)
        gone = (chosen.cumsum(1) - chosen).bool() | (torch.arange(steps) >= lengths[:, None])[:, None]
        return self.nll(scores.masked_fill(gone, -1e30), target, lengths)

    @staticmethod
    def nll(scores, target, lengths):
        nll = -scores.log_softmax(2).gather(2, target[:, :, None]).squeeze(2)
        return (nll * (torch.arange(target.shape[1]) < lengths[:, None])).sum(1)

    def greedy(self, sets, lengths):
        keys, h, c = self.encode(sets, lengths)
        beyond = torch.arange(sets.shape[1]) >= lengths[:, None]
        gone, row, choices = beyond.clone(), torch.zeros_like(sets[:, 0]), []
        for _ in range(sets.shape[1]):
            h, c = self.cell(row, h, c)
            choice = self.step_scores(keys, h).masked_fill(gone, -float("inf")).argmax(1)
            gone = gone.scatter(1, choice[:, None], True)
            row = sets[torch.arange(len(sets)), choice].clone()
            row[:, -1] = 1
            choices.append(choice)
        return torch.stack(choices, 1).masked_fill(beyond, -1)


def generated(count, longest, shortest=None, seed=0):
    """Sets ordered by feature 0, upwards or downwards by a feature that all elements of a set share."""
    torch.manual_seed(seed)
    lengths = torch.randint(shortest or longest, longest + 1, (count,))
    sets, order = torch.zeros(count, longest, FEATURES), torch.full((count, longest), -1)
    for i, n in enumerate(lengths.tolist()):
        rows = torch.rand(n, FEATURES)
        rows[:, -1] = 0
        down = bool(torch.rand(()) < 0.5)
        rows[:, 2] = rows[:, 2] / 2 + (0.5 if down else 0)
        sets[i, :n] = rows
        order[i, :n] = rows[:, 0].argsort(descending=down)
    return sets, order, lengths
