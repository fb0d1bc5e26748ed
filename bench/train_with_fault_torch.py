#!/usr/bin/env python3
"""Trains headpose_cnn with DistributedDataParallel over gloo, with a fault: one rank of what diagnosis_torch.py runs.

usage: python -m torch.distributed.run --nproc-per-node 2 bench/train_with_fault_torch.py --fault NAME --seconds S --tool none --folder DIR

Faults have the names of diagnosis.py and last S seconds per step. Writes the seconds per sample into DIR/per_sample; a tool (traceml,
gpuprof) watches the loop in the way that its own documentation says.
"""

import argparse
import contextlib
import os
import pathlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.utils.data import DataLoader, Dataset, DistributedSampler

WARM, STEPS = 10, 100
SIZE = 64  # of a picture, in pixels
CHECKPOINT_SECONDS = 0.03  # what writing this network takes


class Fault:
    """What is slow, and where. The methods are called in every run, and do nothing where they are not the fault."""

    def __init__(self, name, seconds, rank, folder):
        self.name, self.seconds, self.rank, self.folder = name, seconds, rank, folder
        self.batch = 1 if name == "batch of 1" else 16
        self.threads = 4 if name == "threads for more cores" else 1
        self.workers = {"slow disk": 2, "slow disk of rank 0": 2, "too many reader threads": 4}.get(name, 1)
        # Shared by all workers of this rank.
        self.disk, self.reading = torch.multiprocessing.Lock(), torch.multiprocessing.Value("i", 0)
        self.kept = []

    def is_my_turn(self):
        return time.monotonic() // 0.5 % 2 == self.rank

    def is_one_of(self, *names):
        return self.name in names

    def load(self):
        """Before a sample is loaded, in a worker."""
        each = self.seconds / self.batch
        if (self.is_one_of("too few reader threads") or self.is_one_of("too few, rank 1 alone") and self.rank == 1 or
                self.is_one_of("too few, another rank each time") and self.is_my_turn()):
            time.sleep(each)
        elif self.is_one_of("slow disk") or self.is_one_of("slow disk of rank 0") and self.rank == 0:
            with self.disk:
                time.sleep(each)
        elif self.is_one_of("expensive augmentation"):
            end = time.thread_time() + each
            while time.thread_time() < end:
                pass
        elif self.is_one_of("too many reader threads"):
            self.seek(each / self.workers)

    def seek(self, alone):
        """A disk that takes longer for each of the workers that read at the same time."""
        with self.reading.get_lock():
            self.reading.value += 1
            together = self.reading.value
        with self.disk:
            time.sleep(alone * together)
        with self.reading.get_lock():
            self.reading.value -= 1

    def forward(self):
        if self.is_one_of("rank 1 late in forward") and self.rank == 1 or self.is_one_of("another rank late each time") and self.is_my_turn():
            time.sleep(self.seconds)

    def backward(self):
        if self.is_one_of("rank 0 late in backward") and self.rank == 0:
            time.sleep(self.seconds)

    def delays_messages(self):
        return self.is_one_of("delayed messages")

    def after_step(self, net, optimizer):
        if self.is_one_of("checkpoints") and self.rank == 0:
            torch.save([net.state_dict(), optimizer.state_dict()], self.folder / "checkpoint.pt")
            time.sleep(max(0.0, self.seconds - CHECKPOINT_SECONDS))
        if self.is_one_of("evaluations"):
            with torch.no_grad():
                end = time.monotonic() + self.seconds
                while time.monotonic() < end:
                    net.module(torch.zeros(self.batch, 3, SIZE, SIZE))
        if self.is_one_of("growing memory, rank 0") and self.rank == 0:
            self.kept.append(torch.ones(500_000))


class Heads(Dataset):
    def __init__(self, fault):
        self.fault = fault
        self.images = torch.randint(0, 255, (2048, 3, SIZE, SIZE), dtype=torch.uint8)

    def __len__(self):
        return 100_000

    def __getitem__(self, i):
        self.fault.load()
        return self.images[i % len(self.images)].float() / 255, torch.zeros(3)


class Slow(torch.autograd.Function):
    """The identity, which takes the time of the fault."""

    @staticmethod
    def forward(ctx, x, fault):
        ctx.fault = fault
        fault.forward()
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        ctx.fault.backward()
        return gradient, None


class Net(nn.Module):
    """headpose_cnn: five convolutions with batch norm and pooling, and two linear layers."""

    def __init__(self, fault):
        super().__init__()
        blocks, channels = [], 3
        for width in (32, 64, 128, 256, 512):
            blocks += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
            channels = width
        self.fault, self.features = fault, nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 3))

    def forward(self, x):
        return self.head(Slow.apply(self.features(x), self.fault).mean((2, 3)))


def distributed(fault):
    net = nn.parallel.DistributedDataParallel(Net(fault))
    if fault.delays_messages():
        def late(state, bucket):
            time.sleep(fault.seconds / 2)
            return allreduce_hook(state, bucket)
        net.register_comm_hook(None, late)
    return net


def loop(fault, net, scope):
    """Seconds per sample of this rank after the warm-up. Every step runs in a scope()."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    data = Heads(fault)
    loader = DataLoader(data, batch_size=fault.batch, sampler=DistributedSampler(data), num_workers=fault.workers, drop_last=True)
    begin = None
    for step, (images, targets) in enumerate(loader):
        if step == WARM:
            begin = time.perf_counter()
        if step == WARM + STEPS:
            break
        with scope():
            nn.functional.smooth_l1_loss(net(images), targets).backward()
            optimizer.step()
            optimizer.zero_grad()
        fault.after_step(net, optimizer)
    return (time.perf_counter() - begin) / STEPS / fault.batch


def watched(tool, fault, net):
    if tool == "traceml":
        import traceml_ai as traceml
        traceml.init(mode="auto")
        return loop(fault, net, lambda: traceml.trace_step(net.module))
    if tool == "gpuprof":
        import gpuprof
        os.chdir(fault.folder)
        with gpuprof.profile("run"):
            return loop(fault, net, contextlib.nullcontext)
    return loop(fault, net, contextlib.nullcontext)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", default="healthy")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--tool", choices=["none", "traceml", "gpuprof"], default="none")
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    fault = Fault(options.fault, options.seconds, dist.get_rank(), options.folder)
    torch.set_num_threads(fault.threads)
    per_sample = watched(options.tool, fault, distributed(fault))
    if fault.rank == 0:
        (options.folder / "per_sample").write_text(str(per_sample))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
