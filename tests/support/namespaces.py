"""Starts a test again in namespaces of its own: whatever happens to the test, all that it started ends with it, daemons and containers too,
and so do its mounts."""

import os
import subprocess
import sys

import runner

_INSIDE = "DTRAIN_TEST_INSIDE"


def enter(*kinds):
    """With PID and mount namespaces, and those of these options of unshare, such as --net. Returns inside of them; skipped where that is not
    allowed."""
    if os.environ.get(_INSIDE):
        return
    unshare = ["unshare", "--mount", "--pid", *kinds, "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0 or subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        runner.skip("needs root and namespaces")
    sys.stdout.flush()
    # In place of this process: where that is killed, unshare ends what is inside.
    os.execvpe(unshare[0], [*unshare, sys.executable, *sys.argv], {**os.environ, _INSIDE: "1"})
