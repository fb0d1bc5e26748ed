"""Several hosts on this machine, for tests: a switch, hosts with file systems of their own (host.py), a link from each to the switch (link.py),
and mpirun on the first of them, which starts its daemons on the others by rsh_agent. Nothing of it has a name outside, and all of it ends with
the test, however that ends."""

import os
import pathlib
import subprocess
import tempfile
import time

import host as hosts_of
import link
import mounts
import runner

HERE = pathlib.Path(__file__).resolve().parent
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "--net"]
# Open MPI's folder in /tmp is named for user 0 there, and may be that of the real one.
OWN_SESSIONS = 'ip link set lo up; TMPDIR=$(mktemp -d); export TMPDIR; "$@"; code=$?; rm -rf "$TMPDIR"; exit $code'
MCA = {
    "plm_rsh_agent": HERE / "rsh_agent", "rmaps_base_oversubscribe": 1, "hwloc_base_binding_policy": "none",
    "btl_vader_single_copy_mechanism": "none",
}


class Hosts:
    """`slow` names the hosts (by number) whose link can be given a delay, `clocks` the seconds by which the clock of a host is wrong,
    `folders` the sizes of file systems of a host that differ."""

    def __init__(self, count=4, slow=(), clocks=None, folders=None):
        self.slow, self.clocks, self.folders = slow, clocks or {}, folders or {}
        self.names = [f"host{i}" for i in range(count)]
        addresses = [f"10.213.0.{i + 1}" for i in range(count)]
        self.table = "127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for a, n in zip(addresses, self.names))
        self.all = [hosts_of.Host(name, address, self.table, self.folders.get(i)) for i, (name, address) in enumerate(zip(self.names, addresses))]
        self.links = {}

    def __getitem__(self, index):
        return self.all[index]

    def __len__(self):
        return len(self.all)

    def __enter__(self):
        try:
            self.switch = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, start_new_session=True)
            self.wait_for_namespace()
            link.inside(self.switch.pid, "ip", "link", "add", "switch", "type", "bridge")
            link.inside(self.switch.pid, "ip", "link", "set", "switch", "up")
            for index in range(len(self)):
                self.start(index)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for index in range(len(self)):
            self.end(index)
        self.switch.stdin.close()
        self.switch.wait()

    def wait_for_namespace(self):
        ours = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.switch.pid}/ns/net") == ours:
            time.sleep(0.01)

    def start(self, index):
        """Starts a host, or one that was lost, with empty folders."""
        host = self.all[index]
        host.start()
        self.links[index] = (link.SlowLink if index in self.slow else link.Link)(host, self.switch.pid)
        host.listen(**self.clock(index))

    def end(self, index):
        self.all[index].end()
        if index in self.links:
            self.links.pop(index).close()

    def lose(self, index):
        """As a power failure does: no connection of it is closed."""
        self.links[index].cut()
        self.end(index)

    def clock(self, index):
        if index not in self.clocks:
            return {}
        return {"LD_PRELOAD": "/usr/$LIB/faketime/libfaketime.so.1", "FAKETIME": f"{self.clocks[index]:+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def give(self, file, indices=None, name=None):
        """Copies a file to these hosts, each its own."""
        for index in range(len(self)) if indices is None else indices:
            (self[index].inside(hosts_of.WORK) / (name or file.name)).write_bytes(file.read_bytes())

    def environment(self, mca=None, env=None):
        """Of a program on the first host that starts mpirun, or is mpirun."""
        variables = {f"OMPI_MCA_{name}": str(value) for name, value in {**MCA, **(mca or {})}.items()}
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return hosts_of.environment(**variables, **root, **(env or {}))

    def mpirun(self, arguments, per_host=2, hosts=None):
        """The words of `mpirun dtrain ARGUMENTS`."""
        indices = list(range(len(self)) if hosts is None else hosts)
        slots = ",".join(f"{self.names[i]}:{per_host}" for i in indices)
        return ["mpirun", "-np", len(indices) * per_host, "--host", slots, "-x", "OMP_NUM_THREADS", runner.DTRAIN, *arguments]

    def train(self, arguments, timeout=300, mca=None, **options):
        return self[0].run(self.mpirun(arguments, **options), env=self.environment(mca), timeout=timeout)

    def job(self, arguments, mca=None, **options):
        return Job(self[0], self.mpirun(arguments, **options), self.environment(mca))


class Job(runner.Running):
    """A running job, for faults. Leaving the context kills it if it is still running."""

    def __init__(self, host, words, env):
        self.host = host
        self.log = tempfile.TemporaryFile("w+")
        self.begin = time.monotonic()
        self.process = host.popen(words, env=env, stdout=self.log, stderr=subprocess.STDOUT)

    def __exit__(self, *_):
        if self.process.poll() is None:
            runner.kill(self.host.processes("mpirun"))
            self.process.kill()
            self.process.wait()
        self.log.close()


def allowed(prefix):
    probe = "ip link add left type veth peer name right && ip link add switch type bridge && mount -t tmpfs tmpfs /mnt"
    return subprocess.run([*prefix, "unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "sh", "-c", probe],
                          capture_output=True).returncode == 0


def missing_programs(names):
    return [name for name in names if subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True).returncode != 0]


def main(tests, programs=()):
    """As runner.main(). Skipped, with the reason, where namespaces are not allowed or programs are missing."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = missing_programs(["ip", "nsenter", "unshare", *programs])
    if missing:
        runner.skip(f"{', '.join(missing)} is not installed; launch/bootstrap --tests installs it")
    mounts.run_where(tests, allowed, NAMESPACE, OWN_SESSIONS, "make namespaces with networks of their own")
