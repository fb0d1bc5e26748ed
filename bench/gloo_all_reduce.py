"""torch.distributed's gloo all-reduce of float32 by size, measured as bench/all_reduce.cpp and bench/mpi_all_reduce.c measure theirs.

usage: gloo_all_reduce.py RANK RANKS FILE     (FILE: where the ranks meet; bench/all_reduce_vs_peers.py starts it)
Rank 0 prints one JSON object per line, times in microseconds.
"""
import argparse
import json
import statistics
import time

import torch
import torch.distributed

SIZES = (4, 64, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 14680064, 26214400, 104857600)


def time_one(values, repetitions):
    """Seconds of one operation, of the slowest rank."""
    torch.distributed.barrier()
    began = time.perf_counter()
    for _ in range(repetitions):
        torch.distributed.all_reduce(values)
    mine = torch.tensor([(time.perf_counter() - began) / repetitions], dtype=torch.float64)
    torch.distributed.all_reduce(mine, torch.distributed.ReduceOp.MAX)
    return mine.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rank", type=int)
    parser.add_argument("ranks", type=int)
    parser.add_argument("file")
    options = parser.parse_args()
    rank, ranks, meeting = options.rank, options.ranks, options.file
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    memory, other = torch.empty(SIZES[-1] // 4), torch.empty(64 << 20, dtype=torch.uint8)
    for size in SIZES:
        values = memory[: size // 4]
        for caches in ("hot", "cold"):
            samples = 15 if size >= 1 << 20 else 60
            repetitions = 1 if caches == "cold" else 200 if size <= 1 << 14 else 50 if size <= 1 << 20 else 3
            times = []
            for sample in range(samples + 1):  # the first one warms up
                values.fill_(rank + 1)
                if caches == "cold":
                    other.fill_(sample)
                times.append(time_one(values, repetitions))
            if rank == 0:
                print(json.dumps({"mpi": "gloo", "ranks": ranks, "bytes": size, "caches": caches,
                                  "median_us": round(1e6 * statistics.median(times[1:]), 3), "min_us": round(1e6 * min(times[1:]), 3)}), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
