"""launch/bootstrap and the other scripts: options, exit codes, and that they are quick if there is nothing to do."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import tree


def run(*command, **environment):
    return subprocess.run([tree.ROOT / command[0], *command[1:]], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, **environment), stdin=subprocess.DEVNULL)


class Bootstrap(unittest.TestCase):
    def test_nothing_to_do_is_quick(self):
        for options in (["--tests", "--check"], ["--tests"]):
            seconds = []
            for _ in range(3):  # the best of three, because another program may use the cores
                begin = time.monotonic()
                result = run("launch/bootstrap", *options)
                seconds.append(time.monotonic() - begin)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertLess(min(seconds), 2)

    def test_check_names_what_is_missing_and_changes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("launch/bootstrap", "--check", DTRAIN_DEPS=folder + "/deps")
            self.assertEqual(result.returncode, 1)
            self.assertIn("missing wheels: torch", result.stdout)
            self.assertEqual(os.listdir(folder), [])

    def test_a_changed_requirement_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            deps = pathlib.Path(folder)
            real = (tree.ROOT / ".deps").resolve()
            for name in ("venv", "torch", "cuda"):
                (deps / name).symlink_to(real / name)
            (deps / "stamps").mkdir()
            for stamp in (real / "stamps").iterdir():
                (deps / "stamps" / stamp.name).write_text(stamp.read_text())
            self.assertEqual(run("launch/bootstrap", "--check", DTRAIN_DEPS=folder).returncode, 0)
            (deps / "stamps" / "torch").write_text("another\n")
            result = run("launch/bootstrap", "--check", DTRAIN_DEPS=folder)
            self.assertEqual((result.returncode, result.stdout), (1, "bootstrap: missing wheels: torch (launch/requirements/)\n"))

    def test_an_interrupted_one_is_continued(self):
        """pip is killed in the middle, then everything. The next run installs over the incomplete packages, and is complete."""
        with tempfile.TemporaryDirectory() as name:
            deps = pathlib.Path(name)
            version = "python" + ".".join(subprocess.check_output(
                ["/usr/bin/python3", "-c", "import sys; print(*sys.version_info[:2])"], text=True).split())
            site = deps / "venv/lib" / version / "site-packages"
            (site / "torch/lib").mkdir(parents=True)
            (site / "torch/lib/libtorch.so").touch()
            for folder in ("bin", "lib"):
                (site / "nvidia/cu13" / folder).mkdir(parents=True)
            (site / "nvidia/cu13/nvvm/bin").mkdir(parents=True)
            for tool in ("bin/nvcc", "nvvm/bin/cicc"):
                (site / "nvidia/cu13" / tool).touch()
            (deps / "venv/bin").mkdir()
            (deps / "venv/bin/pip").touch()
            python = deps / "venv/bin/python"

            def pip(then):  # stands in for the Python of the environment
                python.write_text(f"""#!/bin/bash
