#!/usr/bin/env python3
"""The training step of one of dtrain's networks in PyTorch eager on a GPU, as a competent user writes it: the other side of gpu_launches.py.

usage: bench/steps/eager_step.py --network NAME --data FILE.h5 (--steps N | --seconds S) [--form usual] [--script FILE.pt] [--batch 16]

Autocast to bfloat16, channels_last, zero_grad(set_to_none=True) and fused AdamW. A step copies a batch from pinned memory and reads
nothing back. What a DataLoader's processes do on the CPU is done beforehand: normalization, and for the encoder noise and masks.
--network module is the TorchScript of --script, with mean squared error. --form: of peer_networks.py. An LSTM of several layers is one
call of cuDNN for each layer, as in dtrain, because the fake cuDNN has no other.

--seconds: after a warm-up, steps for this time. --steps: this number, which tests/fake_gpu counts, with the phases by dtrain's names.
Prints one line of JSON: the mean seconds of a step, and the number of parameters.
"""

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import time

import torch

import peer_data
import peer_networks

KEPT = 8  # batches, in turn
WARM = 10  # steps
HIDDEN_SHARE, HIDDEN_ROWS, NOISE = 0.3, 8, 0.1  # of the encoder's data: dtrain's augment.mask_share, mask_span and noise

# Of nvtx3/nvtxDetail/nvtxTypes.h
CALLBACKS, CORE, PUSH, POP, FUNCTIONS = 1, 1, 9, 11, 16


class Phases:
    """The ranges that the fake CUDA runtime counts by (tests/fake_gpu/cuda/counts.h). It takes NVTX's functions, as a profiler does,
    and keeps the names that it is given, so torch.cuda.nvtx, whose names live for one call, does not do."""

    class Callbacks(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("table", ctypes.c_void_p)]

    def __init__(self):
        self.functions = (ctypes.c_void_p * FUNCTIONS)()
        self.places = (ctypes.c_void_p * FUNCTIONS)(*[ctypes.addressof(self.functions) + i * ctypes.sizeof(ctypes.c_void_p) for i in range(FUNCTIONS)])

        def function_table(module, table, size):
            table[0], size[0] = ctypes.addressof(self.places), FUNCTIONS
            return int(module == CORE)

        self.get_functions = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint))(function_table)
        self.callbacks = Phases.Callbacks(ctypes.sizeof(Phases.Callbacks), ctypes.cast(self.get_functions, ctypes.c_void_p))
        get_callbacks = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint)(lambda table: ctypes.addressof(self.callbacks) if table == CALLBACKS else None)
        if ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"]).InitializeInjectionNvtx2(get_callbacks) != 1:
            raise SystemExit("the fake CUDA runtime takes no ranges")
        self.push = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(self.functions[PUSH])
        self.pop = ctypes.CFUNCTYPE(ctypes.c_int)(self.functions[POP])
        self.names = {name: ctypes.create_string_buffer(name.encode()) for name in ("data_wait", "forward", "backward", "optimizer")}

    @contextlib.contextmanager
    def __call__(self, name):
        self.push(ctypes.cast(self.names[name], ctypes.c_char_p))
        yield
        self.pop()


class Scripted(torch.nn.Module):
    """The user's TorchScript with its loss."""

    def __init__(self, path):
        super().__init__()
        self.network = torch.jit.load(path)

    def forward(self, images, targets):
        return torch.nn.functional.mse_loss(self.network(images).float(), targets)


class Layers(torch.nn.Module):
    """An LSTM as LSTMs of one layer."""

    def __init__(self, lstm):
        super().__init__()
        sizes = [lstm.input_size] + [lstm.hidden_size] * lstm.num_layers
        self.layers = torch.nn.ModuleList([torch.nn.LSTM(*pair, batch_first=True) for pair in zip(sizes, sizes[1:])])
        self.layers.requires_grad_(lstm.weight_ih_l0.requires_grad)
        self.dropout = lstm.dropout

    def forward(self, rows):
        for i, layer in enumerate(self.layers):
            if i and self.dropout and isinstance(rows, torch.Tensor):
                rows = torch.nn.functional.dropout(rows, self.dropout)
            elif i and self.dropout:
                rows = rows._replace(data=torch.nn.functional.dropout(rows.data, self.dropout))
            rows, state = layer(rows)
        return rows, state


def make_model(options, data):
    if options.network == "module":
        model = Scripted(options.script)
    else:
        model = peer_networks.make(options.network, options.form, data)
    for owner in list(model.modules()):
        for name, part in list(owner.named_children()):
            if isinstance(part, torch.nn.LSTM) and part.num_layers > 1:
                setattr(owner, name, Layers(part))
    return model.cuda().to(memory_format=torch.channels_last)


def hide(batch):
    """What the encoder learns from: (the rows with noise and masks, the rows, which rows are hidden)."""
    rows, lengths, _ = batch
    spans = torch.rand(rows.shape[0], -(-rows.shape[1] // HIDDEN_ROWS)) < HIDDEN_SHARE
    hidden = spans.repeat_interleave(HIDDEN_ROWS, 1)[:, :rows.shape[1]] & (torch.arange(rows.shape[1]) < lengths[:, None])
    return (rows + NOISE * torch.randn_like(rows)).masked_fill(hidden[:, :, None], 0), rows, hidden.float()


def batches_of(options):
    """The data, and batches in pinned memory, without end. Lengths stay on the CPU."""
    data = peer_data.open_data(options.data, channels_last=True)
    drawn = itertools.islice(peer_data.Batches(data, options.batch, rank=0, world=1), KEPT)
    batches = [data.collate([data[i] for i in ids]) for ids in drawn]
    if options.form == "encoder":
        batches = [hide(batch) for batch in batches]
    has_lengths = data.lengths is not None and options.form != "encoder"
    pinned = [[tensor if has_lengths and i == 1 else tensor.pin_memory() for i, tensor in enumerate(batch)] for batch in batches]
    return data, itertools.cycle(pinned)


def on_gpu(batch):
    return [tensor.cuda(non_blocking=True) if tensor.is_pinned() else tensor for tensor in batch]


def train(model, optimizer, batch, phase):
    with phase("data_wait"):
        batch = on_gpu(batch)
    optimizer.zero_grad(set_to_none=True)
    with phase("forward"), torch.autocast("cuda", torch.bfloat16):
        loss = model(*batch)
    with phase("backward"):
        loss.backward()
    with phase("optimizer"):
        optimizer.step()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--form", default="usual")
    parser.add_argument("--script")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    return parser.parse_args()


def main():
    options = parse()
    torch.manual_seed(1)
    torch._C._jit_set_texpr_fuser_enabled(False)
    data, batches = batches_of(options)
    torch.backends.cudnn.benchmark = data.lengths is None  # it would try each length
    model = make_model(options, data)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3, weight_decay=0.01, fused=True)
    phase = Phases() if options.steps else lambda name: contextlib.nullcontext()
    for _ in range(0 if options.steps else WARM):
        train(model, optimizer, next(batches), phase)
    began, steps = time.perf_counter(), 0
    while steps < options.steps or time.perf_counter() < began + options.seconds:
        train(model, optimizer, next(batches), phase)
        steps += 1
    torch.cuda.synchronize()
    print(json.dumps({"step_seconds": (time.perf_counter() - began) / steps, "parameters": sum(p.numel() for p in model.parameters())}), flush=True)


if __name__ == "__main__":
    main()
