"""The program with one task more, image to numbers, of which only the fixture's folder and row know: every command works on it."""

import csv
import io
import json
import re
import subprocess
import sys

import h5py
import numpy as np
from PIL import Image

import runner

sys.path.insert(0, str(runner.SOURCE / "tests/export"))
from networks import check_close, session  # noqa: E402

runner.DTRAIN = sys.argv[1]  # the program of runner, with the row of the fixture
NUMBERS = ["a", "b", "c"]
SIZE = 32
SCALE = 30  # ticks per unit of the network's output
MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


def dtrain(folder, *words, code=0):
    """Standard output of a command; the messages beside it are in the text of a failure."""
    done = subprocess.run(runner.command(words), cwd=folder, env=runner.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == code, (words, done.returncode, done.stdout[-2000:], done.stderr[-4000:])
    return done.stdout if code == 0 else done.stdout + done.stderr


def predicted(folder, *inputs):
    rows = list(csv.DictReader(io.StringIO(dtrain(folder, "predict", "runs/r", *inputs, "--batch-size", 8, "--threads", 1))))
    assert list(rows[0]) == ["input", *NUMBERS, "error"], rows[0]
    assert all(row["error"] == "" for row in rows), rows
    return {row["input"]: np.array([float(row[name]) for name in NUMBERS]) for row in rows}


def generated(folder):
    """toy.h5: what synth makes of the row."""
    assert re.search(r"toy +hdf5 +heads with three numbers", dtrain(folder, "synth", "--help"))
    dtrain(folder, "synth", "toy", "--samples", 200, "--size", SIZE, "--out", "toy.h5")
    with h5py.File(folder / "toy.h5") as f:
        attributes = {name: runner.text(f.attrs[name]) for name in ("task", "target_names", "target_unit")}
        assert attributes == {"task": "toy", "target_names": "a,b,c", "target_unit": "tick"}, attributes
        assert f["inputs"].shape == (200, SIZE, SIZE, 3) and f["targets"].shape == (200, 3)
        return f["inputs"][...], f["targets"][...], {name: f[f"splits/{name}"][...] for name in ("train", "val", "test")}


def converted(folder, images, numbers, splits):
    """own.h5: the same samples, from arrays of the user."""
    split = np.zeros(len(images), np.int64)
    split[splits["val"]], split[splits["test"]] = 1, 2
    np.savez(folder / "own.npz", inputs=images, targets=numbers, split=split)
    dtrain(folder, "convert", "arrays", "own.npz", "--task", "toy", "--out", "own.h5")
    with h5py.File(folder / "own.h5") as f, h5py.File(folder / "toy.h5") as other:
        assert np.array_equal(f["inputs"][...], images) and np.array_equal(f["targets"][...], numbers)
        for name in ("task", "target_names", "target_unit"):
            assert runner.text(f.attrs[name]) == runner.text(other.attrs[name]), name
        assert all(np.array_equal(f[f"splits/{name}"][...], ids) for name, ids in splits.items())
    for targets, words in ((numbers[:, :2], "task toy needs floats [N, 3]: a, b, c"), (split, "task toy needs floats [N, 3]")):
        np.savez(folder / "bad.npz", inputs=images, targets=targets)
        assert words in dtrain(folder, "convert", "arrays", "bad.npz", "--task", "toy", "--out", "bad.h5", code=65)
    np.savez(folder / "rows.npz", inputs=numbers, targets=numbers)
    assert "task toy needs images" in dtrain(folder, "convert", "arrays", "rows.npz", "--task", "toy", "--out", "bad.h5", code=65)
    assert "--task" in dtrain(folder, "convert", "arrays", "own.npz", "--task", "headpose", "--out", "bad.h5", code=64)


def trained(folder):
    options = {**runner.SMALL, "task": "toy", "data.file": "own.h5", "run.name": "r", "train.epochs": 8, "augment.hflip": False,
               "augment.crop_scale": 1}
    runner.run(runner.flags(options), cwd=folder).expect(0, "finished: all")
    losses = [record["loss"] for record in runner.metrics(folder / "runs/r")]
    assert np.mean(losses[-10:]) < 0.5 * np.mean(losses[:10]), losses


def every_command_works_on_it(folder):
    images, numbers, splits = generated(folder)
    converted(folder, images, numbers, splits)
    trained(folder)
    test = splits["test"]

    # Predictions: of the test split, whose error is that of eval; of pictures in files.
    found = list(predicted(folder, "own.h5", "--split", "test").values())
    metrics = json.loads(dtrain(folder, "eval", "runs/r", "--split", "test", "--batch-size", 8, "--json", "-"))["metrics"]
    assert set(metrics) == {"loss", "mae"}, metrics
    errors = np.array(found) - numbers[test]
    assert abs(np.abs(errors).mean() - metrics["mae"]) < 1e-4 * metrics["mae"]
    assert abs(((errors / SCALE) ** 2).mean() - metrics["loss"]) < 1e-4 * metrics["loss"]
    assert metrics["mae"] < 0.8 * np.abs(numbers[test] - numbers[splits["train"]].mean(0)).mean(), "nothing was learned"
    (folder / "photos").mkdir()
    for place, sample in enumerate(test):
        Image.fromarray(images[sample]).save(folder / f"photos/{place:03}.png")
    of_files = predicted(folder, "photos")
    assert list(of_files) == [f"photos/{place:03}.png" for place in range(len(test))]
    check_close("predictions of files", list(of_files.values()), found, 1e-6)
    assert "--layout is for task headpose" in dtrain(folder, "predict", "runs/r", "photos", "--layout", "biwi", code=64)

    # Exports: the row names the output, and its network is a graph without a line of code for it.
    dtrain(folder, "export", "runs/r", "--format", "onnx", "--out", "toy.onnx")
    model = session(folder / "toy.onnx")
    assert [(output.name, output.shape) for output in model.get_outputs()] == [("numbers", ["batch", 3])]
    inputs = ((images[test].astype(np.float32) / 255 - MEAN) / STD).transpose(0, 3, 1, 2)
    meta = model.get_modelmeta().custom_metadata_map
    assert meta["task"] == "toy" and float(meta["number_scale"]) == SCALE, meta
    check_close("ONNX", model.run(["numbers"], {"images": inputs})[0] * SCALE, found)
    said = runner.run(["export", "runs/r", "--format", "onnx-int8", "--out", "int8.onnx", "--samples", 32], cwd=folder).expect(0).output
    before = float(re.search(r"mean absolute error on \d+ samples of the test split: float32 ([\d.]+)", said).group(1))
    assert abs(before - metrics["mae"]) < 1e-3 * before, said
    assert "no TorchScript code" in dtrain(folder, "export", "runs/r", "--format", "torchscript", "--out", "toy.pt", code=64)

    # The report and the list of runs.
    report = json.loads(dtrain(folder, "report", "runs/r", "--json", "-"))
    assert report["task"] == "toy" and report["network"] == "toy_network", report
    dtrain(folder, "report", "runs/r", "--out", "report.html")
    page = (folder / "report.html").read_text()
    assert "toy_network" in page and "ticks" in page, "the page does not name the network and the unit of its errors"
    assert "toy" in dtrain(folder, "ls", "runs")


def it_trains_without_data_and_with_a_network_of_others(folder):
    """Generated data for a run without a file; resnet18 is none of its networks, but headpose_cnn is."""
    dtrain(folder, "--task", "toy", "--model.image_size", SIZE, "--train.max_steps", 2, "--run.name", "q", "--metrics.enabled", "false",
           *runner.flags({"data.workers": 1, "model.name": "headpose_cnn", "train.batch_size": 8}))
    assert (folder / f"data/quickstart-toy-{SIZE}.h5").exists()
    dtrain(folder, "export", "runs/q", "--format", "onnx", "--out", "q.onnx")
    assert [output.name for output in session(folder / "q.onnx").get_outputs()] == ["numbers"]


runner.main([every_command_works_on_it, it_trains_without_data_and_with_a_network_of_others])