[ "$1" = -c ] && {{ echo {site}; exit; }}
echo "$*" >> {deps}/calls
[ -e {deps}/killed ] || {{ touch {deps}/killed; {then}; }}
""")
                python.chmod(0o755)

            pip("kill -KILL $PPID; kill -KILL $$")  # bootstrap first, then pip itself
            self.assertEqual(run("launch/bootstrap", DTRAIN_DEPS=name).returncode, -9)
            result = run("launch/bootstrap", "--check", DTRAIN_DEPS=name)
            self.assertEqual(result.returncode, 1)
            self.assertIn("missing wheels: torch", result.stdout)
            result = run("launch/bootstrap", DTRAIN_DEPS=name)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            calls = (deps / "calls").read_text().splitlines()
            self.assertNotIn("--ignore-installed", calls[0])
            self.assertIn("--ignore-installed", calls[1])
            self.assertIn("torch.txt", calls[1])
            self.assertTrue((deps / "torch/lib/libtorch.so").exists() and (deps / "cuda/bin/nvcc").exists())
            self.assertEqual(list((deps / "stamps").glob("*.begun")), [])
            before = len(calls)
            self.assertEqual(run("launch/bootstrap", DTRAIN_DEPS=name).returncode, 0)
            self.assertEqual(len((deps / "calls").read_text().splitlines()), before, "nothing was missing")

    def test_every_wheel_is_pinned_by_hash(self):
        for path in tree.files("launch/requirements/*.txt"):
            lines = [line for line in tree.read(path).replace("\\\n", " ").splitlines() if line and line[0] != "#"]
            self.assertTrue(lines)
            for line in lines:
                self.assertRegex(line, r"^[\w.-]+==[\w.]+\s+--hash=sha256:[0-9a-f]{64}")


class Options(unittest.TestCase):
    def test_unknown_ones_are_usage_errors(self):
        for script in ("launch/bootstrap", "launch/build", "launch/quickstart", "tests/run", "tests/fuzz/run", "tests/gpu/bundle", "tests/gpu/run",
                       "tests/presets/run"):
            result = run(script, "--no-such-option")
            self.assertEqual(result.returncode, 64, f"{script}: {result.stdout}{result.stderr}")
            self.assertIn("--no-such-option", result.stderr, script)

    def test_values_are_checked(self):
        for options in (["--label"], ["--label", "nightly"], ["--label", ""], ["--minutes", "soon"], ["--minutes", "0"]):
            self.assertEqual(run("tests/run", *options).returncode, 64, options)
        for options in ([], ["nightly"], ["cpu", "asan"]):
            self.assertEqual(run("tests/presets/run", *options).returncode, 64, options)
        self.assertEqual(run("launch/quickstart", "--prefix").returncode, 64)
        for options in (["--minutes"], ["--minutes", "0"], ["--seed", "today"]):
            self.assertEqual(run("tests/fuzz/run", *options).returncode, 64, options)

    def test_help_shows_the_usage(self):
        for script in ("launch/bootstrap", "launch/build", "launch/quickstart", "tests/run", "tests/fuzz/run"):
            result = run(script, "--help")
            self.assertEqual(result.returncode, 0)
            self.assertIn(f"usage: {script}", result.stdout)


class Labels(unittest.TestCase):
    """Which labels tests/run asks ctest for. The long ones run only when they are named."""

    def ctest_options(self, *options):
        """Runs a copy of tests/run in a folder with a fake build script and a fake ctest; returns the options of ctest."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            record = folder / "options"
            for script, body in [("launch/build", "exit 0"),
                                 ("bin/ctest", f"printf '%s\\n' \"$@\" >{record}; echo 'Total Tests: 3'\n"
                                               "echo '100% tests passed, 0 tests failed out of 3'")]:
                path = folder / script
                path.parent.mkdir()
                path.write_text("#!/bin/sh\n" + body + "\n")
                path.chmod(0o755)
            (folder / "tests").mkdir()
            (folder / "tests/run").write_text(tree.read("tests/run"))
            result = subprocess.run(["bash", folder / "tests/run", *options], capture_output=True, text=True, timeout=60,
                                    env=dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}"))
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            return record.read_text().splitlines()

    def test_long_ones_are_excluded_unless_named(self):
        options = self.ctest_options()
        self.assertEqual(options[options.index("-LE") + 1], "^(presets|isa|campaigns|hosts|slurm|container)$")
        self.assertNotIn("-L", options)
        options = self.ctest_options("--label", "isa", "--label", "unit")
        self.assertEqual(options[options.index("-L") + 1], "^(isa|unit)$")
        self.assertNotIn("-LE", options)

    def test_minutes_are_passed_on(self):
        self.assertIn("--stop-time", self.ctest_options("--label", "presets", "--minutes", "5"))
        self.assertNotIn("--stop-time", self.ctest_options("--label", "presets"))

    def test_every_label_of_a_test_is_known(self):
        # Not from `ctest --print-labels`, which replaces the log of the ctest that runs this.
        files = pathlib.Path(os.environ["DTRAIN_BUILD"]).rglob("CTestTestfile.cmake")
        listed = [words for file in files for words in re.findall(r' LABELS "([^"]*)"', file.read_text())]
        labels = {label for words in listed for label in words.split(";")}
        self.assertIn("unit", labels)
        known = re.search(r"known: (.*)\)", run("tests/run", "--label", "nightly").stderr).group(1)
        self.assertEqual(labels, set(known.split(", ")))


