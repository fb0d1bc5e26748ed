"""Shell scripts pass shellcheck and stop at errors, YAML passes yamllint, C++ is formatted, Python compiles."""
import ast
import os
import re
import subprocess
import unittest

import tree

YAMLLINT = ("{extends: default, rules: {line-length: {max: 160}, document-start: disable, truthy: {check-keys: false},"
            " comments: {min-spaces-from-content: 1}, braces: {max-spaces-inside: 1}, commas: disable}}")


def shell_scripts():
    """Every file that begins as a shell script, and what is sourced by one."""
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
                continue  # sourced: must not change the shell of the user
            self.assertIn("\nset -euo pipefail\n", tree.read(path), f"{path} goes on after errors")
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


if __name__ == "__main__":
    unittest.main()
