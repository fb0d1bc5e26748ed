"""A folder packed by tests/gpu/bundle runs from another place with its own libraries, on one rank and on two."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["DTRAIN_SOURCE"])
LIMIT_MIB = 60


class Bundle(unittest.TestCase):
    def test_it_runs_elsewhere(self):
        with tempfile.TemporaryDirectory() as name:
            packed, moved = pathlib.Path(name, "packed"), pathlib.Path(name, "moved")
            made = subprocess.run([sys.executable, SOURCE / "tests/gpu/bundle", "--build", os.environ["DTRAIN_BUILD"], "--out", packed],
                                  capture_output=True, text=True, timeout=300)
            self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
            packed.rename(moved)
            size = sum(path.stat().st_size for path in moved.rglob("*") if path.is_file()) / 2**20
            self.assertLess(size, LIMIT_MIB)

            env = {"PATH": "/usr/bin:/bin", "HOME": name, "DTRAIN_PYTHON": sys.executable, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

            def run(*command):
                done = subprocess.run([moved / "run", *command], cwd=name, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                      timeout=300)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                return done.stdout + done.stderr

            self.assertIn("LibTorch 2.", run("dtrain", "--version"))
            loaded = dict(re.findall(r"^\s*(\S+) => (\S+)", run("ldd", str(moved / "bin/dtrain")), re.MULTILINE))
            for library in ("libmpi", "libhdf5", "libprometheus", "libyaml-cpp"):
                path = next((path for name, path in loaded.items() if name.startswith(library)), None)
                self.assertTrue(path and path.startswith(str(moved / "lib")), f"{library} is {path}")
            run("dtrain", "synth", "headpose", "--samples", "24", "--size", "32", "--out", "d.h5")
            output = run("mpirun", "-np", "2", "dtrain", "--data.file", "d.h5", "--model.image_size", "32", "--batch-size", "4", "--epochs", "1",
                         "--name", "r", "--metrics.port", "0", "--device.type", "cpu")
            self.assertIn("finished: all", output)
            tests = json.loads((moved / "tests.json").read_text())
            self.assertTrue(tests)
            for test in tests:
                for word in test["command"]:
                    if word.startswith("{bin}/"):
                        self.assertTrue((moved / "bin" / word[len("{bin}/"):]).exists(), word)


if __name__ == "__main__":
    unittest.main(verbosity=2)
