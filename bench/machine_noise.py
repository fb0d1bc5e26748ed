"""How much others use the cores of this machine while something is measured on them.

A virtual machine shares execution units and caches of its cores with others, which no counter of its kernel shows: the same work then takes
half as long again, for milliseconds or minutes. NoiseMeter does a small fixed work 20 times a second on each core and takes the processor
time that it needs. Waiting for a core does not count, sharing its units does. It needs 0.3 % of each core. What slows a core evenly, from
the beginning to the end, does not show: then the machine is a slower one.

As a script it is the worker of one core: it prints the seconds of each work when its standard input ends.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

INTERVAL = 0.05  # seconds
FASTEST = 0.05   # the share of the works that shows how fast an undisturbed core is


class NoiseMeter:
    """with NoiseMeter() as meter: ...; then meter.noise is the mean time of the work over that on an undisturbed core: 1 is quiet."""

    def __enter__(self):
        # (In a session of their own, so that Ctrl-C is left to who asks them.)
        self.workers = [subprocess.Popen([sys.executable, str(pathlib.Path(__file__).resolve()), "--core", str(core)], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True, start_new_session=True) for core in sorted(os.sched_getaffinity(0))]
        return self

    def __exit__(self, *error):
        taken = [seconds for worker in self.workers for seconds in json.loads(worker.communicate("")[0])]
        self.noise = statistics.mean(taken) / sorted(taken)[int(FASTEST * len(taken))] if taken else 1


def work(core):
    os.sched_setaffinity(0, {core})
    os.set_blocking(0, False)
    taken = []
    while sys.stdin.buffer.raw.read(1) is None:  # b"" at its end
        begin, total = time.thread_time(), 0
        for i in range(2000):
            total += i * i
        taken.append(time.thread_time() - begin)
        time.sleep(INTERVAL)
    print(json.dumps(taken[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core", type=int, required=True)
    work(parser.parse_args().core)


if __name__ == "__main__":
    main()
