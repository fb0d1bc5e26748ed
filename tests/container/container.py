"""Containers of an image without Docker: runc, the runtime under Docker, with what Docker would hand to it."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import uuid

import image as images

# What Docker leaves to a container. A user other than root has none of them; a program with setuid could get these.
CAPABILITIES = ["CAP_" + name for name in (
    "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE").split()]
MOUNTS = [
    ("/proc", "proc", "proc", []),
    ("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
    ("/dev/pts", "devpts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),
    ("/dev/mqueue", "mqueue", "mqueue", ["nosuid", "noexec", "nodev"]),
    ("/sys", "sysfs", "sysfs", ["nosuid", "noexec", "nodev", "ro"]),
]


class Result:
    def __init__(self, code, output):
        self.code, self.output = code, output

    def expect(self, code, *texts):
        assert self.code == code, f"exit code {self.code}, not {code}; output:\n{self.output}"
        for text in texts:
            assert text in self.output, f"{text!r} is not in the output:\n{self.output}"
        return self


class Container:
    """Runs the image's entry point with a command, as its user, until the context is left. `volumes`: {path in it: folder, or
    (folder, "ro")}; `tmpfs`: paths; `network`: the name of a network namespace, else one of its own; `hosts`: {name: address}."""

    def __init__(self, image, command=None, *, volumes=None, tmpfs=(), read_only=False, network=None, hostname="box", hosts=None, env=None,
                 entrypoint=None, shm="64m", user=None):
        self.id = f"dtrain-test-{uuid.uuid4().hex[:12]}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dtrain-container-"))
        self.settings = {**images.settings(image), **({"User": user} if user else {})}
        self.exits = contextlib.ExitStack()
        self.exits.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.process = None
        try:
            root = self.exits.enter_context(images.root_of(image))
            entry = self.settings.get("Entrypoint") or [] if entrypoint is None else entrypoint
            arguments = [*entry, *map(str, self.settings["Cmd"] if command is None else command)]
            self.env = [*self.settings["Env"], f"HOSTNAME={hostname}", "HOME=" + self.home(root), *(f"{k}={v}" for k, v in (env or {}).items())]
            self.write_bundle(root, arguments, volumes or {}, tmpfs, read_only, network, hostname, hosts or {}, shm)
            self.log = self.exits.enter_context((self.folder / "log").open("w+"))
        except BaseException:
            self.exits.close()
            raise

    def home(self, root):
        """Of the user of the image, as Docker sets it."""
        user = self.settings.get("User", "0").split(":")[0]
        homes = {line.split(":")[2]: line.split(":")[5] for line in (root / "etc/passwd").read_text().splitlines()}
        return homes.get(user, "/")

    def write_bundle(self, root, arguments, volumes, tmpfs, read_only, network, hostname, hosts, shm):
        user, group = map(int, self.settings["User"].split(":"))
        mounts = [{"destination": d, "type": t, "source": s, "options": o} for d, t, s, o in MOUNTS]
        mounts.append({"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "noexec", "nodev", "mode=1777", f"size={shm}"]})
        mounts += [{"destination": path, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "noexec", "mode=1777"]} for path in tmpfs]
        self.set_hosts({hostname: "127.0.1.1", **hosts})
        (self.folder / "hostname").write_text(hostname + "\n")
        (self.folder / "resolv.conf").write_text("")
        volumes = {**volumes, **{f"/etc/{name}": self.folder / name for name in ("hosts", "hostname", "resolv.conf")}}
        for path, source in volumes.items():
            source, *options = source if isinstance(source, tuple) else (source,)
            mounts.append({"destination": path, "type": "bind", "source": str(source), "options": ["rbind", *options]})
        namespaces = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
        namespaces.append({"type": "network", **({"path": f"/run/netns/{network}"} if network else {})})
        (self.folder / "config.json").write_text(json.dumps({
            "ociVersion": "1.0.2", "hostname": hostname, "root": {"path": str(root), "readonly": read_only}, "mounts": mounts,
            "process": {"args": arguments, "env": self.env, "cwd": self.settings.get("WorkingDir") or "/", "user": {"uid": user, "gid": group},
                        "capabilities": {"bounding": CAPABILITIES}, "noNewPrivileges": True, "terminal": False},
            "linux": {"namespaces": namespaces, "maskedPaths": ["/proc/kcore", "/proc/keys"], "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger"]}}))

    def set_hosts(self, hosts):
        """The names that resolve, also while it runs; None takes one away."""
        lines = [f"{address} {name}\n" for name, address in {"localhost": "127.0.0.1", **hosts}.items() if address]
        with (self.folder / "hosts").open("w") as file:  # the same file: it is mounted
            file.writelines(lines)

    def runc(self, *words, check=True):
        command = ["runc", "--root", str(self.folder / "runc"), *map(str, words)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
        return Result(done.returncode, done.stdout)

    def __enter__(self):
        command = ["runc", "--root", str(self.folder / "runc"), "run", "--bundle", str(self.folder), self.id]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)
        while self.process.poll() is None and '"running"' not in self.runc("state", self.id, check=False).output:
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        try:
            if self.process.poll() is None:
                self.runc("delete", "--force", self.id, check=False)
                self.process.wait(timeout=60)
        finally:
            self.exits.close()

    def output(self):
        return (self.folder / "log").read_text(errors="replace")

    def wait_for(self, text, seconds=120):
        end = time.monotonic() + seconds
        while text not in self.output():
            assert self.process.poll() is None, f"the container ended before {text!r}:\n{self.output()}"
            assert time.monotonic() < end, f"no {text!r} within {seconds} s:\n{self.output()}"
            time.sleep(0.1)

    def wait(self, seconds=300):
        return Result(self.process.wait(timeout=seconds), self.output())

    def stop(self, seconds=60):
        """As `docker stop`: the image's signal to its first process."""
        self.runc("kill", self.id, self.settings["StopSignal"])
        return self.wait(seconds)

    def run(self, *words):
        """As `docker exec`."""
        user = self.settings["User"]
        environment = [word for pair in self.env for word in ("--env", pair)]
        return self.runc("exec", "--user", user, "--cwd", self.settings.get("WorkingDir") or "/", *environment, self.id, *words, check=False)

    def health(self):
        """Runs the image's HEALTHCHECK once."""
        kind, *words = self.settings["Healthcheck"]["Test"]
        return self.run(*(["/bin/sh", "-c", *words] if kind == "CMD-SHELL" else words))


def volume(folder, name):
    """A folder that belongs to the user of the image, as a named volume does."""
    path = folder / name
    path.mkdir(exist_ok=True)
    os.chown(path, 1000, 1000)
    return path
