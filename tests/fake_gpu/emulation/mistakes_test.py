"""Each binary has a mistake in one of our kernels, which its tests must notice. mistakes_test.py FOLDER BINARY=FILTER..."""

import pathlib
import re
import subprocess
import sys


def notices(binary, filter):
    done = subprocess.run([binary, f"--gtest_filter={filter}", "--gtest_fail_fast"], capture_output=True, text=True)
    ran = re.search(r"\[==========\] Running [1-9]\d* tests? ", done.stdout)  # a filter may fit none
    return ran is not None and done.returncode != 0, (done.stdout + done.stderr)[-1500:]


def main():
    folder, mistakes = pathlib.Path(sys.argv[1]), [word.split("=") for word in sys.argv[2:]]
    missed = 0
    for binary, filter in mistakes:
        noticed, output = notices(folder / binary, filter)
        print(f"{'ok    ' if noticed else 'MISSED'}  {binary}" + ("" if noticed else f"\n{output}"), flush=True)
        missed += not noticed
    sys.exit(1 if missed or not mistakes else 0)


if __name__ == "__main__":
    main()
