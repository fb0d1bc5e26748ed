"""What a measured command takes of the machine: the memory of all its processes, and what others took of the cores meanwhile."""

import os
import pathlib
import resource
import threading
import time

PROC = pathlib.Path("/proc")


def descendants(pid):
    """pid and all processes that it started, directly or not."""
    children = {}
    for path in PROC.glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended
        children.setdefault(parent, []).append(int(path.parent.name))
    found, rest = [], [pid]
    while rest:
        found.append(rest.pop())
        rest += children.get(found[-1], [])
    return found


def pss_bytes(pid):
    """Memory of one process, in which each shared page counts by its share."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


class PeakMemory(threading.Thread):
    """Samples the memory of a process and its descendants until it ends. Reading costs some ms each time, so use runs of their own."""

    INTERVAL = 0.3  # seconds

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.over = pid, 0, threading.Event()

    def run(self):
        while not self.over.wait(self.INTERVAL):
            self.peak = max(self.peak, sum(map(pss_bytes, descendants(self.pid))))

    def stop(self):
        self.over.set()
        self.join()
        return self.peak


def busy_seconds():
    """CPU seconds of everything on this machine since it started, and those that its host gave to other machines."""
    ticks = [int(word) for word in (PROC / "stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _, _, irq, soft_irq, steal = ticks[:8]
    hertz = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + soft_irq) / hertz, steal / hertz


def own_seconds():
    """CPU seconds of this process and of its descendants that have ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


class OtherLoad:
    """with OtherLoad() as load: ...; then load.share is the share of all cores that other processes and other machines used."""

    def __enter__(self):
        self.began, self.own, (self.busy, self.steal) = time.monotonic(), own_seconds(), busy_seconds()
        return self

    def __exit__(self, *error):
        busy, steal = busy_seconds()
        taken = (busy - self.busy) + (steal - self.steal) - (own_seconds() - self.own)
        self.share = max(0.0, taken / (time.monotonic() - self.began) / len(os.sched_getaffinity(0)))


def wait_until_quiet(most_share, seconds):
    """Until others use at most this share of all cores for a second, or these seconds are over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with OtherLoad() as load:
            time.sleep(1)
        if load.share <= most_share:
            return
