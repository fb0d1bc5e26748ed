"""The functions of docs/export.md that turn a picture into the network's input, against what convert stores and predict answers."""

import json
import re
import subprocess

import h5py
import numpy as np
import scipy.io
import torch
from PIL import Image, PngImagePlugin

import networks
import runner


def functions():
    """stored_pixels() and picture_to_tensor(), as the document has them."""
    text = (runner.SOURCE / "docs/export.md").read_text()
    block = next(block for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE) if "def stored_pixels" in block)
    names = {}
    exec(compile(block, "docs/export.md", "exec"), names)
    return names["stored_pixels"], names["picture_to_tensor"]


stored_pixels, picture_to_tensor = functions()


def scene(width, height, seed):
    """Smooth colors, an edge and noise."""
    draw = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    rgb = np.stack([120 + 100 * np.sin(x / (5 + seed) + seed), 255 * y / height, 255 - 200 * x / width], axis=2)
    rgb[height // 4:height // 2, width // 3:width // 2] = draw.integers(0, 256, 3)
    return Image.fromarray(np.clip(rgb + draw.normal(0, 12, rgb.shape), 0, 255).astype(np.uint8))


def pictures(folder):
    """Two classes of pictures: larger and smaller than what is stored, with odd sides, of every kind."""
    for label in ["a", "b"]:
        (folder / label).mkdir(parents=True)
    sizes = [(97, 61), (300, 211), (40, 30), (31, 47), (640, 480), (64, 64), (48, 48), (50, 50), (65, 64), (128, 33), (200, 200), (333, 90)]
    for i, (width, height) in enumerate(sizes):
        exif = Image.Exif()
        exif[0x0112] = 1 + i % 8
        picture = scene(width, height, i)
        picture.save(folder / f"a/{i}.jpg", quality=85 + i, exif=exif)
        picture.save(folder / f"b/{i}.webp", quality=90, lossless=i % 2 == 0, exif=exif)
        if i % 2:
            picture.convert("L").save(folder / f"b/gray{i}.jpg", quality=90)
            clear = np.dstack([np.asarray(picture), np.linspace(0, 255, width * height).reshape(height, width).astype(np.uint8)])
            Image.fromarray(clear).save(folder / f"a/clear{i}.png")
            Image.fromarray(clear).save(folder / f"b/clear{i}.webp", lossless=True)
        else:
            picture.convert("CMYK").save(folder / f"b/cmyk{i}.jpg", quality=90)
            gamma = PngImagePlugin.PngInfo()
            gamma.add(b"gAMA", (100000).to_bytes(4, "big"))  # linear light; no reader applies it
            picture.quantize(17).save(folder / f"a/palette{i}.png", pnginfo=gamma)
    return folder


def stored(path):
    """{source: pixels} of a data file."""
    with h5py.File(path) as f:
        offsets, text = f["source/offsets"][:], bytes(f["source/bytes"][:])
        return {text[a:b].decode(): pixels for a, b, pixels in zip(offsets, offsets[1:], f["inputs"][:])}


MOST_DIFFERENT = 1 / 200  # of the values of a picture: where the order of a sum decides how it is rounded


def check_pixels(name, found, expected):
    assert found.shape == expected.shape, (name, found.shape)
    levels = np.abs(found.astype(int) - expected.astype(int))
    assert levels.max() <= 1, f"{name}: {levels.max()} levels"
    assert (levels > 0).mean() <= MOST_DIFFERENT, f"{name}: {(levels > 0).mean():.4f} of the values differ"
    return (levels > 0).mean()


def pixels_are_those_that_convert_stores(folder):
    pictures(folder / "d")
    for side in [48, 64]:
        runner.run(["convert", "images", folder / "d", "--size", side, "--out", folder / f"{side}.h5"]).expect(0)
        samples = stored(folder / f"{side}.h5")
        assert len(samples) == 54, len(samples)
        shares = [check_pixels(f"{name} at {side}", stored_pixels(folder / "d" / name, side), pixels)
                  for name, pixels in samples.items()]
        print(f"        stored {side}: at most {max(shares):.4f} of a picture's values differ by one level")


def pixels_of_faces_are_those_that_convert_stores(folder):
    runner.run(["synth", "headpose", "--layout", "300wlp", "--samples", 40, "--size", 90, "--out", folder / "lp"]).expect(0)
    runner.run(["convert", "300wlp", folder / "lp", "--size", 64, "--out", folder / "d.h5"]).expect(0)
    samples = stored(folder / "d.h5")
    assert len(samples) > 20
    for name, pixels in samples.items():
        x, y = scipy.io.loadmat((folder / "lp" / name).with_suffix(".mat"))["pt2d"].astype(float)
        width, height = x.max() - x.min(), y.max() - y.min()
        left, right = x.min() - 0.12 * width, x.max() + 0.12 * width
        top, bottom = y.min() - 0.4 * height, y.max() + 0.12 * height
        half = max(right - left, bottom - top) / 2
        box = ((left + right) / 2 - half, (top + bottom) / 2 - half, (left + right) / 2 + half, (top + bottom) / 2 + half)
        check_pixels(name, stored_pixels(folder / "lp" / name, 64, box), pixels)


def predicted(run, source):
    """{file: row} of predict."""
    done = subprocess.run(runner.command(["predict", run, source, "--format", "jsonl"]), capture_output=True, env=runner.environment(),
                          text=True, timeout=300)
    assert done.returncode == 0, done
    return {row["input"]: row for row in map(json.loads, done.stdout.splitlines())}


def exported(run, out):
    runner.run(["export", run, "--format", "onnx", "--out", out]).expect(0)
    session = networks.session(out)
    return session, session.get_modelmeta().custom_metadata_map


def probabilities_are_those_of_predict(folder):
    pictures(folder / "d")
    # Crops of 56, 44 and 48 pixels, which are made smaller, larger and stay as they are; the whole, smaller than the network's input.
    for side, size in [(64, 48), (50, 48), (55, 48), (48, 64)]:
        data, run = folder / f"{side}.h5", folder / "runs" / f"{side}"
        runner.run(["convert", "images", folder / "d", "--size", side, "--out", data]).expect(0)
        runner.run(runner.flags({**runner.SMALL, "task": "classify", "data.file": data, "run.folder": folder / "runs", "run.name": f"{side}",
                                 "model.image_size": size, "train.epochs": 3, "train.batch_size": 4, "optimizer.lr": 0.0003})).expect(0)
        session, meta = exported(run, folder / f"{side}.onnx")
        assert meta["stored_size"] == str(side) and meta["image_size"] == str(size), meta
        rows, shares, worst = predicted(run, folder / "d"), [], 0
        classes = meta["class_names"].split("\n")
        assert len(rows) == 54
        for name, row in rows.items():
            logits = session.run(["logits"], {"images": picture_to_tensor(name, meta)})[0][0]
            share = torch.tensor(logits).softmax(0).numpy()
            shares.append(share[0])
            best = share[[classes.index(name_of_class) for name_of_class in row["top_classes"]]]
            worst = max(worst, np.abs(best - row["top_probabilities"]).max())
            assert worst < 1e-3, (name, side, share, row)
        print(f"        stored {side}, input {size}: probabilities from {min(shares):.3f} to {max(shares):.3f}, "
              f"at most {worst:.6f} from those of predict")
        assert max(shares) - min(shares) > 0.05, "all pictures look the same to the network: wrong pixels would not show"


def angles_are_those_of_predict(folder):
    pictures(folder / "d")
    runner.synth(folder / "d.h5", 60, 64)
    runner.train(folder, model__image_size=64, train__epochs=3).expect(0)
    session, meta = exported(folder / "runs/r", folder / "r.onnx")
    found = []
    for name, row in predicted(folder / "runs/r", folder / "d").items():
        found.append(session.run(["angles"], {"images": picture_to_tensor(name, meta)})[0][0] * float(meta["angle_scale"]))
        said = np.array([row["yaw"], row["pitch"], row["roll"]])
        assert np.abs(found[-1] - said).max() < 0.05, (name, found[-1], said)
    assert np.ptp(found, axis=0).max() > 1, "all pictures look the same to the network"


runner.main([pixels_are_those_that_convert_stores, pixels_of_faces_are_those_that_convert_stores, probabilities_are_those_of_predict,
             angles_are_those_of_predict])
