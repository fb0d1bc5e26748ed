"""The short form of tests/e2e/signals/run: SIGUSR1 at each moment once, at 2 ranks or in one process without mpirun, a kill of each target, SIGTERM and
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


def in_time(matrix, kind, counts, case):
    """A signal after a time that is drawn comes too late where other programs slowed the run by which that time was measured: again."""
    def cases():
        return sum(cell.cases() for (of, name), cell in matrix.record.cells.items() if of == kind and counts(name))

    before = cases()
    for _ in range(5):
        case()
        if cases() > before:
            return
        for np in matrix.undisturbed.seconds:  # a share of which is drawn, the same each time
            matrix.undisturbed.seconds[np] /= 2
    raise AssertionError(f"{kind} came too late five times")


def kills(matrix):
    for index in range(4):
        plan = moments.SMALL_FILES[3] if index == 3 else None
        in_time(matrix, "kill9", lambda name: "too late" not in name, lambda: kinds.kill9(index, matrix, plan=plan))


def sigterm_and_ctrl_c(matrix):
    """With checkpoints: otherwise the job had ended before the signal, or had saved nothing yet."""
    for index in (2, 3):
        in_time(matrix, "term", lambda name: "with checkpoints" in name, lambda: kinds.term(index, matrix))


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
