"""A link with a delay, in user space, because not every kernel has netem: `slow_link.py HOST_PID SWITCH_PID SWITCH_PORT`.

It holds a TAP device at each end: eth0 in the network of the host, and a port of the switch. Frames that it reads at one end it writes at the
other end later. Lines on its standard input say how much: `out SECONDS` from the host, `in SECONDS` to it, `out never` loses them."""

import ctypes
import fcntl
import heapq
import os
import select
import struct
import sys
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
LARGEST_FRAME = 65536


def enter(process):
    with open(f"/proc/{process}/ns/net") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def tap(process, name):
    """A device in the network of that process. It stays there when this process goes to another one."""
    enter(process)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def forward(ends):
    """`ends` is {direction: (device to read, device to write)}."""
    delay = dict.fromkeys(ends, 0.0)
    by_device = {source: direction for direction, (source, _) in ends.items()}
    waiting, count = [], 0
    while True:
        pause = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([0, *by_device], [], [], pause)
        now = time.monotonic()
        for source in ready:
            if source == 0:
                line = os.read(0, 4096).decode()
                if not line:
                    return
                for order in line.splitlines():
                    direction, seconds = order.split()
                    delay[direction] = None if seconds == "never" else float(seconds)
                print("done", flush=True)
                continue
            direction = by_device[source]
            frame = os.read(source, LARGEST_FRAME)
            if delay[direction] is not None:
                count += 1
                heapq.heappush(waiting, (now + delay[direction], count, ends[direction][1], frame))
        while waiting and waiting[0][0] <= now:
            _, _, device, frame = heapq.heappop(waiting)
            try:
                os.write(device, frame)
            except OSError:
                pass  # the other end is down: a frame is lost


def main():
    host, switch, port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    near, far = tap(host, "eth0"), tap(switch, port)
    print("ready", flush=True)
    forward({"out": (near, far), "in": (far, near)})


main()
