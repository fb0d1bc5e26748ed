"""A resumed run equals a run that was not interrupted: bit by bit at the same world size, in its samples at any other."""

import hashlib
import os
import signal

import runner

OPTIONS = {**runner.SMALL, "data.file": "d.h5", "train.global_batch": 16, "train.max_steps": 40, "train.epochs": 30,
           "checkpoint.every": "20s", "checkpoint.keep_last": 10, "checkpoint.keep_best": False, "data.val_share": 0.2,
           "train.eval_every": "2e"}


def final_weights(folder, name):
    weights = folder / "runs" / name / "checkpoints/step_00000040/model.safetensors"
    return hashlib.sha256(weights.read_bytes()).hexdigest()


def losses(folder, name):
    return {r["step"]: (r["loss"], r["grad_norm"], r["learning_rate"]) for r in runner.metrics(folder / "runs" / name)}


def compare(folder, np, amp):
    tag = f"{amp}{np}"
    options = {**OPTIONS, "train.amp": amp}
    whole = runner.run(runner.flags({**options, "run.name": "whole" + tag}), np=np, cwd=folder).expect(0)
    # resumes from a checkpoint in the middle, under another name
    part = runner.run(["--resume", f"runs/whole{tag}/checkpoints/step_00000020"] + runner.flags({**options, "run.name": "part" + tag}),
                      np=np, cwd=folder).expect(0, "step 20 of")
    first, second = losses(folder, "whole" + tag), losses(folder, "part" + tag)
    assert sorted(second) == list(range(21, 41)), sorted(second)
    for step in range(21, 41):
        assert first[step] == second[step], (step, first[step], second[step])
    assert final_weights(folder, "whole" + tag) == final_weights(folder, "part" + tag)
    assert runner.ledger(whole) == runner.ledger(part)
    # saving never changes the run: it is the same without intermediate checkpoints
    quiet = runner.run(runner.flags({**options, "run.name": "quiet" + tag, "checkpoint.every": "never", "train.eval_every": "1000e"}),
                       np=np, cwd=folder).expect(0)
    assert final_weights(folder, "whole" + tag) == final_weights(folder, "quiet" + tag)
    assert runner.ledger(quiet) == runner.ledger(whole)
    return runner.ledger(whole)


def bit_equal_at_the_same_world_size(folder):
    runner.synth(folder / "d.h5", 75)
    ledgers = {compare(folder, 2, "fp32"), compare(folder, 2, "bf16"), compare(folder, 1, "fp32")}
    assert len(ledgers) == 1, ledgers


def same_samples_at_another_world_size(folder):
    runner.synth(folder / "d.h5", 75)
    whole = runner.run(runner.flags({**OPTIONS, "run.name": "whole"}), np=2, cwd=folder).expect(0)
    for np in (1, 3):
        part = runner.run(["--resume", "runs/whole/checkpoints/step_00000020"] + runner.flags({**OPTIONS, "run.name": f"part{np}"}),
                          np=np, cwd=folder).expect(0, "step 20 of")
        assert runner.ledger(part) == runner.ledger(whole)


def a_stop_request_saves_and_exits_with_75(folder):
    runner.synth(folder / "d.h5", 75)
    options = {**OPTIONS, "train.max_steps": 100000, "train.epochs": 100000, "checkpoint.every": "never", "run.name": "r"}
    with runner.Running(runner.flags(options), np=2, cwd=folder) as running:
        running.wait_for("step 3/")
        os.kill(running.process.pid, signal.SIGUSR1)
        result = running.wait(60).expect(75, "stopped on request at step", "saved ")
    step = int(result.output.split("stopped on request at step ")[1].split()[0])
    assert (folder / f"runs/r/checkpoints/step_{step:08}/MANIFEST.json").exists()
    options["train.max_steps"] = step + 5
    runner.run(["--resume", "auto"] + runner.flags(options), np=2, cwd=folder).expect(0, f"step {step} of", "finished: all")
    assert [r["step"] for r in runner.metrics(folder / "runs/r")] == list(range(1, step + 6))


