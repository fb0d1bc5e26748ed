"""`dtrain launch --hosts` on four hosts: one is lost or cut off, and the run goes on without it, and later with it again, as if nothing had been;
and what happens where the host of the supervisor is.

usage: supervisor_test.py [TEST...]"""

import json
import os
import time

import faults_test
import hosts
import runner
from host import WORK

KEYS = {**runner.SMALL, "data.file": "d.h5", "train.global_batch": 16, "train.batch_size": 2, "train.max_steps": 120, "train.epochs": 1000,
        "data.val_share": 0, "metrics.enabled": False, "checkpoint.every": "10steps", "run.name": "r"}
HOST_TIMEOUT = 3
RESTART = 10  # seconds from the moment when a host is given up, and the time that any start takes


def supervised(four, keys, *flags):
    (four[0].inside(WORK) / "hosts").write_text("".join(f"{name} slots=2\n" for name in four.names))
    words = [runner.DTRAIN, "launch", "-np", 8, "--hosts", "hosts", "--host-timeout", HOST_TIMEOUT, *flags, "-x", "OMP_NUM_THREADS", "--", "train", *runner.flags(keys)]
    return hosts.Job(four[0], words, four.environment())


def when(job, text, timeout=120, **options):
    """Seconds since the job began."""
    job.wait_for(text, timeout=timeout, **options)
    return time.monotonic() - job.begin


def first_step_after(run, moment, timeout=120):
    """When the run made its first step in the first job that was started after that moment; both in seconds since 1970."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        began = [event["time"] for event in lines_of(run / "launch.jsonl") if event["event"] == "job_started" and event["time"] > moment]
        steps = [record["time"] for record in lines_of(run / "metrics.jsonl") if began and record["kind"] == "step" and record["time"] > began[0]]
        if steps:
            return steps[0]
        time.sleep(0.1)
    raise AssertionError(f"no step within {timeout} s")


def restarts_in_time(four, start_up, given_up, lost_at):
    """After a host that was lost at `lost_at`, in seconds since 1970, and given up this number of seconds later."""
    trains = first_step_after(four[0].inside(WORK) / "runs/r", lost_at) - lost_at
    print(f"        start-up {start_up:.1f} s; after the loss: given up {given_up:.1f} s, step {trains:.1f} s", flush=True)
    assert trains - given_up < RESTART + start_up, "the restart took too long"


def lines_of(file):
    """The records of a file that is being written."""
    return [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


def a_lost_host_costs_a_few_seconds_and_nothing_else(folder):
    with faults_test.four_hosts(folder) as four:
        whole = four.train(runner.flags({**KEYS, "run.name": "whole"})).expect(0, "finished: all 120 steps")
        with supervised(four, KEYS) as job:
            start_up = when(job, "step 1/")
            job.wait_for("step 32/")
            four.lose(3)
            lost, lost_at = time.monotonic() - job.begin, time.time()
            given_up = when(job, "host host3 does not answer")
            job.wait_for("global batch 16 <= 6 ranks")
            restarts_in_time(four, start_up, given_up - lost, lost_at)
            four.start(3)
            four.give(folder / "d.h5", [3])
            job.wait_for("host host3 answers again: the next job uses it", timeout=60)
            os.kill(min(four[1].ranks().values()), 9)
            job.wait_for("global batch 16 = 8 ranks", times=2, timeout=120)
            result = job.wait(300).expect(0, "finished: all 120 steps")
        assert runner.ledger(result) == runner.ledger(whole), "the same samples, whatever the number of ranks"
        events = lines_of(four[0].inside(WORK) / "runs/r/launch.jsonl")
        assert [event["host"] for event in events if event["event"] in ("host_lost", "host_back")] == ["host3", "host3"], events
        assert [event["ranks"] for event in events if event["event"] == "job_started"] == [8, 6, 8], events


def a_host_that_is_cut_off_is_left_out_and_taken_back(folder):
    """It lives on, with its ranks and Open MPI's daemon, and they end by themselves."""
    with faults_test.four_hosts(folder) as four:
        whole = four.train(runner.flags({**KEYS, "run.name": "whole"})).expect(0, "finished: all 120 steps")
        with supervised(four, {**KEYS, "dist.timeout": 15}) as job:
            start_up = when(job, "step 1/")
            job.wait_for("step 12/")
            four.links[3].cut()
            cut, cut_at = time.monotonic() - job.begin, time.time()
            given_up = when(job, "host host3 does not answer")
            job.wait_for("look with `ssh host3` and launch/ssh/check", timeout=60)
            job.wait_for("global batch 16 <= 6 ranks", timeout=120)
            restarts_in_time(four, start_up, given_up - cut, cut_at)
            faults_test.gone(four, [3], 60)
            four.links[3].up()
            job.wait_for("host host3 answers again: the next job uses it", timeout=60)
            os.kill(min(four[1].ranks().values()), 9)
            job.wait_for("global batch 16 = 8 ranks", times=2, timeout=120)
            result = job.wait(300).expect(0, "finished: all 120 steps")
        assert runner.ledger(result) == runner.ledger(whole), "the same samples, whatever the number of ranks"


