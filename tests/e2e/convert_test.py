"""Files that numpy and PIL write, converted and read back with h5py; and the commands as users type them."""

import io
import json
import pathlib
import signal
import time
import zipfile

import h5py
import numpy as np
from PIL import Image, ImageOps

import runner

SIDE = 32


def convert(name, source, out, *more, code=0):
    return runner.run(["convert", name, source, "--out", out, "--force", *more]).expect(code)


def samples(path):
    """{source: (input, target)}, splits, attributes."""
    with h5py.File(path) as f:
        offsets, text = f["source/offsets"][:], bytes(f["source/bytes"][:])
        names = [text[a:b].decode() for a, b in zip(offsets, offsets[1:])]

        def rows(group):
            if isinstance(group, h5py.Dataset):
                return list(group[:])
            at = group["offsets"][:]
            return [group["values"][a:b] for a, b in zip(at, at[1:])]

        splits = {name: sorted(names[i] for i in ids[:]) for name, ids in f["splits"].items()}
        attributes = {name: runner.text(value) for name, value in f.attrs.items()}
        return dict(zip(names, zip(rows(f["inputs"]), rows(f["targets"])))), splits, attributes


def every_dtype_order_and_version_of_npy(folder):
    rng = np.random.default_rng(1)
    expected = {}
    kinds = ["?", "i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8",
             "<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]
    for label in ["a", "b"]:
        (folder / "d" / label).mkdir(parents=True)
        for number, kind in enumerate(kinds):
            for order in "CF":
                for version in [(1, 0), (2, 0), (3, 0)]:
                    values = rng.normal(size=(4 + number, 3)) * 50
                    array = np.asarray(np.abs(values) if "u" in kind else values).astype(kind, order=order)
                    name = f"{label}/{number}{order}{version[0]}.npy"
                    with open(folder / "d" / name, "wb") as out:
                        np.lib.format.write_array(out, array, version)
                    expected[name] = array.astype(np.float32)
    convert("sequence", folder / "d", folder / "o.h5")
    found, splits, attributes = samples(folder / "o.h5")
    assert found.keys() == expected.keys() and len(expected) == 252
    for name, (values, label) in found.items():
        assert values.dtype == np.float32 and np.array_equal(values, expected[name]), name
        assert label == (name[0] == "b"), name
    assert attributes["class_names"] == "a\nb" and attributes["task"] == "sequence"
    assert {split: len(names) for split, names in splits.items()} == {"train": 200, "val": 26, "test": 26}


def one_dimension_and_arrays_that_need_pickle(folder):
    for label in ["a", "b"]:
        (folder / "d" / label).mkdir(parents=True)
        for i in range(3):
            np.save(folder / "d" / label / f"{i}.npy", np.arange(5 + i))
    np.save(folder / "d/a/object.npy", np.array([1, "x"], dtype=object), allow_pickle=True)
    np.save(folder / "d/a/record.npy", np.zeros(3, dtype=[("x", "f4"), ("y", "i4")]))
    np.save(folder / "d/b/text.npy", np.array(["x", "y"]))
    np.save(folder / "d/b/complex.npy", np.zeros(3, dtype=complex))
    np.save(folder / "d/b/long.npy", np.zeros(3, dtype=np.longdouble))
    np.save(folder / "d/b/nan.npy", np.array([1, np.nan]))
    np.save(folder / "d/b/nothing.npy", np.zeros((0,)))
    result = convert("sequence", folder / "d", folder / "o.h5").expect(0, "7 damaged", "o.h5.quarantine.json")
    found, _, _ = samples(folder / "o.h5")
    assert found["a/2.npy"][0].shape == (7, 1) and len(found) == 6, result.output
    reasons = {e["name"]: e["reason"] for e in json.loads((folder / "o.h5.quarantine.json").read_text())["quarantined"]}
    for name, part in {"a/object": "Python objects", "a/record": "structured", "b/text": "strings", "b/complex": "complex",
                       "b/long": "float16, 32 or 64", "b/nan": "NaN in row 1", "b/nothing": "length 0"}.items():
        assert part in reasons[name + ".npy"], reasons


def npz_stored_deflated_and_zip64(folder):
    rng = np.random.default_rng(2)
    count, longest = 30, 6
    lengths = rng.integers(2, longest + 1, count)
    features = rng.normal(size=(count, longest, 7))
    order = np.full((count, longest), -1, dtype=np.int16)
    for i, n in enumerate(lengths):
        order[i, :n] = rng.permutation(n)
    values = np.concatenate([features[i, :n] for i, n in enumerate(lengths)])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.concatenate([order[i, :n] for i, n in enumerate(lengths)])
    np.savez(folder / "p.npz", features=features, order=order, lengths=lengths)
    np.savez_compressed(folder / "q.npz", features=np.asfortranarray(features.astype(">f4")), order=order)
    np.savez(folder / "r.npz", values=values, offsets=offsets, order=flat)
    with zipfile.ZipFile(folder / "s.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in {"features": features, "order": order}.items():
            with archive.open(name + ".npy", "w", force_zip64=True) as out:
                np.lib.format.write_array(out, array)
    for name in "pqrs":
        convert("pointer", folder / f"{name}.npz", folder / "o.h5")
        found, _, attributes = samples(folder / "o.h5")
        assert len(found) == count and attributes["task"] == "pointer"
        for i, n in enumerate(lengths):
            elements, target = found[f"{name}.npz#{i}"]
            assert elements.dtype == np.float32 and np.array_equal(elements[:, :7], features[i, :n].astype(np.float32))
            assert not elements[:, 7].any() and np.array_equal(target, order[i, :n]) and target.dtype == np.int64


def scene(mode):
    y, x = np.mgrid[0:48, 0:80]
    rgb = np.stack([x * 3, y * 5, 255 - x * 2], axis=2).astype(np.uint8)
    rgb[8:20, 10:30] = [250, 30, 30]
    return Image.fromarray(rgb).convert(mode)


def middle(image):
    """The picture as it should be stored, made by PIL: upright, the center square, scaled."""
    image = ImageOps.exif_transpose(image).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side)))


