"""Opens what `dtrain export` writes in onnxruntime, torchvision and safetensors, and compares the outputs."""

import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

import h5py
import numpy as np
import torch
import torchvision
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import networks
import runner
from networks import check_close, session

torch.manual_seed(11)
SIZE = 64
SMALL_SIZE = 32
TEMPORARY = tempfile.TemporaryDirectory(prefix="dtrain-export-")
SHARED = pathlib.Path(TEMPORARY.name)
MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


def trained():
    """A run of the real program (head pose, a few steps), made once."""
    folder = SHARED
    if not (folder / "d.h5").exists():
        runner.synth(folder / "d.h5", 240, SIZE)
        runner.train(folder, data__file=folder / "d.h5", model__image_size=SIZE, train__epochs=3, train__batch_size=16).expect(0)
    return folder / "runs" / "r"


def newest(run):
    return sorted((run / "checkpoints").iterdir())[-1]


def checkpoint_with(run, folder, tensors, metadata):
    """A copy of the run's newest checkpoint with the weights, metadata and manifest of another network."""
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


def a_real_run_is_exported_to_onnx_with_its_input_described(folder):
    run = trained()
    export(run, "onnx", folder / "m.onnx").expect(0, "headpose_cnn as onnx", newest(run).name)
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


def test_split(file):
    """The images of the file's test split, as an ONNX file takes them, and the targets."""
    with h5py.File(file) as f:
        ids = np.sort(f["splits/test"][...])
        images, targets = f["inputs"][...][ids], f["targets"][...][ids]
    return ((images.astype(np.float32) / 255 - MEAN) / STD).transpose(0, 3, 1, 2).astype(np.float32), targets


def exported_twice(run, folder, *texts):
    """Exports m.onnx and i.onnx (INT8) of the run; returns the accuracies that the command printed for both."""
    export(run, "onnx", folder / "m.onnx").expect(0)
    said = export(run, "onnx-int8", folder / "i.onnx", "--samples", 64).expect(0, *texts)
    share = (folder / "i.onnx").stat().st_size / (folder / "m.onnx").stat().st_size
    print(f"        {share:.1%} of the size;", *(line for line in said.output.splitlines() if "int8" in line))
    assert share <= 0.30, f"INT8 has {share:.2%} of float32's bytes"
    return map(float, re.search(r"float32 ([\d.]+)[ %]*, int8 ([\d.]+)", said.output).groups())


def int8_angles_are_as_good_as_measured(folder):
    before, after = exported_twice(trained(), folder, "calibrated on 20 samples of the val split",
                                   "mean absolute error on 24 samples of the test split", "change")
    assert abs(after - before) < 0.05 * before, (before, after)
    images, targets = test_split(SHARED / "d.h5")
    for file, expected, tolerance in (("m.onnx", before, 1e-3), ("i.onnx", after, 1e-2)):
        angles = session(folder / file).run(None, {"images": images})[0] * 30
        error = np.abs(angles - targets).mean()
        assert abs(error - expected) <= tolerance * expected, f"{file}: onnxruntime {error}, dtrain {expected}"


def classes(folder, samples):
    runner.run(["synth", "classify", "--samples", samples, "--size", SMALL_SIZE, "--out", folder / "c.h5"]).expect(0)
    return folder / "c.h5"


def trained_classifier(folder, network, **more):
    runner.run(["train", *runner.flags({**runner.SMALL, "task": "classify", "run.folder": folder / "runs", "run.name": network,
                                        "data.file": folder / "c.h5", "model.name": network, "model.image_size": SMALL_SIZE,
                                        "metrics.enabled": False, "train.batch_size": 32, **more})],
               env=runner.environment(threads=2), timeout=900).expect(0)
    return folder / "runs" / network


def int8_warns_where_it_is_measured_on_what_it_was_calibrated_on(folder):
    warning = "calibrated and measured on the same split, "
    run = trained()
    said = export(run, "onnx-int8", folder / "a.onnx").expect(0, "on 24 samples of the test split")
    assert warning not in said.output, said.output
    export(run, "onnx-int8", folder / "b.onnx", "--split", "test").expect(0, warning + "test", "calibrate on another --split")
    shutil.copy(SHARED / "d.h5", folder / "d.h5")
    with h5py.File(folder / "d.h5", "r+") as f:
        del f["splits/test"]
    export(run, "onnx-int8", folder / "c.onnx", "--data", folder / "d.h5").expect(0, "samples of the val split", warning + "val", "a test split (--dataset)")


