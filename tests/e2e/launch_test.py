"""`dtrain launch`: a run that is killed, stopped, preempted or short of hosts goes on, and ends like one that was left alone."""

import functools
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import urllib.request

import mounts
import runner

KEYS = {**runner.SMALL, "data.file": "d.h5", "train.global_batch": 16, "train.max_steps": 60, "train.epochs": 1000, "checkpoint.every": "5steps",
        "data.val_share": 0}
LONG = {**KEYS, "train.max_steps": 100000, "train.epochs": 100000}
GONE = 20.0  # seconds within which all processes of a job are gone; a busy machine needs more than the usual 4


def launch(name, keys, *flags, np=2, resume=False):
    """The arguments of dtrain."""
    words = runner.flags({**keys, "run.name": name}) + (["--resume", "auto"] if resume else [])
    return ["launch", "-np", np, *flags, "--", "train", *words]


def started(folder, *arguments, env=None, **options):
    return runner.Running(launch(*arguments, **options), cwd=folder, env=env)


def events(folder, name, event=None):
    lines = (folder / "runs" / name / "launch.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if event in (None, record["event"])]


def weights(folder, name, step):
    file = folder / "runs" / name / f"checkpoints/step_{step:08}/model.safetensors"
    return hashlib.sha256(file.read_bytes()).hexdigest()


@functools.cache
def undisturbed(np=2, steps=60):
    """The ledger and the last weights of an undisturbed run of d.h5."""
    with tempfile.TemporaryDirectory(prefix="dtrain-e2e-") as name:
        folder = pathlib.Path(name)
        runner.synth(folder / "d.h5", 64)
        keys = {**KEYS, "run.name": "alone", "train.max_steps": steps}
        result = runner.run(runner.flags(keys), np=np, cwd=folder).expect(0, "finished: all")
        return runner.ledger(result), weights(folder, "alone", steps)


def unused_segments():
    """Of shared memory, of ours and of Open MPI, that no process uses."""
    found = {name for name in os.listdir("/dev/shm") if name.startswith(("dtrain-", "vader_segment"))}
    used = set()  # looked for afterwards: what is made meanwhile is not in `found`
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            used |= {line.rsplit("/", 1)[1] for line in maps.read_text().splitlines() if "/dev/shm/" in line}
        except OSError:
            continue
    return {name for name in found - used if os.path.exists(f"/dev/shm/{name}")}


def nothing_left(environment):
    """No file of ours, or of Open MPI, in the folder of own_folder(), and no shared memory."""
    assert os.listdir(environment["TMPDIR"]) == [], os.listdir(environment["TMPDIR"])
    if not mounts.has_own_shared_memory():
        return  # other tests, and what other users do here, leave some too: a reader that leaves kills mpirun
    end = time.monotonic() + 10
    while left := unused_segments():  # that of a rank on another host goes with the daemon there
        assert time.monotonic() < end, left
        time.sleep(0.1)


def own_folder(folder):
    """For temporary files, so that a test sees what is left there."""
    (folder / "tmp").mkdir(exist_ok=True)
    return runner.environment() | {"TMPDIR": str(folder / "tmp")}


def scrape(target):
    with urllib.request.urlopen(f"http://{target}/metrics", timeout=10) as response:
        lines = response.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}


def targets_of(folder, name):
    """What Prometheus finds the supervisor by; it is there within a second after the banner."""
    file, end = folder / f"runs/targets/{name}.launch.json", time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < end, f"no {file}"
        time.sleep(0.05)
    return json.loads(file.read_text())


