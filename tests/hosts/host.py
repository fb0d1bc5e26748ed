"""One host of a test: namespaces of its own for network, host name, mounts and processes, held by host_init.py."""

import json
import os
import pathlib
import subprocess
import sys
import time

import runner

HERE = pathlib.Path(__file__).resolve().parent
WORK = pathlib.Path("/srv/work")  # where jobs start: data and run folders of one host
FOLDERS = {"/tmp": "256m", "/dev/shm": "256m", "/srv": "256m"}  # each a tmpfs of the host's own


def needed():
    """Folders of the machine that the program and the tests come from, wherever they lie."""
    return sorted({str(pathlib.Path(path).resolve()) for path in
                   (pathlib.Path(runner.DTRAIN).resolve().parent, runner.SOURCE, sys.prefix, sys.base_prefix)})


def environment(**more):
    """Of every process on a host, as a login there gives it."""
    kept = {key: value for key, value in runner.environment().items() if not key.startswith(("OMPI_", "PMIX_", "DTRAIN", "TMPDIR", "HOME"))}
    return {**kept, "HOME": "/srv/home", **more}


class Host:
    def __init__(self, name, address, table, folders=None):
        self.name, self.address, self.table = name, address, table
        self.folders = {**FOLDERS, **(folders or {})}
        self.holder = self.pid = None

    def __str__(self):
        return self.name

    def start(self):
        """Without a network yet: hosts.py connects it."""
        options = {"name": self.name, "kept": needed(), "folders": self.folders, "hosts": self.table}
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork",
             sys.executable, "-B", str(HERE / "host_init.py"), json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment())
        answer = self.holder.stdout.readline()
        assert answer == "ready\n", f"host {self.name} did not start"
        self.pid = int(pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text())

    def listen(self, **variables):
        """Answers rsh_agent from now on; what is started so has these variables."""
        server = self.popen([sys.executable, "-B", str(HERE / "rshd.py")], env=environment(**variables), stdout=subprocess.PIPE, text=True)
        assert server.stdout.readline() == "listening\n", f"no rshd on {self.name}"

    def command(self, words, cwd=WORK):
        """These words, to be run in this host by a process outside of it."""
        return ["nsenter", f"--target={self.pid}", "--net", "--uts", "--ipc", "--mount", "--pid", f"--wd={self.inside(cwd)}",
                *map(str, words)]

    def popen(self, words, cwd=WORK, env=None, **options):
        return subprocess.Popen(self.command(words, cwd), env=env or environment(), stdin=subprocess.DEVNULL, start_new_session=True, **options)

    def run(self, words, cwd=WORK, env=None, timeout=120):
        begin = time.monotonic()
        done = subprocess.run(self.command(words, cwd), env=env or environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout)
        return runner.Result(done.returncode, done.stdout, time.monotonic() - begin)

    def inside(self, path):
        """The path by which the test itself reaches a path of this host, as long as the host lives."""
        return pathlib.Path(f"/proc/{self.pid}/root") / str(path).lstrip("/")

    def processes(self, name=None):
        """{process id outside: its command line} of what runs here, but the first process."""
        ours = os.stat(f"/proc/{self.pid}/ns/pid").st_ino
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int(entry.name) != self.pid and os.stat(entry / "ns/pid").st_ino == ours:
                    words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                    if words[0] and (name is None or os.path.basename(words[0]) == name):
                        found[int(entry.name)] = " ".join(words)
            except OSError:
                continue
        return found

    def ranks(self):
        """{rank: process id outside} of the training that runs here. What a rank has started itself has a higher id."""
        found = {}
        for pid in sorted(self.processes(os.path.basename(runner.DTRAIN))):
            try:
                text = pathlib.Path(f"/proc/{pid}/environ").read_text(errors="replace")
            except OSError:
                continue
            variables = dict(item.split("=", 1) for item in text.split("\0") if "=" in item)
            if "OMPI_COMM_WORLD_RANK" in variables:
                found.setdefault(int(variables["OMPI_COMM_WORLD_RANK"]), pid)
        return found

    def names(self, table):
        """Replaces what this host knows of names and addresses."""
        self.inside("/srv/etc/hosts").write_text(table)

    def fill(self, folder):
        """Leaves no room in a file system of this host."""
        with open(self.inside(folder) / "filler", "wb", buffering=0) as file:
            block = bytes(1 << 16)
            while block:
                try:
                    file.write(block)
                except OSError:
                    block = block[:len(block) // 2]

    def end(self):
        """Kills every process of the host at once, as a loss of power does."""
        if self.holder is None:
            return
        self.holder.stdin.close()  # the first process ends, and the kernel kills all others of its namespace
        self.holder.wait()
        self.holder.stdout.close()
        self.holder = self.pid = None
