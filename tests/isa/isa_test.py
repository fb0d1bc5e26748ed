"""Reruns the unit tests whose results depend on the CPU's vector width, with LibTorch limited to narrower vectors.

usage: isa_test.py sse4|avx2
"""
import json
import os
import re
import subprocess
import sys

BUILD = os.environ["DTRAIN_BUILD"]
# What limits ATen's kernels, oneDNN and MKL, and what the first two then report.
LEVELS = {
    "sse4": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
}
REPORTED = {"sse4": (r"^ATen: DEFAULT$", r"cpu,isa:.*SSE4\.1$"), "avx2": (r"^ATen: AVX2$", r"cpu,isa:.*AVX2$")}
# Beginnings of the names of unit tests; each must name at least one.
SUBJECTS = ["layers_", "models_", "cnn_lstm_", "pointer_parity", "data_", "augment_", "export_", "onnx_", "tasks_", "train_step_"]

PROBE = """
import torch
print("ATen: " + torch.backends.cpu.get_cpu_capability(), flush=True)
torch.nn.functional.conv2d(torch.ones(8, 16, 64, 64), torch.ones(16, 16, 3, 3))
"""


def supported(level):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return level != "avx2" or re.search(r"^flags\s.*\bavx2\b", file.read(), re.MULTILINE)


def check_that_the_limits_work(level, environment):
    """Asks the same libraries through Python: a variable that was renamed would otherwise go unnoticed."""
    result = subprocess.run([sys.executable, "-c", PROBE], env=dict(environment, ONEDNN_VERBOSE="1"), capture_output=True, text=True,
                            timeout=120, check=True)
    for pattern in REPORTED[level]:
        assert re.search(pattern, result.stdout, re.MULTILINE), f"no line matches {pattern!r}:\n{result.stdout}"


def tests():
    listed = subprocess.run(["ctest", "--test-dir", BUILD, "-L", "^unit$", "--show-only=json-v1"], capture_output=True, text=True,
                            timeout=120, check=True)
    names = [test["name"] for test in json.loads(listed.stdout)["tests"]]
    for subject in SUBJECTS:
        assert any(name.startswith(subject) for name in names), f"no unit test is named {subject}..."
    return [name for name in names if name.startswith(tuple(SUBJECTS))]


def main(level):
    if not supported(level):
        print(f"this CPU has no {level}")
        return 77
    environment = dict(os.environ, **LEVELS[level])
    check_that_the_limits_work(level, environment)
    names = "|".join(map(re.escape, tests()))
    return subprocess.run(["ctest", "--test-dir", BUILD, "-R", f"^({names})$", "--output-on-failure", "--no-tests=error"],
                          env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