def killed_ranks_cost_a_few_steps_and_nothing_else(folder):
    runner.synth(folder / "d.h5", 64)
    env = own_folder(folder)
    with started(folder, "r", {**KEYS, "metrics.port": 0}, env=env) as running:
        running.wait_for("step 13/")
        targets = targets_of(folder, "r")
        before = scrape(targets[0]["targets"][0])
        os.kill(running.ranks()[1], signal.SIGKILL)
        running.wait_for("restart 1 of at most 10")
        running.wait_for("resumed ")
        running.wait_for("step 27/")
        after = scrape(targets[0]["targets"][0])
        os.kill(running.ranks()[0], signal.SIGKILL)
        result = running.wait().expect(0, "restart 2 of at most 10", "from the checkpoint of step", "finished: all 60 steps")
    assert (runner.ledger(result), weights(folder, "r", 60)) == undisturbed()
    assert "dtrain-" not in result.output.replace("dtrain-e2e-", ""), "lines for machines were shown"
    assert "rank 1, the first that failed, had printed nothing\n" in result.output, "rank 0 speaks for all"
    assert re.search(r"the last lines of rank 0, the first that failed:\n(  \| .*\n)*  \| .*step \d+/", result.output), result.output
    assert re.search(r"error: the job ended with code \d+ \((crash|comm)\): .*rank 1", result.output), result.output
    assert [end.get("rank") for end in events(folder, "r", "job_ended")] == [1, 0, None]
    # mpirun says it, or the other rank, which may be sooner.
    assert re.search(r"rank 1 on \S+: ended by signal 9|rank 1 \(process \d+\) has died", events(folder, "r", "job_ended")[0]["text"])
    nothing_left(env)

    labels = targets[0]["labels"]
    assert labels["job_id"] == "r" and "rank" not in labels, labels
    assert not (folder / "runs/targets/r.launch.json").exists(), "a clean end removes the target"
    name = "dtrain_supervisor_restarts_total"
    restarts = {key: value for key, value in after.items() if key.startswith(name)}
    assert sum(restarts.values()) == 1, restarts
    first = events(folder, "r", "job_ended")[0]
    (cause,) = [key for key, value in restarts.items() if value == 1]
    assert f'cause="{first["cause"]}"' in cause, (cause, first)
    lost = {key: value for key, value in after.items() if key.startswith("dtrain_supervisor_lost_steps_total{")}
    assert list(lost.values()) == [first["lost_steps"]], (lost, first)
    assert sum(value for key, value in before.items() if key.startswith(name)) == 0
    assert next(v for k, v in before.items() if k.startswith("dtrain_supervisor_ranks{")) == 2
    assert 0 < next(v for k, v in after.items() if k.startswith("dtrain_supervisor_effective_training_time_ratio{")) < 1

    ends = events(folder, "r", "job_ended")
    assert [end["cause"] for end in ends][2] == "finished" and len(ends) == 3, ends
    for end in ends[:2]:
        assert end["cause"] in ("crash", "comm"), end
        assert 0 <= end["lost_steps"] == end["step"] - end["saved_step"] < 15, end
    assert [start.get("from_step") for start in events(folder, "r", "job_started")] == [None, ends[0]["saved_step"], ends[1]["saved_step"]]
    last = events(folder, "r")[-1]
    assert last["event"] == "launch_ended" and last["code"] == 0 and 0 < last["effective_training_time_ratio"] < 1, last
    assert last["lost_steps"] == sum(end["lost_steps"] for end in ends[:2]), last


def stop_and_go_on(folder, signals):
    runner.synth(folder / "d.h5", 64)
    steps = 120 * (1 + len(signals))
    keys = {**KEYS, "train.max_steps": steps, "checkpoint.every": "never"}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, also by what is started here
    step = 0
    for number in signals:
        env = own_folder(folder)
        with started(folder, "r", keys, resume=step > 0, env=env) as running:
            running.wait_for(f"step {step + 5}/")
            ranks = running.ranks()
            if number in (signal.SIGINT, signal.SIGHUP):
                os.killpg(running.process.pid, number)  # as a terminal does: it reaches what shares the group of the supervisor
            else:
                os.kill(running.process.pid, number)
            begin = time.monotonic()
            result = running.wait(60).expect(75, "asked to stop", "stopped on request at step")
            assert time.monotonic() - begin < 15
            runner.expect_gone(ranks, GONE)
        nothing_left(env)
        newest = max(int(path.name.split("_")[1]) for path in (folder / "runs/r/checkpoints").glob("step_????????"))
        assert f"stopped on request at step {newest}" in result.output, result.output
        assert newest > step
        step = newest
        end = events(folder, "r")[-1]
        assert (end["event"], end["code"], end["lost_steps"]) == ("launch_ended", 75, 0), end
        assert "SIG" + events(folder, "r", "stop_asked")[-1]["signal"] == number.name, events(folder, "r", "stop_asked")
    result = runner.run(launch("r", keys, resume=True), cwd=folder).expect(0, f"finished: all {steps} steps")
    assert (runner.ledger(result), weights(folder, "r", steps)) == undisturbed(steps=steps)


def a_request_to_stop_saves(folder):
    stop_and_go_on(folder, [signal.SIGINT])


def each_signal_is_a_request_to_stop(folder):
    stop_and_go_on(folder, [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT])


def a_stop_that_another_process_asked_for_is_followed_by_a_restart(folder):
    """SIGUSR1 to mpirun itself, as of a scheduler that signals all processes of a node."""
    runner.synth(folder / "d.h5", 64)
    with started(folder, "r", KEYS) as running:
        running.wait_for("step 7/")
        os.kill(int(pathlib.Path(f"/proc/{running.ranks()[0]}/stat").read_text().rsplit(")", 1)[1].split()[1]), signal.SIGUSR1)
        result = running.wait().expect(0, "(preempted)", "restart 1 of at most 10")
    assert runner.ledger(result) == undisturbed()[0]
    assert events(folder, "r")[-1]["lost_steps"] == 0


