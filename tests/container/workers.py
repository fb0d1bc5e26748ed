"""What the workers of an MPI job run, and their launcher, as in launch/kubernetes/base/mpijob.yaml. The keys are made by each test."""

import os
import shutil
import subprocess

WORKERS = ["worker0", "worker1"]
SSHD = ["/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"]  # the args of launch/kubernetes/base/mpijob.yaml
# The quick start on small pictures. ssh hands over no environment: -x does.
TRAIN = ["mpirun", "--bind-to", "none", "-np", "2", "-x", "PATH", "-x", "OMPI_MCA_btl_vader_single_copy_mechanism", "-x", "OMP_NUM_THREADS=1",
         "--hostfile", "/etc/mpi/hostfile", "--mca", "btl_tcp_if_exclude", "lo,docker0", "/opt/dtrain/bin/dtrain", "--name", "q",
         "--model.image_size", "32", "--run.log_every", "1", "--resume", "auto", "--task", "headpose"]


def keys(folder):
    """As Kubernetes mounts a secret: root owns them, and the group of the user may read them."""
    ssh = folder / "ssh"
    ssh.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", ssh / "id_rsa"], check=True)
    shutil.copy(ssh / "id_rsa.pub", ssh / "authorized_keys")
    for file in ssh.iterdir():
        os.chown(file, 0, 1000)
        file.chmod(0o640)
    return ssh
