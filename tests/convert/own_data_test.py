"""Your own data: arrays that NumPy saves, and files that the function in docs/file_formats.md writes, are converted, verified and trained on."""

import csv
import ctypes
import ctypes.util
import re
import sys
import types

import h5py
import numpy as np
import torch

import runner

nn = torch.nn


def xxhash_module():
    """The package `xxhash` of Python, or where it is not installed the one function of it that the document uses, from libxxhash."""
    try:
        import xxhash
        return xxhash
    except ImportError:
        library = ctypes.CDLL(ctypes.util.find_library("xxhash"))
        library.XXH64.restype, library.XXH64.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
        module = types.ModuleType("xxhash")

        def xxh64_intdigest(data, seed=0):
            if not isinstance(data, bytes):  # as the package does
                raise TypeError(f"xxhash takes bytes, not {type(data).__name__}")
            return library.XXH64(data, len(data), seed)

        module.xxh64_intdigest = xxh64_intdigest
        return module


def written_by_the_document():
    """write_dtrain(), as docs/file_formats.md has it."""
    text = (runner.SOURCE / "docs/file_formats.md").read_text()
    block = next(block for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE) if "def write_dtrain" in block)
    assert len(block.splitlines()) < 45, "a function that people copy should be short"
    sys.modules["xxhash"] = xxhash_module()
    names = {}
    exec(compile(block, "docs/file_formats.md", "exec"), names)
    return names["write_dtrain"]


def scenes(count, side=32):
    """Pictures of two classes: a bright left or right half, under noise."""
    draw = np.random.default_rng(3)
    labels = draw.integers(2, size=count)
    pictures = draw.integers(0, 60, size=(count, side, side, 3))
    for picture, label in zip(pictures, labels):
        picture[:, label * side // 2:(label + 1) * side // 2] += 150
    return pictures.astype(np.uint8), labels


def rows(count, features=6):
    x = np.random.default_rng(4).normal(size=(count, features)).astype(np.float32)
    return x, np.stack([2 * x[:, 0] - x[:, 1], x[:, 2]], axis=1).astype(np.float32)


def network(path, net):
    torch.manual_seed(1)
    torch.jit.script(net).save(str(path))


def mlp(path):
    network(path, nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 2)))