def the_banner_names_the_supervisor(folder):
    runner.synth(folder / "d.h5", 64)
    with started(folder, "r", LONG) as running:
        running.wait_for("step 3/")
        assert running.output().count(f"kill -USR1 {running.process.pid} ") == 2, running.output()
        os.kill(running.process.pid, signal.SIGUSR1)
        running.wait().expect(75)


def ranks_that_do_not_stop_are_ended(folder):
    """Their save takes eight seconds and more."""
    runner.synth(folder / "d.h5", 64)
    slow = {**runner.environment(), "LD_PRELOAD": os.environ["DTRAIN_BUILD"] + "/tests/e2e/libslow_disk.so"}
    with started(folder, "r", {**LONG, "checkpoint.every": "never"}, "--grace", 1, env=slow) as running:
        running.wait_for("step 12/")
        ranks = running.ranks()
        os.kill(running.process.pid, signal.SIGTERM)
        result = running.wait(60)
        assert result.code not in (0, 75), result.output
        assert "has not saved and stopped within 1 s" in result.output, result.output
        runner.expect_gone(ranks, GONE)
    assert not list((folder / "runs/r/checkpoints").glob("step_????????")), "the save was not slow"


def a_second_ctrl_c_does_not_wait(folder):
    runner.synth(folder / "d.h5", 64)
    with started(folder, "r", LONG) as running:
        running.wait_for("step 3/")
        ranks = running.ranks()
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)  # so that the first one cannot be followed
        os.killpg(running.process.pid, signal.SIGINT)
        running.wait_for("asked to stop")
        begin = time.monotonic()
        os.killpg(running.process.pid, signal.SIGINT)
        result = running.wait(60)
        assert "a second Ctrl-C" in result.output and time.monotonic() - begin < 20, "it waited out the 30 s of --grace"
        # mpirun wakes the ranks before it ends them, so that they may have saved all the same.
        assert result.code not in (0, 75) or result.code == 75 and "stopped on request" in result.output, result.output
        runner.expect_gone(ranks, GONE)


