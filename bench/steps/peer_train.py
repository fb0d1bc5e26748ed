#!/usr/bin/env python3
"""Trains one of dtrain's networks in PyTorch, as a competent user writes it: the other side of step_vs_python.py.

usage: bench/steps/peer_train.py --network NAME --data FILE.h5 --steps N --warm N [--form usual] [--workers 0] [--channels-last] [--compile]
                           [--bf16] [--flush] [--weights FILE.safetensors]
       python -m torch.distributed.run --nproc-per-node 2 bench/steps/peer_train.py ...

Needs torch, torchvision, h5py and, for --weights, safetensors. DataLoader, fused AdamW, a cosine schedule, the loss printed at
every tenth step; DistributedDataParallel over gloo on several ranks. Rank 0 prints one line of JSON: when the first step ended
(Unix time), the seconds of the warm-up, and samples per second of all ranks after it. --weights must fit: they are dtrain's.
"""

import argparse
import contextlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

import peer_data
import peer_networks

ORDERS = {("pointer", "grouped"): "exact", ("sequence", "strong"): "sorted"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch", type=int, default=16, help="of each rank")
    parser.add_argument("--steps", type=int, required=True, help="in all")
    parser.add_argument("--warm", type=int, required=True, help="of them before the measurement")
    parser.add_argument("--form", default="usual")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--weights")
    for flag in ("channels-last", "compile", "bf16", "flush"):
        parser.add_argument(f"--{flag}", action="store_true")
    return parser.parse_args()


def make_network(options, data):
    torch.manual_seed(1)
    network = peer_networks.make(options.network, options.form, data)
    if options.weights:
        from safetensors.torch import load_file
        peer_networks.bare(network).load_state_dict(load_file(options.weights))
    return network.to(memory_format=torch.channels_last) if options.channels_last else network


def make_loader(options, data, rank, world):
    batches = peer_data.Batches(data, options.batch, rank, world, ORDERS.get((options.network, options.form), "shuffled"))
    return DataLoader(data, batch_sampler=batches, num_workers=options.workers, collate_fn=data.collate,
                      worker_init_fn=peer_data.prepare_worker if options.workers else None)


class Clock:
    """When the first step, the warm-up and the last step ended."""

    def __init__(self, options, world):
        self.options, self.world, self.began = options, world, time.perf_counter()

    def after(self, step):
        if step == 1:
            self.first = time.time()
        if step == self.options.warm:
            if self.world > 1:
                dist.barrier()
            self.warm = time.perf_counter()

    def result(self):
        samples = (self.options.steps - self.options.warm) * self.options.batch * self.world
        return {"first_step": self.first, "warmup_seconds": self.warm - self.began, "rate": samples / (time.perf_counter() - self.warm)}


def train(options, model, loader, clock):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    for step, batch in enumerate(loader, 1):
        with torch.autocast("cpu", torch.bfloat16) if options.bf16 else contextlib.nullcontext():
            loss = model(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", file=sys.stderr)
        clock.after(step)
        if step == options.steps:
            return


def main():
    options = parse()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if options.flush:
        torch.set_flush_denormal(True)  # before the threads start, which inherit it
    if world > 1:
        dist.init_process_group("gloo")
    data = peer_data.open_data(options.data, options.channels_last)
    network = make_network(options, data)
    # The settings of DistributedDataParallel that are fastest here; its defaults copy each gradient and send the statistics of batch norm.
    model = torch.nn.parallel.DistributedDataParallel(network, broadcast_buffers=False, gradient_as_bucket_view=True) if world > 1 else network
    if options.compile:
        model = torch.compile(model)
    clock = Clock(options, world)
    train(options, model, make_loader(options, data, rank, world), clock)
    if rank == 0:
        parameters = sum(p.numel() for p in network.parameters())
        print(json.dumps({**clock.result(), "parameters": parameters, "threads": torch.get_num_threads()}), flush=True)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
