"""Our kernels on the CPU, under AddressSanitizer and UndefinedBehaviorSanitizer. sanitized_test.py BINARY"""

import os
import platform
import subprocess
import sys

import runner

# The sanitizers' fixed address ranges can collide with addresses that the kernel draws at random.
FIXED = ["setarch", platform.machine(), "-R"]


def main():
    fixed = FIXED if subprocess.run([*FIXED, "true"], capture_output=True).returncode == 0 else []
    options = f"suppressions={runner.SOURCE}/tests/support/lsan.supp:print_suppressions=0"
    command = [*fixed, sys.argv[1]]
    os.execvpe(command[0], command, {**os.environ, "LSAN_OPTIONS": options, "OMP_NUM_THREADS": "1"})


if __name__ == "__main__":
    main()
