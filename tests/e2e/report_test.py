"""`dtrain report` and `dtrain ls` on real runs of every task, on runs that still train, and on what is no run."""

import json
import os
import shutil
import signal

import h5py

import runner

ROWS = {"data.workers": 1, "run.progress": "lines", "metrics.enabled": False, "run.log_every": 2, "train.epochs": 2, "optimizer.lr": 0.001}


def data_of(page):
    text = page.read_text()
    begin = text.index('id="dtrain-report">') + len('id="dtrain-report">')
    return json.loads(text[begin:text.index("</script>", begin)])


def trained(folder, task, **more):
    """A short run r of a task on generated data. `more` are keys, with __ for the dot."""
    keys = {**ROWS, "task": task, "run.name": "r", "data.file": "d.h5", "train.batch_size": 8}
    if task == "module":
        runner.save_script_network(folder / "net.pt")
        keys["model.file"] = "net.pt"
    pictures = task in ("headpose", "classify", "module")
    runner.run(["synth", "headpose" if task == "module" else task, "--samples", 160, *(["--size", 32] if pictures else []),
                "--out", folder / "d.h5"]).expect(0)
    if pictures:
        keys["model.image_size"] = 32
    keys.update({key.replace("__", "."): value for key, value in more.items()})
    return runner.run(runner.flags(keys), cwd=folder).expect(0, "finished: ")


def of_task(task, metric, has_pictures):
    def test(folder):
        result = trained(folder, task, **({"sequence__encoder_epochs": 1, "sequence__classifier_epochs": 1} if task == "sequence" else {}))
        assert "the report" not in result.output, result.output
        page = folder / "runs/r/report.html"
        text = page.read_text()
        assert 10_000 < page.stat().st_size < 300 << 10, page.stat().st_size
        data = data_of(page)
        assert data["state"] == "finished" and data["task"] == task and data["best"]["metric"] == metric, data
        assert data["left_out"] == [] and len(data["samples"]) == 12 and data["step"] == data["planned_steps"] > 0, data["left_out"]
        assert abs(data["epochs"] - data["planned_epochs"]) < 1e-9
        assert all(sample["target"] and sample["prediction"] for sample in data["samples"]), data["samples"]
        assert text.count("<figure>") == (12 if has_pictures else 0) and text.count("data:image/jpeg") == (12 if has_pictures else 0)
        assert "verdict: " in data["verdict"]["text"], data["verdict"]
        page.unlink()
        card = runner.run(["report", "runs/r", "--text"], cwd=folder).expect(0, "run       r  finished", "verdict ").output
        assert not page.exists() and len(card.splitlines()) <= 24 and max(map(len, card.splitlines())) <= 80, card
        code = ["--module", "net.pt"] if task == "module" else []
        if code:
            runner.run(["report", "runs/r"], cwd=folder).expect(0)
            assert data_of(page)["samples"] == [] and "which is code" in data_of(page)["left_out"][0], "looking at a run runs none of its code"
        whole = runner.run(["report", "runs/r", *code], cwd=folder).expect(0, "report: runs/r/report.html (")
        assert whole.output.startswith(card[:card.index(", last record")]), whole.output
        again = data_of(page)
        assert again["samples"] == data["samples"] and again["best"] == data["best"], "the same checkpoint and data give the same page"
        assert json.loads(runner.run(["report", "runs/r", "--json", "-", *code], cwd=folder).expect(0).output)["samples"] == data["samples"]
        listed = runner.run(["ls"], cwd=folder).expect(0).output
        assert listed.splitlines()[1].split()[:3] == ["r", "finished", task] and f"{metric} " in listed, listed
    test.__name__ = f"a_run_of_{task}"
    return test