def predicted(run, file):
    """The rows of dtrain predict for the test split of `file`."""
    done = subprocess.run(runner.command(["predict", run, file, "--split", "test", "--format", "jsonl"]), capture_output=True,
                          env=runner.environment(), text=True, timeout=300)
    assert done.returncode == 0, done
    return [json.loads(line) for line in done.stdout.splitlines()]


def torchvision_loads_the_weights_and_gives_the_same_outputs(folder):
    torchvision_loads(folder, ("resnet18", "mobilenet_v2"))


def torchvision_loads_resnet50(folder):
    torchvision_loads(folder, ("resnet50",))


def torchvision_loads(folder, networks):
    data = classes(folder, 200)
    images, _ = test_split(data)
    for network in networks:
        run = trained_classifier(folder, network, **{"train.max_steps": 2, "train.epochs": 1, "train.batch_size": 16,
                                                     "train.overfit_batches": 2})
        export(run, "safetensors", folder / "m.safetensors", "--force").expect(0, f"{network} as safetensors")
        export(run, "onnx", folder / "m.onnx", "--force").expect(0, f"{network} as onnx")
        theirs = getattr(torchvision.models, network)(num_classes=10)
        fresh = theirs.state_dict()["conv1.weight" if "res" in network else "features.0.0.weight"].clone()
        theirs.load_state_dict(load_file(folder / "m.safetensors"))  # strict: every name and shape
        assert not torch.equal(fresh, theirs.state_dict()["conv1.weight" if "res" in network else "features.0.0.weight"])
        with torch.no_grad():
            logits = theirs.eval()(torch.from_numpy(images))
        check_close(f"{network} in onnxruntime", session(folder / "m.onnx").run(["logits"], {"images": images})[0], logits)
        export(run, "onnx-int8", folder / "i.onnx", "--force", "--samples", 64).expect(0)
        small = session(folder / "i.onnx").run(["logits"], {"images": images})[0]
        change = np.sqrt(np.mean((small - logits.numpy()) ** 2) / np.mean(logits.numpy() ** 2))
        share = (folder / "i.onnx").stat().st_size / (folder / "m.onnx").stat().st_size
        print(f"        {network} in INT8: {share:.1%} of the size, outputs {change:.2%} from float32's")
        # After two steps the logits are small differences of large sums: the quantizer of onnxruntime gives 0.2 here.
        assert share <= 0.30 and change < 0.2, (network, share, change)
        shares = logits.softmax(1).numpy()
        rows = predicted(run, data)
        assert len(rows) == len(images)
        ours = np.array([row["top_probabilities"] for row in rows])
        with h5py.File(data) as f:
            names = runner.text(f.attrs["class_names"]).split("\n")
        check_close(f"{network} in dtrain predict", ours,
                    np.take_along_axis(shares, np.array([[names.index(name) for name in row["top_classes"]] for row in rows]), 1))
        check_close(f"{network}: the best classes", ours, -np.sort(-shares, 1)[:, :ours.shape[1]])


def rows_of(file):
    """The test split of a file of sets or sequences, padded with values that must have no effect, and the lengths."""
    with h5py.File(file) as f:
        ids, values, offsets = f["splits/test"][...], f["inputs/values"][...], f["inputs/offsets"][...]
    samples = [values[offsets[i]:offsets[i + 1]] for i in ids]
    lengths = np.array([len(sample) for sample in samples], np.int64)
    padded = np.full((len(samples), lengths.max(), values.shape[1]), np.nan, np.float32)
    for row, sample in zip(padded, samples):
        row[:len(sample)] = sample
    return padded, lengths


