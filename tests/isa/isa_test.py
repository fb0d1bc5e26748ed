"""Reruns the tests whose results depend on the CPU's vector width and on the number of threads, with LibTorch and our loops
limited to narrower vectors and to a number of threads. With one thread, the numerical end-to-end tests too (they set their threads themselves).

usage: isa_test.py sse4|avx2 THREADS
"""
import json
import os
import re
import subprocess
import sys

BUILD = os.environ["DTRAIN_BUILD"]
# What limits ATen's kernels and ours, oneDNN, and MKL, and what ATen and oneDNN then report.
LEVELS = {
    "sse4": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
}
REPORTED = {"sse4": (r"^ATen: DEFAULT$", r"cpu,isa:.*SSE4\.1$"), "avx2": (r"^ATen: AVX2$", r"cpu,isa:.*AVX2$")}
# Beginnings of the names of unit tests; each must name at least one.
SUBJECTS = ["core_", "text_", "os_", "kernels_", "layers_", "models_", "cnn_lstm_", "pointer_parity", "data_test", "augment_", "export_", "onnx_", "tasks_", "train_step_"]
END_TO_END = ["predict", "python_parity", "world_size", "resume"]

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


def tests(threads):
    listed = subprocess.run(["ctest", "--test-dir", BUILD, "-L", "^(unit|e2e)$", "--show-only=json-v1"], capture_output=True, text=True,
                            timeout=120, check=True)
    names = [test["name"] for test in json.loads(listed.stdout)["tests"]]
    for subject in SUBJECTS:
        assert any(name.startswith(subject) for name in names), f"no unit test is named {subject}..."
    assert set(END_TO_END) <= set(names), sorted(set(END_TO_END) - set(names))
    return [name for name in names if name.startswith(tuple(SUBJECTS)) or (threads == 1 and name in END_TO_END)]


def main(level, threads):
    if not supported(level):
        print(f"this CPU has no {level}")
        return 77
    # Waiting threads sleep: with more threads than cores, spinning ones would take most of the time.
    environment = dict(os.environ, **LEVELS[level], OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="passive",
                       DTRAIN_TESTS_MAY_SKIP="1")
    check_that_the_limits_work(level, environment)
    names = "|".join(map(re.escape, tests(threads)))
    return subprocess.run(["ctest", "--test-dir", BUILD, "-R", f"^({names})$", "--output-on-failure", "--no-tests=error"],
                          env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
