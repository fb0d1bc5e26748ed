"""A resumed run equals a run that was not interrupted: bit by bit at the same world size, in its samples at any other."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal

import yaml

import runner

OPTIONS = {**runner.SMALL, "data.file": "d.h5", "train.global_batch": 16, "train.max_steps": 24, "train.epochs": 30,
           "checkpoint.every": "12steps", "checkpoint.keep_last": 10, "checkpoint.keep_best": False, "data.val_share": 0.2,
           "train.eval_every": "2epochs"}


def final_weights(folder, name):
    weights = folder / "runs" / name / "checkpoints/step_00000024/model.safetensors"
    return hashlib.sha256(weights.read_bytes()).hexdigest()


def losses(folder, name):
    return {r["step"]: (r["loss"], r["grad_norm"], r["learning_rate"]) for r in runner.metrics(folder / "runs" / name)}


def compare(folder, np, amp):
    tag = f"{amp}{np}"
    options = {**OPTIONS, "train.amp": amp}
    whole = runner.run(runner.flags({**options, "run.name": "whole" + tag}), np=np, cwd=folder).expect(0)
    # resumes from a checkpoint in the middle, under another name
    part = runner.run(["--resume", f"runs/whole{tag}/checkpoints/step_00000012"] + runner.flags({**options, "run.name": "part" + tag}),
                      np=np, cwd=folder).expect(0, "step 12 of")
    first, second = losses(folder, "whole" + tag), losses(folder, "part" + tag)
    assert sorted(second) == list(range(13, 25)), sorted(second)
    for step in range(13, 25):
        assert first[step] == second[step], (step, first[step], second[step])
    assert final_weights(folder, "whole" + tag) == final_weights(folder, "part" + tag)
    assert runner.ledger(whole) == runner.ledger(part)
    if (np, amp) == (2, "fp32"):
        saving_changes_nothing(folder, np, options, whole, tag)
    return runner.ledger(whole)


def saving_changes_nothing(folder, np, options, whole, tag):
    """The run is the same without intermediate checkpoints."""
    quiet = runner.run(runner.flags({**options, "run.name": "quiet" + tag, "checkpoint.every": "never", "train.eval_every": "1000epochs"}),
                       np=np, cwd=folder).expect(0)
    assert final_weights(folder, "whole" + tag) == final_weights(folder, "quiet" + tag)
    assert runner.ledger(quiet) == runner.ledger(whole)


def bit_equal_at_the_same_world_size(folder):
    runner.synth(folder / "d.h5", 75)
    ledgers = {compare(folder, 2, "fp32"), compare(folder, 2, "bf16"), compare(folder, 1, "fp32")}
    assert len(ledgers) == 1, ledgers


def same_samples_at_another_world_size(folder):
    runner.synth(folder / "d.h5", 75)
    whole = runner.run(runner.flags({**OPTIONS, "run.name": "whole"}), np=2, cwd=folder).expect(0)
    for np in (1, 3):
        part = runner.run(["--resume", "runs/whole/checkpoints/step_00000012"] + runner.flags({**OPTIONS, "run.name": f"part{np}"}),
                          np=np, cwd=folder).expect(0, "step 12 of")
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


def a_signal_before_main_is_answered(folder):
    """A library that is loaded first sends it, before LibTorch is initialized."""
    runner.synth(folder / "d.h5", 75)
    library = os.environ["DTRAIN_BUILD"] + "/tests/e2e/signals/libsignal_at.so"

    def run(words, number):
        board = folder / "board"
        board.write_bytes(bytes(4096))
        env = {**runner.environment(), "LD_PRELOAD": library, "SIGNAL_BOARD": str(board), "SIGNAL_CALL": "load", "SIGNAL_TO": "self",
               "SIGNAL_NUMBER": str(int(number))}
        return runner.run(words, cwd=folder, env=env, timeout=60)

    train = lambda name: runner.flags({**OPTIONS, "train.max_steps": 100000, "train.epochs": 100000, "run.name": name})
    run(train("usr1"), signal.SIGUSR1).expect(75, "stopped on request at step")
    run(train("term"), signal.SIGTERM).expect(75, "stopped on request before training began: there is nothing to save")
    assert not (folder / "runs/term").exists()
    assert "step 1/" in run(runner.flags({**OPTIONS, "train.max_steps": 2, "run.name": "usr2"}), signal.SIGUSR2).expect(0, "finished: all").output
    for number in (signal.SIGTERM, signal.SIGUSR1):
        run(["launch", "-np", 1, "--", "train", *train(f"launch{number}")], number).expect(75, "asked to stop")
    assert run(["inspect", "d.h5"], signal.SIGTERM).code == -signal.SIGTERM  # the signal itself ends a command that saves nothing
    # Neither ranks nor other children have signals blocked.
    with runner.Running(["launch", "-np", 1, "--", "train", *train("mask")], cwd=folder) as running:
        running.wait_for("step 3/")
        (rank,) = running.ranks()
        mpirun = int(pathlib.Path(f"/proc/{rank}/stat").read_text().rsplit(")", 1)[1].split()[1])
        probes = pathlib.Path(f"/proc/{rank}/task/{rank}/children").read_text().split()
        for process in [rank, mpirun, *probes]:
            blocked = re.search(r"SigBlk:\s*(\w+)", pathlib.Path(f"/proc/{process}/status").read_text())[1]
            assert int(blocked, 16) == 0, (process, blocked)
        running.process.send_signal(signal.SIGTERM)
        running.wait(60).expect(75)


def without_key(checkpoint, key):
    """Takes a key out of the configuration that a checkpoint holds, as if it had been saved before there was such a key."""
    state = json.loads((checkpoint / "state.json").read_text())
    lines = state["config"].splitlines(keepends=True)
    state["config"] = "".join(line for line in lines if not line.strip().startswith(key + ":"))
    assert len(state["config"].splitlines()) == len(lines) - 1, state["config"]
    text = (json.dumps(state, indent=2, ensure_ascii=False) + "\n").encode()
    (checkpoint / "state.json").write_bytes(text)
    manifest = json.loads((checkpoint / "MANIFEST.json").read_text())
    manifest.pop("sha256")
    manifest["files"]["state.json"] = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    manifest["sha256"] = hashlib.sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    (checkpoint / "MANIFEST.json").write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")


def a_longer_resume_says_that_it_warms_up_again(folder):
    runner.synth(folder / "d.h5", 75)
    options = {**OPTIONS, "run.name": "r", "schedule.warmup_steps": "30%"}
    runner.run(runner.flags(options), cwd=folder).expect(0)
    steps = max(losses(folder, "r"))
    words = ["--resume", "auto", "--train.max_steps", 120]
    rest = runner.flags({key: value for key, value in options.items() if key != "train.max_steps"})
    runner.run([*words, *rest], cwd=folder).expect(0, f"warning: the warm-up had ended at step {round(0.3 * steps)} of {steps}",
                                                   f"is lower from step {steps} on")


def a_resumed_run_keeps_what_decays(folder):
    runner.synth(folder / "d.h5", 75)
    key = "optimizer.decay_norms_and_biases"
    options = {**OPTIONS, "optimizer.weight_decay": 0.5}
    runner.run(runner.flags({**options, key: True, "run.name": "all"}), cwd=folder).expect(0)
    runner.run(runner.flags({**options, "run.name": "spared"}), cwd=folder).expect(0)
    assert losses(folder, "all")[24] != losses(folder, "spared")[24], "the key has no effect"
    checkpoint = folder / "runs/all/checkpoints/step_00000012"
    resumed = ["--resume", "runs/all/checkpoints/step_00000012"]
    runner.run(resumed + runner.flags({**options, "run.name": "kept"}), cwd=folder).expect(0)
    assert losses(folder, "kept")[24] == losses(folder, "all")[24]
    without_key(checkpoint, "decay_norms_and_biases")  # of a version that decayed everything
    runner.run(resumed + runner.flags({**options, "run.name": "older"}), cwd=folder).expect(0)
    assert losses(folder, "older")[24] == losses(folder, "all")[24]
    runner.run(resumed + runner.flags({**options, key: False, "run.name": "other"}), cwd=folder).expect(
        78, f"a resumed run keeps {key}")


def resume_auto_starts_a_run_that_does_not_exist(folder):
    runner.synth(folder / "d.h5", 40)
    options = {**runner.SMALL, "data.file": "d.h5", "run.name": "fresh", "train.epochs": 1}
    runner.run(["--resume", "auto"] + runner.flags(options), cwd=folder).expect(0, "finished: all")
    runner.run(["--resume", "auto"] + runner.flags({**options, "train.epochs": 2}), cwd=folder).expect(
        0, "resumed", "train.epochs: 1 -> 2")
    runner.run(["--resume", "auto"] + runner.flags({k: v for k, v in options.items() if k != "run.name"}), cwd=folder).expect(78, "--name")


def the_config_of_a_run_that_was_resumed_by_path_starts_a_new_run(folder):
    runner.synth(folder / "d.h5", 40)
    runner.train(folder, train__epochs=9, train__max_steps=2).expect(0)
    for path, name in [("runs/r", "r"), ("runs/r/checkpoints/step_00000004", "branch")]:
        runner.run(["--resume", path, "--name", name, "--train.max_steps", 4 if name == "r" else 6], cwd=folder).expect(0, "resumed")
        config = folder / f"runs/{name}/config.yaml"
        assert yaml.safe_load(config.read_text())["run"]["resume"] == "", config.read_text()
        again = runner.run([config, "--name", f"{name}-again"], cwd=folder).expect(0, "finished: all")
        assert "resumed" not in again.output and runner.metrics(folder / f"runs/{name}-again")[0]["step"] == 1


def a_branch_has_a_checkpoint_before_its_first_step(folder):
    """Killed at once, or with no step left, it continues where it branched off, and not at step 1."""
    runner.synth(folder / "d.h5", 40)
    runner.train(folder, train__epochs=9, train__max_steps=4).expect(0)
    for np, name in [(None, "one"), (2, "two")]:
        start = ["--resume", "runs/r", "--name", name, "--train.max_steps", 1000000, "--train.epochs", 1000000, "--optimizer.lr", 0.0005]
        with runner.Running(start, np=np, cwd=folder) as run:
            run.wait_for("(branched off)")
            runner.kill(run.ranks() or [run.process.pid])
            run.wait()
        again = runner.run(["--resume", "auto", "--name", name, "--train.max_steps", 6], np=np, cwd=folder).expect(0, "resumed", "finished: all")
        steps = runner.metrics(folder / f"runs/{name}")
        assert steps[-1]["step"] == 6 and "optimizer.lr" not in again.output, again.output
    runner.run(["--resume", "runs/r", "--name", "ended", "--train.max_steps", 4], cwd=folder).expect(0, "(branched off)", "finished")
    runner.run(["eval", "runs/ended"], cwd=folder).expect(0)


def contents(folder):
    """Hashes of all files of a run but its lock, which names the process that acquired it last."""
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*"))
            if p.is_file() and p.name != ".lock"}


def resume_auto_with_a_name_alone_starts_no_demo(folder):
    """In the wrong folder the run is not there, and nothing but its name is given."""
    for np in (None, 2):
        result = runner.run(["--name", "hp", "--resume", "auto"], np=np, cwd=folder).expect(
            78, f"--resume auto: {folder}/runs/hp does not exist", f"({folder}/dtrain.yaml is not there)", "--run.folder", "--task, --dataset or CONFIG.yaml")
        assert result.output.count("does not exist") == 1 and not list(folder.iterdir()), result.output
    runner.synth(folder / "d.h5", 40)
    options = {**runner.SMALL, "data.file": "d.h5", "train.epochs": 1, "model.image_size": 32}
    runner.run(["--name", "hp", "--resume", "auto", *runner.flags(options)], cwd=folder).expect(0, "finished: all")
    (folder / "elsewhere").mkdir()
    runner.run(["--name", "hp", "--resume", "auto", "--epochs", 2], cwd=folder / "elsewhere").expect(78, "elsewhere/runs/hp does not exist")
    assert not list((folder / "elsewhere").iterdir())
    # Where the run is, its name is enough: task and data come from the checkpoint.
    runner.run(["--name", "hp", "--resume", "auto", "--epochs", 2], cwd=folder).expect(0, "resumed", "d.h5: ", "finished: all")
    # A config in the folder says what to start.
    (folder / "dtrain.yaml").write_text("data: {file: d.h5}\nmodel: {image_size: 32}\ntrain: {epochs: 1, batch_size: 8}\n")
    runner.run(["--name", "other", "--resume", "auto", "--metrics.port", 0], cwd=folder).expect(0, "finished: all")


def a_resume_beyond_the_end_changes_nothing(folder):
    runner.synth(folder / "d.h5", 40)
    runner.train(folder, train__epochs=3, data__val_share=0.2).expect(0)
    steps = max(r["step"] for r in runner.metrics(folder / "runs/r"))
    before = contents(folder / "runs")
    for np in (None, 2):
        result = runner.run(["--name", "r", "--resume", "auto", "--epochs", 1], np=np, cwd=folder).expect(
            0, f"run runs/r is at step {steps}, already beyond step {steps // 3}, where train.epochs 1 ends it: nothing is changed")
        assert "finished" not in result.output and contents(folder / "runs") == before, result.output
    runner.run(["--name", "r", "--resume", "auto", "--train.max_steps", 2], cwd=folder).expect(0, "already beyond step 2, where train.max_steps 2 ends it")
    assert contents(folder / "runs") == before


def a_resumed_run_keeps_its_global_batch(folder):
    runner.synth(folder / "d.h5", 75)
    options = {**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.accumulate": 2, "checkpoint.every": "1epoch"}
    runner.run(runner.flags(options), np=2, cwd=folder).expect(
        0, "global batch 32 = 2 ranks × 8 × accumulate 2", "decided by train.batch_size × ranks × train.accumulate")
    # The accumulate of the same command fits no longer on one rank.
    runner.run(["--resume", "auto", *runner.flags({**options, "train.epochs": 3})], cwd=folder).expect(
        0, "train.accumulate 2 (--train.accumulate) does not fit the checkpoint's global batch of 32 on 1 rank × 8: 4 is used",
        "global batch 32 = 1 rank × 8 × accumulate 4", "decided by the checkpoint: a resumed run keeps its global batch", "finished: all")
    runner.run(["--resume", "auto", *runner.flags({**options, "train.epochs": 4, "task": "classify"})], cwd=folder).expect(
        78, "a resumed run keeps task.name: leave it out, or start a new run")
    runner.run(["--resume", "auto", *runner.flags({**options, "train.global_batch": 64, "train.seed": 5})], cwd=folder).expect(
        78, "a resumed run keeps train.global_batch, train.seed: leave them out, or start a new run")


def rewrite_state(checkpoint, change):
    """Changes the saved configuration and makes the manifest right again."""
    state = json.loads((checkpoint / "state.json").read_text())
    state["config"] = change(state["config"])
    (checkpoint / "state.json").write_text(json.dumps(state, indent=2) + "\n")
    manifest = json.loads((checkpoint / "MANIFEST.json").read_text())
    data = (checkpoint / "state.json").read_bytes()
    manifest["files"]["state.json"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    del manifest["sha256"]
    manifest["sha256"] = hashlib.sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    (checkpoint / "MANIFEST.json").write_text(json.dumps(manifest, sort_keys=True, indent=2) + "\n")


def as_earlier_versions_saved_it(config):
    """Every key, whatever the task, and letters as the units of intervals."""
    config = re.sub(r"(log_every:) .*", r"\1 1s", config)
    config = re.sub(r"(eval_every:) .*", r"\1 1e", config)
    config = re.sub(r"(  every:) .*", r'\1 "100s,10m"', config)
    config = config.replace("\nmodel:\n", "\naugment:\n  hflip: true\n  noise: 0.1\n\nmodel:\n  image_size: 224\n  checkpointing: false\n")
    return config.replace("\ntrain:\n", "\ntrain:\n  class_weights: none\n  freeze_batch_norm: false\n") + "\nsequence:\n  iterations: 0\n"


def runs_of_earlier_versions_load_and_resume(folder):
    runner.run(["synth", "pointer", "--samples", 60, "--out", "d.h5"], cwd=folder).expect(0)
    options = dict(task="pointer", data__file="d.h5", model__hidden=16, train__epochs=2, checkpoint__every="1epoch")
    runner.train(folder, **options).expect(0)
    saved = (folder / "runs/r/config.yaml").read_text()
    keys = yaml.safe_load(saved)
    assert not {"augment", "sequence"} & keys.keys() and keys["task"] == {"name": "pointer"} and "class_weights" not in keys["train"], keys
    runner.train(folder, **{**options, "train__epochs": 4}, run__name="whole").expect(0)
    rewrite_state(sorted((folder / "runs/r/checkpoints").glob("step_*"))[-1], as_earlier_versions_saved_it)
    notice = "the checkpoint's config has former units of intervals: run.log_every 1s is 1step"
    runner.run(["eval", "runs/r"], cwd=folder).expect(0, notice, "position_accuracy")
    runner.run(["predict", "runs/r", "d.h5", "--split", "test", "--out", "rows.csv"], cwd=folder).expect(0, notice)
    runner.run(["export", "runs/r", "--format", "onnx"], cwd=folder).expect(0)
    result = runner.run(["--name", "r", "--resume", "auto", "--epochs", 4, "--pointer.teacher_forcing_end", 1, "--metrics.port", 0], cwd=folder).expect(
        0, notice, "resumed with train.epochs: 2 -> 4", "finished: all")
    assert result.output.count(notice) == 1, result.output
    # The step lines keep their interval, and nothing else of `run` is a difference.
    assert "config     that of the checkpoint" in result.output and "resumed with run." not in result.output, result.output
    assert yaml.safe_load((folder / "runs/r/config.yaml").read_text())["run"]["log_every"] == "1step"
    # Given again, the same text is input like any other: it is refused.
    (folder / "old.yaml").write_text(as_earlier_versions_saved_it(saved))
    runner.run(["old.yaml", "--name", "n"], cwd=folder).expect(78, "old.yaml:", "1steps or 1sec", "augment.hflip: does nothing for task pointer")
    runner.run(["--name", "r", "--resume", "auto", "--augment.hue", 0.1], cwd=folder).expect(
        78, "--augment.hue: does nothing for task pointer")
    shutil.copy(folder / "runs/r/config.yaml", folder / "new.yaml")
    runner.run(["new.yaml", "--name", "n", "--epochs", 1], cwd=folder).expect(0, "finished: all")


def saves_by_minutes_and_keeps_the_newest_and_the_best(folder):
    runner.synth(folder / "d.h5", 75)
    options = {**OPTIONS, "run.name": "r", "train.max_steps": 100000, "train.epochs": 100000, "train.eval_every": "100000epochs",
               "checkpoint.every": "0.01min", "checkpoint.keep_last": 2}
    with runner.Running(runner.flags(options), np=2, cwd=folder) as running:
        running.wait_for("(by time)", times=4)
        os.kill(running.process.pid, signal.SIGUSR1)
        result = running.wait(60).expect(75)
    kept = sorted(p.name for p in (folder / "runs/r/checkpoints").iterdir())
    assert len(kept) == 2 and result.output.rsplit("saved runs/r/checkpoints/", 1)[1].startswith(kept[-1]), kept

    # a learning rate that ruins the weights: the best checkpoint is not among the newest, and is kept too
    options = {**OPTIONS, "run.name": "best", "optimizer.lr": 30, "schedule.name": "constant", "train.max_steps": 40, "checkpoint.every": "4steps",
               "checkpoint.keep_last": 1, "checkpoint.keep_best": True, "train.eval_every": "1epoch"}
    runner.run(runner.flags(options), np=2, cwd=folder).expect(0)
    maes = {r["step"]: r["metrics"]["mae"] for r in runner.metrics(folder / "runs/best", "eval") if r["split"] == "val"}
    best = min(maes, key=maes.get)
    kept = sorted(p.name for p in (folder / "runs/best/checkpoints").iterdir())
    assert kept == sorted({f"step_{best:08}", "step_00000040"}), (kept, maes)


def two_processes_cannot_train_one_run(folder):
    runner.synth(folder / "d.h5", 75)
    options = {**OPTIONS, "run.name": "r", "train.max_steps": 100000, "train.epochs": 100000, "checkpoint.every": "5steps"}
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
             without_mpirun_ctrl_c_saves, a_signal_before_main_is_answered,
             a_longer_resume_says_that_it_warms_up_again, a_resumed_run_keeps_what_decays, resume_auto_starts_a_run_that_does_not_exist,
             resume_auto_with_a_name_alone_starts_no_demo, a_resume_beyond_the_end_changes_nothing, a_resumed_run_keeps_its_global_batch,
             the_config_of_a_run_that_was_resumed_by_path_starts_a_new_run, a_branch_has_a_checkpoint_before_its_first_step,
             runs_of_earlier_versions_load_and_resume, two_processes_cannot_train_one_run,
             saves_by_minutes_and_keeps_the_newest_and_the_best])
