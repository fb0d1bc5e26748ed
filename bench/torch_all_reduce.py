"""The all-reduce of float32 that PyTorch users have on one host, by size, measured as bench/all_reduce.cpp and bench/mpi_all_reduce.c measure theirs:
torch.distributed's gloo, or DeepSpeed's shared memory.

usage: torch_all_reduce.py RANK RANKS FILE [--deepspeed LIBRARY] [--row COUNT]     (FILE: where the ranks meet; bench/all_reduce_vs_peers.py starts it)
Rank 0 prints one JSON object per line, times in microseconds. LIBRARY is DeepSpeed's csrc/cpu/comm, compiled.
"""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import statistics
import time

import torch
import torch.distributed

SIZES = (4, 64, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 14680064, 26214400, 104857600)


def deepspeed(library, rank, ranks, name):
    """DeepSpeed's all-reduce in shared memory: what its inference_all_reduce calls on CPUs. Its segments in /dev/shm, which have `name` in theirs, stay there
    after the processes have ended."""
    os.environ.update(LOCAL_SIZE=str(ranks), MASTER_ADDR=name, MASTER_PORT="0")
    loader = importlib.machinery.ExtensionFileLoader("deepspeed_shm_comm", library)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    module.initialize(ranks, rank)
    return torch.ops.deepspeed.inference_all_reduce_


def time_one(values, all_reduce, barrier, repetitions):
    """Seconds of one operation, of the slowest rank."""
    barrier()
    began = time.perf_counter()
    for _ in range(repetitions):
        all_reduce(values)
    mine = torch.tensor([(time.perf_counter() - began) / repetitions], dtype=torch.float64)
    torch.distributed.all_reduce(mine, torch.distributed.ReduceOp.MAX)
    return mine.item()


def check(values, all_reduce, rank, ranks):
    values.fill_(rank + 1)
    all_reduce(values)
    if not bool((values == ranks * (ranks + 1) / 2).all()):
        raise SystemExit(f"torch_all_reduce: the sum of {values.numel()} elements is wrong")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rank", type=int)
    parser.add_argument("ranks", type=int)
    parser.add_argument("file")
    parser.add_argument("--deepspeed", metavar="LIBRARY")
    parser.add_argument("--row", type=int, default=200, help="most operations that follow each other without a barrier")
    options = parser.parse_args()
    rank, ranks, meeting = options.rank, options.ranks, options.file
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    all_reduce, barrier = torch.distributed.all_reduce, torch.distributed.barrier
    if options.deepspeed:
        all_reduce, one = deepspeed(options.deepspeed, rank, ranks, os.path.basename(os.path.dirname(meeting))), torch.zeros(1)
        barrier = lambda: all_reduce(one)  # gloo's barrier lets ranks go at times that differ more than this all-reduce takes
    memory, other = torch.empty(SIZES[-1] // 4), torch.empty(64 << 20, dtype=torch.uint8)
    for size in SIZES:
        values = memory[: size // 4]
        check(values, all_reduce, rank, ranks)
        for caches in ("hot", "cold"):
            samples = 15 if size >= 1 << 20 else 60
            repetitions = 1 if caches == "cold" else min(options.row, 200 if size <= 1 << 14 else 50 if size <= 1 << 20 else 3)
            times = []
            for sample in range(samples + 1):  # the first one warms up
                values.fill_(rank + 1)
                if caches == "cold":
                    other.fill_(sample)
                times.append(time_one(values, all_reduce, barrier, repetitions))
            if rank == 0:
                print(json.dumps({"mpi": "deepspeed" if options.deepspeed else "gloo", "ranks": ranks, "bytes": size, "caches": caches,
                                  "median_us": round(1e6 * statistics.median(times[1:]), 3), "min_us": round(1e6 * min(times[1:]), 3)}), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
