"""Time and memory of `dtrain convert arrays` for rows of 8 numbers, by the number of rows.

    bench/convert_rows.py --dtrain build/src/dtrain --rows 1000000,8000000,50000000 --folder F

needs 280 bytes of disk in F for each row of the largest number, and numpy. Prints one line for each number of rows.
"""

import argparse
import multiprocessing
import os
import pathlib
import subprocess
import sys
import time

import numpy as np


def write(file, rows):
    random = np.random.default_rng(1)
    np.savez(file, inputs=random.standard_normal((rows, 8), dtype=np.float32),
             targets=random.standard_normal(rows, dtype=np.float32))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtrain", type=pathlib.Path, default="build/src/dtrain")
    parser.add_argument("--rows", default="1000000,8000000,50000000")
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    options = parser.parse_args()
    raw, out = options.folder / "rows.npz", options.folder / "rows.h5"
    print(f"{'rows':>12} {'seconds':>9} {'CPU s':>9} {'MiB':>7} {'bytes a row':>12}")
    for rows in map(int, options.rows.split(",")):
        try:
            # In another process: a child's largest memory counts that of its parent before exec.
            writer = multiprocessing.Process(target=write, args=(raw, rows))
            writer.start()
            writer.join()
            start = time.monotonic()
            child = subprocess.Popen([options.dtrain, "convert", "arrays", raw, "--out", out, "--force"],
                                     stderr=subprocess.DEVNULL)
            _, status, used = os.wait4(child.pid, 0)
            if status != 0:
                sys.exit(f"dtrain ended with status {status}")
            seconds, memory = time.monotonic() - start, used.ru_maxrss * 1024
            print(f"{rows:12} {seconds:9.1f} {used.ru_utime + used.ru_stime:9.1f} {memory / 2**20:7.0f} "
                  f"{memory / rows:12.1f}", flush=True)
        finally:
            for file in (raw, out):
                file.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
