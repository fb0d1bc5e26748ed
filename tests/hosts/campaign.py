"""Faults of hosts and links one after the other, drawn by a seed: each must end the training, and be named by host.

usage: campaign.py [--faults N] [--minutes M] [--seed S]     prints a line for each, then a table; ends with 1 if one did not end, was not named, or left ranks behind
"""

import argparse
import collections
import math
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

import faults_test
import hosts
import link
import runner

TIMEOUT = 15  # dist.timeout
LIMIT = 60  # seconds within which the job must have ended


# What is done to host i (and j).
FAULTS = {
    "host lost": lambda four, i, j: four.lose(i),
    "link cut": lambda four, i, j: four.links[i].cut(),
    "sends nothing": lambda four, i, j: four.links[i].delay("never", ["out"]),
    "receives nothing": lambda four, i, j: four.links[i].delay("never", ["in"]),
    "firewall": lambda four, i, j: link.firewall(four[i], four[j]),
    "one-way firewall": lambda four, i, j: link.firewall(four[i], four[j], ("input",)),
}


def named(output, names):
    """Whether an error of dtrain, or what mpirun says of a node, names all these hosts. Open MPI's other messages name the hosts that noticed something."""
    said = "\n".join(line.split("error: ", 1)[-1] for line in output.splitlines() if "error: " in line or " on node " in line)
    return all(name in said for name in names)


def says_what_to_do(output):
    """dtrain's own errors do; where mpirun notices the fault first, dtrain has not said anything yet."""
    said = "\n".join(line for line in output.splitlines() if "error: " in line)
    return any(cure in said for cure in ("launch/ssh/check", "firewall", "`ssh ", "ssh host"))


def one_fault(kind, i, j, pause, folder):
    """(exit code or None if it did not end, seconds, what was said of it, ranks left)"""
    with hosts.Hosts(4, slow=[i] if "nothing" in kind else []) as four:
        four.give(folder / "d.h5")
        with four.job(runner.flags({**faults_test.KEYS, "dist.timeout": TIMEOUT}), mca=faults_test.KEEPALIVE) as job:
            job.wait_for("step 1/", timeout=180)
            time.sleep(pause)
            FAULTS[kind](four, i, j)
            begin = time.monotonic()
            while job.process.poll() is None and time.monotonic() < begin + LIMIT:
                time.sleep(0.1)
            seconds = time.monotonic() - begin
            names = [four.names[i]] + ([four.names[j]] if "firewall" in kind else [])
            living = [k for k in range(4) if four[k].pid]
            while any(four[k].ranks() for k in living) and time.monotonic() < begin + LIMIT:
                time.sleep(0.2)
            left = sum(len(four[k].ranks()) for k in living)
            said = {"host": named(job.output(), names), "direction": f"from {four.names[j]} to {four.names[i]}" in job.output(),
                    "cure": says_what_to_do(job.output())}
            return job.process.poll(), seconds, said, left


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if missing := hosts.missing_programs(["ip", "nft", "nsenter", "unshare"]):
        runner.skip(f"{', '.join(missing)} is not installed; launch/bootstrap --tests installs it")
    if not hosts.allowed([]):
        runner.skip("needs root, and namespaces with networks of their own")
    draw, end, results = random.Random(options.seed), time.monotonic() + 60 * options.minutes, collections.defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="dtrain-campaign-") as name:
        folder = pathlib.Path(name)
        runner.synth(folder / "d.h5", 64)
        for number in range(options.faults):
            if time.monotonic() > end:
                break
            kind, (i, j), pause = draw.choice(list(FAULTS)), draw.sample(range(1, 4), 2), draw.uniform(0, 3)
            try:
                result = one_fault(kind, i, j, pause, folder)
            except AssertionError as problem:  # it did not even train
                print(problem, flush=True)
                result = (None, math.inf, dict.fromkeys(("host", "direction", "cure"), False), 0)
            results[kind].append(result)
            code, seconds, said, left = result
            print(f"{number + 1}: {kind} (host{i}, host{j}): code {code}, {seconds:.1f} s, said: {', '.join(k for k, v in said.items() if v) or 'nothing'}, "
                  f"{left} ranks left", flush=True)
    print(f"\nseed {options.seed}\n{'fault':18} {'runs':>4} {'ended':>5} {'named':>5} {'direction':>9} {'cure':>4} {'median s':>8} {'most s':>6}  codes")
    for kind, found in sorted(results.items()):
        times = [seconds for _, seconds, _, _ in found]
        print(f"{kind:18} {len(found):4} {sum(r[0] is not None for r in found):5} {sum(r[2]['host'] for r in found):5} {sum(r[2]['direction'] for r in found):9} "
              f"{sum(r[2]['cure'] for r in found):4} {statistics.median(times):8.1f} {max(times):6.1f}  "
              + " ".join(map(str, sorted({r[0] for r in found}, key=str))))
    # A firewall is found by dtrain itself, which knows the direction where packets get through in the other one.
    complete = {"firewall": ("host", "cure"), "one-way firewall": ("host", "direction", "cure")}
    sys.exit(any(code is None or left or not all(said[what] for what in complete.get(kind, ("host",)))
                 for kind, found in results.items() for code, _, said, left in found))


if __name__ == "__main__":
    main()
