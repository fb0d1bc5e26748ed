"""A failing rank ends the job with its reason and never hangs it; a question for the verdict does not end it."""

import os
import pathlib
import signal
import time

import h5py

import runner

OPTIONS = {**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.max_steps": 100000, "train.epochs": 100000,
           "checkpoint.every": "5steps", "data.val_share": 0}
ENDED = 20.0  # seconds within which the job ends after a rank has died or thrown: 1 to 5 s, and more on a busy machine; without it, dist.timeout (300 s)


def ended_in_time(begin):
    seconds = time.monotonic() - begin
    print(f"        the job ended after {seconds:.1f} s")
    assert seconds < ENDED, "the job took too long to end"


def a_killed_rank_ends_the_job_and_resume_continues(folder):
    runner.synth(folder / "d.h5", 64)
    with runner.Running(runner.flags(OPTIONS), np=4, cwd=folder) as running:
        running.wait_for("step 12/")
        ranks = running.ranks()
        assert len(ranks) == 4
        begin = time.monotonic()
        os.kill(ranks[2], signal.SIGKILL)
        result = running.wait(60)
        ended_in_time(begin)
        assert result.code != 0, result.output
        runner.expect_gone(ranks, ENDED)
    assert (folder / "runs/targets/r.json").exists(), "after a crash the target remains, so that up == 0"
    last = max(r["step"] for r in runner.metrics(folder / "runs/r"))
    runner.run(["--resume", "auto"] + runner.flags({**OPTIONS, "train.max_steps": last + 5}), np=4, cwd=folder).expect(
        0, "resumed", "finished: all")
    assert not (folder / "runs/targets/r.json").exists()


def a_stopped_rank_is_named(folder):
    runner.synth(folder / "d.h5", 64)
    with runner.Running(runner.flags({**OPTIONS, "dist.timeout": 6}), np=3, cwd=folder) as running:
        running.wait_for("step 5/")
        ranks = running.ranks()
        os.kill(ranks[1], signal.SIGSTOP)
        try:
            result = running.wait(45).expect(76, "rank 1")
        finally:
            if os.path.exists(f"/proc/{ranks[1]}"):
                os.kill(ranks[1], signal.SIGCONT)
        runner.expect_gone(ranks, ENDED)
    assert result.seconds < 60


def a_job_ended_by_sigterm_to_mpirun_leaves_its_checkpoints_intact(folder):
    runner.synth(folder / "d.h5", 64)
    with runner.Running(runner.flags({**OPTIONS, "checkpoint.every": 4}), np=2, cwd=folder) as running:
        running.wait_for("saved ", times=2)
        ranks = running.ranks()
        begin = time.monotonic()
        os.kill(running.process.pid, signal.SIGTERM)
        result = running.wait(60)
        ended_in_time(begin)
        assert result.code != 0, result.output
        runner.expect_gone(ranks, ENDED)
    runner.run(["inspect", "runs/r", "--verify"], cwd=folder).expect(0, "match their SHA-256")
    last = max(int(p.name.split("_")[1]) for p in (folder / "runs/r/checkpoints").glob("step_????????"))
    runner.run(["--resume", "auto"] + runner.flags({**OPTIONS, "checkpoint.every": 4, "train.max_steps": last + 5}), np=2, cwd=folder).expect(
        0, f"step {last} of", "finished: all")


def a_rank_that_throws_ends_the_job(folder):
    """With its own error: the other rank, which would find it gone, does not end the job first."""
    runner.synth(folder / "d.h5", 64)
    slow = {**runner.environment(), "LD_PRELOAD": os.environ["DTRAIN_BUILD"] + "/tests/e2e/libslow_abort.so"}
    with runner.Running(runner.flags({**OPTIONS, "data.verify": True}), np=2, cwd=folder, env=slow) as running:
        running.wait_for("step 3/")
        ranks = running.ranks()
        with runner.paused(ranks):  # they look at the time of the last write, too
            modified = (folder / "d.h5").stat().st_mtime_ns
            with h5py.File(folder / "d.h5", "r+", locking=False) as f:
                f["inputs"][13, 0, 0, 0] ^= 1  # of one rank
            os.utime(folder / "d.h5", ns=(modified, modified))  # as from a disk that returns other bytes
        begin = time.monotonic()
        result = running.wait(60).expect(65, "checksum", "d.h5#")
        ended_in_time(begin)
        runner.expect_gone(ranks, ENDED)
    assert "[rank" in result.output and "has left" not in result.output, result.output
    assert "dtrain-failure" not in result.output, "no supervisor reads lines for machines"


