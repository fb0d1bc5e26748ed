"""The runtime stage of docker/Dockerfile, built around the binary under test and run without Docker: the quick start on two ranks as
an ordinary user, with a run folder on a volume; the stop signal; the health check; a root file system that cannot be written.

The builder stage is replaced by the installed tree, and the libraries of LibTorch (2.6 GB) are mounted, not copied. full_test.py, under
the label `container`, does neither."""

import json
import os
import re
import shutil
import subprocess
import sys

import image
import runner
from container import Container, volume

# The quick start on small pictures, without an end: each test stops it.
QUICK_START = ["mpirun", "-np", "2", "dtrain", "--name", "q", "--model.image_size", "32", "--train.epochs", "10000", "--run.log_every", "1"]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
FOLDERS_OF_A_RUN = ["/tmp"]  # what Open MPI writes to; with /work on a volume, all that a run needs


def volumes(folder):
    libraries = image.libraries()
    return {"/work": volume(folder, "work"), str(libraries): (libraries, "ro")}


def quick_start(folder, *options, **settings):
    return Container(built["name"], [*QUICK_START, *options], volumes=volumes(folder), env=ONE_THREAD, **settings)


def the_image_says_how_it_is_run(_):
    settings = image.settings(built["name"])
    assert settings["User"] == "1000:1000" and settings["StopSignal"] == "SIGUSR1", settings
    assert settings["Healthcheck"]["Test"] == ["CMD", "healthcheck"], settings
    assert settings["Volumes"] == {"/work": {}}, settings


def it_has_what_is_installed_and_a_list_of_it(folder):
    with Container(built["name"], ["sleep", "100"], volumes=volumes(folder)) as box:
        box.run("bash", "-c", ". /opt/dtrain/env.sh && dtrain --version").expect(0, "dtrain ")
        box.run("test", "-f", "/opt/dtrain/share/dtrain/launch/slurm/job.sh").expect(0)
    with image.root_of(built["name"]) as root:
        listed = subprocess.check_output([sys.executable, runner.SOURCE / "docker/sbom.py", root / "var/lib/dpkg/status"], text=True)
        query = ["dpkg-query", "--admindir", root / "var/lib/dpkg", "-W", "-f", "${Package} ${Version}\n"]
        installed = set(subprocess.check_output(query, text=True).splitlines())
    packages = json.loads(listed)["packages"]
    found = {f"{each['name']} {each['versionInfo']}" for each in packages if each["SPDXID"].startswith("SPDXRef-deb-")}
    assert found == installed and any(name.startswith("openmpi-bin ") for name in found), found ^ installed


def the_quick_start_saves_to_a_volume_when_stopped(folder):
    with quick_start(folder, read_only=True, tmpfs=FOLDERS_OF_A_RUN) as box:
        box.wait_for("step 2/")
        assert box.run("id", "-u").output.strip() == "1000"
        assert "Read-only file system" in box.run("sh", "-c", ": >/home/mpiuser/x").output  # its own folder
        box.health().expect(0, "2 metrics endpoints answer")
        stopped = box.stop().expect(75, "(asked to stop)", "finished: stopped on request at step")
    step = int(re.search(r"stopped on request at step (\d+)", stopped.output)[1])
    saved = folder / f"work/runs/q/checkpoints/step_{step:08d}"
    assert (saved / "MANIFEST.json").is_file(), os.listdir(saved.parent)
    assert saved.stat().st_uid == 1000
    with quick_start(folder, "--resume", "auto", "--train.max_steps", str(step + 2)) as box:  # another container, the same volume
        box.wait().expect(0, f"step {step + 1}/", "finished")


def the_health_check_follows_the_port(folder):
    """The ports of the run are in use, its folder is not runs/, and it asks for a password; a rank does not answer; nothing runs; a run
    without metrics, where one with metrics crashed."""
    work = volume(folder, "work")
    (work / "auth").write_text("dtrain:secret\n")
    (work / "auth").chmod(0o600)
    os.chown(work / "auth", 1000, 1000)
    busy = 'my @s = map { IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1", LocalPort => $_) or die } 9500, 9501; sleep 1000'
    command = ["bash", "-c", f"perl -MIO::Socket::INET -e '{busy}' & sleep 1; " + 'exec "$0" "$@"', *QUICK_START, "--metrics.auth_file", "auth", "--run.folder", "elsewhere"]
    with Container(built["name"], command, volumes=volumes(folder), env=ONE_THREAD) as box:
        box.wait_for("step 1/")
        listed = json.loads((work / "elsewhere/targets/q.json").read_text())
        ports = [int(group["targets"][0].rsplit(":", 1)[1]) for group in listed]
        assert not {9500, 9501} & set(ports), ports
        box.health().expect(0, "2 metrics endpoints answer")
        rank = box.run("pgrep", "-f", "-o", "^dtrain .*").output.split()[0]
        box.run("kill", "-STOP", rank)
        box.health().expect(1, "run q, rank at 127.0.0.1:", "timed out")
        box.run("kill", "-CONT", rank)
        box.health().expect(0)
    with Container(built["name"], ["sleep", "100"], volumes=volumes(folder)) as box:
        box.run("sh", "-c", ": >/home/mpiuser/x").expect(0)
        box.health().expect(1, "dtrain does not run")
    shutil.copytree(work / "elsewhere/targets", work / "runs/targets")  # the job there was killed
    os.chown(work / "runs", 1000, 1000)
    with quick_start(folder, "--metrics.enabled", "false") as box:
        box.wait_for("step 1/")
        box.health().expect(0, "0 metrics endpoints answer")


built = {}
image.main([the_image_says_how_it_is_run, it_has_what_is_installed_and_a_list_of_it, the_quick_start_saves_to_a_volume_when_stopped, the_health_check_follows_the_port], built)
