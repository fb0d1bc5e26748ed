"""The short form of tests/signals/run: SIGUSR1 at each moment once, at 2 ranks or in one process without mpirun, a kill of each target, SIGTERM and
Ctrl-C, and each run ends the same."""

import pathlib
import shutil
import sys
import tempfile
import traceback

import kinds
import moments
from matrix import Matrix

SEED = 1
# Of each group, one run is disturbed at each moment in turn; with the number of ranks, None without mpirun.
GROUPS = [(["before main", "before MPI_Init", "after MPI_Init", "saving", "shut-down"], 2),
          (["first step", "data wait", "phase change", "evaluation", "test split"], 2), (["long evaluation", "long test split"], None)]


def preemptions(matrix):
    for index, (group, np) in enumerate(GROUPS):
        kinds.preempt_at(group, kinds.Case("preempt", index, matrix, np), ranks=np or 1)


def kills(matrix):
    for index in range(3):
        kinds.kill9(index, matrix)
    kinds.kill9(3, matrix, plan=moments.SMALL_FILES[3])
    killed = sum(cell.cases() for (kind, name), cell in matrix.record.cells.items() if kind == "kill9" and "too late" not in name)
    assert killed == 4, f"{killed} of 4 kills came in time"


def sigterm_and_ctrl_c(matrix):
    for index in (2, 3):
        kinds.term(index, matrix)
    verified = [name for (kind, name) in matrix.record.cells if kind == "term" and "with checkpoints" in name]
    assert len(verified) == 2, f"checkpoints were there after {verified} alone; otherwise the job had ended before the signal"


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dtrain-signals-"))
    failed = []
    try:
        matrix = Matrix(SEED, folder, ranks=(None, 2))
        for test in (preemptions, kills, sigterm_and_ctrl_c):
            try:
                test(matrix)
            except Exception:  # pylint: disable=broad-except
                failed.append(test.__name__)
                traceback.print_exc()
                matrix.end_jobs()
        matrix.record.print_table()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