def pictures_of_every_kind_equal_what_pil_reads(folder):
    for label in ["a", "b"]:
        (folder / "d" / label).mkdir(parents=True)
    a = folder / "d/a"
    scene("L").save(a / "grey.jpg", quality=95)
    scene("RGB").save(a / "progressive.jpg", quality=95, progressive=True)
    scene("RGB").save(a / "plain.JPEG", quality=95, subsampling=0)
    scene("CMYK").save(a / "cmyk.jpg", quality=95)
    scene("P").save(a / "palette.png")
    scene("L").save(a / "grey.png")
    scene("1").save(a / "bits.png")
    scene("RGB").save(a / "lossy.webp", quality=95)
    scene("L").save(a / "lossless.WEBP", format="webp", lossless=True)
    deep = (np.mgrid[0:48, 0:80][1] * 800).astype(np.uint16)
    Image.fromarray(deep).save(a / "deep.png")
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        scene("RGB").save(a / f"turned{orientation}.jpg", quality=95, exif=exif)
        scene("RGB").save(a / f"turned{orientation}.png", exif=exif)
        scene("RGB").save(a / f"turned{orientation}.webp", lossless=True, exif=exif)
    ycck(a / "cmyk.jpg", a / "ycck.jpg")
    for i in range(3):
        scene("RGB").save(folder / f"d/b/{i}.png")
    clear = np.zeros((40, 40, 4), dtype=np.uint8)
    clear[:20] = [10, 200, 30, 255]  # the lower half is transparent: white
    clear[:, 30:, 3] //= 2  # the right edge is half transparent: lighter
    for kind in ["png", "webp"]:
        Image.fromarray(clear).save(folder / f"d/b/clear.{kind}", lossless=True)
    convert("images", folder / "d", folder / "o.h5", "--size", SIDE).expect(0, "free on that disk")
    found, _, _ = samples(folder / "o.h5")
    assert len(found) == 40, sorted(found)
    for kind in ["png", "webp"]:
        pixels = found[f"b/clear.{kind}"][0]
        assert np.array_equal(pixels[:14, 5], np.full((14, 3), [10, 200, 30])), kind
        assert np.abs(pixels[:14, -1].astype(int) - [133, 228, 143]).max() <= 1, (kind, pixels[5, -1])
        assert (pixels[18:] == 255).all(), kind
    for name, (pixels, _) in found.items():
        if name.startswith("b/clear") or name == "a/deep.png":
            continue
        with Image.open(folder / "d" / name) as image:
            expected = middle(image).astype(int)
        worst = np.abs(pixels.astype(int) - expected)[2:-2, 2:-2]
        assert worst.max() <= (24 if "jp" in name.lower() else 3) and worst.mean() < 1.5, (name, worst.max(), worst.mean())
    with Image.open(folder / "d/a/deep.png") as image:
        expected = middle(Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))).astype(int)
    assert np.abs(found["a/deep.png"][0].astype(int) - expected)[2:-2, 2:-2].max() <= 2


