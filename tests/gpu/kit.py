"""What tests/gpu/run runs, and how: from a build of this tree, or from a bundle that tests/gpu/bundle made elsewhere.

A test is {"name", "command", "environment", "timeout"}. In the tests.json of a bundle, the paths of the machine that made it
are replaced by {bin}, {source}, {python} and {mpirun}.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def gpu_tests(build):
    """Returns the tests with the label gpu of a configured build folder, with placeholders for paths, and the binaries they run."""
    listed = json.loads(subprocess.check_output(["ctest", "--test-dir", build, "-L", "^gpu$", "--show-only=json-v1"]))
    build, tests, binaries = pathlib.Path(build).resolve(), [], set()

    def placed(word):
        path = pathlib.Path(word)
        if path.name == "mpirun":
            return "{mpirun}"
        if path.is_absolute() and path.name.startswith("python"):
            return "{python}"
        if path.is_absolute() and path.is_relative_to(build) and path.is_file():
            binaries.add(path)
            return "{bin}/" + path.name
        return word.replace(str(SOURCE), "{source}")

    for test in listed["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        pairs = dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))
        tests.append({"name": test["name"], "command": [placed(word) for word in test.get("command", [])],
                      "environment": {name: placed(value) for name, value in pairs.items()},
                      "timeout": float(properties.get("TIMEOUT", 300))})
    return tests, sorted(binaries)


class Kit:
    """prefix: starts every command; dtrain, mpirun and python (with torch): paths; tests: with the paths of this machine."""

    def __init__(self, bundle=None, build=SOURCE / "build"):
        venv = SOURCE / ".deps/venv/bin/python"  # for a build of this tree; a bundle uses the torch of python3, as its `run` does
        self.python = os.environ.get("DTRAIN_PYTHON") or (str(venv) if not bundle and venv.exists() else sys.executable)
        if bundle:
            bundle = pathlib.Path(bundle).resolve()
            self.prefix, self.dtrain, self.mpirun = [str(bundle / "run")], str(bundle / "bin/dtrain"), str(bundle / "bin/mpirun")
            tests, folder = json.loads((bundle / "tests.json").read_text()), bundle / "bin"
            places = {"bin": lambda name: str(folder / name)}
        else:
            self.prefix, self.dtrain, self.mpirun = [], str(pathlib.Path(build) / "src/dtrain"), shutil.which("mpirun")
            tests, binaries = gpu_tests(build)
            by_name = {path.name: str(path) for path in binaries}
            places = {"bin": lambda name: by_name[name]}

        def real(word):
            if word.startswith("{bin}/"):
                return places["bin"](word[len("{bin}/"):])
            if word == "{python}":
                return sys.executable
            return word.replace("{mpirun}", self.mpirun or "mpirun").replace("{source}", str(SOURCE))

        self.tests = [{**test, "command": [real(word) for word in test["command"]],
                       "environment": {name: real(value) for name, value in test["environment"].items()}} for test in tests]
