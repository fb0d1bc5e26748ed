"""Workers of an MPI job: sshd of the image as uid 1000 in two containers, each with a network, a file system and a process table of
its own, and mpirun in a third. One volume is mounted in all, as a ReadWriteMany claim would be. The keys are made here."""

import contextlib
import re
import subprocess

import image
from container import Container, volume
from network import Network
from workers import SSHD, TRAIN, WORKERS, keys


class Cluster:
    def __init__(self, folder, hostfile="worker0 slots=1\nworker1 slots=1\n"):
        libraries = image.libraries()
        self.exits = contextlib.ExitStack()
        self.network = self.exits.enter_context(Network(["launcher", *WORKERS]))
        (folder / "mpi").mkdir()
        (folder / "mpi/hostfile").write_text(hostfile)
        self.volumes = {"/work": volume(folder, "work"), str(libraries): (libraries, "ro"), "/home/mpiuser/.ssh": (keys(folder), "ro"),
                        "/etc/mpi": (folder / "mpi", "ro")}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.exits.close()

    def start(self, name, command, hosts=None):
        box = Container(built["name"], command, volumes=self.volumes, tmpfs=["/tmp"], read_only=True, network=self.network.namespace(name),
                        hostname=name, hosts=self.network.hosts if hosts is None else hosts)
        return self.exits.enter_context(box)


def mpirun_trains_on_two_workers_and_stops(folder):
    """The launcher comes first, and knows one worker; nothing runs yet."""
    with Cluster(folder) as cluster:
        early = {name: cluster.network.hosts[name] for name in ("launcher", "worker0")}
        launcher = cluster.start("launcher", ["wait_for_workers", "/etc/mpi/hostfile", "60", *TRAIN, "--train.epochs", "10000"], early)
        workers = [cluster.start(name, SSHD) for name in WORKERS]
        workers[0].health().expect(0, "sshd waits")
        launcher.health().expect(0, "wait_for_workers runs")
        assert "hosts of /etc/mpi/hostfile answer" not in launcher.output()
        launcher.set_hosts(cluster.network.hosts)
        launcher.wait_for("2 hosts of /etc/mpi/hostfile answer")
        launcher.wait_for("step 2/")
        for rank, (name, box) in enumerate(zip(WORKERS, workers)):
            assert f"rank {rank}     {name}, CPU" in launcher.output(), launcher.output()
            assert box.run("ps", "-o", "user=", "-C", "dtrain").output.split()[0] == "mpiuser"
        workers[0].health().expect(0, "1 metrics endpoints answer")  # that of rank 0, whose run folder this is
        workers[1].health().expect(0, "0 metrics endpoints answer")
        launcher.health().expect(0, "mpirun runs")
        stopped = launcher.stop().expect(75, "(asked to stop)", "finished: stopped on request at step")
        step = int(re.search(r"stopped on request at step (\d+)", stopped.output)[1])
        again = cluster.start("launcher", ["wait_for_workers", "/etc/mpi/hostfile", "60", *TRAIN, "--train.max_steps", step + 2])
        assert "| step 1/" not in again.wait().expect(0, f"step {step} of ", f"| step {step + 2}/", "finished").output


def a_worker_that_is_not_there_is_named(folder):
    hostfile = "# two that exist, one of which has no sshd, and one that no name server knows\nworker0 slots=1\nworker1\n\nghost slots=4\n"
    with Cluster(folder, hostfile) as cluster:
        cluster.start("worker0", SSHD)
        launcher = cluster.start("launcher", ["wait_for_workers", "/etc/mpi/hostfile", "10", "echo", "started"])
        failed = launcher.wait(60).expect(76, "ghost: its name does not resolve", "worker1: 10.213.77.3 does not answer to ssh",
                                          "2 of the hosts", "not ready after 10 s")
        assert "worker0:" not in failed.output and "started" not in failed.output, failed.output
        nameless = cluster.start("launcher", ["wait_for_workers", "/etc/mpi/hostfile", "1"], {"launcher": None})
        nameless.wait(60).expect(76, "launcher: its name does not resolve")
        cluster.start("launcher", ["wait_for_workers", "/etc/mpi/none", "1"]).wait(60).expect(64, "usage: wait_for_workers")


def the_image_has_no_keys(_):
    with image.root_of(built["name"]) as root:
        found = subprocess.run(["grep", "-rlE", "BEGIN [A-Z ]*PRIVATE KEY", root / "etc/ssh", root / "home", root / "root", root / "opt/dtrain"],
                               capture_output=True, text=True)
        assert found.returncode == 1 and not found.stdout, found.stdout


built = {}
image.main([mpirun_trains_on_two_workers_and_stops, a_worker_that_is_not_there_is_named, the_image_has_no_keys], built)
