"""dtrain predict: rows of text for a data file, by any number of ranks, and what it says when something is wrong."""

import csv
import io
import json
import shutil
import subprocess

import h5py
import numpy as np

import runner

ANGLES = ["yaw", "pitch", "roll"]


def trained(folder, samples=60):
    """A run `r` on d.h5, of one epoch."""
    runner.synth(folder / "d.h5", samples)
    options = {**runner.SMALL, "data.file": "d.h5", "train.epochs": 1, "run.name": "r"}
    runner.run(runner.flags(options), cwd=folder).expect(0, "finished: all")


def predict(folder, arguments, np=None, code=0):
    """Standard output, standard error."""
    done = subprocess.run(runner.command(["predict", "runs/r", *arguments], np), cwd=folder, env=runner.environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr.decode()[-4000:])
    return done.stdout.decode(), done.stderr.decode()


def table(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def angles(rows):
    return np.array([[float(row[name]) for name in ANGLES] for row in rows])


def the_rows_of_a_split_give_its_metrics(folder):
    trained(folder)
    out, talk = predict(folder, ["d.h5", "--split", "test", "--batch-size", "4"])
    rows = table(out)
    with h5py.File(folder / "d.h5") as f:
        ids = f["splits/test"][:]
        targets = f["targets"][:][ids]
    assert len(rows) == len(ids) > 4 and list(rows[0]) == ["input", *ANGLES, "error"], rows[:1]
    mae = np.abs(angles(rows) - targets).mean()
    evaluated = runner.run(["eval", "runs/r", "--batch-size", "4"], cwd=folder).expect(0)
    printed = float(evaluated.output.split("\nmae ")[1].split()[0])
    assert abs(mae - printed) < 2e-3, (mae, printed)
    assert all(row["error"] == "" for row in rows)
    for words in ["warm-up     first batch ", "samples/s (1 rank, after the first batch)", "latency     p50 ", ", p90 ", ", p99 "]:
        assert words in talk, (words, talk)


def any_number_of_ranks_gives_each_input_once_in_order(folder):
    trained(folder, 47)
    texts = {}
    for ranks in [None, 1, 2, 3]:
        predict(folder, ["d.h5", "--batch-size", "5", "--out", f"{ranks}.csv"], np=ranks)
        texts[ranks] = (folder / f"{ranks}.csv").read_text()
    first = table(texts[None])
    names = [row["input"] for row in first]
    assert len(names) == len(set(names)) == 47
    for ranks in [1, 2, 3]:
        rows = table(texts[ranks])
        assert [row["input"] for row in rows] == names, ranks
        assert np.abs(angles(rows) - angles(first)).max() < 1e-3, ranks
    # More ranks than samples of the only step: the others give nothing.
    predict(folder, ["d.h5", "--split", "val", "--batch-size", "64", "--out", "few.csv"], np=3)
    assert [row["input"] for row in table((folder / "few.csv").read_text())]


def rows_alone_are_on_the_standard_output(folder):
    trained(folder, 24)
    out, talk = predict(folder, ["d.h5", "--format", "jsonl", "--batch-size", "5"], np=2)
    records = [json.loads(line) for line in out.splitlines()]
    assert len(records) == 24 and all(set(record) == {"input", *ANGLES} for record in records), out
    assert "samples/s (2 ranks" in talk
    written, _ = predict(folder, ["d.h5", "--format", "jsonl", "--batch-size", "5", "--out", "rows.jsonl"], np=2)
    assert written == "" and len((folder / "rows.jsonl").read_text().splitlines()) == 24
    assert sorted(p.name for p in folder.iterdir()) == ["d.h5", "rows.jsonl", "runs"]


def names_of_any_kind_come_back(folder):
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
    with h5py.File(folder / "d.h5", "r+") as f:  # no name at all: the sample's number
        del f["source"]
        f["source/bytes"], f["source/offsets"] = np.zeros(0, np.uint8), np.zeros(25, np.int64)
    out, _ = predict(folder, ["./d.h5", "--split", "all"])
    assert [row["input"] for row in table(out)] == [f"./d.h5#{i}" for i in range(24)]


def raw_pictures_give_what_their_data_file_gives(folder):
    runner.run(["synth", "classify", "--layout", "images", "--samples", "60", "--size", "64", "--out", "pics"], cwd=folder).expect(0)
    runner.run(["convert", "images", "pics", "--size", "48", "--out", "c.h5"], cwd=folder).expect(0)
    options = {**runner.SMALL, "task": "classify", "model.name": "simple_cnn", "data.file": "c.h5", "train.epochs": 1, "run.name": "r"}
    runner.run(runner.flags(options), cwd=folder).expect(0, "finished: all")
    out, _ = predict(folder, ["c.h5"])
    stored = {row["input"]: row for row in table(out)}
    out, _ = predict(folder, ["pics", "--batch-size", "7"], np=2)
    raw = table(out)
    assert [row["input"] for row in raw] == sorted(row["input"] for row in raw) and len(raw) == len(stored) == 60
    for row in raw:
        other = stored[row["input"].removeprefix("pics/")]
        assert row["error"] == "" and all(row[key] == other[key] or abs(float(row[key]) - float(other[key])) < 1e-4
                                          for key in row if key != "input"), (row, other)

    # Bad files among good ones, names of any kind, a quoted pattern, a file given twice.
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
    _, talk = predict(folder, ["none.jpg"], code=65)
    assert "none.jpg" in talk


def outputs_that_fail_are_said(folder):
    trained(folder, 24)
    (folder / "old.csv").write_text("old")
    for np_ in [None, 2]:
        _, talk = predict(folder, ["d.h5", "--out", "/dev/full"], np=np_, code=73)
        assert talk.count("No space left on device") == 1, talk
        _, talk = predict(folder, ["d.h5", "--out", "none/rows.csv"], np=np_, code=73)
        assert "none/rows.csv" in talk and "make its folder first" in talk, talk
    _, talk = predict(folder, ["d.h5", "--out", "runs"], code=73)
    assert "is a folder" in talk
    # A reader that goes away: no death by signal, no hang, one line.
    with subprocess.Popen(runner.command(["predict", "runs/r", "d.h5", "--batch-size", "1"]), cwd=folder, env=runner.environment(),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        talk = process.stderr.read().decode()
        assert process.wait(120) == 73 and "its reader has gone" in talk, talk
    # Nothing half-written is left, and what was there stays.
    assert (folder / "old.csv").read_text() == "old"
    assert sorted(p.name for p in folder.iterdir()) == ["d.h5", "old.csv", "runs"]


def wrong_arguments_are_said(folder):
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


runner.main([the_rows_of_a_split_give_its_metrics, any_number_of_ranks_gives_each_input_once_in_order,
             rows_alone_are_on_the_standard_output, names_of_any_kind_come_back,
             raw_pictures_give_what_their_data_file_gives, outputs_that_fail_are_said, wrong_arguments_are_said])
