"""Captures and CUDA graphs on the fake GPUs: of the runtime (captures_test.cpp), and LibTorch's (graphs_test.cpp)."""

import pathlib
import subprocess
import tempfile

import fake_gpu

PROGRAM = fake_gpu.FOLDER / "fake_graphs_test"
BLOCKING, MISSING_WAIT, FAILS = "Captures.OfABlockingStream*", "Captures.AMissingWaitShowsInOrder0", "Captures.AGpuFails*"


def run(chosen, **settings):
    """The output of the tests that fit, which must succeed."""
    env = fake_gpu.environment(gpu_numbers=fake_gpu.OPERATORS, **settings)
    done = subprocess.run([PROGRAM, f"--gtest_filter={chosen}"], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (chosen, settings, done.stdout[-3000:] + done.stderr[-3000:])
    return done.stdout


def launches_do_what_was_captured(folder):
    run(f"Captures.*:Graphs.*-{MISSING_WAIT}:{FAILS}")


def launches_keep_the_order_of_streams(folder):
    for order in fake_gpu.ORDERS:
        run(f"Captures.*:Graphs.*-{BLOCKING}:{MISSING_WAIT}:{FAILS}", gpu_order=order)


def a_missing_wait_shows(folder):
    assert "1 test " in run(MISSING_WAIT, gpu_order=0)


def what_a_gpu_cannot_capture_is_an_error(folder):
    command = [PROGRAM, "--gtest_list_tests", "--gtest_filter=Uncapturable.*"]
    listed = subprocess.run(command, env=fake_gpu.environment(), capture_output=True, text=True, timeout=120).stdout.split()
    names = listed[listed.index("Uncapturable.") + 1:]
    assert len(names) >= 6, listed
    for name in names:
        run(f"Uncapturable.{name}")


def a_launch_counts_once(folder):
    with tempfile.TemporaryDirectory() as reports:
        run("Captures.WorkIsDoneByEachLaunchAndNotBefore", gpu_report=reports)
        (file,) = pathlib.Path(reports).glob("*.tsv")
        counts = fake_gpu.Counts(file)
    assert counts.names("launch") == {"graph": 3}, counts.lines
    assert counts.names("captured") == {"bytes": 1}, counts.lines


def a_gpu_fails_at_a_launch(folder):
    assert "1 test " in run(FAILS, gpu_fail="0:3")


if __name__ == "__main__":
    fake_gpu.main([launches_do_what_was_captured, launches_keep_the_order_of_streams, a_missing_wait_shows,
                   what_a_gpu_cannot_capture_is_an_error, a_launch_counts_once, a_gpu_fails_at_a_launch])