def errors_that_would_come_again_are_not_retried(folder):
    runner.synth(folder / "d.h5", 64)
    damaged = bytearray((folder / "d.h5").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (folder / "d.h5").write_bytes(damaged)
    env = own_folder(folder)
    result = runner.run(launch("r", {**KEYS, "data.verify": True}), cwd=folder, env=env).expect(65, "checksum")
    assert "restart 1" not in result.output, result.output
    end = events(folder, "r")[-1]
    assert (end["code"], end["restarts"]) == (65, {}), end
    (job,) = events(folder, "r", "job_ended")
    assert f"\n{job['text']}\n" in result.output and re.match(rf"\[rank {job['rank']}\] error: d.h5#\d+: the checksum", job["text"]), job
    assert "dtrain-" not in result.output.replace("dtrain-e2e-", ""), "lines for machines were shown"
    assert (folder / "runs/targets/r.launch.json").exists(), "after a failure the target remains, so that up == 0"
    nothing_left(env)
    # Of the configuration, before anything is started.
    runner.run(launch("s", {**KEYS, "optimizer.lrr": 1}), cwd=folder).expect(78, "did you mean '--optimizer.lr'?")
    # A name that is taken: nothing is written there.
    before = sorted(os.listdir(folder / "runs/r")), (folder / "runs/r/launch.jsonl").read_text()
    runner.run(launch("r", KEYS), cwd=folder).expect(73, "never overwritten")
    assert before == (sorted(os.listdir(folder / "runs/r")), (folder / "runs/r/launch.jsonl").read_text())
    # Where there is no mpirun.
    (folder / "bin").mkdir()
    (folder / "bin/setpriv").symlink_to("/usr/bin/setpriv")
    result = runner.run(launch("t", KEYS), cwd=folder, env=env | {"PATH": str(folder / "bin")}).expect(127, "failed to execute mpirun", "add the folder of its mpirun to PATH")
    assert "restart" not in result.output, result.output
    # Of mpirun's own flags.
    result = runner.run(launch("t", KEYS, "--no-such-flag"), cwd=folder)
    assert result.code not in (0, 75, 76) and "restart" not in result.output, result.output


def a_run_that_dies_again_and_again_without_a_checkpoint_is_given_up(folder):
    runner.synth(folder / "d.h5", 64)
    with started(folder, "r", {**LONG, "checkpoint.every": "never"}) as running:
        for deaths in range(1, 5):
            running.wait_for("\nepoch 1/100000 | step 2/", times=deaths)  # the last lines are printed again, indented
            os.kill(running.ranks()[0], signal.SIGKILL)
            if deaths < 4:
                running.wait_for(f"restart {deaths} of at most 10")
        result = running.wait(60)
    assert result.code not in (0, 75), result.output
    assert "it ended 4 times without a new checkpoint between" in result.output, result.output
    assert "from its beginning: there is no checkpoint yet" in result.output


def a_killed_supervisor_leaves_no_ranks_and_the_next_goes_on(folder):
    runner.synth(folder / "d.h5", 64)
    env = own_folder(folder)
    with started(folder, "r", KEYS, env=env) as running:
        running.wait_for("step 8/")
        ranks = running.ranks()
        os.kill(running.process.pid, signal.SIGKILL)
        runner.expect_gone(ranks, GONE)
        running.process.wait()
    assert (folder / "runs/r/.lock").exists()
    assert os.listdir(env["TMPDIR"]) != [], "it could not remove its folder"
    result = runner.run(launch("r", KEYS, resume=True), cwd=folder, env=env).expect(0, "finished: all 60 steps")
    assert runner.ledger(result) == undisturbed()[0]
    nothing_left(env)


def a_checkpoint_that_was_being_written_is_no_obstacle(folder):
    runner.synth(folder / "d.h5", 64)
    slow = {**runner.environment(), "LD_PRELOAD": os.environ["DTRAIN_BUILD"] + "/tests/e2e/libslow_disk.so"}
    unfinished = lambda: list((folder / "runs/r/checkpoints").glob("*.tmp-*"))
    with runner.Running(runner.flags({**KEYS, "run.name": "r"}), np=2, cwd=folder, env=slow) as running:
        running.wait_for("step 5/")
        while not unfinished():
            time.sleep(0.05)
        ranks = running.ranks()
        runner.kill(ranks)
        running.wait(60)
        runner.expect_gone(ranks, GONE)
    assert unfinished()
    result = runner.run(launch("r", KEYS, resume=True), cwd=folder).expect(0, "finished: all 60 steps")
    assert runner.ledger(result) == undisturbed()[0]
    assert not unfinished()


def a_damaged_checkpoint_does_not_count(folder):
    runner.synth(folder / "d.h5", 64)
    with started(folder, "r", {**KEYS, "checkpoint.keep_last": 9}) as running:
        running.wait_for("saved ", times=3)
        ranks = running.ranks()
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)
        newest, before = sorted((folder / "runs/r/checkpoints").glob("step_????????"), reverse=True)[:2]
        content = bytearray((newest / "model.safetensors").read_bytes())
        content[len(content) // 2] ^= 1
        (newest / "model.safetensors").write_bytes(content)
        runner.kill(ranks)
        step = int(before.name.split("_")[1])
        result = running.wait().expect(0, f"from the checkpoint of step {step}\n", "skipped checkpoint", "finished: all 60 steps")
    assert (runner.ledger(result), weights(folder, "r", 60)) == undisturbed()
    end = events(folder, "r", "job_ended")[0]
    assert end["saved_step"] == step and end["lost_steps"] == end["step"] - step > 0, end
    assert events(folder, "r", "job_started")[1]["from_step"] == step


def a_lock_that_is_held_for_a_while_delays_a_restart(folder):
    """As of a rank that waits for a disk and cannot be ended."""
    runner.synth(folder / "d.h5", 64)
    with started(folder, "r", {**KEYS, "train.max_steps": 120}) as running:
        running.wait_for("step 7/")
        with subprocess.Popen(["flock", folder / "runs/r/.lock", "sleep", "25"]) as holder:  # it has it as soon as the rank is gone
            time.sleep(0.5)
            os.kill(running.ranks()[0], signal.SIGKILL)
            running.wait_for("waiting up to 300 s for it")
            result = running.wait().expect(0, "finished: all 120 steps")
            assert holder.wait() == 0
    assert runner.ledger(result) == undisturbed(steps=120)[0]


def a_run_that_goes_on_from_another_one_does_so_again(folder):
    """Until it has a checkpoint of its own."""
    runner.synth(folder / "d.h5", 64)
    keys = {**KEYS, "checkpoint.every": "never", "train.max_steps": 120}
    arguments = launch("r", keys) + ["--resume", "runs/whole/checkpoints/step_00000050"]
    runner.run(runner.flags({**KEYS, "run.name": "whole", "train.max_steps": 50}), np=2, cwd=folder).expect(0)
    with runner.Running(arguments, cwd=folder) as running:
        running.wait_for("step 53/")
        os.kill(running.ranks()[1], signal.SIGKILL)
        result = running.wait().expect(0, "restart 1 of at most 10", "finished: all 120 steps")
    assert result.output.count("step 50 of runs/whole/checkpoints/step_00000050") == 2, result.output
    assert runner.ledger(result) == undisturbed(steps=120)[0]
    assert events(folder, "r")[-1]["lost_steps"] < 60


def a_run_is_resumed_by_its_name_alone(folder):
    runner.run(["synth", "pointer", "--samples", 64, "--out", folder / "p.h5"]).expect(0)
    keys = {**runner.SMALL_ROWS, "task": "pointer", "data.file": "p.h5", "run.name": "r", "train.max_steps": 2, "train.epochs": 9}
    runner.run(["launch", "-np", 1, "--", "train", *runner.flags(keys)], cwd=folder).expect(0)
    runner.run(["launch", "-np", 1, "--", "train", "--name", "r", "--resume", "auto", "--train.max_steps", 4], cwd=folder).expect(0, "finished: all 4 steps")


def what_decides_is_what_ranks_write_for_machines(folder):
    """Words of dtrain mean nothing: neither its banner nor its errors."""
    runner.synth(folder / "d.h5", 64)
    for name in ("a", "b"):
        runner.train(folder, run__name=name, train__max_steps=2).expect(0)
    words = 'echo "[1,0]<stdout>:  run folder runs/a" ; echo "[1,1]<stderr>:[rank 1] error: rank 0 (process 7) has died" >&2'
    fails = json.dumps({"rank": 1, "host": "vm", "culprit": 3, "kind": "comm", "exit_code": 76, "text": "other words"})
    records = f"echo '[1,0]<stderr>:dtrain-run {{\"folder\":\"runs/b\"}}' >&2 ; echo '[1,1]<stderr>:dtrain-failure {fails}' >&2"
    env = fake_mpirun(folder, f"{words} ; exit 76", "exit 73", f"{records} ; exit 76", "exit 73")
    result = runner.run(launch("a", KEYS), cwd=folder, env=env).expect(73, "from the same command: no job has begun with the run yet", "has died")
    assert "the first that failed" not in result.output, result.output
    result = runner.run(launch("b", KEYS), cwd=folder, env=env).expect(73, "from the checkpoint of step 2", "code 76 (comm): other words")
    assert "rank 3, the first that failed, had printed nothing" in result.output and "dtrain-failure" not in result.output, result.output
    assert (folder / "words-4").read_text().endswith("\n--resume\nauto\n")
    assert "--resume" not in (folder / "words-2").read_text()


def a_question_for_the_verdict_ends_nothing(folder):
    runner.synth(folder / "d.h5", 64)
    with started(folder, "r", LONG) as running:
        running.wait_for("launch of run")
        os.kill(running.process.pid, signal.SIGUSR2)  # before there are ranks
        running.wait_for("step 30/")
        running.wait_for("verdict: ")
        os.kill(running.process.pid, signal.SIGUSR1)
        assert "restart" not in running.wait().expect(75).output


def a_second_launch_of_a_run_is_refused(folder):
    runner.synth(folder / "d.h5", 64)
    with started(folder, "r", LONG) as running:
        running.wait_for("step 3/")
        targets_of(folder, "r")
        target, record = folder / "runs/targets/r.launch.json", folder / "runs/r/launch.jsonl"
        before = target.read_text(), record.read_text()
        runner.run(launch("r", LONG, resume=True), cwd=folder).expect(
            73, "waiting up to", f"is being trained by another process (process {running.ranks()[0]} on", "or give another --name")
        assert before == (target.read_text(), record.read_text())
        os.kill(running.process.pid, signal.SIGUSR1)
        running.wait().expect(75)


def of_two_launches_that_start_a_run_at_once_one_trains_and_records(folder):
    runner.synth(folder / "d.h5", 64)
    for name in ("r0", "r1", "r2"):
        with started(folder, name, LONG, resume=True) as first, started(folder, name, LONG, resume=True) as second:
            end = time.monotonic() + 120
            while first.process.poll() is None and second.process.poll() is None:
                assert time.monotonic() < end, f"none was refused:\n{first.output()}\n{second.output()}"
                time.sleep(0.1)
            loser, winner = (first, second) if second.process.poll() is None else (second, first)
            loser.wait().expect(73, f"run runs/{name} ")
            winner.wait_for("step 3/")
            winner.process.send_signal(signal.SIGUSR1)
            winner.wait().expect(75, "stopped on request at step")
        recorded = events(folder, name)
        assert [event["event"] for event in recorded] == ["launch_started", "job_started", "stop_asked", "job_ended", "launch_ended"], recorded
        assert recorded[-1]["code"] == 75, recorded
    assert not list((folder / "runs/targets").glob("*.launch.json")), "both launches have ended"


def a_stopped_rank_is_the_one_that_failed(folder):
    """It goes on when the job ends, and then may say that the others are gone, if it lives long enough."""
    runner.synth(folder / "d.h5", 64)
    with started(folder, "r", {**LONG, "dist.timeout": 5}, "--max-restarts", 0) as running:
        running.wait_for("step 3/")
        ranks = running.ranks()
        os.kill(ranks[1], signal.SIGSTOP)
        result = running.wait(60).expect(76, "rank 1, the first that failed, had printed nothing\n")
        runner.expect_gone(ranks, GONE)
    (end,) = events(folder, "r", "job_ended")
    assert end["rank"] == 1 and "rank 1" in end["text"] and "rank 0 (process" not in end["text"], end
    assert "  | " not in result.output, result.output


def what_becomes_of_the_config_file_changes_nothing(folder):
    """The next experiment is often a change of the same file."""
    runner.synth(folder / "d.h5", 64)
    (folder / "my.yaml").write_text("optimizer:\n  lr: 0.001\ntrain:\n  epochs: 100\n")
    keys = {key: value for key, value in KEYS.items() if key not in ("optimizer.lr", "train.epochs")}
    with runner.Running(["launch", "-np", 2, "--", "my.yaml", *runner.flags({**keys, "run.name": "r"})], cwd=folder) as running:
        running.wait_for("step 8/")
        (folder / "my.yaml").write_text("optimizer:\n  lr: 0.5\n")
        os.kill(running.ranks()[1], signal.SIGKILL)
        running.wait_for("resumed ")
        running.wait_for("step 20/")
        (folder / "my.yaml").unlink()
        (folder / "dtrain.yaml").write_text("optimizer:\n  lr: 0.5\n")
        os.kill(running.ranks()[1], signal.SIGKILL)
        result = running.wait().expect(0, "restart 2 of at most 10", "finished: all 60 steps")
    assert (runner.ledger(result), weights(folder, "r", 60)) == undisturbed()
    assert "resumed with" not in result.output and result.output.count("config     that of the checkpoint") == 2, result.output


def what_starts_no_rank_is_not_tried_again(folder):
    runner.synth(folder / "d.h5", 64)
    for flags, text in [(["stray"], "mpirun was unable to find the specified executable file"), (["--hostfile", "none"], "unable to open the hostfile: none"),
                        (["--bind-to", "foo"], "binding policy is not recognized")]:
        result = runner.run(launch("r", KEYS, *flags), cwd=folder)
        assert result.code != 0 and "restart" not in result.output, result.output
        (error,) = [line for line in result.output.splitlines() if line.startswith("error: ")]
        assert text in error and "(error)" in error, error
    result = runner.run(launch("t", LONG, "--timeout", 4), cwd=folder)
    assert result.code != 0 and "restart" not in result.output and "time limit for job execution" in result.output, result.output


def a_killed_mpirun_leaves_nothing(folder):
    runner.synth(folder / "d.h5", 64)
    env = own_folder(folder)
    with started(folder, "r", LONG, "--max-restarts", 0, env=env) as running:
        running.wait_for("step 8/")
        time.sleep(2)  # what is younger may not be mapped yet
        ranks = running.ranks()
        os.kill(int(pathlib.Path(f"/proc/{ranks[0]}/stat").read_text().rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
        running.wait(60).expect(137, "mpirun was ended by signal 9")
        runner.expect_gone(ranks, GONE)
    nothing_left(env)


def fake_mpirun(folder, *jobs):
    """An environment in which mpirun is a script: each job runs the next of these shell commands, with the words of mpirun in the file words-N."""
    mpirun = folder / "bin/mpirun"
    mpirun.parent.mkdir()
    cases = "\n".join(f"{number}) {job} ;;" for number, job in enumerate(jobs, 1))
    mpirun.write_text(f'#!/bin/sh\necho >>jobs\nn=$(wc -l <jobs)\nprintf "%s\\n" "$@" >words-$n\necho "[1,0]<stdout>:a rank"\ncase $n in\n{cases}\nesac\n')
    mpirun.chmod(0o755)
    return runner.environment() | {"PATH": f"{folder}/bin:{os.environ['PATH']}"}


def the_number_of_restarts_is_that_of_the_flag(folder):
    env = fake_mpirun(folder, "exit 76", "exit 76", "exit 76")
    runner.run(launch("r", KEYS, "--max-restarts", 1), cwd=folder, env=env).expect(76, "the most that --max-restarts allows")
    assert (folder / "jobs").read_text() == "\n\n"
    runner.run(launch("r", KEYS, "--max-restarts", 0), cwd=folder, env=env).expect(76, "the most that --max-restarts allows")
    assert (folder / "jobs").read_text() == "\n\n\n"


def a_restart_takes_no_run_that_the_first_job_had_not(folder):
    runner.synth(folder / "d.h5", 64)
    for name in ("a", "b"):
        runner.train(folder, run__name=name, train__max_steps=2).expect(0)
    env = fake_mpirun(folder, "exit 76", "exit 73", "exit 76", "exit 73", "exit 76", "exit 0")
    again = "restart 1 of at most 10 in 1 s, from the same command: no job has begun with the run yet"
    runner.run(launch("a", KEYS), cwd=folder, env=env).expect(73, again)  # it never said that a may be continued
    assert "--resume" not in (folder / "words-2").read_text()
    runner.run(launch("b", KEYS) + ["--resume", "runs/a"], cwd=folder, env=env).expect(73, again)
    assert (folder / "words-4").read_text().endswith("\n--resume\nruns/a\n")
    runner.run(launch("a", KEYS, resume=True), cwd=folder, env=env).expect(0, "restart 1 of at most 10")
    assert (folder / "words-6").read_text().endswith("\n--resume\nauto\n")


def a_host_that_has_just_begun_ends_no_launch(folder):
    runner.synth(folder / "d.h5", 64)
    env = fake_mpirun(folder, "exit 137", "exit 127", "exit 0", "exit 127")
    runner.run(launch("r", KEYS), cwd=folder, env=env).expect(0, "restart 2 of at most 10", "code 127 (crash)")
    result = runner.run(launch("s", KEYS), cwd=folder, env=env).expect(127, "code 127 (error)")
    assert "restart" not in result.output, "at first it is the installation"


def a_job_that_cannot_be_started_counts_as_one_that_failed(folder):
    runner.synth(folder / "d.h5", 64)
    (folder / "tmp").mkdir()
    (folder / "link").symlink_to(folder / "tmp")
    env = fake_mpirun(folder, "mkdir -p runs/r; ln -sfn /proc link; exit 137") | {"TMPDIR": str(folder / "link")}
    result = runner.run(launch("r", KEYS, "--max-restarts", 2), cwd=folder, env=env)
    result.expect(73, "the job could not be started: cannot create a folder for temporary files", "the most that --max-restarts allows")
    assert [event["event"] for event in events(folder, "r")][-3:] == ["restart", "restart", "launch_ended"], events(folder, "r")
    assert "cannot create a folder for temporary files" in events(folder, "r")[-1]["text"]
    (folder / "jobs").unlink()
    runner.run(launch("s", KEYS), cwd=folder, env=env).expect(73, "cannot create a folder for temporary files")
    assert not (folder / "jobs").exists()


def where_sigchld_is_ignored_the_end_is_noticed(folder):
    ignoring = ["python3", "-c", "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execvp(sys.argv[1], sys.argv[1:])"]
    words = [*ignoring, *runner.command(launch("r", KEYS))]
    env = fake_mpirun(folder, "exit 65")
    done = subprocess.run(list(map(str, words)), cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 65, done.stderr


def quick_start(folder):
    result = runner.run(["launch", "-np=2", "--", "train", "--train.max_steps", 2, "--metrics.port", 0], cwd=folder).expect(0, "finished: all 2 steps")
    (name,) = [path.name for path in (folder / "runs").iterdir() if path.name.startswith("headpose-")]
    assert events(folder, name)[-1]["code"] == 0
    result.expect(0, "launch of a new run in runs: kill -USR1", f"run folder runs/{name}\n")


def a_launch_learns_the_name_of_its_run(folder):
    """Another run has the name that is generated in each of the next seconds."""
    runner.synth(folder / "d.h5", 64)
    for second in range(300):
        (folder / "runs" / time.strftime("headpose-%Y%m%d-%H%M%S", time.localtime(time.time() + second))).mkdir(parents=True)
    words = ["launch", "-np", 2, "--", "train", *runner.flags({**KEYS, "metrics.port": 0})]
    with runner.Running(words, cwd=folder) as running:
        running.wait_for("step 13/")
        (run,) = (folder / "runs").glob("headpose-*-2")
        scraped = scrape(targets_of(folder, run.name)[0]["targets"][0])
        assert any(f'job_id="{run.name}"' in name for name in scraped), scraped
        os.kill(running.ranks()[1], signal.SIGKILL)
        result = running.wait().expect(0, "restart 1 of at most 10", "from the checkpoint of step", "finished: all 60 steps")
    assert result.output.count(f"run folder runs/{run.name}\n") == 2, result.output
    assert (runner.ledger(result), weights(folder, run.name, 60)) == undisturbed()
    assert [event["event"] for event in events(folder, run.name)] == ["launch_started", "job_started", "job_ended", "restart", "job_started",
                                                                      "job_ended", "launch_ended"]
    assert len(list((folder / "runs").glob("headpose-*-*-*"))) == 1 and not (folder / "launch.jsonl").exists()


def flags_that_are_not_its_own_reach_mpirun(folder):
    env = fake_mpirun(folder, "exit 0")
    flags = ["--mca", "btl", "tcp,self", "-x", "NCCL_DEBUG=INFO", "-H", "a:2", "--host", "b:1", "-map-by", "slot", "--bind-to", "none", "--oversubscribe",
             "--allow-run-as-root", "--report-bindings", "--timeout", "60", "-v", "--mca", "plm_rsh_args", "-p 2222", "--wd", "."]
    runner.run(["launch", *flags[:6], "-np", 3, *flags[6:], "--", "train", "--task", "headpose", "--name", "r", "--lr", "0.5"], cwd=folder, env=env).expect(0)
    words = (folder / "words-1").read_text().splitlines()
    assert words[:3] == ["--tag-output", "-np", "3"], words
    end = 3 + len(flags)
    assert words[3:end] == flags, words
    assert words[end:end + 4] == ["-x", "DTRAIN_SUPERVISED", "-x", "DTRAIN_LAUNCH_CONFIG"], words
    assert words[end + 4:] == [str(pathlib.Path(runner.DTRAIN).resolve()), "train", "--task", "headpose", "--lr", "0.5", "--name", "r"], words


def mistakes_on_the_command_line_are_named(folder):
    (folder / "hosts").write_text("a slots=2\nb slots=x\n")
    (folder / "small").write_text("a slots=2\n")
    for arguments, text in [
        (["--", "train"], "--np"),
        (["-np=x", "--", "train"], "--np: x is not in 1 - 1048576"),
        (["-np", 0], "--np"),
        (["-np", 2, "--max-restart", 3, "--", "train"], "did you mean '--max-restarts'?"),
        (["-np", 2, "train"], "put -- before it"),
        (["-np", 2, "my.yaml"], "put -- before it"),
        (["-np", 2, "--train.epochs", 3], "put -- before it"),
        (["-np", 2, "--epochs", 3], "put -- before it"),
        (["-np", 2, "--lr=0.5", "--", "train"], "'--lr=0.5' is for dtrain: put -- before it"),
        (["-np", 2, "--wdir", "/", "--", "train"], "cd to it"),
        (["-np", 2, "--", "eval", "runs/r"], "`train` alone"),
        (["-np", 2, "--", "train", "--dry-run"], "--dry-run does not train"),
        (["-np", 2, "--min-ranks", 3], "--min-ranks 3 is more than -np 2"),
        (["-np", 2, "--hosts", "hosts"], "hosts:2"),
        (["-np", 4, "--hosts", "small"], "room for 2 ranks, and -np is 4"),
        (["-np", 2, "--grace", "-1"], "--grace"),
    ]:
        runner.run(["launch", *arguments], cwd=folder).expect(64, text)
    runner.run(["launch", "-np", 2, "--hosts", "none"], cwd=folder).expect(64, "none")
    runner.run(["launch", "--help"], cwd=folder).expect(0, "-- train", "--max-restarts INT:INT in [0 - 1048576]=10", "--host-timeout FLOAT:FLOAT in [3 - 86400]=30",
                                                        "--grace FLOAT:FLOAT in [0 - 86400]=30")
    assert not (folder / "runs").exists()
    result = subprocess.run(runner.command(["launch", "-np", 2], np=2), cwd=folder, env=runner.environment(), capture_output=True, text=True, check=False)
    assert result.returncode == 64 and "is one process" in result.stderr, result.stderr


if __name__ == "__main__":
    mounts.own_shared_memory()
    runner.main([
        mistakes_on_the_command_line_are_named, flags_that_are_not_its_own_reach_mpirun, killed_ranks_cost_a_few_steps_and_nothing_else, a_request_to_stop_saves,
        the_banner_names_the_supervisor, a_second_ctrl_c_does_not_wait, errors_that_would_come_again_are_not_retried,
        a_killed_supervisor_leaves_no_ranks_and_the_next_goes_on,
        what_starts_no_rank_is_not_tried_again, a_killed_mpirun_leaves_nothing,
        a_launch_learns_the_name_of_its_run, a_run_is_resumed_by_its_name_alone, what_decides_is_what_ranks_write_for_machines, a_question_for_the_verdict_ends_nothing, the_number_of_restarts_is_that_of_the_flag,
        a_restart_takes_no_run_that_the_first_job_had_not, a_host_that_has_just_begun_ends_no_launch,
        a_job_that_cannot_be_started_counts_as_one_that_failed, where_sigchld_is_ignored_the_end_is_noticed,
    ], campaign=[
        each_signal_is_a_request_to_stop, a_stop_that_another_process_asked_for_is_followed_by_a_restart, ranks_that_do_not_stop_are_ended,
        a_checkpoint_that_was_being_written_is_no_obstacle, a_run_that_dies_again_and_again_without_a_checkpoint_is_given_up,
        what_becomes_of_the_config_file_changes_nothing,
        a_damaged_checkpoint_does_not_count, a_lock_that_is_held_for_a_while_delays_a_restart, quick_start, a_run_that_goes_on_from_another_one_does_so_again, a_second_launch_of_a_run_is_refused,
        of_two_launches_that_start_a_run_at_once_one_trains_and_records, a_stopped_rank_is_the_one_that_failed,
    ])
