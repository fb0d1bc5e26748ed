"""dtrain predict: rows of text for data files and raw files, from any number of ranks, and its messages when something is wrong."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np

import mounts
import runner

ANGLES = ["yaw", "pitch", "roll"]


def trained(folder, samples=60):
    """A run `r` of one epoch on d.h5."""
    runner.synth(folder / "d.h5", samples)
    options = {**runner.SMALL, "data.file": "d.h5", "train.epochs": 1, "run.name": "r"}
    runner.run(runner.flags(options), cwd=folder).expect(0, "finished: all")


def predict(folder, arguments, np=None, code=0):
    """Returns standard output and standard error."""
    done = subprocess.run(runner.command(["predict", "runs/r", *arguments], np), cwd=folder, env=runner.environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr.decode()[-4000:])
    return done.stdout.decode(), done.stderr.decode()


def table(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def angles(rows):
    return np.array([[float(row[name]) for name in ANGLES] for row in rows])


def macro_averages(said, right):
    """Precision, recall and F1 as scikit-learn's macro averages, with 0 where they are undefined."""
    scores = []
    for kind in set(said) | set(right):
        hits = sum(a == b == kind for a, b in zip(said, right))
        precision, recall = hits / max(1, said.count(kind)), hits / max(1, right.count(kind))
        scores.append((precision, recall, 2 * hits / (said.count(kind) + right.count(kind))))
    return np.mean(scores, axis=0)


def targets_of(path, split):
    """The samples of a split and their targets, as lists."""
    with h5py.File(path) as f:
        ids = f[f"splits/{split}"][:]
        if isinstance(f["targets"], h5py.Dataset):
            return ids, list(f["targets"][:][ids]), runner.text(f.attrs.get("class_names", "")).split("\n")
        values, offsets = f["targets/values"][:], f["targets/offsets"][:]
        return ids, [values[offsets[i]:offsets[i + 1]] for i in ids], []


