"""One job of the matrix: starts dtrain with signal_at.cpp in it, sends signals, waits, and finds what is left of it."""

import os
import pathlib
import signal
import struct
import subprocess
import threading
import time

import runner

LIBRARY = pathlib.Path(os.environ.get("DTRAIN_BUILD", "build")) / "tests/e2e/signals/libsignal_at.so"
MARK = "SIGNALS_CASE"  # a variable by which the processes of a job are found
LONGEST = 300.0  # seconds: what still runs then hangs
BOARD = struct.Struct("=2q8q8q8q8q32s")  # as in signal_at.cpp
BOARD_BYTES = 4096


class Board:
    """What signal_at.cpp noted: times of CLOCK_MONOTONIC in seconds, or None."""

    def __init__(self, data):
        values = BOARD.unpack(data[:BOARD.size])
        times = [value / 1e9 if value else None for value in values[:-1]]
        self.armed, self.fired = times[:2]
        self.main, self.handler, self.received, self.finalized = (times[2 + 8 * i:10 + 8 * i] for i in range(4))
        self.job = values[-1].split(b"\0")[0].decode()


def environment_of(process):
    data = pathlib.Path(f"/proc/{process}/environ").read_bytes().decode(errors="replace")
    return dict(item.split("=", 1) for item in data.split("\0") if "=" in item)


def stat_of(process):
    """(name, state, parent) of a process."""
    text = pathlib.Path(f"/proc/{process}/stat").read_text()
    rest = text.rsplit(")", 1)[1].split()
    return text[text.index("(") + 1:text.rindex(")")], rest[0], int(rest[1])


def processes_of(mark):
    """{process id: (name, state, parent, rank or None)} of all processes of the job with that mark."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            variables = environment_of(entry.name)
            if variables.get(MARK) == mark:
                rank = variables.get("OMPI_COMM_WORLD_RANK")
                found[int(entry.name)] = (*stat_of(entry.name), None if rank is None else int(rank))
        except (OSError, ValueError):
            continue
    return found


class Job:
    """A running dtrain. `np` None: without mpirun. `plan`: variables of signal_at.cpp, without their SIGNAL_."""

    def __init__(self, folder, arguments, np=None, plan=None, extra=None):
        self.folder = pathlib.Path(folder)
        self.mark = f"{self.folder}:{time.monotonic_ns()}"
        (self.folder / "tmp").mkdir(exist_ok=True)
        self.plan = plan or {}
        self.board_file = self.folder / "board"
        self.board_file.write_bytes(bytes(BOARD_BYTES))
        env = {**runner.environment(), "TMPDIR": str(self.folder / "tmp"), MARK: self.mark, "LD_PRELOAD": str(LIBRARY),
               "SIGNAL_BOARD": str(self.board_file), **(extra or {})}
        env.update({"SIGNAL_" + key.upper(): str(value) for key, value in self.plan.items()})
        self.log = open(self.folder / "output", "w+", errors="replace")
        self.sent = None
        self.begin = time.monotonic()
        self.process = subprocess.Popen(runner.command(arguments, np), cwd=self.folder, env=env, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        self.code = self.end = None
        self.problem = None  # of what was to be done later

    def board(self):
        return Board(self.board_file.read_bytes())

    def output(self):
        return (self.folder / "output").read_text(errors="replace")

    def ranks(self):
        """{rank: process id} of those that run; not what they have forked."""
        found = processes_of(self.mark)
        return {rank: pid for pid, (name, state, parent, rank) in sorted(found.items())
                if rank is not None and state != "Z" and found.get(parent, (0, 0, 0, None))[3] is None and name == "dtrain"}

    def mpirun(self):
        """Its process id, also below `dtrain launch`; None: it does not run."""
        return next((pid for pid, (name, state, *_) in processes_of(self.mark).items() if name in ("mpirun", "orterun") and state != "Z"), None)

    def send(self, number, process=None):
        """A signal to the process that was started, or to another; notes the time of the first one."""
        if self.process.poll() is None:
            now = time.monotonic()
            try:
                os.kill(process or self.process.pid, number)
            except ProcessLookupError:
                return
            self.sent = self.sent or now

    def later(self, seconds, action):
        """Does it in this number of seconds, unless the job has ended before."""
        def act():
            try:
                if self.process.poll() is None:
                    action()
            except Exception as problem:  # pylint: disable=broad-except
                self.problem = problem  # for wait()
        timer = threading.Timer(seconds, act)
        timer.daemon = True
        timer.start()

    def wait(self, timeout=LONGEST):
        """The exit code, negative for a signal; None if it hangs: then it is ended. Raises what an action of later() raised."""
        try:
            self.code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill_all()
            self.process.wait()
        self.end = time.monotonic()
        self.log.close()
        if self.problem:
            raise self.problem
        return self.code

    def signaled(self):
        """When the signal was sent, by this process or by signal_at.cpp; None: it was not."""
        return self.sent or self.board().fired

    def seconds_to_exit(self):
        return self.end - self.signaled()

    def kill_all(self):
        for process in processes_of(self.mark):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def left_after(self, seconds):
        """The processes that still run this number of seconds after the end."""
        end = time.monotonic() + seconds
        while True:
            left = {pid: name for pid, (name, state, *_) in processes_of(self.mark).items() if state != "Z"}
            if not left or time.monotonic() > end:
                return left
            time.sleep(0.05)
