"""A run and its files: which checkpoint a command takes, data found again from another folder, a run folder that disappears."""

import json
import os
import shutil
import signal

import runner

ENDLESS = {"train.max_steps": 100000, "train.epochs": 100000, "data.val_share": 0}


def trained(folder, **options):
    """A run `r` of 8 steps with a checkpoint every 2, of which all are kept."""
    runner.synth(folder / "d.h5", 40)
    more = dict(train__epochs=9, train__max_steps=8, checkpoint__every=2, checkpoint__keep_last=9, train__eval_every=4)
    runner.train(folder, **{**more, **options}).expect(0)
    return sorted(p.name for p in (folder / "runs/r/checkpoints").iterdir())


def trained_and_ruined(folder):
    """The same, but with a learning rate after step 4 that ruins the weights: the best checkpoint is that of step 4, the newest that of step 8."""
    more = dict(train__max_steps=4, train__epochs=9, checkpoint__every=2, checkpoint__keep_last=9, train__eval_every=4, schedule__name="constant")
    runner.synth(folder / "d.h5", 40)
    runner.train(folder, **more).expect(0)
    runner.train(folder, "--resume", "auto", **{**more, "train__max_steps": 8}, optimizer__lr=30).expect(0)


def state(folder, step):
    return json.loads((folder / f"runs/r/checkpoints/step_{step:08}/state.json").read_text())


def evaluated(folder, *words, code=0, cwd=None, run="runs/r"):
    return runner.run(["eval", run, *words], cwd=cwd or folder).expect(code)


def each_command_takes_the_checkpoint_that_is_named(folder):
    trained_and_ruined(folder)
    assert sorted(p.name for p in (folder / "runs/r/checkpoints").iterdir()) == [f"step_{step:08}" for step in (2, 4, 6, 8)]
    best = state(folder, 8)["best_step"]
    assert best == 4, best
    for words, step, chosen in [([], 8, "newest"), (["--checkpoint", "newest"], 8, "newest"), (["--checkpoint", "best"], best, "best: mae "),
                                (["--checkpoint", 6], 6, "step 6")]:
        told = f"checkpoints/step_{step:08} ({chosen}"
        evaluated(folder, *words).expect(0, told)
        runner.run(["predict", "runs/r", "d.h5", "--out", "rows.csv", "--force", *words], cwd=folder).expect(0, told)
        runner.run(["export", "runs/r", "--format", "safetensors", "--out", "n.st", "--force", *words], cwd=folder).expect(0, told)
        assert (folder / "n.st").read_bytes() == (folder / f"runs/r/checkpoints/step_{step:08}/model.safetensors").read_bytes()
    report = json.loads(evaluated(folder, "--checkpoint", "best", "--json", "-", "--split", "val").output)
    found = state(folder, best)["evaluation"]
    assert report["chosen"].startswith("best: mae ") and list(found) == list(report["metrics"])
    for name, value in found.items():
        assert abs(report["metrics"][name] - value) < 1e-5 * max(1, abs(value)), (name, found, report["metrics"])
    assert "evaluation" not in state(folder, 6), "no evaluation was due at step 6"


def a_checkpoint_that_is_not_there_is_named(folder):
    trained(folder, checkpoint__keep_best=False, train__max_steps=4, train__eval_every=2)
    for command in [["eval", "runs/r"], ["predict", "runs/r", "d.h5"], ["export", "runs/r", "--format", "onnx"]]:
        runner.run([*command, "--checkpoint", 3], cwd=folder).expect(74, "has no checkpoint of step 3; it has those of the steps 4, 2")
        runner.run([*command, "--checkpoint", "first"], cwd=folder).expect(64, "neither best, newest, nor a step")
        command[1] = "runs/r/checkpoints/step_00000004"
        runner.run([*command, "--checkpoint", "best"], cwd=folder).expect(64, "chooses among the checkpoints of a run")
    runner.train(folder, run__name="n", data__val_share=0, train__max_steps=2).expect(0)
    runner.run(["eval", "runs/n", "--checkpoint", "best"], cwd=folder).expect(74, "no evaluation has chosen one")
    shutil.copytree(folder / "runs/n", folder / "runs/cut")
    weights = folder / "runs/cut/checkpoints/step_00000002/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    runner.run(["eval", "runs/cut", "--checkpoint", 2], cwd=folder).expect(74, "model.safetensors has ")


def the_best_one_may_have_been_removed(folder):
    trained_and_ruined(folder)
    shutil.rmtree(folder / "runs/r/checkpoints/step_00000004")
    result = evaluated(folder, "--checkpoint", "best", code=74).output
    assert "of step 4 (mae " in result and "is not there" in result and "those of the steps 8, 6, 2" in result, result


