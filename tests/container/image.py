"""Images that tests build from docker/Dockerfile with buildah, on a base that debootstrap makes. No Docker and no registry."""

import contextlib
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile

import namespaces
import runner

PROGRAMS = ("buildah", "runc", "debootstrap", "ip", "ssh-keygen")
BASE = "localhost/dtrain-base"
# Images and layers are kept from one run of the tests to the next, as any builder does: the first run makes the base and installs the
# Debian packages of the image. To remove them: `umount STORE/store/overlay` if that is mounted, then `rm -rf --one-file-system STORE`.
STORE = pathlib.Path(os.environ.get("DTRAIN_BUILD", "/tmp")) / "containers"


def store():
    STORE.mkdir(parents=True, exist_ok=True)
    return STORE


def missing():
    """Why images cannot be built and run here; None if they can."""
    if os.geteuid() != 0:
        return "containers need root here"
    absent = [name for name in PROGRAMS if not shutil.which(name)]
    if absent:
        return f"not installed: {', '.join(absent)} (launch/bootstrap --tests)"
    if "bookworm" not in pathlib.Path("/etc/os-release").read_text():
        return "the base is made with the package sources of this machine, which is not Debian 12"
    try_it = ["unshare", "--mount", "--pid", "--net", "--fork", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    if subprocess.run(try_it, capture_output=True).returncode != 0:
        return "this machine does not let root mount, or make namespaces"
    groups = [fields for fields in map(str.split, pathlib.Path("/proc/self/mounts").read_text().splitlines()) if fields[2] in ("cgroup", "cgroup2")]
    if not groups or any("ro" in fields[3].split(",") for fields in groups):
        return "runc cannot make control groups here"
    return None


def enter(reason=None):
    """Starts this test again in namespaces with which its containers and mounts end; inside of them it returns. Skipped for the `reason`, if
    any, or where images cannot be built."""
    if reason := missing() or reason:
        runner.skip(reason)
    namespaces.enter()
    pathlib.Path("/run/netns").mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run/netns"], check=True)
    store()
    buildah("rm", "--all")  # of a test that was killed


def main(tests, built, reason=None):
    """runner.main() behind enter(), with the name of the image in `built`."""
    enter(reason)
    with tempfile.TemporaryDirectory(dir=store()) as context:
        built["name"] = build_runtime("dtrain-runtime", pathlib.Path(context))
        runner.main(tests)


def buildah(*words, **options):
    """Runs buildah on the store of the tests; returns what it prints."""
    driver = ["--storage-driver", os.environ["STORAGE_DRIVER"]] if "STORAGE_DRIVER" in os.environ else []
    command = ["buildah", "--root", str(STORE / "store"), "--runroot", str(STORE / "state"), *driver, *map(str, words)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout.strip()


def package_sources():
    """The package sources of this machine that are Debian's, and the mirror to start from."""
    sources = [path for path in sorted(pathlib.Path("/etc/apt").glob("sources.list.d/*.sources")) + [pathlib.Path("/etc/apt/sources.list")]
               if path.is_file() and re.search(r"/debian(-security)?\b", path.read_text())]
    found = re.findall(r"^(?:URIs:|deb)\s+(?:\[.*\]\s+)?(\S+/debian/?)(?=\s|$)", "\n".join(path.read_text() for path in sources), re.MULTILINE)
    return sources, found[0] if found else "http://deb.debian.org/debian"


def copy_into(root, path):
    if path.exists():
        (root / path.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-aT", path, root / path.relative_to("/")], check=True)


def base():
    """The name of an image with Debian's minimal system, which reaches the package registries as this machine does. That is of the
    base alone: docker/Dockerfile knows nothing of it."""
    sources, mirror = package_sources()
    settings = [path for path in sorted(pathlib.Path("/etc/apt/apt.conf.d").iterdir()) if "Acquire" in path.read_text()]
    certificates = [pathlib.Path("/etc/ssl/certs"), pathlib.Path("/usr/local/share/ca-certificates"), pathlib.Path("/etc/pip.conf")]
    texts = [path.read_bytes() for path in [*sources, *settings]] + [mirror.encode(), platform.machine().encode()]
    name = f"{BASE}:{hashlib.sha256(b''.join(texts)).hexdigest()[:12]}"
    if name in buildah("images", "--format", "{{.Name}}:{{.Tag}}").split():
        return name
    with tempfile.TemporaryDirectory(dir=store()) as folder:
        root = pathlib.Path(folder) / "root"
        log = subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", root, mirror],
                             capture_output=True, text=True)
        assert log.returncode == 0, log.stdout[-2000:] + log.stderr[-2000:]
        (root / "etc/apt/sources.list").unlink(missing_ok=True)
        for path in [*sources, *settings, *certificates, pathlib.Path("/usr/share/keyrings")]:
            copy_into(root, path)
        # A machine that is killed while an image is built builds it again: no package needs fsync.
        (root / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
        for old in (root / "var/cache/apt/archives").glob("*.deb"):
            old.unlink()
        container = buildah("from", "scratch")
        try:
            buildah("add", "--quiet", container, root, "/")
            buildah("config", "--cmd", "bash", container)
            buildah("commit", "--quiet", "--format", "docker", container, name)
        finally:
            buildah("rm", container)
    return name


def libraries():
    """The folder of wheels that the installed binary finds its libraries in by its RUNPATH."""
    text = subprocess.check_output(["readelf", "-d", runner.DTRAIN], text=True)
    (torch,) = [path for path in re.search(r"RUNPATH\).*\[(.+)\]", text)[1].split(":") if path.endswith("/torch/lib")]
    return pathlib.Path(torch).parents[1]


def installed_tree(folder, with_libraries):
    """What the builder stage hands to the runtime stage, installed from the build under test. The libraries are hard links where the file
    system allows it."""
    runtime = folder / "runtime"
    subprocess.run(["cmake", "--install", os.environ["DTRAIN_BUILD"], "--prefix", "/opt/dtrain"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "DESTDIR": str(runtime)})
    if with_libraries:
        wheels = libraries()
        for library in [*(wheels / "torch/lib").iterdir(), *(wheels / "nvidia").rglob("lib*.so*")]:
            if library.name != "libtorch_python.so" and not library.is_dir():
                copy = runtime / library.relative_to("/")
                copy.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(library, copy, follow_symlinks=False)
                except OSError:
                    shutil.copy2(library, copy, follow_symlinks=False)
    return folder


def build(tag, *options):
    """Builds docker/Dockerfile. The format is Docker's, because that of OCI has no HEALTHCHECK."""
    before = identity(tag)
    buildah("build", "--format", "docker", "--isolation", "chroot", "--layers", "--build-arg", f"BASE={base()}", *options,
            "-f", runner.SOURCE / "docker/Dockerfile", "-t", f"localhost/{tag}", runner.SOURCE)
    if before and before != identity(tag):
        buildah("rmi", before)  # and the layers that only it had
    return f"localhost/{tag}"


def identity(tag):
    """Of the image that has this name, or nothing."""
    return buildah("images", "--quiet", "--no-trunc", "--filter", f"reference=localhost/{tag}")


def build_runtime(tag, folder, with_libraries=False):
    """The runtime stage alone, around the binary under test. Without its libraries (2.6 GB) a container mounts them."""
    return build(tag, "--build-context", f"builder={installed_tree(folder, with_libraries)}")


def settings(image):
    """The part of an image that says how to run it: User, Env, Entrypoint, Cmd, StopSignal, Healthcheck and others."""
    return json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]


@contextlib.contextmanager
def root_of(image):
    """A writable root file system for one container."""
    container = buildah("from", "--pull-never", image)
    try:
        yield pathlib.Path(buildah("mount", container))
    finally:
        buildah("umount", container)
        buildah("rm", container)