def without_mpirun_ctrl_c_saves(folder):
    runner.synth(folder / "d.h5", 75)
    for request in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        options = {**OPTIONS, "train.max_steps": 100000, "train.epochs": 100000, "run.name": f"r{request}"}
        with runner.Running(runner.flags(options), cwd=folder) as running:
            running.wait_for("step 3/")
            running.process.send_signal(request)
            running.wait(60).expect(75, "stopped on request at step")


def resume_auto_starts_a_run_that_does_not_exist(folder):
    runner.synth(folder / "d.h5", 40)
    options = {**runner.SMALL, "data.file": "d.h5", "run.name": "fresh", "train.epochs": 1}
    runner.run(["--resume", "auto"] + runner.flags(options), cwd=folder).expect(0, "finished: all")
    runner.run(["--resume", "auto"] + runner.flags({**options, "train.epochs": 2}), cwd=folder).expect(
        0, "resumed", "train.epochs: 1 -> 2")
    runner.run(["--resume", "auto"] + runner.flags({k: v for k, v in options.items() if k != "run.name"}), cwd=folder).expect(78, "--name")


def saves_by_minutes_and_keeps_the_newest_and_the_best(folder):
    runner.synth(folder / "d.h5", 75)
    options = {**OPTIONS, "run.name": "r", "train.max_steps": 100000, "train.epochs": 100000, "train.eval_every": "100000e",
               "checkpoint.every": "0.01m", "checkpoint.keep_last": 2}
    with runner.Running(runner.flags(options), np=2, cwd=folder) as running:
        running.wait_for("(by time)", times=4)
        os.kill(running.process.pid, signal.SIGUSR1)
        result = running.wait(60).expect(75)
    kept = sorted(p.name for p in (folder / "runs/r/checkpoints").iterdir())
    assert len(kept) == 2 and result.output.rsplit("saved runs/r/checkpoints/", 1)[1].startswith(kept[-1]), kept

    # a learning rate that ruins the weights: the best checkpoint is not among the newest, and is kept too
    options = {**OPTIONS, "run.name": "best", "optimizer.lr": 30, "schedule.name": "constant", "train.max_steps": 40, "checkpoint.every": "4s",
               "checkpoint.keep_last": 1, "checkpoint.keep_best": True, "train.eval_every": "1e"}
    runner.run(runner.flags(options), np=2, cwd=folder).expect(0)
    maes = {r["step"]: r["metrics"]["mae"] for r in runner.metrics(folder / "runs/best", "eval") if r["split"] == "val"}
    best = min(maes, key=maes.get)
    kept = sorted(p.name for p in (folder / "runs/best/checkpoints").iterdir())
    assert kept == sorted({f"step_{best:08}", "step_00000040"}), (kept, maes)


def two_processes_cannot_train_one_run(folder):
    runner.synth(folder / "d.h5", 75)
    options = {**OPTIONS, "run.name": "r", "train.max_steps": 100000, "train.epochs": 100000, "checkpoint.every": "5s"}
    again = ["--resume", "auto"] + runner.flags(options)
    with runner.Running(again, np=2, cwd=folder) as running:
        running.wait_for("step 12/")
        rank0 = running.ranks()[0]
        before = sorted(p.name for p in (folder / "runs/r").iterdir())
        for arguments in (again, ["--resume", "runs/r"] + runner.flags(options)):
            runner.run(arguments, np=2, cwd=folder).expect(73, f"run runs/r is being trained (process {rank0} on ")
        assert sorted(p.name for p in (folder / "runs/r").iterdir()) == before
        assert running.process.poll() is None, "the first run was disturbed"
        os.kill(rank0, signal.SIGKILL)
        running.wait(30)
    steps = max(r["step"] for r in runner.metrics(folder / "runs/r"))
    runner.run(["--resume", "auto"] + runner.flags({**options, "train.max_steps": steps + 1}), np=2, cwd=folder).expect(
        0, "resumed", "finished: all")


runner.main([bit_equal_at_the_same_world_size, same_samples_at_another_world_size, a_stop_request_saves_and_exits_with_75,
             without_mpirun_ctrl_c_saves, resume_auto_starts_a_run_that_does_not_exist, two_processes_cannot_train_one_run,
             saves_by_minutes_and_keeps_the_newest_and_the_best])
