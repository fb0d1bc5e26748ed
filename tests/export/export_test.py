"""What `dtrain export` writes, opened by others: onnxruntime, torchvision and safetensors, with equal outputs."""

import hashlib
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

import h5py
import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import networks
import runner
from networks import check_close, session

torch.manual_seed(11)
SIZE = 64
TEMPORARY = tempfile.TemporaryDirectory(prefix="dtrain-export-")
SHARED = pathlib.Path(TEMPORARY.name)
MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


def trained():
    """A run of the real program: head pose, a few steps; made once."""
    folder = SHARED
    if not (folder / "d.h5").exists():
        runner.synth(folder / "d.h5", 240, SIZE)
        runner.run(["train", *runner.flags({**runner.SMALL, "run.folder": folder / "runs", "run.name": "r",
                                            "data.file": folder / "d.h5", "model.image_size": SIZE, "train.epochs": 3,
                                            "train.batch_size": 16})]).expect(0)
    return folder / "runs" / "r"


def newest(run):
    return sorted((run / "checkpoints").iterdir())[-1]


def checkpoint_with(run, folder, tensors, metadata):
    """A checkpoint like the run's newest, of another network: its weights, metadata and manifest replaced."""
    target = folder / newest(run).name
    shutil.copytree(newest(run), target)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, target / "model.safetensors", metadata)
    manifest = json.loads((target / "MANIFEST.json").read_text())
    content = (target / "model.safetensors").read_bytes()
    manifest["files"]["model.safetensors"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    del manifest["sha256"]
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    manifest["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (target / "MANIFEST.json").write_text(json.dumps(manifest, sort_keys=True, indent=2) + "\n")
    return target


def export(path, form, out, *more):
    return runner.run(["export", path, "--format", form, "--out", out, *more])


def a_real_run_leaves_as_onnx_and_says_what_its_input_is(folder):
    run = trained()
    export(run, "onnx", folder / "m.onnx").expect(0, "headpose_cnn", newest(run).name)
    model = session(folder / "m.onnx")
    meta = model.get_modelmeta().custom_metadata_map
    assert meta["task"] == "headpose" and meta["image_size"] == str(SIZE) and meta["angle_scale"] == "30.0", meta
    with safe_open(newest(run) / "model.safetensors", "pt") as f:
        assert f.metadata() == meta
    network = networks.headpose_cnn(3)
    network.load_state_dict(load_file(newest(run) / "model.safetensors"))
    x = torch.randn(5, 3, SIZE, SIZE)
    with torch.no_grad():
        check_close("headpose_cnn", model.run(["angles"], {"images": x.numpy()})[0], network.eval()(x))


def test_split():
    with h5py.File(SHARED / "d.h5") as f:
        ids = np.sort(f["splits/test"][...])
        images, targets = f["inputs"][...][ids], f["targets"][...][ids]
    return ((images.astype(np.float32) / 255 - MEAN) / STD).transpose(0, 3, 1, 2).astype(np.float32), targets


def int8_is_small_and_what_was_measured_is_what_runs(folder):
    run = trained()
    export(run, "onnx", folder / "m.onnx").expect(0)
    said = export(run, "onnx-int8", folder / "i.onnx", "--split", "test", "--samples", 16).expect(
        0, "calibrated on 16 samples of the test split", "mean absolute error", "change")
    before, after = map(float, re.search(r"float32 ([\d.]+), int8 ([\d.]+)", said.output).groups())
    share = (folder / "i.onnx").stat().st_size / (folder / "m.onnx").stat().st_size
    assert share <= 0.30, f"INT8 has {share:.2%} of float32's bytes"
    assert abs(after - before) < 0.05 * before, (before, after)

    images, targets = test_split()
    for file, expected, tolerance in (("m.onnx", before, 1e-3), ("i.onnx", after, 1e-2)):
        angles = session(folder / file).run(None, {"images": images})[0] * 30
        error = np.abs(angles - targets).mean()
        assert abs(error - expected) <= tolerance * expected, f"{file}: onnxruntime {error}, dtrain {expected}"


def a_module_leaves_as_torchscript_with_what_it_learned(folder):
    trained()
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 5, stride=4)
            self.norm = torch.nn.BatchNorm2d(8)
            self.fc = torch.nn.Linear(8, 3)

        def forward(self, x):
            return self.fc(self.norm(self.conv(x)).relu().mean((2, 3)))

    torch.jit.script(Net()).save(folder / "net.pt")
    runner.run(["train", *runner.flags({**runner.SMALL, "run.folder": folder / "runs", "run.name": "m", "task.name": "module",
                                        "model.file": folder / "net.pt", "data.file": SHARED / "d.h5", "model.image_size": SIZE,
                                        "train.epochs": 1, "train.batch_size": 64})]).expect(0)
    run = folder / "runs" / "m"
    export(run, "torchscript", folder / "trained.pt").expect(0, "torchscript")
    learned = load_file(newest(run) / "model.safetensors")
    script = torch.jit.load(folder / "trained.pt")
    assert not script.training
    assert set(script.state_dict()) == set(learned)
    assert all(torch.equal(script.state_dict()[name], tensor) for name, tensor in learned.items())
    assert not torch.equal(learned["fc.weight"], torch.jit.load(folder / "net.pt").fc.weight), "nothing was learned"
    network = Net()
    network.load_state_dict(learned)
    x = torch.randn(3, 3, SIZE, SIZE)
    with torch.no_grad():
        check_close("module", script(x), network.eval()(x), 1e-6)
    export(run, "onnx", folder / "m.onnx").expect(64, "TorchScript", "--format torchscript", "torch.onnx.export")
    export(run, "onnx-int8", folder / "m.onnx").expect(64, "--format torchscript")
    (folder / "net.pt").rename(folder / "moved.pt")
    export(run, "torchscript", folder / "again.pt").expect(74, "net.pt", "--module")
    export(run, "torchscript", folder / "again.pt", "--module", folder / "moved.pt").expect(0)


def files_are_never_overwritten_unasked(folder):
    run, out = trained(), folder / "out" / "m.onnx"
    out.parent.mkdir()
    out.write_text("mine")
    export(run, "onnx", out).expect(73, "exists", "--force")
    assert out.read_text() == "mine"
    export(run, "onnx", out, "--force").expect(0)
    session(out)
    export(run, "onnx", folder).expect(73, "is a folder")
    done = runner.run(["export", run, "--format", "safetensors"], cwd=folder)
    done.expect(0, "headpose_cnn.safetensors")
    assert (folder / "headpose_cnn.safetensors").read_bytes() == (newest(run) / "model.safetensors").read_bytes()


def a_full_disk_leaves_no_half_file(folder):
    out = folder / "m.onnx"
    words = " ".join(map(shlex.quote, runner.command(["export", trained(), "--format", "onnx", "--out", out])))
    done = subprocess.run(["bash", "-c", f"trap '' XFSZ; ulimit -f 1024; exec {words}"], capture_output=True, text=True)
    assert done.returncode == 73 and "m.onnx" in done.stderr and "File too large" in done.stderr, done
    assert list(folder.iterdir()) == [], list(folder.iterdir())


def mistakes_are_named(folder):
    run, out = trained(), folder / "out"
    export(folder / "nowhere", "onnx", out).expect(74, "no such folder")
    export(run, "onyx", out).expect(64, "onyx")
    export(run, "torchscript", out).expect(64, "headpose_cnn", "--format onnx", "--format safetensors")
    export(run, "onnx-int8", out, "--data", folder / "nowhere.h5").expect(65, "nowhere.h5")
    weights = load_file(newest(run) / "model.safetensors")
    metadata = {"task": "headpose", "network": "headpose_cnn", "image_size": str(SIZE)}

    def refused(name, tensors, changes, code, *texts):
        (folder / name).mkdir()
        path = checkpoint_with(run, folder / name, tensors, {**metadata, **changes})
        export(path, "onnx", out).expect(code, *texts)

    refused("module", weights, {"network": "torchscript"}, 64, "TorchScript", "torch.onnx.export")
    refused("other", weights, {"network": "resnet18"}, 74, "'conv1.weight'")
    for network in ("cnn_lstm", "pointer_network"):
        (folder / network).mkdir()
        path = checkpoint_with(run, folder / network, weights, {**metadata, "network": network})
        export(path, "onnx-int8", out).expect(64, "recurrent", "--format onnx")
    refused("extra", {**weights, "spare.weight": torch.zeros(2)}, {}, 74, "'spare.weight'")
    damaged = folder / "damaged" / newest(run).name
    shutil.copytree(newest(run), damaged)
    content = bytearray((damaged / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (damaged / "model.safetensors").write_bytes(content)
    for form in ("safetensors", "onnx"):
        export(damaged, form, out).expect(74, "model.safetensors", "SHA-256")
    assert not out.exists()


if __name__ == "__main__":
    runner.main([a_real_run_leaves_as_onnx_and_says_what_its_input_is, int8_is_small_and_what_was_measured_is_what_runs,
                 a_module_leaves_as_torchscript_with_what_it_learned,
                 files_are_never_overwritten_unasked, a_full_disk_leaves_no_half_file, mistakes_are_named])
