"""SIGTERM to a process that trains alone, as it starts: it ends at once while it has no run folder, and saves after step 1 once it has one."""

import signal

import runner

import workload
from job import Job


def stopped(folder, call, *arguments):
    """The run folder of a job that gets SIGTERM at that moment, and its output."""
    workload.make_data(folder / "d.h5")
    job = Job(folder, [*workload.arguments(None), *arguments], plan={"call": call, "number": int(signal.SIGTERM)})
    code = job.wait(120)
    assert job.board().fired, f"the moment did not come:\n{job.output()}"
    assert code == 75, f"exit code {code}:\n{job.output()}"
    return folder / "runs/r", job.output()


def before_the_run_folder_nothing_is_left(folder):
    run, output = stopped(folder, "init_end")
    assert "there is nothing to save" in output, output
    assert not run.exists()


def a_run_folder_gets_a_checkpoint(folder):
    """The first fsync is that of config.yaml, as the run folder is made."""
    run, output = stopped(folder, "fsync", "--resume", "auto")
    assert "stopped on request at step 1 of" in output, output
    assert workload.newest_step(run) == 1, output
    runner.run(workload.arguments(None, resume=True), cwd=folder).expect(0, "step 1 of", "finished: ")


runner.main([before_the_run_folder_nothing_is_left, a_run_folder_gets_a_checkpoint])