class Env(unittest.TestCase):
    """env.sh as installed: it finds its own path, can be sourced twice, and keeps variables that are set."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.prefix = pathlib.Path(self.folder.name).resolve() / "a prefix"
        (self.prefix / "bin").mkdir(parents=True)
        (self.prefix / "bin/dtrain").write_text("#!/bin/sh\necho here\n")
        (self.prefix / "bin/dtrain").chmod(0o755)
        text = tree.read("launch/env.sh.in")
        (self.prefix / "env.sh").write_text(text.replace("@CMAKE_INSTALL_PREFIX@", str(self.prefix)))

    def source(self, shell, script, **environment):
        clean = {"PATH": "/usr/bin:/bin", "HOME": "/", **environment}
        result = subprocess.run([shell, "-euc", script], cwd=self.prefix.parent, env=clean, capture_output=True, text=True)
        self.assertEqual(result.stderr, "", script)
        return result.stdout.split("\n")[:-1]

    def test_sourcing_twice_has_no_further_effect(self):
        for shell in ("bash", "sh"):
            with self.subTest(shell):
                source = '. "./a prefix/env.sh"; '
                once = self.source(shell, source + 'dtrain; echo "$PATH"; echo "$OMPI_MCA_rmaps_base_oversubscribe"')
                twice = self.source(shell, source * 2 + 'dtrain; echo "$PATH"; echo "$OMPI_MCA_rmaps_base_oversubscribe"')
                self.assertEqual(once, ["here", f"{self.prefix}/bin:/usr/bin:/bin", "1"])
                self.assertEqual(once, twice)

    def test_a_moved_prefix_is_found_by_bash(self):
        moved = self.prefix.rename(self.prefix.parent / "moved")
        self.assertEqual(self.source("bash", '. ./moved/env.sh; command -v dtrain'), [f"{moved}/bin/dtrain"])

    def test_variables_that_are_set_are_kept(self):
        said = self.source("bash", '. "./a prefix/env.sh"; echo "$OMPI_MCA_hwloc_base_binding_policy"',
                           OMPI_MCA_hwloc_base_binding_policy="core")
        self.assertEqual(said, ["core"])


class Summary(unittest.TestCase):
    """What the quick start prints last, read from the files of a run."""

    def summary(self, lines, *addresses):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "metrics.jsonl").write_text(lines)
            ranks = [{"node": "vm", "metrics": address} for address in addresses]
            (pathlib.Path(folder) / "environment.json").write_text(json.dumps({"ranks": ranks}))
            return run("launch/quickstart_summary.py", folder), folder

    def test_it_names_folder_address_and_error(self):
        records = '{"step": 1}\n{"split": "test", "metrics": {"mae": 4.5, "mae_yaw": 1}}\n{"cut'
        result, folder = self.summary(records, "127.0.0.1:9500", "127.0.0.1:9501")
        self.assertEqual(result.returncode, 0, result.stderr)
        for text in (os.path.realpath(folder), "http://127.0.0.1:9500/metrics, http://127.0.0.1:9501/metrics",
                     "4.50 degrees (yaw 1.00)"):
            self.assertIn(text, result.stdout)
        result, _ = self.summary(records, "")
        self.assertIn("there was no endpoint", result.stdout)

    def test_a_run_without_a_test_error_failed(self):
        result, _ = self.summary('{"step": 1}\n')
        self.assertEqual(result.returncode, 1)
        self.assertIn("no test MAE", result.stderr)


if __name__ == "__main__":
    unittest.main()
