"""The short form of tests/signals/run: each moment once, at 2 ranks, then a kill of each target and SIGTERM, and after each the same end."""

import pathlib
import random
import shutil
import sys
import tempfile
import traceback

import kinds
import moments
from matrix import Matrix

SEED = 1
# Three runs, each disturbed several times: a run that has ended is not disturbed again.
GROUPS = [["before main", "before MPI_Init", "after MPI_Init", "saving"], ["first step", "data wait", "phase change", "shut-down"],
          ["evaluation", "test split"]]


def preemptions(matrix):
    for index, group in enumerate(GROUPS):
        case = kinds.Case("preempt", index, matrix, np=2)
        case.draw = random.Random(f"{SEED} {index}")
        done = False
        for name in group:
            if name not in moments.AT_THE_END and case.step() > kinds.workload.STEPS - kinds.ROOM:
                case.finish()
                case.begin_run()
            done = kinds.preempt_once(case, name, ranks=2)
        if not done:
            case.finish()
        case.clean_up()


def kills(matrix):
    for index in range(3):
        kinds.kill9(index, matrix)


def sigterm(matrix):
    kinds.term(2, matrix)


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dtrain-signals-"))
    failed = []
    try:
        matrix = Matrix(SEED, folder, ranks=(2,))
        for test in (preemptions, kills, sigterm):
            try:
                test(matrix)
            except Exception:  # pylint: disable=broad-except
                failed.append(test.__name__)
                traceback.print_exc()
        matrix.record.print_table()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
