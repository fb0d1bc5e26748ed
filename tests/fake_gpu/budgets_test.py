"""What one step asks of a GPU: launches, copies, memory and waits, for every task, network, precision and option. The numbers are
in budgets.txt; where they change, `budgets_test.py --update` (the environment of ctest) writes the file again, for the diff."""

import pathlib
import statistics
import sys

import cases
import fake_gpu
import runner

TABLE = pathlib.Path(__file__).parent / "budgets.txt"
OPERATIONS = {"launches": "launch", "copies": "copy", "memsets": "memset", "events": "event", "allocations": "allocation", "waits": "wait"}
HEAD = "one step of".ljust(36) + "".join(name.rjust(12) for name in OPERATIONS)


def measure(folder, np, gpus, options):
    """The numbers of each rank, which must be the same."""
    result, ranks = fake_gpu.counted(runner.flags({"run.name": "", **options}), np=np, gpu_count=gpus, cwd=folder)
    result.expect(0, f"step {cases.STEPS}")
    numbers, *others = map(numbers_of, ranks)
    assert others == [numbers] * ((np or 1) - 1), (numbers, others)
    return numbers


def numbers_of(counts):
    numbers = []
    for operation in OPERATIONS.values():
        of_steps = [counts.of(operation, steps=[step]) for step in cases.COUNTED]
        # A reader that is late moves the copy of its batch, with its events, to the next step.
        numbers.append(statistics.median_low(of_steps) if operation in ("copy", "event") else max(of_steps))
    return numbers


def row(name, numbers):
    return name.ljust(36) + "".join(str(number).rjust(12) for number in numbers)


def rows(folder, chosen):
    """The lines of the table for the cases whose names `chosen` takes."""
    cases.make_data(folder)
    numbers = {name: measure(folder, *case) for name, case in cases.cases().items() if chosen(name)}
    waiting = [name for name, of_step in numbers.items() if of_step[list(OPERATIONS).index("waits")] != 0]
    assert not waiting, f"steps that do not log wait: {waiting}"
    return {name: row(name, of_step) for name, of_step in numbers.items()}


def compare(lines):
    known = dict(zip([HEAD, *cases.cases()], TABLE.read_text().splitlines(), strict=True))
    changed = [f"- {known[name]}\n+ {line}" for name, line in lines.items() if known[name] != line]
    assert lines and not changed, "a step asks for other than budgets.txt says:\n" + "\n".join([HEAD, *changed])


def steps_are_as_in_the_table(folder):
    """With AMP's usual type."""
    compare(rows(folder, lambda name: "bf16" in name))


def steps_of_other_precisions_are_as_in_the_table(folder):
    compare(rows(folder, lambda name: "bf16" not in name))


def update(folder):
    TABLE.write_text("\n".join([HEAD, *rows(folder, lambda name: True).values()]) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        sys.argv.pop()
        fake_gpu.main([update])
    fake_gpu.main([steps_are_as_in_the_table], [steps_of_other_precisions_are_as_in_the_table])
