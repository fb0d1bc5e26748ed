"""A small Slurm on one machine: munged, slurmctld, and a slurmd for each pretended node, with files of their own.

Debian's Slurm 22.05 is built with --enable-multiple-slurmd, so several slurmd can run on one machine under different
names. Each has PID and UTS namespaces of its own: a node has a host name, and can die with all its processes. There is no
systemd and no cgroup: proctrack/linuxproc finds the processes of a step by their parents.
"""

import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import time

import sandbox

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "mpirun")

# What differs from Slurm's defaults, beside paths and names, and why.
SETTINGS = """
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
# The nodes have more cores and graphics cards than the machine.
SlurmdParameters=config_overrides
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
# Slurm's defaults would have the tests wait: 120 s from requeue to start (cred_expire below), a minute between two looks
# at the queue, five minutes before a node that is silent is down.
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
SlurmdTimeout=9
ReturnToService=2
# A higher partition takes nodes from a lower one.
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""
REQUEUE_SECONDS = 6

# Of daemons that start for the first time, and of munged, whose clients try an encryption that it does not have.
NOISE = re.compile(r"state file|Trying backup state|Unauthorized credential|Socket is inaccessible|differs from hardware|"
                   r"PRNG|origin address")

# Bash reaps the orphans of the node: slurmd starts each slurmstepd so that the first process of the namespace is its parent.
NODE = 'hostname "$1" && slurmd -N "$1" -f "$2" && while :; do sleep 1000 & wait; done'


def missing():
    """The programs that are not installed."""
    return [program for program in NEEDED if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin")]


class Cluster:
    """Started on entering the context, ended on leaving it. Commands of Slurm find it through self.env."""

    def __init__(self, folder, nodes=2, grace=60, user_signal=True):
        """grace: seconds that a job of the lower partition has when it is preempted. user_signal: it is then sent the
        signal of its --signal, where Slurm's default is SIGTERM to the steps alone."""
        self.folder = pathlib.Path(folder) / "slurm"
        self.names = [f"n{number + 1}" for number in range(nodes)]
        self.grace, self.user_signal = grace, user_signal
        self.processes = {}
        path = os.environ["PATH"] + ":/usr/sbin:/sbin"
        self.env = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}

    def __enter__(self):
        for name in ("state", "log", *(f"{kind}/{node}" for kind in ("spool", "tmp") for node in self.names)):
            (self.folder / name).mkdir(parents=True)
        self._configure()
        try:
            self._start_munged()
            self._start("slurmctld", ["slurmctld", "-D", "-i", "-f", self.env["SLURM_CONF"]])
            for name in self.names:
                self.start_node(name)
            self.wait(lambda: all(state.startswith("idle") for state in self.nodes().values()), 30, "the nodes are idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def _configure(self):
        folder = self.folder
        lines = [SETTINGS, "ClusterName=test", f"SlurmctldHost=head({sandbox.ADDRESS})",
                 f"AuthInfo=socket={folder}/munge.sock,cred_expire={REQUEUE_SECONDS}",
                 f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool/%n",
                 f"TmpFS={folder}/tmp/%n",  # mpi_pmix makes a folder there, of the same name on each node
                 f"SlurmctldPidFile={folder}/slurmctld.pid", f"SlurmdPidFile={folder}/%n.pid",
                 "SlurmctldSyslogDebug=quiet", "SlurmdSyslogDebug=quiet", f"SlurmdLogFile={folder}/log/%n"]
        for number, name in enumerate(self.names):
            lines.append(f"NodeName={name} NodeHostname=head NodeAddr={sandbox.ADDRESS} Port={6820 + number} CPUs=4 "
                         "Gres=gpu:4")
        nodes = ",".join(self.names)
        lines += [f"PartitionName=low Nodes={nodes} PriorityTier=1 GraceTime={self.grace} Default=YES",
                  f"PartitionName=high Nodes={nodes} PriorityTier=2 PreemptMode=OFF"]
        if self.user_signal:
            lines.append("SlurmctldParameters=preempt_send_user_signal")
        (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        for number in range(4):  # what stands for the graphics cards
            os.mknod(folder / f"gpu{number}", 0o600 | stat.S_IFCHR, os.makedev(1, 3))  # as /dev/null
        (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-3]\n")

    def _start(self, name, command):
        with open(self.folder / "log" / f"{name}.out", "a") as log:
            self.processes[name] = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _start_munged(self):
        (self.folder / "munge.key").touch(mode=0o600)
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        files = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munged.pid", "seed-file": "munge.seed"}
        options = [f"--{option}={self.folder / file}" for option, file in files.items()]
        # --force: the test's folder may be in a /tmp that others can write to
        self._start("munged", ["munged", "--foreground", "--force", f"--origin={sandbox.ADDRESS}", *options])
        self.wait((self.folder / "munge.sock").exists, 20, "munged serves")

    def start_node(self, name):
        self._start(name, ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", NODE,
                           "node", name, self.env["SLURM_CONF"]])

    def kill_node(self, name):
        """As when its power is cut: all processes of the node end at once."""
        self.processes[name].kill()
        self.processes[name].wait()

    def kill_process(self, node, program, *arguments):
        """Ends the process of a node that runs a program with these first arguments. One that it forked ends by itself."""
        found = [process for process in self._processes_of(node) if _runs(process, program, arguments)]
        assert found, f"no process on {node} runs {program}\n{self.logs()}"
        os.kill(min(found), signal.SIGKILL)

    def _processes_of(self, node):
        """The process ids of a node: below `unshare`, and in the namespace of its child."""
        unshare = self.processes[node].pid
        first = pathlib.Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()[0]
        space = os.readlink(f"/proc/{first}/ns/pid")
        return [int(entry.name) for entry in pathlib.Path("/proc").glob("[0-9]*") if _link(entry / "ns/pid") == space]

    def nodes(self):
        """{node: state}; silent where slurmctld does not answer yet."""
        words = ["sinfo", "--noheader", "--Node", "--partition", "low", "--format", "%N %T"]
        lines = self.call(*words, check=False).splitlines()
        states = dict(line.split() for line in lines if len(line.split()) == 2)
        return states if len(states) == len(self.names) else {"none": "silent"}

    def call(self, *command, check=True, cwd=None, env=None):
        """The output of a command of Slurm."""
        done = subprocess.run([str(word) for word in command], env={**self.env, **(env or {})}, cwd=cwd, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        assert done.returncode == 0 or not check, f"{command}: {done.returncode}\n{done.stdout}\n{self.logs()}"
        return done.stdout

    def wait(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"not within {seconds} s: {what}\n{self.logs()}"
            time.sleep(0.2)

    def logs(self):
        """The last lines of each daemon."""
        texts = []
        for log in sorted((self.folder / "log").iterdir()):
            lines = [line for line in log.read_text(errors="replace").splitlines() if not NOISE.search(line)][-25:]
            texts += [f"--- {log.name}", *lines] if lines else []
        return "\n".join(texts)


def _link(path):
    try:
        return os.readlink(path)
    except OSError:  # the process has ended
        return None


def _runs(process, program, arguments):
    try:
        words = pathlib.Path(f"/proc/{process}/cmdline").read_text().split("\0")
    except OSError:
        return False
    return pathlib.Path(words[0]).name == program and words[1:1 + len(arguments)] == list(arguments)