def webp_files_that_cannot_be_read_are_quarantined(folder):
    for label in ["a", "b"]:
        (folder / "d" / label).mkdir(parents=True)
        for i in range(3):
            scene("RGB").save(folder / f"d/{label}/{i}.webp", quality=80)
    whole = (folder / "d/a/0.webp").read_bytes()
    (folder / "d/a/torn.webp").write_bytes(whole[:len(whole) // 2])
    (folder / "d/a/header.webp").write_bytes(whole[:12])
    (folder / "d/a/other.webp").write_bytes(whole[:8] + b"WAVE" + whole[12:])
    (folder / "d/a/noise.webp").write_bytes(whole[:20] + bytes(range(256)))
    scene("RGB").save(folder / "d/a/moves.webp", save_all=True, append_images=[scene("RGB").rotate(90)])
    convert("images", folder / "d", folder / "o.h5", "--size", SIDE).expect(0, "5 damaged")
    reasons = {e["name"]: e["reason"] for e in json.loads((folder / "o.h5.quarantine.json").read_text())["quarantined"]}
    for name, part in {"torn": "damaged WebP: premature end", "header": "damaged WebP: premature end", "other": "not a JPEG, PNG or WebP",
                       "noise": "damaged WebP", "moves": "an animated WebP"}.items():
        assert part in reasons[f"a/{name}.webp"], reasons


def ycck(cmyk, out):
    """The CMYK file with its marker changed to YCCK: other colors, which PIL and dtrain must read equally."""
    data = bytearray(pathlib.Path(cmyk).read_bytes())
    at = data.index(b"Adobe")
    data[at + 11] = 2
    out.write_bytes(data)
    assert Image.open(io.BytesIO(bytes(data))).mode == "CMYK"


def generated_raw_files_convert_to_the_generated_hdf5(folder):
    for task, layout, raw, converter in [("classify", "images", "raw_c", "images"), ("pointer", "npz", "raw.npz", "pointer"),
                                         ("sequence", "npy", "raw_s", "sequence")]:
        size = ["--size", SIDE] if task == "classify" else []
        common = ["--samples", 90, *size]
        runner.run(["synth", task, *common, "--out", folder / f"{task}.h5"]).expect(0, "train ", "val ", "test ")
        runner.run(["synth", task, *common, "--layout", layout, "--out", folder / raw]).expect(0, f"dtrain convert {converter}")
        convert(converter, folder / raw, folder / "o.h5", *size)
        left, splits, attributes = samples(folder / f"{task}.h5")
        right, again, converted = samples(folder / "o.h5")
        assert attributes["checksum"] == converted["checksum"], task
        number = lambda lists: {split: sorted(n.rsplit("#")[-1] for n in names) for split, names in lists.items()}
        assert number(splits) == number(again), task  # the sets are named for their file
        for (a, b), (c, d) in zip(left.values(), right.values()):
            assert np.array_equal(a, c) and np.array_equal(b, d)
        runner.run(["inspect", folder / "o.h5", "--verify"]).expect(0)


def eval_reports_the_test_protocol_of_a_head_pose_set(folder):
    runner.run(["synth", "headpose", "--layout", "biwi", "--samples", 60, "--size", 48, "--out", folder / "b"]).expect(0)
    convert("biwi", folder / "b", folder / "d.h5", "--size", SIDE)
    runner.train(folder, train__epochs=1).expect(0)
    runner.run(["synth", "headpose", "--layout", "300wlp", "--samples", 40, "--size", 80, "--out", folder / "lp"]).expect(0)
    convert("aflw2000", folder / "lp/AFW", folder / "a.h5", "--size", SIDE)  # one of its folders has that layout
    (folder / "test.txt").write_text("01/frame_00003_rgb\n02/frame_00003_rgb\n")
    convert("biwi", folder / "b", folder / "l.h5", "--size", SIDE, "--test-list", folder / "test.txt")
    for data, protocol in [("d.h5", "BIWI: test sequences 03, 06; split by person"),
                           ("a.h5", "AFLW2000: all samples within ±99 degrees are the test"), ("l.h5", "splits by the lists given")]:
        result = runner.run(["eval", "runs/r", "--data", data, "--json", "e.json", "--force"], cwd=folder).expect(0)
        assert "protocol    " + protocol in result.output.splitlines(), result.output
        assert json.loads((folder / "e.json").read_text())["protocol"] == protocol
        runner.run(["inspect", folder / data]).expect(0, protocol)


def data_that_evaluate_a_network_take_its_classes(folder):
    """Names and order of --classes; data that lack a class, or number classes otherwise, give the metrics of the network's own numbers."""
    rng = np.random.default_rng(1)
    for label, level in [("a", -1), ("b", 0), ("c", 1)]:
        for i in range(12):
            (folder / "d" / label).mkdir(parents=True, exist_ok=True)
            np.save(folder / "d" / label / f"{i}.npy", rng.normal(level, 1, size=(5, 3)).astype(np.float32))
    convert("sequence", folder / "d", folder / "d.h5", "--test-share", 0.5)
    runner.train(folder, task="sequence", model__hidden=8, sequence__encoder_epochs=0, train__epochs=2, data__file="d.h5").expect(0)

    def evaluated(data):
        runner.run(["eval", "runs/r", "--data", data, "--json", "e.json", "--force"], cwd=folder).expect(0)
        report = json.loads((folder / "e.json").read_text())
        by_class, confusion = (table["cells"] for table in report["tables"])
        return report["metrics"], by_class, confusion

    whole, by_class, confusion = evaluated("d.h5")
    (folder / "names.txt").write_bytes("\ufeffc\r\na\r\nb\r\n".encode())
    convert("sequence", folder / "d", folder / "other.h5", "--test-share", 0.5, "--classes", folder / "names.txt")
    assert samples(folder / "other.h5")[2]["class_names"] == "c\na\nb"
    assert evaluated("other.h5") == (whole, by_class, confusion)

    (folder / "d/b").rename(folder / "b")
    convert("sequence", folder / "d", folder / "two.h5", "--test-share", 0.5)  # the classes a and c
    convert("sequence", folder / "d", folder / "all.h5", "--test-share", 0.5, "--classes", folder / "runs/r")
    assert samples(folder / "all.h5")[2]["class_names"] == "a\nb\nc"
    metrics, by_class, confusion = evaluated("two.h5")
    assert evaluated("all.h5") == (metrics, by_class, confusion)
    counts = np.array(confusion)
    both = counts.sum(0) + counts.sum(1)  # as targets and as predictions
    f1 = (2 * counts.diagonal() / np.maximum(both, 1))[both > 0]
    assert abs(metrics["macro_f1"] - f1.mean()) < 1e-12, (metrics, f1)  # as scikit-learn averages
    assert counts[1].sum() == 0

    (folder / "d/c").rename(folder / "c")
    convert("sequence", folder / "d", folder / "one.h5", code=65).expect(65, "only one class, a", "--classes RUN")
    convert("sequence", folder / "d", folder / "one.h5", "--test-share", 1, "--classes", folder / "d.h5").expect(0, "test 12")
    evaluated("one.h5")
    (folder / "d/a").rename(folder / "d/x")
    convert("sequence", folder / "d", folder / "one.h5", "--classes", folder / "runs/r", code=65).expect(65, "d/x is none of the classes")
    convert("sequence", folder / "d", folder / "d.h5", "--classes", folder / "d.h5", code=73).expect(73, "is an input")


def wrong_names_suggest_the_nearest(folder):
    runner.run(["synth", "clasify"]).expect(64, "Did you mean classify?")
    runner.run(["synth", "sequence", "--layout", "npz", "--out", folder / "x"]).expect(64, "Did you mean npy?")
    runner.run(["convert", "image", folder]).expect(64, "Did you mean images?")
    runner.run(["convert", "images", folder / "gone", "--out", folder / "o.h5"]).expect(65, "no such folder")
    (folder / "d/only").mkdir(parents=True)
    scene("RGB").save(folder / "d/only/1.png")
    convert("images", folder / "d", folder / "o.h5", code=65).expect(65, "only one class, only")
    (folder / "d/empty").mkdir()
    convert("images", folder / "d", folder / "o.h5", code=65).expect(65, "d/empty is empty")
    for command in ["convert", "synth"]:
        lines = runner.run([command, "--help"]).expect(0, "pointer", "sequence").output.splitlines()
        assert max(map(len, lines)) <= 160, max(lines, key=len)


def a_hostile_name_neither_controls_the_terminal_nor_starts_a_line(folder):
    evil = "ev\x1b[31mil\nerror: forged.npy"
    for label in ["a", "b\x1b]0;title\x07"]:
        (folder / "d" / label).mkdir(parents=True)
        for i in range(4):
            np.save(folder / "d" / label / f"{i}.npy", np.arange(5.0))
    (folder / "d/a" / evil).write_bytes(b"no array")
    np.save(folder / "d/a" / ("whole" + evil), np.arange(5.0))
    outputs = [convert("sequence", folder / "d", folder / "o.h5").expect(0, "1 damaged", "a/ev\\x1b[31mil\\nerror: forged.npy"),
               runner.run(["inspect", folder / "o.h5"]).expect(0, "b\\x1b]0;title\\x07"),
               convert("images", folder / "d/a" / evil, folder / "p.h5", code=65)]
    for result in outputs:
        assert not any(c < " " and c != "\n" for c in result.output), result.output
        assert not any(line.startswith("error: forged") for line in result.output.splitlines()), result.output
    found, _, attributes = samples(folder / "o.h5")  # in files the names are unchanged
    assert "a/whole" + evil in found and attributes["class_names"] == "a\nb\x1b]0;title\x07"
    quarantined = json.loads((folder / "o.h5.quarantine.json").read_text())["quarantined"]
    assert [entry["name"] for entry in quarantined] == ["a/" + evil]


def interrupted(folder, arguments, begun, *texts):
    with runner.Running(arguments, cwd=folder) as running:
        end = time.monotonic() + 120
        while not begun() and time.monotonic() < end:
            assert running.process.poll() is None, running.output()
            time.sleep(0.002)
        running.process.send_signal(signal.SIGINT)
        result = running.wait(60).expect(130, *texts)
    assert sum(line.startswith("interrupted") for line in result.output.splitlines()) == 1, result.output


def ctrl_c_stops_and_leaves_no_partial_files(folder):
    holds = lambda pattern: lambda: any(folder.glob(pattern))
    for task, layout, out, pattern in [("classify", "hdf5", "c.h5", "c.h5.tmp*"), ("classify", "images", "c", "c/*/*/*.png"),
                                       ("headpose", "biwi", "h", "h/*/*.png"), ("sequence", "npy", "s", "s/*/*/*.npy")]:
        interrupted(folder, ["synth", task, "--layout", layout, "--samples", 20000, "--out", out], holds(pattern),
                    "interrupted: nothing was written")
        assert not any(folder.iterdir()), list(folder.iterdir())
    runner.run(["synth", "classify", "--layout", "images", "--samples", 60, "--out", "d"], cwd=folder).expect(0)
    words = ["convert", "images", "d", "--size", 1024, "--threads", 1, "--out", "o.h5"]
    journal = folder / "o.h5.partial/journal"
    interrupted(folder, words, lambda: journal.exists() and journal.stat().st_size > 600,  # a header of 512 bytes, and records
                "interrupted: o.h5 was not written", "o.h5.partial")
    assert sorted(p.name for p in folder.iterdir()) == ["d", "o.h5.partial"]
    runner.run(words, cwd=folder).expect(0, "wrote o.h5: 60")
    assert sorted(p.name for p in folder.iterdir()) == ["d", "o.h5"]


runner.main([a_hostile_name_neither_controls_the_terminal_nor_starts_a_line, ctrl_c_stops_and_leaves_no_partial_files,
             every_dtype_order_and_version_of_npy, one_dimension_and_arrays_that_need_pickle,
             npz_stored_deflated_and_zip64, pictures_of_every_kind_equal_what_pil_reads,
             webp_files_that_cannot_be_read_are_quarantined,
             generated_raw_files_convert_to_the_generated_hdf5,
             data_that_evaluate_a_network_take_its_classes,
             eval_reports_the_test_protocol_of_a_head_pose_set, wrong_names_suggest_the_nearest])