def a_host_whose_name_does_not_resolve_is_left_out(folder):
    with faults_test.four_hosts(folder) as four:
        four[0].names(four.table.replace("host3", "other"))
        with supervised(four, {**KEYS, "train.max_steps": 6}) as job:
            job.wait(120).expect(0, "host host3 does not answer (ssh: Could not resolve hostname host3", "until it does; look with `ssh host3` and launch/ssh/check",
                                 "global batch 16 <= 6 ranks", "finished: all 6 steps")


def without_its_network_the_supervisor_says_what_it_lacks(folder):
    with faults_test.four_hosts(folder) as four:
        with supervised(four, KEYS, "--min-ranks", 8) as job:
            job.wait_for("step 12/")
            four.links[0].cut()
            result = job.wait(120).expect(76, "host host1 does not answer", "host host3 does not answer", "room for 2 of 8 ranks, and --min-ranks is 8")
        assert result.output.count("global batch 16") == 1, "a second job was started"
        faults_test.gone(four, range(4), 60)


def without_its_network_and_where_one_host_is_enough_it_goes_on_alone(folder):
    """The ranks on the other hosts end by themselves: no two jobs train one run."""
    with faults_test.four_hosts(folder) as four:
        whole = four.train(runner.flags({**KEYS, "run.name": "whole"})).expect(0, "finished: all 120 steps")
        with supervised(four, {**KEYS, "dist.timeout": 15}) as job:
            job.wait_for("step 12/")
            four.links[0].cut()
            result = job.wait(300).expect(0, "host host1 does not answer", "global batch 16 = 2 ranks", "finished: all 120 steps")
            faults_test.gone(four, [1, 2, 3], 60)
        assert runner.ledger(result) == runner.ledger(whole), "the same samples, whatever the number of ranks"


def where_the_host_of_the_supervisor_is_lost_the_others_end(folder):
    with faults_test.four_hosts(folder) as four:
        with supervised(four, {**KEYS, "train.max_steps": 100000}) as job:
            job.wait_for("step 12/")
            four.lose(0)
            lost = time.monotonic()
            faults_test.gone(four, [1, 2, 3], 60)
            print(f"        all ranks were gone after {time.monotonic() - lost:.1f} s", flush=True)


if __name__ == "__main__":
    hosts.main(runner.chosen([a_lost_host_costs_a_few_seconds_and_nothing_else, a_host_that_is_cut_off_is_left_out_and_taken_back,
                              a_host_whose_name_does_not_resolve_is_left_out, without_its_network_the_supervisor_says_what_it_lacks,
                              without_its_network_and_where_one_host_is_enough_it_goes_on_alone, where_the_host_of_the_supervisor_is_lost_the_others_end]))
