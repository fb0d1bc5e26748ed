"""The whole of docker/Dockerfile, as a user builds it: packages, wheels, the compiler and the libraries are those of the image, and
nothing is mounted but the work folder. Then the quick start as it is, on two ranks. Takes an hour of two cores, 2.6 GB of downloads and
30 GB of disk."""

import json
import subprocess
import sys

import image
import runner
from container import Container, volume


def the_quick_start_learns(folder):
    with Container(built["name"], ["mpirun", "-np", "2", "dtrain", "--name", "q"], volumes={"/work": volume(folder, "work")}, read_only=True,
                   tmpfs=["/tmp"]) as box:
        result = box.wait(1800).expect(0, "finished: all")
    print(result.output[-2500:])
    assert (folder / "work/runs/q/report.html").is_file()


def every_library_is_in_the_image(_):
    command = "ldd /opt/dtrain/bin/dtrain /opt/dtrain/deps/venv/lib/python3*/site-packages/torch/lib/libtorch_cuda.so"
    with Container(built["name"], ["sh", "-c", command]) as box:
        found = box.wait().expect(0, "libtorch_cpu.so", "libcudart.so", "libnccl.so", "libcudnn.so")
    assert "not found" not in found.output, found.output
    with image.root_of(built["name"]) as root:
        assert not list((root / "usr/bin").glob("*nvcc*")) and not (root / "usr/bin/gcc").exists()


def its_contents_are_listed(_):
    with image.root_of(built["name"]) as root:
        done = subprocess.run([sys.executable, runner.SOURCE / "docker/sbom.py", root / "var/lib/dpkg/status"], capture_output=True, text=True)
        inside = {path.name for path in root.glob("opt/dtrain/deps/venv/lib/python3*/site-packages/nvidia/*")}
    packages = {package["name"]: package for package in json.loads(done.stdout)["packages"]}
    assert {"openmpi-bin", "openssh-server", "tini", "torch"} <= set(packages)
    assert {"nccl", "cudnn"} <= inside, inside
    print(f"{len(packages)} packages; image of {image.buildah('images', '--format', '{{.Size}}', built['name'])}")


image.enter()
built = {"name": image.build("dtrain-full")}
runner.main([every_library_is_in_the_image, its_contents_are_listed, the_quick_start_learns])