def inspect_shows_the_checkpoints_and_the_layers(folder):
    trained_and_ruined(folder)
    maes = {step: state(folder, step)["evaluation"]["mae"] for step in (4, 8)}
    result = runner.run(["inspect", "runs/r", "--verify"], cwd=folder).expect(
        0, "run         runs/r\n", f"step 8      mae {maes[8]:.4f}, newest\n", "step 6      mae –\n", f"step 4      mae {maes[4]:.4f}, best\n",
        "checkpoint  runs/r/checkpoints/step_00000008", "files match their SHA-256")
    layers = [line.split() for line in result.output.splitlines() if line.startswith("layer")]
    assert ["layer", "fc.2", "771", "weight", "[3,", "256],", "bias", "[3]"] in layers, layers
    total = (folder / "runs/r/log.txt").read_text().split(" parameters, ")[0].rsplit(", ", 1)[1]
    assert f"network     {total} parameters in {len(layers)} layers" in result.output, (total, result.output)
    damaged = folder / "runs/r/checkpoints/step_00000002/optimizer.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    runner.run(["inspect", "runs/r"], cwd=folder).expect(0)
    runner.run(["inspect", "runs/r", "--verify"], cwd=folder).expect(74, "step 2      ", "optimizer.safetensors has ", "1 checkpoint is damaged")


def the_data_is_found_from_another_folder(folder):
    project, elsewhere = folder / "project", folder / "elsewhere"
    project.mkdir(), elsewhere.mkdir()
    trained(project)
    environment = json.loads((project / "runs/r/environment.json").read_text())
    assert environment["absolute_paths"]["data"] == str(project / "d.h5"), environment
    run = str(project / "runs/r")
    assert str(project) not in (project / "runs/r/config.yaml").read_text()
    expected = json.loads(evaluated(project, "--json", "-").output)["metrics"]

    def found(place, run=run, why="d.h5 is not there"):
        told = f"the data of the run is {place}: {why}"
        evaluated(elsewhere, "--json", "report.json", "--force", cwd=elsewhere, run=run).expect(0, told)
        report = json.loads((elsewhere / "report.json").read_text())
        assert report["data"] == str(place) and report["metrics"] == expected, report
        runner.run(["export", run, "--format", "onnx-int8", "--out", "n.onnx", "--force", "--samples", 8], cwd=elsewhere).expect(0, told)

    found(project / "d.h5")
    runner.synth(elsewhere / "d.h5", 40, seed=2)  # a file of that name with other samples is not the run's
    other = "d.h5 has another checksum than the data that the run was trained on"
    found(project / "d.h5", why=other)
    # The run is moved together with its data; then the data alone is back where it was.
    project.rename(folder / "moved")
    run = str(folder / "moved/runs/r")
    found(folder / "moved/d.h5", run=run, why=other)
    (folder / "moved/d.h5").rename(folder / "moved/runs/r/d.h5")
    found(folder / "moved/runs/r/d.h5", run=run, why=other)
    project.mkdir()
    (folder / "moved/runs/r/d.h5").rename(project / "d.h5")
    found(project / "d.h5", run=run, why=other)
    # The first place has nothing, the second has another data set.
    (elsewhere / "d.h5").rename(folder / "moved/d.h5")
    found(project / "d.h5", run=run)
    (folder / "moved/d.h5").rename(elsewhere / "d.h5")
    # An explicit file is never replaced, and where there is none, all places are named.
    evaluated(elsewhere, "--data", "none.h5", code=65, cwd=elsewhere, run=run).expect(65, "none.h5")
    report = json.loads(evaluated(elsewhere, "--data", "d.h5", "--json", "-", cwd=elsewhere, run=run).output)
    assert report["data"] == "d.h5" and report["metrics"] != expected
    # Every name of a flag is accepted, and so is that of a data set, whose file is data/NAME.h5.
    (elsewhere / "data").mkdir()
    (elsewhere / "data/aflw2000.h5").symlink_to(elsewhere / "d.h5")
    words = ["--device.type", "cpu", "--device.threads=1", "--train.batch_size", 7, "--train.amp", "fp32", "--data.workers", 1]
    for data in (["--data.file", "d.h5"], ["--dataset", "aflw2000"]):
        again = json.loads(evaluated(elsewhere, *data, *words, "--json", "-", cwd=elsewhere, run=run).output)
        assert abs(again["metrics"]["mae"] - report["metrics"]["mae"]) < 1e-3, (again, report)
    evaluated(elsewhere, "--dataset", "biwi", code=65, cwd=elsewhere, run=run).expect(
        65, "data/biwi.h5 does not exist: make it with `dtrain convert biwi DIR`")
    runner.run(["eval", run, "--device.type", "tpu"], cwd=elsewhere).expect(64, "--device: tpu not in")
    (project / "d.h5").unlink()
    evaluated(elsewhere, code=65, cwd=elsewhere, run=run).expect(65, "d.h5 has another checksum than the data that the run was trained on")
    (elsewhere / "d.h5").unlink()
    evaluated(elsewhere, code=65, cwd=elsewhere, run=run).expect(65, "the data of the run is not there", str(folder / "moved/d.h5"), "--dataset")