def sets_and_sequences_give_the_predictions_of_dtrain(folder):
    options = {"pointer": {"data.length_window": 0}, "sequence": {"sequence.encoder_epochs": 1, "sequence.classifier_epochs": 1}}
    for task, more in options.items():
        data = folder / f"{task}.h5"
        runner.run(["synth", task, "--samples", 120, "--out", data]).expect(0)
        runner.run(["train", *runner.flags({**runner.SMALL_ROWS, "task": task, "run.folder": folder / "runs", "run.name": task, "data.file": data,
                                            "metrics.enabled": False, "train.batch_size": 32, "model.hidden": 48, **more})],
                   env=runner.environment(threads=2)).expect(0)
        run = folder / "runs" / task
        export(run, "onnx", folder / f"{task}.onnx").expect(0)
        export(run, "onnx-int8", folder / "no.onnx").expect(64, "recurrent", "--format onnx")
        model, rows = session(folder / f"{task}.onnx"), predicted(run, data)
        padded, lengths = rows_of(data)
        if task == "pointer":
            longest = model.get_inputs()[0].shape[1]
            padded = np.pad(padded, ((0, 0), (0, longest - padded.shape[1]), (0, 0)), constant_values=np.nan)
            order = model.run(["order"], {"elements": padded, "lengths": lengths})[0]
            assert [list(row[:n]) for row, n in zip(order, lengths)] == [row["order"] for row in rows]
            assert (order == -1).sum() == (longest - lengths).sum()
        else:
            names = model.get_modelmeta().custom_metadata_map["class_names"].split("\n")
            logits = torch.from_numpy(model.run(["logits"], {"sequences": padded, "lengths": lengths})[0])
            share, best = logits.softmax(1).max(1)
            check_close("sequence", share, [row["probability"] for row in rows])
            assert [names[i] for i in best] == [row["class"] for row in rows]


def a_module_is_exported_to_torchscript_with_its_trained_weights(folder):
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
    runner.train(folder, run__name="m", task="module", model__file=folder / "net.pt", data__file=SHARED / "d.h5", model__image_size=SIZE,
                 train__epochs=1, train__batch_size=64).expect(0)
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


def files_are_never_overwritten_without_force(folder):
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


def links_and_pipes_are_kept(folder):
    run, link, pipe = trained(), folder / "link", folder / "pipe"
    link.symlink_to("real.safetensors")
    os.mkfifo(pipe)
    export(run, "safetensors", link).expect(0)
    assert link.is_symlink() and load_file(folder / "real.safetensors")
    export(run, "safetensors", pipe, "--force").expect(73, "is a device or a pipe")
    assert pipe.is_fifo()


def a_full_disk_leaves_no_partial_file(folder):
    out = folder / "m.onnx"  # 6.5 MiB; the limit must be at least 5 MiB, for files that MPI creates
    words = " ".join(map(shlex.quote, runner.command(["export", trained(), "--format", "onnx", "--out", out])))
    done = subprocess.run(["bash", "-c", f"ulimit -f 5120; exec {words}"], capture_output=True, text=True,
                          env=runner.environment())
    assert done.returncode == 73, done
    for text in ("m.onnx", "File too large", "ulimit -f"):
        assert text in done.stderr, done
    assert list(folder.iterdir()) == [], list(folder.iterdir())
    assert newest(trained()).exists()


def mistakes_are_named(folder):
    run, out = trained(), folder / "out"
    export(folder / "nowhere", "onnx", out).expect(74, "no such folder")
    export(run, "onyx", out).expect(64, "onyx")
    export(run, "onnx", out, "--split", "train").expect(64, "--split is of --format onnx-int8")
    export(run, "onnx", out, "--module", folder / "x.pt").expect(64, "--module names the TorchScript file")
    export(newest(run) / "model.safetensors", "onnx", out).expect(74, "is a file; name the folder")
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
    runner.main([a_real_run_is_exported_to_onnx_with_its_input_described, int8_angles_are_as_good_as_measured,
                 int8_warns_where_it_is_measured_on_what_it_was_calibrated_on,
                 torchvision_loads_the_weights_and_gives_the_same_outputs,
                 sets_and_sequences_give_the_predictions_of_dtrain,
                 a_module_is_exported_to_torchscript_with_its_trained_weights,
                 files_are_never_overwritten_without_force, links_and_pipes_are_kept, a_full_disk_leaves_no_partial_file, mistakes_are_named],
                campaign=[torchvision_loads_resnet50])
