"""The first process of a host: it makes the host's own file systems, and its end ends every process of the host.

It lives as long as its standard input is open. That is a pipe of the test, so that no host outlives its test, not even one that
was killed."""

import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

MS_MOVE = 0x2000


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def move(source, target):
    """The program of that name also writes a file of the machine's, which an ordinary user may not."""
    if ctypes.CDLL(None, use_errno=True).mount(str(source).encode(), str(target).encode(), None, MS_MOVE, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount --move {source} {target}")


def own_folder(folder, size, kept):
    """Mounts a tmpfs there. The folders below it that the program needs stay visible: nothing else of the machine does."""
    below = [path for path in kept if path.is_relative_to(folder)]
    stage = pathlib.Path("/mnt")  # hidden in this mount namespace alone
    mount("-t", "tmpfs", "-o", f"size={size},mode=1777", "tmpfs", stage)
    for path in below:
        (stage / path.relative_to(folder)).mkdir(parents=True, exist_ok=True)
        mount("--rbind", path, stage / path.relative_to(folder))
    move(stage, folder)


def own_file(path, text):
    """Puts a file of this host in the place of the machine's."""
    ours = pathlib.Path("/srv/etc") / path.name
    ours.parent.mkdir(exist_ok=True)
    ours.write_text(text)
    mount("--bind", ours, path.resolve())


def main():
    options = json.loads(sys.argv[1])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no other process reaps what is left without a parent
    signal.signal(signal.SIGINT, signal.SIG_IGN)   # Ctrl-C is for the test, which closes the pipe
    socket.sethostname(options["name"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mount("--make-rprivate", "/")
    kept = [pathlib.Path(path) for path in options["kept"]]
    for folder, size in options["folders"].items():
        own_folder(pathlib.Path(folder), size, kept)
    mount("-t", "proc", "proc", "/proc")
    own_file(pathlib.Path("/etc/hosts"), options["hosts"])
    own_file(pathlib.Path("/etc/resolv.conf"), "")
    for folder in ("/srv/work", "/srv/home"):
        os.mkdir(folder)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    while os.read(0, 4096):
        pass


main()
