"""tests/support/kustomize.py and `kubectl kustomize` build the same from launch/kubernetes. No cluster is needed.
Skipped where there is no kubectl that knows `patches` (1.21 and later; the package of Debian 12 is older)."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import kustomize
import yaml

LAUNCH = pathlib.Path(os.environ["DTRAIN_SOURCE"]) / "launch/kubernetes"


def usable():
    if not shutil.which("kubectl"):
        return False
    version = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True, timeout=60).stdout
    found = re.search(r"v1\.(\d+)\.", version)
    return bool(found) and int(found.group(1)) >= 21


class Kubectl(unittest.TestCase):
    def test_builds_the_same(self):
        folders = sorted(path.parent for path in LAUNCH.rglob(kustomize.FILE))
        self.assertGreaterEqual(len(folders), 4)
        for folder in folders:
            result = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr, "", "kubectl warns")
            self.assertEqual(list(yaml.safe_load_all(result.stdout)), kustomize.build(folder), folder)


if __name__ == "__main__":
    if not usable():
        print("skipped: there is no kubectl of version 1.21 or later")
        sys.exit(77)
    unittest.main()
