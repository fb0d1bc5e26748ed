"""The long matrix of signals; tests/e2e/signals/run starts it."""

import argparse
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import traceback

import kinds
from record import Failure, Record
from workload import Undisturbed

# How many cases of each kind follow each other, so that all get a fair share of the time.
TURN = {"preempt": 2, "term": 1, "kill9": 2, "launch": 1}


class Matrix:
    def __init__(self, seed, folder, ranks=(1, 2)):
        # A shell without job control starts what is in the background with SIGINT ignored, and ranks would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.record = Record(seed)
        self.undisturbed = Undisturbed(folder)
        self.jobs = []  # that were started
        for np in ranks:
            self.undisturbed.expected(np)

    def case(self, kind, index):
        """Runs one case; False: it failed."""
        try:
            kinds.ALL[kind](index, self)
            return True
        except Failure as failure:
            self.record.fail(kind, index, str(failure))
        except Exception:  # pylint: disable=broad-except
            self.record.fail(kind, index, traceback.format_exc())
        finally:
            self.end_jobs()
        return False

    def end_jobs(self):
        """What still runs after a failure."""
        for job in self.jobs:
            job.kill_all()
        self.jobs.clear()

    def turns(self, names, most):
        """(kind, index) of the cases, for ever or until each kind has had its number."""
        following = dict.fromkeys(names, 0)
        while following:
            for kind in list(following):
                for _ in range(TURN[kind]):
                    if most and following.get(kind, 0) == most * kinds.PER_COUNT[kind]:
                        following.pop(kind)
                        break
                    yield kind, following[kind]
                    following[kind] += 1


def arguments():
    parser = argparse.ArgumentParser(prog="tests/e2e/signals/run", description="Signals and kills at every kind of moment: each run must go on and "
                                     "end, bit by bit, as one that was left alone.")
    parser.add_argument("--minutes", type=float, default=20, help="how long; what has begun then still ends (default: 20)")
    parser.add_argument("--seed", type=int, default=int(time.strftime("%Y%m%d", time.gmtime())),
                        help="where the cases begin (default: the day, as 20261122)")
    parser.add_argument("--only", action="append", choices=list(kinds.ALL), metavar="KIND", help=f"one of {', '.join(kinds.ALL)}; may be repeated")
    parser.add_argument("--count", type=int, default=0, help="end when each cell has had this number of cases")
    parser.add_argument("--case", type=int, help="only the case of that number, of one kind: what a failure says")
    parser.add_argument("--stop", action="store_true", help="end at the first failure")
    parser.add_argument("--json", metavar="FILE", help="write all counts and times there")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the folders of failed cases there")
    return parser.parse_args()


def main():
    options = arguments()
    names = options.only or list(kinds.ALL)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dtrain-signals-"))
    end = time.monotonic() + 60 * options.minutes
    asked = []  # to stop, by a signal: the table of what was done is printed all the same
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    try:
        matrix = Matrix(options.seed, folder)
        cases = [(names[0], options.case)] if options.case is not None else matrix.turns(names, options.count)
        before = None
        for kind, index in cases:
            if before not in (None, kind):
                print(matrix.record.line(before), flush=True)
            before = kind
            if asked or time.monotonic() > end:
                break
            passed = matrix.case(kind, index)
            if not passed and options.keep:
                shutil.copytree(folder / f"{kind}{index}", pathlib.Path(options.keep) / f"{kind}{index}", symlinks=True, dirs_exist_ok=True)
            if not passed and options.stop:
                break
        matrix.record.print_table()
        for kind in names:
            print(matrix.record.line(kind))
        if options.json:
            matrix.record.write(options.json, options.minutes)
        print(f"seed {options.seed}: {len(matrix.record.failures)} failed")
        return 1 if matrix.record.failures or not matrix.record.cells else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