def no_false_alarm(folder):
    """A job that makes progress runs longer than the timeout. The timeout is 10 s and saves are few, so that a slow disk causes no alarm."""
    runner.synth(folder / "d.h5", 64)
    timeout = 10
    with runner.Running(runner.flags({**OPTIONS, "dist.timeout": timeout, "checkpoint.every": "500steps"}), np=2, cwd=folder) as running:
        running.wait_for("step 3/")
        time.sleep(1.5 * timeout)
        os.kill(running.process.pid, signal.SIGUSR1)
        running.wait(60).expect(75, "stopped on request at step")


def a_save_longer_than_the_timeout_is_no_stall(folder):
    runner.synth(folder / "d.h5", 64)
    slow = {**runner.environment(), "LD_PRELOAD": os.environ["DTRAIN_BUILD"] + "/tests/e2e/libslow_disk.so"}
    options = {**OPTIONS, "dist.timeout": 4, "train.max_steps": 3}
    result = runner.run(runner.flags(options), np=2, cwd=folder, env=slow).expect(0, "finished: all 3 steps")
    assert result.output.count("saved ") == 1, result.output
    assert result.seconds > 8, "a save has eight fsyncs of a second: the disk was not slow"


def an_exception_that_is_not_caught_is_reported_and_ends_the_job(folder):
    runner.synth(folder / "d.h5", 64)
    broken = {**runner.environment(), "LD_PRELOAD": os.environ["DTRAIN_BUILD"] + "/tests/e2e/libbroken_mpi.so"}
    begin = time.monotonic()
    result = runner.run(runner.flags(OPTIONS), np=2, cwd=folder, env=broken)
    result.expect(70, "] error: unknown exception")
    assert "terminate called" not in result.output, result.output
    ended_in_time(begin)


def a_verdict_on_request_changes_nothing(folder):
    runner.synth(folder / "d.h5", 64)
    options = {**OPTIONS, "train.max_steps": 150, "checkpoint.every": "never", "run.log_every": 1}
    runner.run(runner.flags({**options, "run.name": "undisturbed"}), np=2, cwd=folder).expect(0)
    with runner.Running(runner.flags(options), np=2, cwd=folder) as running:
        running.wait_for("step 30/")
        os.kill(running.ranks()[1], signal.SIGUSR2)
        running.wait_for("verdict: ")
        os.kill(running.process.pid, signal.SIGUSR2)  # mpirun forwards it to all ranks
        result = running.wait().expect(0, "finished: all 150 steps")
    of_rank, *of_mpirun, at_end = result.output.split("verdict: ")[1:]
    # mpirun signals one rank after the other, perhaps on both sides of the exchange of a step: then the next step answers again.
    assert len(of_mpirun) in (1, 2), f"one verdict for each request and one at the end, from one rank:\n{result.output}"
    assert not of_rank.startswith("too few steps"), of_rank
    assert "step 150/" in of_mpirun[-1], "the training did not go on after the verdict"
    assert "parallel efficiency " in at_end and "communication: " in at_end, at_end
    losses = [[r["loss"] for r in runner.metrics(folder / "runs" / name)] for name in ("undisturbed", "r")]
    assert len(losses[0]) == 150 and losses[0] == losses[1], "the request changed the training"


def catches(process, number):
    """Whether that process has a handler for the signal."""
    lines = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines())
    return int(lines["SigCgt"], 16) >> (number - 1) & 1 == 1


def a_verdict_requested_before_the_first_step_waits_for_it(folder):
    runner.synth(folder / "d.h5", 64)
    options = {**OPTIONS, "train.max_steps": 30, "checkpoint.every": "never"}
    with runner.Running(runner.flags(options), np=2, cwd=folder) as running:
        end = time.monotonic() + 60
        while len(running.ranks()) < 2 or not catches(running.ranks()[1], signal.SIGUSR1):  # SIGUSR1 is never fatal either
            assert time.monotonic() < end and running.process.poll() is None, running.output()
            time.sleep(0.001)
        assert "run folder" not in running.output(), "too late: the start-up is over"
        os.kill(running.ranks()[1], signal.SIGUSR2)
        result = running.wait().expect(0, "finished: all 30 steps")
    assert result.output.count("verdict: ") == 2, result.output
    assert result.output.index("verdict: too few steps for a verdict (0 of ") < result.output.index("step 30/"), result.output


runner.main([a_verdict_on_request_changes_nothing, a_verdict_requested_before_the_first_step_waits_for_it, a_killed_rank_ends_the_job_and_resume_continues, a_job_ended_by_sigterm_to_mpirun_leaves_its_checkpoints_intact,
             a_stopped_rank_is_named, a_rank_that_throws_ends_the_job, no_false_alarm,
             an_exception_that_is_not_caught_is_reported_and_ends_the_job],
            campaign=[a_save_longer_than_the_timeout_is_no_stall])