def a_run_is_resumed_from_another_folder(folder):
    project, elsewhere = folder / "project", folder / "elsewhere"
    project.mkdir(), elsewhere.mkdir()
    trained(project)
    before = (project / "runs/r/config.yaml").read_text()
    words = ["--resume", project / "runs/r", "--run.folder", project / "runs", "--train.max_steps", 10, "--metrics.port", 0]
    for np in (None, 2):
        result = runner.run(words, np=np, cwd=elsewhere).expect(0, f"the data of the run is {project}/d.h5", "step 8 of" if np is None else "step 10 of", "finished: all")
        assert result.output.count("the data of the run is") == 1, result.output
        words[words.index("--train.max_steps") + 1] = 12
    after = (project / "runs/r/config.yaml").read_text()
    assert [line for line in after.splitlines() if "file:" in line] == [line for line in before.splitlines() if "file:" in line], after
    runner.run([*words, "--data.file", "d.h5"], cwd=elsewhere).expect(65, "d.h5")  # explicit: not looked for


def a_torchscript_file_is_found_from_another_folder(folder):
    project, elsewhere = folder / "project", folder / "elsewhere"
    project.mkdir(), elsewhere.mkdir()
    runner.save_script_network(project / "net.pt")
    runner.synth(project / "d.h5", 40)
    runner.train(project, task="module", model__file="net.pt", train__epochs=1).expect(0)
    run = project / "runs/r"
    runner.run(["predict", run, project / "d.h5", "--out", "rows.csv"], np=2, cwd=elsewhere).expect(0, f"the TorchScript file of the run is {project}/net.pt")
    (project / "net.pt").unlink()
    runner.run(["predict", run, project / "d.h5"], cwd=elsewhere).expect(74, "name it with --module")
    (project / "net.pt").symlink_to("net.pt")  # a place about which the system gives an error
    runner.run(["predict", run, project / "d.h5"], cwd=elsewhere).expect(74, "name it with --module")


def a_run_folder_that_is_removed_ends_the_job(folder):
    runner.synth(folder / "d.h5", 64)
    options = {**runner.SMALL, **ENDLESS, "data.file": "d.h5", "run.name": "r"}
    for np, log_every, save_every, replace in [(2, 1, "never", False), (None, 1, "never", True), (2, 1000000, 5, False)]:
        words = runner.flags({**options, "run.log_every": log_every, "checkpoint.every": save_every})
        with runner.Running(words, np=np, cwd=folder) as running:
            running.wait_for("step 1/")
            if save_every != "never":
                running.wait_for("saved runs/r/checkpoints/")
            with runner.paused(running.ranks() or [running.process.pid]):
                (folder / "runs/r").rename(folder / "gone")  # all at once; a save may be writing into it
                if replace:
                    (folder / "runs/r").mkdir()
            result = running.wait(60)
        assert result.code == 73, result.output
        assert result.output.count("error:") == 1, result.output
        assert ("the run folder runs/r " + ("is no longer the one of this job" if replace else "is gone")) in result.output, result.output
        assert not (folder / "runs/r/checkpoints").exists(), "the job made its folder again"
        shutil.rmtree(folder / "gone")
        shutil.rmtree(folder / "runs/r", ignore_errors=True)
        (folder / "runs/targets/r.json").unlink(missing_ok=True)


def a_lock_that_is_removed_ends_the_job(folder):
    runner.synth(folder / "d.h5", 64)
    words = runner.flags({**runner.SMALL, **ENDLESS, "data.file": "d.h5", "run.name": "r"})
    with runner.Running(words, cwd=folder) as running:
        running.wait_for("step 1/")
        os.unlink(folder / "runs/r/.lock")
        running.wait(60).expect(73, "the run folder runs/r is no longer the one of this job")
    with runner.Running([*runner.flags({"run.name": "s"}), *words[:-2]], cwd=folder) as running:  # its own folder is left alone
        running.wait_for("step 3/")
        os.kill(running.process.pid, signal.SIGUSR1)
        running.wait(60).expect(75)


runner.main([each_command_takes_the_checkpoint_that_is_named, a_checkpoint_that_is_not_there_is_named, the_best_one_may_have_been_removed,
             inspect_shows_the_checkpoints_and_the_layers, the_data_is_found_from_another_folder, a_run_is_resumed_from_another_folder,
             a_torchscript_file_is_found_from_another_folder, a_run_folder_that_is_removed_ends_the_job, a_lock_that_is_removed_ends_the_job])
