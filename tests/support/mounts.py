"""For tests that mount a small tmpfs. An ordinary user runs them in a user namespace; they are skipped where that is not allowed either."""

import contextlib
import os
import subprocess
import sys

import runner

NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
_OWN_SHARED_MEMORY = "DTRAIN_TEST_OWN_SHARED_MEMORY"
# Of its own: Open MPI's folder in /tmp is named for user 0 here, and may be that of the real one.
PRIVATE_TMP = 'mount -t tmpfs tmpfs /tmp && exec "$@"'


def tmpfs(folder, size):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)


@contextlib.contextmanager
def small_disk(folder, size):
    """The folder "small" in `folder`, a tmpfs until the context is left."""
    disk = folder / "small"
    disk.mkdir()
    tmpfs(disk, size)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def control_group(folder, *lines):
    """A shell script that mounts a made tree in the place of the real one, of version 1 and 2, and ends in `folder`. `lines`: (file, content)."""
    text = "set -e; mount -t tmpfs tmpfs /sys/fs/cgroup; cd /sys/fs/cgroup"
    for controllers in ("cpu", "cpu,cpuacct", "memory", "pids", "unified"):
        text += f"; mkdir -p {controllers}"
    for name, value in lines:
        for place in (".", "cpu", "cpu,cpuacct", "memory", "pids", "unified"):
            text += f"; echo '{value}' > {place}/{name}"
    return text + f"; cd {folder}"


def allowed(prefix):
    return subprocess.run([*prefix, "unshare", "--mount", "bash", "-c", PRIVATE_TMP, "bash", "true"], capture_output=True).returncode == 0


def has_own_shared_memory():
    return _OWN_SHARED_MEMORY in os.environ


def own_shared_memory():
    """Starts this script again with a /dev/shm of its own, where that is allowed, so that all that is left there is of its jobs."""
    if has_own_shared_memory():
        return
    mount = 'mount -t tmpfs tmpfs /dev/shm && exec "$@"'
    as_user = ["unshare", "--user", "--map-current-user", "--keep-caps", "--mount"]
    without_rights = ["setpriv", "--ambient-caps=-all", "--inh-caps=-all"]  # to write to a file without permission, among others
    for namespace, behind in [(["unshare", "--mount"], []), (as_user, without_rights)]:
        words = [*namespace, "bash", "-c", mount, "bash", *behind]
        if subprocess.run([*words, "true"], capture_output=True).returncode == 0:
            sys.stdout.flush()
            os.execvpe(words[0], [*words, sys.executable, *sys.argv], {**os.environ, _OWN_SHARED_MEMORY: "1"})


def main(tests):
    run_where(tests, allowed, NAMESPACE, PRIVATE_TMP, "mount a tmpfs")


def run_where(tests, is_allowed, namespace, prepare, what):
    """runner.main() as this user, or again in a user namespace behind the shell script `prepare`; skipped where neither may do `what`."""
    if is_allowed([]):
        runner.main(tests)
    elif is_allowed(namespace):
        os.execvp(namespace[0], [*namespace, "bash", "-c", prepare, "bash", sys.executable, *sys.argv])
    else:
        runner.skip(f"neither this user nor a user namespace may {what}")
