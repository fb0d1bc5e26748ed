"""Separate namespaces for a test that starts daemons: whatever happens to the test, all that it started ends with it.

Slurm's daemons leave the process group of the test that starts them, and so do the processes of their jobs. In a PID
namespace they end when its first process ends, and so does their shared memory. In a network namespace no port is taken,
and nothing of Slurm can be reached from outside.
"""

import os
import shutil
import subprocess
import sys
import tempfile

import runner

ADDRESS = "10.77.0.1"  # of the only interface beside the loopback, which Open MPI does not use between hosts
NODES = ["n1", "n2", "n3", "n4"]  # the names that resolve to it, beside `head`
_INSIDE = "DTRAIN_TEST_SANDBOX"
_UNSHARE = ["unshare", "--mount", "--net", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"]


def enter():
    """Starts this test again in namespaces and exits with its exit code; inside of them it returns."""
    if os.environ.get(_INSIDE):
        _prepare()
        return
    if os.geteuid() != 0 or subprocess.run([*_UNSHARE, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        runner.skip("needs root and namespaces")
    if not shutil.which("ip"):
        runner.skip("needs the package iproute2")
    sys.stdout.flush()
    inside = subprocess.run([*_UNSHARE, sys.executable, *sys.argv], env={**os.environ, _INSIDE: "1"})
    sys.exit(inside.returncode if inside.returncode >= 0 else 1)


def _prepare():
    for command in ("hostname head", "mount -t tmpfs shm /dev/shm", "ip link set lo up",
                    "ip link add d0 type veth peer name d1", f"ip addr add {ADDRESS}/24 dev d0",
                    "ip link set d0 up", "ip link set d1 up"):
        subprocess.run(command.split(), check=True)
    with tempfile.NamedTemporaryFile("w") as hosts:  # once mounted, it needs no name
        hosts.write(f"127.0.0.1 localhost\n{ADDRESS} head {' '.join(NODES)}\n")
        hosts.flush()
        subprocess.run(["mount", "--bind", hosts.name, "/etc/hosts"], check=True)
