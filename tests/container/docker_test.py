"""The image under Docker's own daemon, where Debian's docker.io is installed and its daemon starts: the health state that it keeps, `docker
stop`, a restart policy, names of a Docker network, and, as a test of its own in ctest, docker/compose.yaml with Debian's docker-compose. The
daemon has folders, a socket and namespaces of its own: one that serves this machine is not touched. launch/bootstrap does not install docker.io,
because that starts a daemon for good."""

import contextlib
import json
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import image
import runner
from container import volume
from network import Network
from workers import SSHD, TRAIN, keys

TRAINING = ["mpirun", "-np", "2", "dtrain", "--task", "headpose", "--name", "q", "--resume", "auto", "--model.image_size", "32",
            "--run.log_every", "1", "--train.epochs", "10000"]


class Daemon:
    def __init__(self, folder, namespace):
        self.folder, self.socket = folder, f"unix://{folder}/docker.sock"
        self.log = (folder / "dockerd.log").open("w")
        self.process = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{namespace}", "/usr/sbin/dockerd", "--data-root", folder / "data",
             "--exec-root", folder / "exec", "--pidfile", folder / "pid", "--host", self.socket], stdout=self.log, stderr=subprocess.STDOUT)

    def docker(self, *words, check=True):
        done = subprocess.run(["/usr/bin/docker", "--host", self.socket, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300)
        assert not check or done.returncode == 0, f"docker {words}: {done.stdout}"
        return done.stdout.strip()

    def starts(self):
        """None, or why it does not."""
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            if subprocess.run(["/usr/bin/docker", "--host", self.socket, "info"], capture_output=True).returncode == 0:
                return None
            time.sleep(0.2)
        return (self.folder / "dockerd.log").read_text()[-500:]

    def end(self):
        try:
            if self.process.poll() is None:
                containers = self.docker("ps", "-aq", check=False).split()
                if containers:
                    self.docker("rm", "-f", *containers, check=False)
            self.process.terminate()
            self.process.wait(timeout=60)
        finally:
            self.process.kill()
            self.process.wait()
            self.log.close()

    def state(self, name):
        return json.loads(self.docker("inspect", name))[0]

    def wait_for(self, name, text, seconds=180):
        end = time.monotonic() + seconds
        while text not in self.docker("logs", name):
            assert time.monotonic() < end, f"no {text!r} within {seconds} s:\n{self.docker('logs', name)}"
            time.sleep(0.2)

    def wait_until(self, name, what, condition, seconds=90):
        end = time.monotonic() + seconds
        while not condition(self.state(name)):
            assert time.monotonic() < end, f"{what}: not within {seconds} s: {self.state(name)['State']}\n{self.docker('logs', name)}"
            time.sleep(0.5)


def shared(folder):
    libraries = image.libraries()
    return ["-v", f"{volume(folder, 'work')}:/work", "-v", f"{libraries}:{libraries}:ro", "--read-only", "--tmpfs", "/tmp", "--shm-size", "1g",
            "-e", "OMP_NUM_THREADS=1", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]


def health_and_stop_and_restart(folder):
    daemon = built["daemon"]
    daemon.docker("run", "-d", "--name", "trainer", "--hostname", "trainer", "--restart", "on-failure:3", "--health-interval", "1s", *shared(folder),
                  built["name"], *TRAINING, "--metrics.port", 9600, "--metrics.bind", "0.0.0.0")
    daemon.wait_for("trainer", "step 2/")
    daemon.wait_until("trainer", "healthy", lambda state: state["State"]["Health"]["Status"] == "healthy")
    last = daemon.state("trainer")["State"]["Health"]["Log"][-1]["Output"]
    assert "2 metrics endpoints answer" in last, last
    daemon.docker("exec", "trainer", "kill", "-USR1", 1)  # preemption: saved, 75, and the policy starts it again
    daemon.wait_until("trainer", "a restart", lambda state: state["RestartCount"] == 1)
    daemon.wait_for("trainer", "resumed")
    (saved,) = re.findall(r"stopped on request at step (\d+)", daemon.docker("logs", "trainer"))
    daemon.wait_for("trainer", f"| step {int(saved) + 1}/")
    daemon.wait_until("trainer", "healthy again", lambda state: state["State"]["Health"]["Status"] == "healthy")
    daemon.docker("stop", "--time", 60, "trainer")
    state = daemon.state("trainer")
    assert (state["State"]["ExitCode"], state["State"]["Running"], state["RestartCount"]) == (75, False, 1), state["State"]
    steps = re.findall(r"stopped on request at step (\d+)", daemon.docker("logs", "trainer"))
    assert len(steps) == 2 and (folder / f"work/runs/q/checkpoints/step_{int(steps[1]):08d}/MANIFEST.json").is_file(), steps


def workers_on_a_docker_network(folder):
    daemon = built["daemon"]
    (folder / "hostfile").write_text("worker0 slots=1\nworker1 slots=1\n")
    options = [*shared(folder), "--network", "job", "-v", f"{keys(folder)}:/home/mpiuser/.ssh:ro", "-v", f"{folder / 'hostfile'}:/etc/mpi/hostfile:ro"]
    daemon.docker("network", "create", "job")
    daemon.docker("run", "-d", "--name", "launcher", "--hostname", "launcher", *options, built["name"],
                  "wait_for_workers", "/etc/mpi/hostfile", 120, *TRAIN, "--train.epochs", 10000)
    for name in ("worker0", "worker1"):
        daemon.docker("run", "-d", "--name", name, "--hostname", name, *options, built["name"], *SSHD)
    daemon.wait_for("launcher", "step 2/")
    daemon.docker("stop", "--time", 60, "launcher")
    state, log = daemon.state("launcher")["State"], daemon.docker("logs", "launcher")
    assert state["ExitCode"] == 75 and "rank 1     worker1, CPU" in log, (state, log)


def standing_in_for_prometheus(folder):
    """An archive of Debian's Prometheus under the name and with the user of the image that the compose file pulls."""
    container = image.buildah("from", "--pull-never", image.base())
    try:
        image.buildah("add", "--quiet", "--chmod", "755", container, shutil.which("prometheus"), "/bin/prometheus")
        image.buildah("run", "--isolation", "chroot", container, "--", "install", "-d", "-o", "nobody", "-g", "nogroup", "/prometheus")
        image.buildah("config", "--user", "65534:65534", "--entrypoint", '["/bin/prometheus"]', "--volume", "/prometheus", container)
        image.buildah("commit", "--quiet", "--format", "docker", container, "localhost/dtrain-prometheus")
    finally:
        image.buildah("rm", container)
    image.buildah("push", "--quiet", "localhost/dtrain-prometheus", f"docker-archive:{folder / 'prometheus.tar'}:prom/prometheus:v2.54.1")
    return folder / "prometheus.tar"


def the_compose_file(folder):
    """`docker-compose up` with the file as it is, but for its name, which Debian's old version of the program refuses, the
    libraries that the image under test lacks, and a limit. Without Grafana, which neither Debian nor PyPI has."""
    daemon, libraries = built["daemon"], image.libraries()
    daemon.docker("tag", built["name"], "dtrain:latest")
    daemon.docker("load", "-i", standing_in_for_prometheus(folder))
    source = (runner.SOURCE / "docker/compose.yaml").read_text()
    (folder / "compose.yaml").write_text(re.sub(r"^name:.*\n", "", source, flags=re.MULTILINE))
    # The file asks for all memory to be lockable. Where this machine's root may not raise that limit, it stays.
    more = {"volumes": [f"{libraries}:{libraries}:ro"], "environment": {"OMP_NUM_THREADS": "1"},
            "ulimits": {"memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]}}
    (folder / "more.yaml").write_text(json.dumps({"services": {"trainer": more}}))

    def compose(*words):
        done = subprocess.run(["docker-compose", "--host", daemon.socket, "-p", "dtrain", "--project-directory", runner.SOURCE / "docker",
                               "-f", folder / "compose.yaml", "-f", folder / "more.yaml", *words], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        assert done.returncode == 0, f"docker-compose {words}: {done.stdout}"
        return done.stdout.strip()

    def scraped():
        words = ["exec", built["trainer"], "curl", "-sS", "http://prometheus:9090/api/v1/query?query=up"]
        answer = daemon.docker(*words, check=False)
        return {series["metric"]["instance"]: series["value"][1] for series in json.loads(answer)["data"]["result"]} if answer[:1] == "{" else {}

    compose("up", "-d", "--no-build", "trainer", "prometheus")
    built["trainer"] = trainer = compose("ps", "-q", "trainer").splitlines()[-1]
    daemon.wait_for(trainer, "step 1/")
    wanted = {"trainer:9500": "1", "trainer:9501": "1"}
    daemon.wait_until(trainer, "both ranks are scraped", lambda _: scraped() == wanted)
    compose("stop", "trainer")
    assert daemon.state(trainer)["State"]["ExitCode"] == 75, daemon.docker("logs", trainer)
    compose("up", "-d", "--no-build", "trainer")
    daemon.wait_for(trainer, "resumed")
    compose("down", "--volumes", "--timeout", "60")


def main():
    tests = runner.chosen([health_and_stop_and_restart, workers_on_a_docker_network], [the_compose_file])
    reason = None if pathlib.Path("/usr/sbin/dockerd").exists() else "not installed: docker.io, whose package starts a daemon"
    if the_compose_file in tests and not shutil.which("docker-compose"):
        reason = "not installed: docker-compose"
    image.enter(reason)
    with contextlib.ExitStack() as exits:
        folder = pathlib.Path(exits.enter_context(tempfile.TemporaryDirectory(dir=image.store(), ignore_cleanup_errors=True)))
        network = exits.enter_context(Network(["docker"]))
        daemon = built["daemon"] = Daemon(folder, network.namespace("docker"))
        exits.callback(daemon.end)
        problem = daemon.starts()
        if problem:
            exits.close()
            runner.skip(f"Docker's daemon does not start here: {problem}")
        name = image.build_runtime("dtrain-runtime", folder / "built")
        image.buildah("push", "--quiet", name, f"docker-archive:{folder / 'image.tar'}:dtrain:test")
        daemon.docker("load", "-i", folder / "image.tar")
        built["name"] = "dtrain:test"
        try:
            runner.main(tests)
        except SystemExit as done:
            code = done.code
    sys.exit(code)


built = {}
if __name__ == "__main__":
    main()