def without_its_data_the_rest_is_shown(folder):
    trained(folder, "headpose")
    (folder / "d.h5").unlink()
    runner.run(["report", "runs/r"], cwd=folder).expect(0)
    data = data_of(folder / "runs/r/report.html")
    assert data["samples"] == [] and "samples with predictions: " in data["left_out"][0] and "d.h5" in data["left_out"][0], data["left_out"]
    (folder / "runs/r/environment.json").unlink()
    os.mkfifo(folder / "runs/r/environment.json")
    runner.run(["report", "runs/r"], cwd=folder, timeout=60).expect(0)
    assert "environment.json is not a regular file" in data_of(folder / "runs/r/report.html")["left_out"]
    runner.run(["report", "runs/r", "--text", "--json", "x.json"], cwd=folder, timeout=60).expect(0)
    shutil.rmtree(folder / "runs/r/checkpoints")
    (folder / "runs/r/environment.json").unlink()
    (folder / "runs/r/metrics.jsonl").write_bytes((folder / "runs/r/metrics.jsonl").read_bytes()[:-20])
    result = runner.run(["report", "runs/r"], cwd=folder).expect(0)
    assert "error" not in result.output, result.output
    left_out = data_of(folder / "runs/r/report.html")["left_out"]
    assert "environment.json is not there" in left_out and any("a line that is cut" in gap for gap in left_out), left_out
    (folder / "runs/r/metrics.jsonl").unlink()
    runner.run(["report", "runs/r"], cwd=folder).expect(65, "is no run folder: it has neither metrics.jsonl nor environment.json nor checkpoints")
    (folder / "runs/r/checkpoints").mkdir()
    runner.run(["report", "runs/r"], cwd=folder).expect(0, "no metrics", "metrics.jsonl is not there")
    runner.run(["ls"], cwd=folder).expect(0, "no metrics")


def what_is_no_run_is_said(folder):
    for words, code, texts in [
            (["report", "none"], 65, ["none does not exist"]), (["report", "."], 65, ["is no run folder"]),
            (["report"], 64, ["RUN"]), (["report", "a", "b", "c"], 64, []), (["report", "a", "--max-regression", "5"], 64, ["name both"]),
            (["report", "a", "b", "--max-regression", "nan"], 64, ["--max-regression: nan is not in 0 - 100"]),
            (["report", "a", "b", "--max-regression", "inf"], 64, ["--max-regression"]),
            (["ls"], 65, ["runs does not exist: no run was started here"]), (["ls", "."], 65, ["has no runs in it"])]:
        result = runner.run(words, cwd=folder).expect(code, *texts)
        assert result.output.count("error:") == 1, result.output