class Last(nn.Module):
    """Two numbers of each sequence: the sums of its valid rows, so that a wrong length shows."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(4, 2, bias=False)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        valid = torch.arange(x.size(1), device=x.device)[None, :] < lengths[:, None]
        return self.scale((x * valid[:, :, None]).sum(1))


def learns(folder, data, name, metric, better, **options):
    """Trains on the file; `better(value)` of the metric of the test split."""
    runner.train(folder, np=2, data__file=data, run__name=name, **options).expect(0, "finished: all")
    value = runner.metrics(folder / "runs" / name, "eval")[-1]["metrics"][metric]
    assert better(value), (name, metric, value)


MODULE = dict(task="module", model__image_size=None, task__loss="mse", task__inputs="rows", optimizer__lr=0.02, train__epochs=12)
CLASSIFY = dict(task="classify", train__epochs=3, augment__hflip=False, augment__crop_scale=1)


def convert(folder, *more, code=0):
    return runner.run(["convert", "arrays", "a.npz", "--out", "a.h5", "--force", *more], cwd=folder).expect(code)


def arrays_are_converted_and_trained_on(folder):
    x, y = rows(240)
    mlp(folder / "net.pt")
    np.savez_compressed(folder / "a.npz", inputs=np.asfortranarray(x.astype(np.float64)), targets=y.astype(">f4"))
    convert(folder).expect(0, "240 samples of 6 numbers (test 24, train 192, val 24)")
    runner.run(["inspect", "a.h5", "--verify"], cwd=folder).expect(0)
    with h5py.File(folder / "a.h5") as f:
        assert np.array_equal(f["inputs"][:], x) and np.array_equal(f["targets"][:], y) and runner.text(f.attrs["task"]) == "module"
    learns(folder, "a.h5", "numbers", "mae", lambda mae: mae < 0.4, **MODULE, model__file="net.pt")
    out = runner.run(["predict", "runs/numbers", "a.h5", "--out", "p.csv"], cwd=folder).expect(0)
    with open(folder / "p.csv", newline="") as f:
        found = np.array([[float(v) for v in row["output"].split()] for row in csv.DictReader(f)])
    assert np.abs(found - y).mean() < 0.5, out.output

    pictures, labels = scenes(120)
    split = np.repeat([0, 1, 2], [80, 20, 20])
    np.savez(folder / "a.npz", inputs=pictures, targets=labels.astype(np.uint8), class_names=np.array(["links", "rechts ü"]), split=split,
             notes=np.arange(3))
    convert(folder, "--task", "classify").expect(0, "120 samples of 32x32 (test 20, train 80, val 20)", "2 classes", "ignored in a.npz: its array notes")
    learns(folder, "a.h5", "classes", "top1", lambda top1: top1 > 0.9, **CLASSIFY)
    runner.run(["predict", "runs/classes", "a.h5", "--split", "test"], cwd=folder).expect(0, "rechts ü")


def lengths_reach_the_network(folder):
    draw = np.random.default_rng(6)
    lengths = draw.integers(1, 10, 160)
    x = draw.normal(size=(160, 9, 4))
    sums = np.stack([row[:n].sum(0) for row, n in zip(x, lengths)])
    np.savez(folder / "a.npz", inputs=x, lengths=lengths, targets=np.stack([sums[:, 0] - sums[:, 1], sums[:, 3]], 1))
    convert(folder).expect(0, "160 sequences of ", " rows of 4 on average")
    network(folder / "net.pt", Last())
    learns(folder, "a.h5", "r", "mae", lambda mae: mae < 0.2,
           **{**MODULE, "task__inputs": "rows+lengths", "optimizer__lr": 0.05}, model__file="net.pt")


def mistakes_say_what_is_expected(folder):
    x, y = rows(20)
    np.savez(folder / "a.npz", x=x, y=y)
    convert(folder, code=65).expect(65, "a.npz: it has no array inputs; its arrays are x, y. Expected: inputs uint8 [N, H, W, 3]")
    np.savez(folder / "a.npz")
    convert(folder, code=65).expect(65, "a.npz: it has no array inputs; it has no arrays at all. Expected: inputs uint8 [N, H, W, 3]")
    np.savez(folder / "a.npz", inputs=x, targets=np.array(["a", "b"] * 10))
    convert(folder, code=65).expect(65, "its array targets: strings")
    np.savez(folder / "a.npz", inputs=np.zeros((20, 3, 8, 8), np.float32), targets=y)
    convert(folder, code=65).expect(65, "inputs is float32 [20, 3, 8, 8]; images must be uint8 [N, H, W, 3]", "x.transpose(0, 2, 3, 1)")
    np.savez(folder / "a.npz", inputs=x, targets=y, class_names=np.array(["a", "b"], dtype=object))
    convert(folder, code=65).expect(65, "class_names: Python objects")
    convert(folder, "--task", "pointer", code=64).expect(64, "--task: pointer not in {classify,module}")
    convert(folder, "--size", 64, code=64).expect(64, "--size is of pictures")
    runner.run(["convert", "images", ".", "--task", "module"], cwd=folder).expect(64, "--task applies only to arrays")
    runner.run(["convert", "arrays", "none.npz"], cwd=folder).expect(65, "no such file: none.npz")


def files_of_the_documents_function_are_verified_and_trained_on(folder):
    write_dtrain = written_by_the_document()
    x, y = rows(240)
    everything = {"train": range(200), "val": range(200, 220), "test": range(220, 240)}
    write_dtrain(folder / "rows.h5", "module", x, y, everything, sources=[f"säule {i}" for i in range(240)], groups=np.arange(240) // 2)
    pictures, labels = scenes(120)
    write_dtrain(folder / "images.h5", "classify", pictures, labels, {"train": range(100), "test": range(100, 120)}, ["left", "right"])
    draw = np.random.default_rng(7)
    ragged = [draw.normal(size=(n, 4)).astype(np.float32) for n in draw.integers(1, 10, 160)]
    sums = np.stack([sample.sum(0)[:2] for sample in ragged])
    write_dtrain(folder / "ragged.h5", "module", ragged, sums, {})
    for name in ["rows", "images", "ragged"]:
        runner.run(["inspect", f"{name}.h5", "--verify"], cwd=folder).expect(0)
    mlp(folder / "mlp.pt")
    network(folder / "last.pt", Last())
    learns(folder, "rows.h5", "rows", "mae", lambda mae: mae < 0.4, **MODULE, model__file="mlp.pt")
    learns(folder, "images.h5", "images", "top1", lambda top1: top1 > 0.9, **CLASSIFY)
    learns(folder, "ragged.h5", "ragged", "mae", lambda mae: mae < 0.3,
           **{**MODULE, "task__inputs": "rows+lengths", "optimizer__lr": 0.05}, model__file="last.pt")
    runner.run(["predict", "runs/rows", "rows.h5", "--split", "test"], cwd=folder).expect(0, "säule 239")
    with h5py.File(folder / "rows.h5", "r+") as f:
        f["targets"][5] += 1
    runner.run(["inspect", "rows.h5", "--verify"], cwd=folder).expect(65, "rows.h5#5")


runner.main([arrays_are_converted_and_trained_on, lengths_reach_the_network, mistakes_say_what_is_expected,
             files_of_the_documents_function_are_verified_and_trained_on])