def evaluated(folder, *options):
    """The report of eval on the run `r`: JSON, which is all that its standard output has."""
    done = subprocess.run(runner.command(["eval", "runs/r", "--batch-size", "4", "--json", "-", *options]), cwd=folder, env=runner.environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def evaluation_is_that_of_the_run(folder):
    """Compares the validation of the newest checkpoint in metrics.jsonl with that of eval: metrics and tables."""
    ours = evaluated(folder, "--split", "val")
    theirs = [record for record in runner.metrics(folder / "runs/r", "eval") if record["split"] == "val"][-1]
    assert f"step_{theirs['step']:08}" in ours["checkpoint"] and ours["samples"] == theirs["samples"] > 0, (ours, theirs)
    assert list(ours["metrics"]) == list(theirs["metrics"])
    for name, value in theirs["metrics"].items():
        assert abs(ours["metrics"][name] - value) < 1e-5 * max(1, value), (name, ours["metrics"][name], value)
    assert ours["tables"] == theirs.get("tables", []), (ours["tables"], theirs.get("tables"))


def metrics_of(task, rows, targets, names):
    """The metrics that evaluation should report, computed only from the rows of predict."""
    if task == "headpose":
        errors = np.abs(angles(rows) - np.array(targets)).mean(0)
        return {"mae": errors.mean(), **{f"mae_{name}": error for name, error in zip(ANGLES, errors)}}
    if task == "pointer":
        right = [np.array(row["order"].split(), int) == target for row, target in zip(rows, targets)]
        return {"position_accuracy": np.concatenate(right).mean(), "sequence_accuracy": np.mean([r.all() for r in right])}
    said, right = [row["class"] for row in rows], [names[target] for target in targets]
    precision, recall, f1 = macro_averages(said, right)
    share = np.mean([a == b for a, b in zip(said, right)])
    if task == "sequence":
        return {"accuracy": share, "macro_f1": f1}
    found = {"top1": share, "precision": precision, "recall": recall, "f1": f1}
    if len(names) > 5:
        found["top5"] = np.mean([names[target] in row["top_classes"].split(";") for row, target in zip(rows, targets)])
    return found


def same_row(row, other):
    """Numbers are equal except for rounding (another batch may be padded to another length), everything else exactly."""
    def same(a, b):
        try:
            return np.allclose([float(x) for x in a.split()], [float(x) for x in b.split()], rtol=1e-3, atol=1e-3)
        except ValueError:
            return a == b
    return all(same(row[key], other[key]) for key in row if key != "input")


def raw_files_and_evaluation_agree(folder, task, layout, raw, options, converter=None, size=()):
    """A network trained on the converted raw files of `synth` predicts the same rows from the raw files and from the data file, and
    the rows of the test split give the metrics of eval."""
    runner.run(["synth", task, "--layout", layout, "--samples", 80, "--out", raw, *size], cwd=folder).expect(0)
    runner.run(["convert", converter or task, raw, "--out", "d.h5"], cwd=folder).expect(0)
    small = runner.SMALL_ROWS if task in ("pointer", "sequence") else runner.SMALL
    runner.run(runner.flags({**small, "task": task, "data.file": "d.h5", "run.name": "r", **options}), cwd=folder).expect(0, "finished: all")
    stored = {row["input"]: row for row in table(predict(folder, ["d.h5"])[0])}
    rows = table(predict(folder, [raw, "--batch-size", "7"], np=2)[0])
    assert len(rows) == len(stored) == 80
    if layout != "npz":
        assert [row["input"] for row in rows] == sorted(row["input"] for row in rows)
    for row in rows:
        assert row["error"] == "" and same_row(row, stored[row["input"].removeprefix(raw + "/")]), row

    ids, targets, names = targets_of(folder / "d.h5", "test")
    rows = table(predict(folder, ["d.h5", "--split", "test", "--batch-size", "4"])[0])
    assert len(rows) == len(ids) >= 4
    found = evaluated(folder)["metrics"]
    expected = metrics_of(task, rows, targets, names)
    assert set(found) - {"loss", "reconstruction_mse"} == set(expected), (found, expected)
    for name, value in expected.items():
        assert abs(found[name] - value) < 1e-5 * max(1, value), (name, found[name], value)
    evaluation_is_that_of_the_run(folder)


def classify_is_the_same_from_pictures(folder):
    raw_files_and_evaluation_agree(folder, "classify", "images", "pics", {"model.name": "simple_cnn"}, "images", ("--size", 64))
    bad_files_among_good_files(folder)


def sequence_is_the_same_from_npy(folder):
    raw_files_and_evaluation_agree(folder, "sequence", "npy", "waves", {"sequence.encoder_epochs": 1, "sequence.classifier_epochs": 1,
                                                                         "sequence.iterations": 1, "model.hidden": 16, "augment.noise": 0.7,
                                                                         "augment.mask_share": 0.61, "augment.mask_span": 3})
    good = sorted(str(path.relative_to(folder)) for path in folder.glob("waves/**/*.npy"))[:3]
    np.save(folder / "nan.npy", np.full((5, 6), np.nan, np.float32))
    np.save(folder / "narrow.npy", np.zeros((5, 4), np.float32))
    np.save(folder / "none.npy", np.zeros((0, 6), np.float32))
    np.save(folder / "object.npy", np.array([None, 1], object), allow_pickle=True)
    (folder / "text.npy").write_text("no array")
    bad = {"nan.npy": "NaN", "narrow.npy": "4 features", "none.npy": "", "object.npy": "object", "text.npy": "not a .npy file"}
    given = [good[0], *bad, *good[1:]]
    out, talk = predict(folder, [*given, "--batch-size", "2"], np=2, code=65)
    rows = table(out)
    assert [row["input"] for row in rows] == given
    for row in rows:
        assert (row["class"] == "") == (row["error"] != "") == (row["input"] in bad) and bad.get(row["input"], "") in row["error"], row
    assert f"{len(bad)} of {len(given)} inputs could not be predicted" in talk, talk


def pointer_is_the_same_from_npz(folder):
    raw_files_and_evaluation_agree(folder, "pointer", "npz", "sets.npz", {"model.hidden": 16})
    sets_that_are_too_long_are_bad(folder)


def sets_that_are_too_long_are_bad(folder):
    """The network is trained on sets of up to 10: each set of 14 is named, with both numbers, and the others are predicted."""
    rng = np.random.default_rng(1)
    lengths = np.array([4, 14, 10] * 6)
    order = np.full((len(lengths), 14), -1)
    for row, length in zip(order, lengths):
        row[:length] = rng.permutation(length)
    np.savez(folder / "long.npz", features=rng.random((len(lengths), 14, 7), np.float32), lengths=lengths, order=order)
    runner.run(["convert", "pointer", "long.npz", "--out", "long.h5"], cwd=folder).expect(0)
    for file, named in [("long.npz", "long.npz#{}: "), ("long.h5", "long.h5#{}: ")]:
        for np_ in [None, 2]:
            out, talk = predict(folder, [file, "--batch-size", "2"], np=np_, code=65)
            rows = table(out)
            for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
                said = named.format(i) + "has 14 rows; the network takes up to 10"
                assert (said in row["error"]) == (length == 14) == (row["order"] == ""), row
                assert len(row["order"].split()) == (length if length < 14 else 0), row
            assert "6 of 18 inputs could not be predicted" in talk and talk.count("left out: ") == 6, talk
            assert "on_bad_sample" not in talk + out, talk
    assert evaluated(folder, "--data", "long.h5", "--data.on_bad_sample", "skip", "--split", "train")["notes"]


def the_rows_of_a_split_give_its_metrics(folder):
    trained(folder)
    out, talk = predict(folder, ["d.h5", "--split", "test", "--batch-size", "4"])
    rows = table(out)
    ids, targets, _ = targets_of(folder / "d.h5", "test")
    assert len(rows) == len(ids) > 4 and list(rows[0]) == ["input", *ANGLES, "error"], rows[:1]
    runner.run(["eval", "runs/r", "--batch-size", "4", "--json", "e.json"], cwd=folder).expect(0, "mae_yaw", "samples/s")
    found = json.loads((folder / "e.json").read_text())["metrics"]
    expected = metrics_of("headpose", rows, targets, [])
    assert set(found) == {"loss", *expected}
    for name, value in expected.items():
        assert abs(found[name] - value) < 1e-5 * max(1, value), (name, found[name], value)
    assert all(row["error"] == "" for row in rows)
    for words in ["warm-up     first batch ", "samples/s (1 rank, after the first batch)", "latency     p50 ", ", p90 ", ", p99 "]:
        assert words in talk, (words, talk)

    # Targets are not used: they may be unknown or wrong, but are part of the checksums.
    with h5py.File(folder / "d.h5", "r+") as f:
        f["targets"][...] = np.nan
    assert predict(folder, ["d.h5", "--split", "test", "--batch-size", "4", "--data.verify", "false"])[0] == out


def any_number_of_ranks_gives_the_same_bytes(folder):
    """With the same number of threads per rank: on some CPUs sums depend on it."""
    trained(folder, 47)
    compare_numbers_of_ranks(folder, ["--threads", "1"], [
        (["--batch-size", "5"], [1, 2, 3]), (["--split", "val", "--batch-size", "64"], [3])])  # the last one is a single batch, so that two ranks have none
    compare_numbers_of_ranks(folder, ["--threads", "2"], [(["--batch-size", "5", "--format", "jsonl"], [3])])


def compare_numbers_of_ranks(folder, threads, cases):
    for extra, worlds in cases:
        alone = predict(folder, ["d.h5", *extra, *threads])[0]
        for ranks in worlds:
            predict(folder, ["d.h5", *extra, *threads, "--out", f"{ranks}.txt", "--force"], np=ranks)
            assert (folder / f"{ranks}.txt").read_text() == alone, (ranks, extra)
        names = [json.loads(line)["input"] if "jsonl" in extra else line.split(",")[0] for line in alone.splitlines()]
        assert "--split" in extra or len(set(names)) == len(names) == 47 + ("jsonl" not in extra), names


def any_number_of_threads_gives_nearly_the_same(folder):
    """1e-5 between different numbers of threads per rank, for predict and eval; eval with the same ones repeats itself."""
    trained(folder, 47)
    rows = {threads: angles(table(predict(folder, ["d.h5", "--threads", threads, "--batch-size", "5"])[0])) for threads in ("1", "2", "3")}
    reports = {threads: evaluated(folder, "--threads", threads)["metrics"] for threads in ("1", "2", "3")}
    assert reports["1"] == evaluated(folder, "--threads", "1")["metrics"]
    for threads in ("2", "3"):
        assert np.allclose(rows["1"], rows[threads], rtol=1e-5, atol=1e-5), np.abs(rows["1"] - rows[threads]).max()
        for name, value in reports["1"].items():
            assert abs(reports[threads][name] - value) <= 1e-5 * max(1, value), (threads, name)
    runner.run(["predict", "runs/r", "d.h5", "--threads", "-1"], cwd=folder).expect(64, "--threads")


def heads_are_cropped_as_by_the_converter(folder):
    """Rows from the raw pictures of each published layout equal those from the converted file, byte by byte but for the names."""
    for layout, synthetic, raw in [("300wlp", "300wlp", "lp"), ("biwi", "biwi", "kinect")]:
        runner.run(["synth", "headpose", "--layout", synthetic, "--samples", 48, "--size", 120, "--out", raw], cwd=folder).expect(0)
        runner.run(["convert", layout, raw, "--out", f"{raw}.h5", "--size", 48], cwd=folder).expect(0, "wrote")
    shutil.copytree(folder / "lp/AFW", folder / "flat")  # one folder of pictures: AFLW2000's layout
    runner.run(["convert", "aflw2000", "flat", "--out", "flat.h5", "--size", 48], cwd=folder).expect(0)
    runner.run(runner.flags({**runner.SMALL, "data.file": "lp.h5", "train.epochs": 1, "run.name": "r"}), cwd=folder).expect(0, "finished: all")
    for layout, raw in [("300wlp", "lp"), ("biwi", "kinect"), ("aflw2000", "flat")]:
        stored = {row["input"]: row for row in table(predict(folder, [f"{raw}.h5", "--threads", "1", "--batch-size", "1"])[0])}
        out, talk = predict(folder, [raw, "--layout", layout, "--threads", "1", "--batch-size", "1"])
        assert "taken as the crop of one head" not in talk, talk
        rows = table(out)
        assert len(rows) == len(stored) > 4, (len(rows), len(stored))
        for row in rows:
            other = stored[row["input"].removeprefix(raw + "/")]
            assert [row[name] for name in ANGLES] == [other[name] for name in ANGLES] and row["error"] == "", (row, other)
        bare, talk = predict(folder, [raw, "--threads", "1", "--batch-size", "1"], np=2)
        assert talk.count("each picture is taken as the crop of one head") == 1 and "--layout 300wlp, aflw2000 or biwi" in talk, talk
        assert np.abs(angles(rows) - angles(table(bare))).max() > 1e-3, "the crop makes no difference"
    # One picture; one without its annotation; and where the option has no meaning.
    picture = sorted((folder / "lp/AFW").glob("*.jpg"))[0]
    assert len(table(predict(folder, [str(picture), "--layout", "aflw2000"])[0])) == 1
    picture.with_suffix(".mat").unlink()
    out, _ = predict(folder, ["lp/AFW", "--layout", "300wlp"], code=65)
    assert [row["input"] for row in table(out) if row["error"]] == [f"lp/AFW/{picture.name}"] and f"no {picture.stem}.mat next to it" in out, out
    out, _ = predict(folder, ["flat", "--layout", "biwi"], code=65)
    assert "its name is not frame_NNNNN_rgb.png" in out, out
    _, talk = predict(folder, ["lp.h5", "--layout", "300wlp"], code=64)
    assert "--layout is for raw pictures" in talk, talk
    runner.run(["predict", "runs/r", "lp", "--layout", "300w"], cwd=folder).expect(64, "--layout")


def a_link_that_leads_nowhere_is_one_row(folder):
    trained(folder, 24)
    (folder / "photos").mkdir()
    runner.run(["synth", "classify", "--layout", "images", "--samples", 20, "--size", 32, "--out", "pics"], cwd=folder).expect(0)
    for i, path in enumerate(sorted((folder / "pics").rglob("*.png"))[:3]):
        shutil.copy(path, folder / "photos" / f"{i}.png")
    (folder / "photos/1b.png").symlink_to("gone.png")
    for inputs in [["photos"], ["photos/*.png"]]:
        out, talk = predict(folder, inputs, np=2, code=65)
        rows = table(out)
        assert [row["input"] for row in rows] == ["photos/0.png", "photos/1.png", "photos/1b.png", "photos/2.png"], rows
        assert [bool(row["error"]) for row in rows] == [False, False, True, False] and "No such file" in rows[2]["error"], rows
        assert "1 of 4 inputs could not be predicted" in talk, talk


def standard_output_has_only_rows(folder):
    trained(folder, 24)
    out, talk = predict(folder, ["d.h5", "--format", "jsonl", "--batch-size", "5"], np=2)
    records = [json.loads(line) for line in out.splitlines()]
    assert len(records) == 24 and all(set(record) == {"input", *ANGLES} for record in records), out
    assert "samples/s (2 ranks" in talk
    written, _ = predict(folder, ["d.h5", "--format", "jsonl", "--batch-size", "5", "--out", "rows.jsonl"], np=2)
    assert written == "" and len((folder / "rows.jsonl").read_text().splitlines()) == 24
    assert sorted(p.name for p in folder.iterdir()) == ["d.h5", "rows.jsonl", "runs"]


def names_of_any_kind_are_preserved(folder):
    trained(folder, 24)
    odd = ["a,b.jpg", 'say "hi".jpg', "two\nlines.jpg", "Zoë 猫.jpg", " blanks ", "'", "a\r.jpg", ",", '"'] + [f"plain/{i}.jpg" for i in range(15)]
    names = [name.encode() for name in odd]
    with h5py.File(folder / "d.h5", "r+") as f:
        del f["source"]
        f["source/bytes"] = np.frombuffer(b"".join(names), np.uint8)
        f["source/offsets"] = np.cumsum([0] + [len(name) for name in names]).astype(np.int64)
    out, _ = predict(folder, ["d.h5"])
    assert [row["input"] for row in table(out)] == odd
    lines, _ = predict(folder, ["d.h5", "--format", "jsonl"], np=2)
    assert [json.loads(line)["input"] for line in lines.splitlines()] == odd
    with h5py.File(folder / "d.h5", "r+") as f:  # without names, the number of the sample
        del f["source"]
        f["source/bytes"], f["source/offsets"] = np.zeros(0, np.uint8), np.zeros(25, np.int64)
    out, _ = predict(folder, ["./d.h5", "--split", "all"])
    assert [row["input"] for row in table(out)] == [f"./d.h5#{i}" for i in range(24)]


def bad_files_among_good_files(folder):
    # Names of any kind, a quoted pattern, a file that is given twice.
    picture = next(folder.glob("pics/**/*.jpg"), None) or next(folder.glob("pics/**/*.png"))
    names = ["a,b", 'say "hi"', "two\nlines", "Zoë 猫", "z[1]"]
    (folder / "odd").mkdir()
    for name in names:
        shutil.copy(picture, folder / "odd" / (name + picture.suffix))
    (folder / "odd/broken.jpg").write_text("no picture")
    (folder / "odd/cut.png").write_bytes(picture.read_bytes()[:200])
    given = ["odd", "odd/*" + picture.suffix, "odd/z[1]" + picture.suffix]
    for ranks in [None, 3]:
        out, talk = predict(folder, [*given, "--batch-size", "2", "--format", "jsonl"], np=ranks, code=65)
        records = [json.loads(line) for line in out.splitlines()]
        assert [r["input"] for r in records] == sorted([f"odd/{n}{picture.suffix}" for n in names] + ["odd/broken.jpg", "odd/cut.png"])
        assert ["error" in r for r in records] == [r["input"] in ["odd/broken.jpg", "odd/cut.png"] for r in records], records
        assert "2 of 7 inputs could not be predicted" in talk, talk
    _, talk = predict(folder, ["odd", "none.jpg", "--out", "rows.csv"], np=2, code=65)  # found before anything starts
    assert talk.count("no such file or folder: none.jpg") == 1 and not (folder / "rows.csv").exists(), talk


def failing_outputs_are_reported(folder):
    trained(folder, 24)
    (folder / "old.csv").write_text("old")
    for np_ in [None, 2]:
        _, talk = predict(folder, ["d.h5", "--out", "/dev/full"], np=np_, code=73)
        assert talk.count("No space left on device") == 1, talk
        _, talk = predict(folder, ["d.h5", "--out", "none/rows.csv"], np=np_, code=73)
        assert "none/rows.csv" in talk and "create its folder first" in talk, talk
        _, talk = predict(folder, ["d.h5", "--out", "old.csv"], np=np_, code=73)
        assert "old.csv exists" in talk and "--force" in talk, talk
        _, talk = predict(folder, ["d.h5", "--out", "d.h5"], np=np_, code=73)
        assert talk.count("d.h5 is an input of this command") == 1, talk
    _, talk = predict(folder, ["d.h5", "--out", "runs"], code=73)
    assert "is a folder" in talk
    runner.run(["eval", "runs/r", "--json", "old.csv"], cwd=folder).expect(73, "old.csv exists")
    # The reader closes the pipe: one message, no death by signal, no hang.
    with subprocess.Popen(runner.command(["predict", "runs/r", "d.h5", "--batch-size", "1"]), cwd=folder, env=runner.environment(),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        talk = process.stderr.read().decode()
        assert process.wait(120) == 73 and "its reader is gone" in talk, talk
    runner.synth(folder / "long.h5", 1000)
    for ranks in ["", "mpirun -np 2 "]:
        line = f"set -o pipefail; {ranks}{runner.DTRAIN} predict runs/r long.h5 --batch-size 2 | head -1"
        done = subprocess.run(["bash", "-c", line], cwd=folder, env=runner.environment(), stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=120, text=True)
        assert done.stdout == "input,yaw,pitch,roll,error\n", done.stdout
    with subprocess.Popen(runner.command(["predict", "runs/r", "long.h5", "--batch-size", "1", "--out", "late.csv"]), cwd=folder,
                          env=runner.environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not list(folder.glob("late.csv.tmp*")):
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        talk = process.communicate(timeout=120)[1]
        assert process.returncode == 130 and "interrupted: the predictions are not whole" in talk, (process.returncode, talk)
    (folder / "long.h5").unlink()
    # No partial file is left, and existing files are unchanged.
    assert (folder / "old.csv").read_text() == "old"
    assert sorted(p.name for p in folder.iterdir()) == ["d.h5", "old.csv", "runs"]


def wrong_arguments_are_reported(folder):
    trained(folder, 24)
    runner.run(["predict"], cwd=folder).expect(64, "CHECKPOINT")
    runner.run(["predict", "runs/r"], cwd=folder).expect(64, "INPUT")
    runner.run(["predict", "runs/none", "d.h5"], cwd=folder).expect(74, "runs/none: there is no such folder")
    _, talk = predict(folder, ["missing.h5"], code=65)
    assert "missing.h5" in talk
    _, talk = predict(folder, ["*.tiff"], code=65)
    assert "nothing matches *.tiff" in talk
    _, talk = predict(folder, ["runs"], code=65)
    assert "runs has no files that end in .jpg" in talk
    runner.synth(folder / "e.h5", 24)
    _, talk = predict(folder, ["d.h5", "e.h5"], np=2, code=65)
    assert talk.count("predict one data file alone") == 1, talk
    (folder / "text.h5").write_text("no HDF5")
    _, talk = predict(folder, ["text.h5"], code=65)
    assert "text.h5" in talk


mounts.own_shared_memory()  # a reader that leaves kills mpirun, which then leaves some
runner.main([the_rows_of_a_split_give_its_metrics, any_number_of_ranks_gives_the_same_bytes, any_number_of_threads_gives_nearly_the_same,
             heads_are_cropped_as_by_the_converter, a_link_that_leads_nowhere_is_one_row,
             standard_output_has_only_rows, names_of_any_kind_are_preserved, classify_is_the_same_from_pictures,
             sequence_is_the_same_from_npy, pointer_is_the_same_from_npz, failing_outputs_are_reported, wrong_arguments_are_reported])
