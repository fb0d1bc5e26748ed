"""Shell scripts pass shellcheck and stop at errors, YAML passes yamllint, C++ is formatted, Python compiles; the batch script
returns the exit code of its ranks."""
import ast
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import tree

YAMLLINT = ("{extends: default, rules: {line-length: {max: 160}, document-start: disable, truthy: {check-keys: false},"
            " comments: {min-spaces-from-content: 1}, braces: {max-spaces-inside: 1}, commas: disable}}")


def shell_scripts():
    """Returns every file that starts as a shell script, and the files that are sourced."""
    scripts = []
    for path in tree.files():
        with open(tree.ROOT / path, "rb") as file:
            first = file.readline()
        if re.match(rb"#!.*\b(bash|sh)\b", first) or path.suffix == ".sh" or path.name == "env.sh.in":
            scripts.append(path)
    return scripts


def run(*command):
    return subprocess.run(command, cwd=tree.ROOT, capture_output=True, text=True)


class Scripts(unittest.TestCase):
    def test_shellcheck(self):
        scripts = shell_scripts()
        self.assertGreaterEqual(len(scripts), 7)
        result = run("shellcheck", "--external-sources", *map(str, scripts))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_scripts_stop_at_errors_and_can_be_run(self):
        for path in shell_scripts():
            if path.name == "env.sh.in":
                continue  # it is sourced and must not change the options of the user's shell
            self.assertIn("\nset -euo pipefail\n", tree.read(path), f"{path} continues after errors")
            if path.suffix != ".sbatch":
                self.assertTrue(os.access(tree.ROOT / path, os.X_OK), f"{path} is not executable")

    def test_yaml(self):
        files = [str(path) for path in tree.files("*.yaml", "*.yml")]
        self.assertGreaterEqual(len(files), 4)
        result = run("yamllint", "--strict", "--config-data", YAMLLINT, *files)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_cpp_is_formatted(self):
        files = [str(path) for path in tree.files("*.h", "*.cpp", "*.cu", "*.cuh")]
        result = run("clang-format", "--dry-run", "-Werror", *files)
        self.assertEqual(result.returncode, 0, "clang-format -i these:\n" + result.stderr[-4000:])

    def test_python_compiles(self):
        for path in tree.files("*.py"):
            ast.parse(tree.read(path), str(path))

    def test_benchmarks_print_their_help(self):
        printed = []
        for path in tree.files("bench/*.py"):
            result = run(sys.executable, str(path), "--help")
            if "ModuleNotFoundError" in result.stderr:  # peers are not installed where the tests run
                continue
            self.assertEqual(result.returncode, 0, f"{path} --help:\n{result.stderr}")
            self.assertIn("--", result.stdout, path)
            printed.append(path)
        self.assertGreaterEqual(len(printed), 3)


class SlurmScript(unittest.TestCase):
    """launch/slurm/dtrain.sbatch with a fake srun that exits with a given code or waits for USR1."""

    def batch(self, srun, signal_it=False):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "env.sh").touch()
            (folder / "share/dtrain").mkdir(parents=True)
            (folder / "share/dtrain/launch").symlink_to(tree.ROOT / "launch")
            ready = folder / "ready"
            for program, text in {"scontrol": 'print("requeued", sys.argv[2])', "srun": srun}.items():
                lines = ["#!" + sys.executable, "import os, pathlib, signal, sys, time", f"ready = pathlib.Path({str(ready)!r})", text]
                (folder / program).write_text("\n".join(lines) + "\n")
                (folder / program).chmod(0o755)
            env = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", DTRAIN_PREFIX=str(folder), SLURM_JOB_NAME="j", SLURM_JOB_ID="7")
            script = subprocess.Popen(["bash", str(tree.ROOT / "launch/slurm/dtrain.sbatch"), "c.yaml"], env=env, text=True, stdout=subprocess.PIPE,
                                      start_new_session=True)
            while signal_it and not ready.exists():
                time.sleep(0.02)
            if signal_it:
                os.killpg(script.pid, signal.SIGUSR1)
            output, _ = script.communicate(timeout=30)
            return script.returncode, "requeued 7" in output

    def test_it_returns_the_exit_code_of_the_ranks(self):
        self.assertEqual(self.batch("sys.exit(0)"), (0, False))
        self.assertEqual(self.batch("sys.exit(78)"), (78, False))

    def test_ranks_that_saved_on_request_are_requeued(self):
        save = "signal.signal(signal.SIGUSR1, lambda *_: (time.sleep(0.5), sys.exit(75)))\nready.touch()\ntime.sleep(20)"
        self.assertEqual(self.batch(save, signal_it=True), (75, True))

    def test_ranks_that_the_signal_killed_are_requeued(self):
        self.assertEqual(self.batch("os.kill(os.getpid(), signal.SIGUSR1)"), (138, True))


if __name__ == "__main__":
    unittest.main()