def two_runs_and_the_gate(folder):
    trained(folder, "headpose", train__epochs=4, run__log_every=1)
    shutil.copytree(folder / "runs/r", folder / "runs/same")
    shutil.copytree(folder / "runs/r", folder / "runs/slow")
    records = [json.loads(line) for line in (folder / "runs/slow/metrics.jsonl").read_text().splitlines()]
    for record in records:
        if record["kind"] == "step":
            record["samples_per_second"] /= 10
    (folder / "runs/slow/metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    config = folder / "runs/slow/config.yaml"
    config.write_text(config.read_text().replace("workers: 1 ", "workers: 7 "))
    same = runner.run(["report", "runs/r", "runs/same", "--max-regression", "5"], cwd=folder)
    assert same.code == 0 and "WORSE" not in same.output and "the configurations are equal" in same.output, same.output
    slow = runner.run(["report", "runs/r", "runs/slow", "--max-regression", "5", "--json", "c.json"], cwd=folder)
    slow.expect(1, "samples/s", "WORSE: 90.0 % worse", "data.workers", "report: runs/slow/comparison.html")
    assert runner.run(["report", "runs/r", "runs/slow", "--text"], cwd=folder).code == 0, "without the gate it only tells"
    runner.run(["report", "runs/slow", "runs/r", "--max-regression", "5", "--text"], cwd=folder).expect(0)
    shutil.copytree(folder / "runs/r", folder / "runs/early")
    early = [json.dumps(record) + "\n" for record in records if record["kind"] not in ("step", "eval")]
    (folder / "runs/early/metrics.jsonl").write_text("".join(early))
    ended = runner.run(["report", "runs/r", "runs/early", "--max-regression", "5", "--text"], cwd=folder)
    ended.expect(1, "val mae: ", "WORSE: the second run has no such value")
    assert ended.output.count("WORSE") == 2, ended.output
    runner.run(["report", "runs/early", "runs/r", "--max-regression", "5", "--text"], cwd=folder).expect(0, "cannot tell")
    shutil.copytree(folder / "runs/r", folder / "runs/other")
    environment = json.loads((folder / "runs/other/environment.json").read_text())
    (folder / "runs/other/environment.json").write_text(json.dumps({**environment, "task": "classify"}))
    runner.run(["report", "runs/r", "runs/other", "--max-regression", "5"], cwd=folder).expect(
        64, "--max-regression compares two runs of one task: r is of headpose, other of classify")
    assert not (folder / "runs/other/comparison.html").exists()
    runner.run(["report", "runs/r", "runs/other", "--text"], cwd=folder).expect(0)
    told = json.loads((folder / "c.json").read_text())
    assert told["differences"] == [{"key": "data.workers", "first": "1", "second": "7"}], told["differences"]
    assert told["regressions"][0]["judgment"] == "worse" and "<svg" in (folder / "runs/slow/comparison.html").read_text()
    assert data_of(folder / "runs/r/report.html")["name"] == "r", "a comparison replaces no report"


def outputs_are_protected(folder):
    trained(folder, "headpose")
    runner.run(["report", "runs/r", "--svg", "c.svg", "--out", "a.html"], cwd=folder).expect(0, "report: a.html")
    assert (folder / "c.svg").read_text().startswith("<svg ")
    runner.run(["report", "runs/r", "--out", "a.html"], cwd=folder).expect(73, "a.html exists")
    runner.run(["report", "runs/r", "--out", "a.html", "--force"], cwd=folder).expect(0)
    for out, option in (("runs/r/metrics.jsonl", "--out"), ("runs/r/config.yaml", "--json"), ("runs/r/checkpoints/x.html", "--svg"),
                        ("runs/r/checkpoints/x.html", "--out")):
        runner.run(["report", "runs/r", option, out, "--force"], cwd=folder).expect(73)
    data = (folder / "d.h5").read_bytes()
    for option in ("--out", "--json", "--svg"):  # the samples of the page are read from it
        runner.run(["report", "runs/r", option, "d.h5", "--force"], cwd=folder).expect(73, "d.h5 is an input of this command")
    runner.run(["report", "r", "--out", folder / "d.h5", "--force"], cwd=folder / "runs").expect(73, "d.h5 is ", "an input of this command")
    (folder / "moved").mkdir()
    (folder / "d.h5").rename(folder / "moved/d.h5")
    (folder / "runs").rename(folder / "moved/runs")
    runner.run(["report", "moved/runs/r", "--json", "moved/d.h5", "--force"], cwd=folder).expect(73, "an input of this command")
    (folder / "moved/runs").rename(folder / "runs")
    (folder / "moved/d.h5").rename(folder / "d.h5")
    assert (folder / "d.h5").read_bytes() == data
    runner.run(["ls", "--json", "runs/r/metrics.jsonl", "--force"], cwd=folder).expect(73, "maintains")
    runner.run(["eval", "runs/r", "--json", "runs/r/report.html", "--force"], cwd=folder).expect(73, "maintains")
    runner.run(["report", "runs/r", "--out", "runs/r/report.html"], cwd=folder).expect(0)
    page = runner.run(["report", "runs/r", "--out", "-"], cwd=folder).expect(0).output
    assert page.startswith("<!DOCTYPE html>") and page.rstrip().endswith("</html>"), page[-200:]
    runner.run(["report", "runs/r", "--out", "-", "--json", "-"], cwd=folder).expect(64, "both want the standard output")
    runner.run(["report", "runs/r", "--out", "x.html", "--svg", "./x.html"], cwd=folder).expect(64, "are the same file")
    told = runner.run(["report", "runs/r", "--json", "-", "--out", "beside.html"], cwd=folder).expect(0).output
    assert json.loads(told)["name"] == "r" and data_of(folder / "beside.html")["name"] == "r", told[:200]
    picture = runner.run(["report", "runs/r", "--svg", "-"], cwd=folder).expect(0).output
    assert picture.startswith("<svg ") and picture.rstrip().endswith("</svg>"), picture[-200:]


def a_long_class_name_is_cut_between_characters(folder):
    runner.run(["synth", "classify", "--samples", 60, "--size", 32, "--out", "d.h5"], cwd=folder).expect(0)
    with h5py.File(folder / "d.h5", "r+") as f:
        count = len(runner.text(f.attrs["class_names"]).split("\n"))
        f.attrs["class_names"] = "\n".join(f"{i:03}" + "ü" * 60 for i in range(count))
        f.attrs.pop("attributes_checksum", None)
    runner.train(folder, task="classify", model__name="simple_cnn", train__epochs=1).expect(0)
    for sample in data_of(folder / "runs/r/report.html")["samples"]:
        for name in (sample["target"], sample["prediction"]):
            assert name[3:] == "ü" * 38 + "...", name


def a_run_that_trains_is_reported_and_not_disturbed(folder):
    runner.synth(folder / "d.h5", 64)
    words = runner.flags({**runner.SMALL, "train.epochs": 100000, "checkpoint.every": "20steps", "data.file": "d.h5", "run.name": "r"})
    with runner.Running(words, cwd=folder) as running:
        running.wait_for("saved runs/r/checkpoints/")
        for _ in range(3):
            runner.run(["report", "runs/r"], cwd=folder).expect(0, "run       r  running", "report: ")
            listed = json.loads(runner.run(["ls", "--json", "-"], cwd=folder).expect(0).output)["runs"]
            assert [(run["name"], run["state"], run["problem"]) for run in listed] == [("r", "running", "")], listed
        os.kill(running.process.pid, signal.SIGUSR1)
        running.wait(60).expect(75)
    runner.run(["report", "runs/r", "--text"], cwd=folder).expect(0, "run       r  stopped", "stopped on request")
    crashed = folder / "runs/crashed"
    shutil.copytree(folder / "runs/r", crashed)
    lines = (crashed / "metrics.jsonl").read_text().splitlines(keepends=True)
    (crashed / "metrics.jsonl").write_text("".join(line for line in lines if '"finished"' not in line))
    listed = {run["name"]: run for run in json.loads(runner.run(["ls", "runs", "--json", "-"], cwd=folder).expect(0).output)["runs"]}
    assert listed["crashed"]["state"] == "crashed" and listed["r"]["state"] == "stopped", listed
    assert set(listed) == {"r", "crashed"}, listed


def a_report_that_cannot_be_written_is_a_warning(folder):
    runner.synth(folder / "d.h5", 40)
    words = runner.flags({**runner.SMALL, "train.epochs": 30, "data.file": "d.h5", "run.name": "r"})
    with runner.Running(words, cwd=folder) as running:
        running.wait_for("step 1/")
        (folder / "runs/r/report.html").mkdir()  # a folder of that name cannot be replaced
        (folder / "runs/r/report.html/x").write_text("")
        result = running.wait(60)
    result.expect(0, "finished: all", "warning: the report of runs/r could not be written")


runner.main([of_task("headpose", "mae", True), of_task("classify", "top1", True), of_task("pointer", "position_accuracy", False),
             of_task("sequence", "accuracy", False), of_task("module", "mae", True), without_its_data_the_rest_is_shown, what_is_no_run_is_said,
             two_runs_and_the_gate, a_long_class_name_is_cut_between_characters, outputs_are_protected, a_run_that_trains_is_reported_and_not_disturbed,
             a_report_that_cannot_be_written_is_a_warning])
