"""A machine of its own for a Slurm: namespaces that end with the test, with a network, names for several nodes, and shared memory.

Slurm's daemons leave the process group of the test that starts them, and so do the processes of their jobs: in a PID namespace they end
when its first process ends. In a network namespace no port is taken, and nothing of Slurm can be reached from outside.
"""

import shutil
import subprocess
import tempfile

import namespaces
import runner

ADDRESS = "10.77.0.1"  # of the only interface beside the loopback, which Open MPI does not use between hosts
NODES = ["n1", "n2", "n3", "n4"]  # the names that resolve to it, beside `head`


def enter():
    """Starts this test again in namespaces; inside of them it returns."""
    if not shutil.which("ip"):
        runner.skip("needs the package iproute2")
    namespaces.enter("--net", "--uts")
    _prepare()


def _prepare():
    for command in ("hostname head", "mount -t tmpfs shm /dev/shm", "ip link set lo up",
                    "ip link add d0 type veth peer name d1", f"ip addr add {ADDRESS}/24 dev d0",
                    "ip link set d0 up", "ip link set d1 up"):
        subprocess.run(command.split(), check=True)
    with tempfile.NamedTemporaryFile("w") as hosts:  # once mounted, it needs no name
        hosts.write(f"127.0.0.1 localhost\n{ADDRESS} head {' '.join(NODES)}\n")
        hosts.flush()
        subprocess.run(["mount", "--bind", hosts.name, "/etc/hosts"], check=True)
