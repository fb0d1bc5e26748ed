"""Bad input causes one clear error with its exit code, and nothing is lost."""

import hashlib
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys

import h5py
import numpy as np
import torch
import torchvision
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import runner


def one_message(result, code, *texts):
    result.expect(code, *texts)
    assert result.output.count("error:") == 1, f"not exactly one message:\n{result.output}"


def fingerprint(folder):
    """Hashes of all files except the lock, which names the process that acquired it last."""
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*"))
            if p.is_file() and p.name != ".lock"}


def missing_data(folder):
    one_message(runner.train(folder), 65, "d.h5")
    one_message(runner.train(folder, np=2), 65, "d.h5")
    result = runner.run(["--dataset", "300wlp"], cwd=folder)
    one_message(result, 65, "300wlp.h5", "dtrain convert 300wlp")


def a_link_to_itself(folder):
    (folder / "d.h5").symlink_to("d.h5")
    one_message(runner.train(folder), 65, "d.h5")
    one_message(runner.run(["--dataset", "d.h5", "--dry-run"], cwd=folder), 65, "d.h5")
    one_message(runner.run(["inspect", "d.h5"], cwd=folder), 65, "d.h5")


def truncated_data(folder):
    runner.synth(folder / "d.h5", 40)
    os.truncate(folder / "d.h5", (folder / "d.h5").stat().st_size // 2)
    one_message(runner.train(folder, np=2), 65, "d.h5")


def a_foreign_file_and_a_wrong_schema(folder):
    with h5py.File(folder / "d.h5", "w") as f:
        f["images"] = np.zeros((4, 32, 32, 3), np.uint8)
    one_message(runner.train(folder), 65, "d.h5", "dtrain convert")
    runner.synth(folder / "e.h5", 40)
    with h5py.File(folder / "e.h5", "r+") as f:
        del f["targets"]
        f["targets"] = np.zeros((40, 2), np.float32)
    one_message(runner.train(folder, data__file="e.h5"), 65, "e.h5", "targets")
    (folder / "text.h5").write_text("this is no HDF5 file")
    one_message(runner.train(folder, data__file="text.h5"), 65, "text.h5")


def impossible_labels(folder):
    for value in (np.nan, 181.0):
        runner.synth(folder / "d.h5", 40)
        with h5py.File(folder / "d.h5", "r+") as f:
            f["targets"][7, 1] = value
        one_message(runner.train(folder, np=2), 65, "d.h5#7", "pitch")
        runner.train(folder, data__on_bad_sample="skip", train__epochs=1, data__val_share=0).expect(0, "left out: d.h5#7: pitch is")
        shutil.rmtree(folder / "runs")
        (folder / "d.h5").unlink()


def a_metric_without_a_validation_split(folder):
    runner.synth(folder / "d.h5", 40)
    for options in [{"train__patience": 2}, {"schedule__name": "plateau"}, {"train__metric": "loss"}]:
        one_message(runner.train(folder, data__val_share=0, **options), 78, "d.h5 has no validation split")
    assert not (folder / "runs").exists()


def a_corrupt_sample(folder):
    runner.synth(folder / "d.h5", 40)
    runner.train(folder, train__epochs=1, data__val_share=0, run__name="t").expect(0)
    with h5py.File(folder / "d.h5", "r+") as f:
        f["inputs"][3, 5, 5, 0] ^= 1
    what = "d.h5#3: the checksum does not match"
    for run, verify in {"first": {}, "all": {"data__verify": True}}.items():
        runner.train(folder, run__name=run, data__val_share=0, **verify).expect(65, what)
    for run, unread in {"none": {"data__verify": False}, "skip": {"data__on_bad_sample": "skip"}}.items():
        runner.train(folder, run__name=run, data__val_share=0, train__epochs=1, **unread).expect(0)
    runner.run(["inspect", "d.h5", "--verify"], cwd=folder).expect(65, "d.h5#3")
    read = [["eval", "runs/t", "--split", "train"], ["predict", "runs/t", "d.h5", "--out", "rows.csv", "--force"]]
    for words in read:
        runner.run([*words, "--data.verify", "false"], cwd=folder).expect(0)
    one_message(runner.run(read[0], cwd=folder), 65, what)
    runner.run([*read[0], "--data.on_bad_sample", "skip"], cwd=folder).expect(0, f"left out: {what}", "1 sample that cannot be read is left out")
    runner.run(read[1], cwd=folder).expect(65, "1 of 40 inputs could not be predicted")
    rows = (folder / "rows.csv").read_text().splitlines()[1:]
    assert [i for i, row in enumerate(rows) if "the checksum does not match" in row] == [3], rows


def a_data_file_that_may_not_be_read(folder):
    runner.synth(folder / "d.h5", 40)
    (folder / "d.h5").chmod(0)
    folder.chmod(0o755)
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    done = subprocess.run([*user, runner.DTRAIN, "inspect", folder / "d.h5"], env=runner.environment(), capture_output=True, text=True)
    assert done.returncode == 65 and "d.h5 cannot be read: Permission denied" in done.stderr, (done.returncode, done.stdout, done.stderr)


def zero_samples(folder):
    runner.synth(folder / "d.h5", 4)
    with h5py.File(folder / "d.h5", "r+") as f:  # all samples are in the test split
        for name in list(f["splits"]):
            del f["splits"][name]
        f["splits/test"] = np.arange(4)
    one_message(runner.train(folder, np=2), 65, "d.h5", "no training samples")
    with h5py.File(folder / "d.h5", "r+") as f:
        for name in ("inputs", "targets"):
            shape, kind = f[name].shape, f[name].dtype
            del f[name]
            f.create_dataset(name, (0,) + shape[1:], kind)
        f.attrs["num_samples"] = 0
    one_message(runner.train(folder, np=2), 65, "d.h5")


def more_ranks_than_samples_train_with_a_warning(folder):
    runner.synth(folder / "d.h5", 3)
    with h5py.File(folder / "d.h5", "r+") as f:
        for name in list(f["splits"]):
            del f["splits"][name]
        f["splits/train"] = np.arange(2)
    runner.train(folder, np=4, data__val_share=0, train__epochs=3).expect(0, "more ranks (4) than training samples (2)", "finished: all 3 steps")


def unwritable_run_folder(folder):
    runner.synth(folder / "d.h5", 40)
    (folder / "runs").write_text("a file where the folder should be")
    one_message(runner.train(folder, np=2), 73, "cannot create folder runs")
    assert (folder / "runs").read_text() == "a file where the folder should be"
    one_message(runner.train(folder, run__folder="/proc/x"), 73, "cannot create folder /proc/x", "choose another folder")


def an_existing_name_is_never_overwritten(folder):
    runner.synth(folder / "d.h5", 40)
    runner.train(folder, train__epochs=1).expect(0)
    before = fingerprint(folder / "runs/r")
    one_message(runner.train(folder, np=2, train__epochs=1), 73, "runs/r", "--resume auto")
    assert fingerprint(folder / "runs/r") == before


def corrupt_checkpoints(folder):
    runner.synth(folder / "d.h5", 64)
    runner.train(folder, checkpoint__every="4steps", checkpoint__keep_best=False, train__max_steps=8, data__val_share=0).expect(0)
    checkpoints = folder / "runs/r/checkpoints"
    assert sorted(p.name for p in checkpoints.iterdir()) == ["step_00000004", "step_00000008"]
    weights = checkpoints / "step_00000008/model.safetensors"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 4
    weights.write_bytes(data)
    # the newest valid one is used, and the skipped one is reported
    runner.train(folder, "--resume", "auto", train__max_steps=12, data__val_share=0).expect(
        0, "skipped checkpoint", "step_00000008", "model.safetensors", "step 4 of")
    shutil.rmtree(folder / "runs/r/checkpoints/step_00000012")
    for good in (folder / "runs/r/checkpoints").glob("*/MANIFEST.json"):
        good.write_text("{}")
    before = fingerprint(folder / "runs/r")
    one_message(runner.train(folder, "--resume", "runs/r"), 74, "runs/r")
    one_message(runner.train(folder, "--resume", "auto"), 74, "none that verifies")  # never restarts over the old run
    assert fingerprint(folder / "runs/r") == before


def resume_with_another_network(folder):
    runner.synth(folder / "d.h5", 40)
    runner.train(folder, train__epochs=1).expect(0)
    before = fingerprint(folder / "runs/r")
    one_message(runner.train(folder, "--resume", "auto", np=2, model__name="resnet18"), 78, "model.name")
    one_message(runner.train(folder, "--resume", "auto", train__seed=9), 78, "train.seed")
    runner.synth(folder / "other.h5", 40, seed=2)
    one_message(runner.train(folder, "--resume", "auto", data__file="other.h5"), 78, "checksum")
    with h5py.File(folder / "d.h5", "r+") as f:  # the same samples in other splits
        train_ids, test_ids = f["splits/train"], f["splits/test"]
        train_ids[0], test_ids[0] = test_ids[0], train_ids[0]
    one_message(runner.train(folder, "--resume", "auto"), 78, "divided otherwise")
    assert fingerprint(folder / "runs/r") == before


def weights_of_torch_save(folder):
    """Pickle is refused, and the two lines that the error prints convert it."""
    runner.synth(folder / "d.h5", 40)
    network = torchvision.models.resnet18(num_classes=3)
    torch.save(network.state_dict(), folder / "resnet 18.pth")
    torch.save(network.state_dict(), folder / "old.pt", _use_new_zipfile_serialization=False)
    for name in ["resnet 18.pth", "old.pt"]:
        result = runner.train(folder, model__name="resnet18", model__init=name, train__max_steps=1)
        one_message(result, 74, f"{name} is a file of torch.save", "runs code", "import torch")
        lines = [line.strip() for line in result.output.splitlines() if line.startswith("  ") and ("import" in line or "save_file" in line)]
        assert len(lines) == 2, result.output
        subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=folder, check=True)
        converted = (folder / name).with_suffix(".safetensors").name
        runner.run(["inspect", converted], cwd=folder).expect(0, "122 tensors", "layer4.1.conv2.weight")
    wrapped = {f"module._orig_mod.{name}": tensor.float().reshape(1) if "batches" in name else tensor
               for name, tensor in load_file(folder / "resnet 18.safetensors").items()}
    save_file(wrapped | {"n_averaged": torch.tensor(3)}, folder / "wrapped.safetensors")
    runner.train(folder, model__name="resnet18", model__init="wrapped.safetensors", train__max_steps=1, run__name="w").expect(
        0, "left out n_averaged", "removed 'module._orig_mod.' from the names of all tensors", "loaded 122 tensors")
    for name in ["resnet 18.pth", "old.pt"]:
        for result in [runner.train(folder, task="module", model__file=name), runner.run(["inspect", name], cwd=folder)]:
            one_message(result, 65, f"{name} is not a TorchScript file", "torch.jit.script", "stores weights without the code of the network")
            assert "import torch" not in result.output, "converted weights would be no TorchScript either"
            assert "enforce fail" not in result.output and "Pytorch" not in result.output, result.output


def library_texts_are_not_shown(folder):
    runner.synth(folder / "d.h5", 40)
    runner.train(folder, train__epochs=1).expect(0)
    checkpoint = next((folder / "runs/r/checkpoints").iterdir())
    manifest = (checkpoint / "MANIFEST.json").read_text()
    for damaged in [manifest[:60], manifest.replace('"step"', '"stap"'), "\0\1\2", "[]"]:
        (checkpoint / "MANIFEST.json").write_text(damaged)
        for words in [["inspect", checkpoint], ["eval", checkpoint], ["export", checkpoint, "--format", "onnx"]]:
            result = runner.run(words, cwd=folder)
            one_message(result, 74, "MANIFEST.json is damaged")
            assert "json.exception" not in result.output, result.output
    (folder / "zip.pt").write_bytes(b"PK\x03\x04" + bytes(200))
    (folder / "a.yaml").write_text("task: " + "[" * 5000)
    (folder / "b.yaml").write_text("".join(f"key_{i}: 1\n" for i in range(900)))
    result = runner.train(folder, task="module", model__file="zip.pt", run__name="z")
    one_message(result, 65, "zip.pt is not a TorchScript file")
    assert "enforce fail" not in result.output and "Pytorch" not in result.output, result.output
    # oneMKL ends a process that it finds without a current folder.
    removed = f"mkdir gone && cd gone && rmdir ../gone && exec {shlex.join(runner.command(['--data.file', '../d.h5']))}"
    done = subprocess.run(["bash", "-c", removed], cwd=folder, env=runner.environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 64 and "the current folder was removed: change to one" in done.stderr, done
    assert "oneMKL" not in done.stdout + done.stderr, done
    one_message(runner.run(["a.yaml"], cwd=folder), 78, "a.yaml:1:", "nested too deeply")
    result = runner.run(["b.yaml"], cwd=folder)
    one_message(result, 78, "900 problems in the configuration", "and 850 more")
    assert len(result.output.splitlines()) == 52, result.output


def a_network_that_does_not_fit_into_the_memory(folder):
    """The weights of one layer need 64 GiB, and the process may map 48."""
    runner.run(["synth", "pointer", "--samples", 40, "--out", "d.h5"], cwd=folder).expect(0)
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (48 << 30, 48 << 30))
    words = runner.command(["--task", "pointer", "--data.file", "d.h5", "--model.hidden", "65536", "--metrics.enabled", "false", "--run.name", "r"])
    done = subprocess.run(words, cwd=folder, env=runner.environment(), preexec_fn=limit, capture_output=True, text=True, timeout=120)
    assert done.returncode == 69, done
    assert "out of host memory for a tensor of 64.0 GiB" in done.stderr and "enforce fail" not in done.stderr, done.stderr


def a_requested_gpu_that_does_not_exist(folder):
    runner.synth(folder / "d.h5", 40)
    env = runner.environment()
    env["CUDA_VISIBLE_DEVICES"] = ""
    options = {**runner.SMALL, "data.file": "d.h5", "device.type": "cuda"}
    one_message(runner.run(runner.flags(options), np=2, cwd=folder, env=env), 69, "GPU", "--device.type cpu")
    assert not (folder / "runs").exists()


def weights_of_another_shape(folder):
    runner.synth(folder / "d.h5", 40)
    runner.train(folder, train__epochs=1).expect(0)
    weights = next((folder / "runs/r/checkpoints").glob("*/model.safetensors"))
    one_message(runner.train(folder, run__name="s", model__init=weights, model__name="resnet18"), 74, "conv1.weight")
    runner.train(folder, run__name="t", model__init=weights, train__epochs=1).expect(0)


def with_values(checkpoint, file, change):
    """Changes the tensors of a file of a checkpoint and makes the manifest right again."""
    with safe_open(checkpoint / file, "pt") as f:
        metadata = f.metadata()
    tensors = load_file(checkpoint / file)
    change(tensors)
    save_file(tensors, checkpoint / file, metadata)
    manifest = json.loads((checkpoint / "MANIFEST.json").read_text())
    content = (checkpoint / file).read_bytes()
    manifest["files"][file] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    del manifest["sha256"]
    manifest["sha256"] = hashlib.sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    (checkpoint / "MANIFEST.json").write_text(json.dumps(manifest, sort_keys=True, indent=2) + "\n")


def weights_that_are_not_finite(folder):
    runner.synth(folder / "d.h5", 40)
    runner.train(folder, train__epochs=1).expect(0)
    run = folder / "runs/r"
    checkpoint = next((run / "checkpoints").iterdir())
    shutil.copytree(run, folder / "good")
    with_values(checkpoint, "model.safetensors", lambda tensors: tensors["fc.0.weight"][3, 4].fill_(np.nan))
    said = ["model.safetensors: tensor 'fc.0.weight' has a value that is not finite (nan at [3, 4])"]
    one_message(runner.train(folder, run__name="i", model__init=checkpoint / "model.safetensors"), 74, *said)
    one_message(runner.train(folder, "--resume", "auto", train__epochs=2, np=2), 74, *said)
    for words in [["eval", run], ["predict", run, "d.h5"], ["export", run, "--format", "onnx"], ["export", run, "--format", "safetensors"]]:
        one_message(runner.run(words, cwd=folder), 74, *said)
    shutil.rmtree(run)
    (folder / "good").rename(run)
    with_values(checkpoint, "optimizer.safetensors", lambda tensors: tensors["exp_avg.fc.0.weight"][0, 1].fill_(-np.inf))
    one_message(runner.train(folder, "--resume", "auto", train__epochs=2), 74, "optimizer.safetensors: tensor 'exp_avg.fc.0.weight' has a value", "(-inf at [0, 1])")
    runner.run(["eval", run], cwd=folder).expect(0)  # which needs no moments


def a_loss_that_is_not_finite(folder):
    runner.synth(folder / "d.h5", 40)
    one_message(runner.train(folder, optimizer__lr=1e30, train__epochs=1), 79, "--lr")
    assert not list((folder / "runs/r/checkpoints").iterdir()), "a network of NaN was saved"


def a_name_that_the_program_reserves(folder):
    runner.synth(folder / "d.h5", 40)
    one_message(runner.train(folder, run__name="targets"), 78, "run.name")
    assert not (folder / "runs").exists()


def pictures_that_are_not_regular_files(folder):
    runner.run(["synth", "headpose", "--layout", "300wlp", "--samples", 24, "--size", 64, "--out", "raw"], cwd=folder).expect(0)
    pictures = sorted((folder / "raw").rglob("*.jpg"))
    annotation = pictures[2].with_suffix(".mat")
    for path in (*pictures[:2], annotation):
        path.unlink()
    pictures[0].mkdir()
    os.mkfifo(pictures[1])
    os.mkfifo(annotation)
    runner.run(["convert", "300wlp", "raw", "--out", "d.h5", "--size", 32], cwd=folder, timeout=60).expect(0)
    text = (folder / "d.h5.quarantine.json").read_text()
    for path in (*pictures[:2], annotation.with_suffix(".jpg")):
        assert path.name in text, text
    assert text.count("not a regular file") == 3, text


def quarantined(path):
    return {e["name"]: e["reason"] for e in json.loads((path.parent / (path.name + ".quarantine.json")).read_text())["quarantined"]}


def converts_except(folder, kind, source, reasons):
    """Everything bad is listed with its reason and the rest is kept; the number of threads does not matter."""
    size = ["--size", 32] if kind == "images" else []
    runner.run(["convert", kind, source, "--out", "d.h5", *size, "--threads", 1], cwd=folder).expect(0, f"{len(reasons)} damaged")
    found = quarantined(folder / "d.h5")
    assert found.keys() == reasons.keys(), found
    for name, part in reasons.items():
        assert part in found[name], (name, found[name])
    runner.run(["convert", kind, source, "--out", "e.h5", *size, "--threads", 4], cwd=folder).expect(0)
    assert (folder / "d.h5").read_bytes() == (folder / "e.h5").read_bytes()
    runner.run(["inspect", "d.h5", "--verify"], cwd=folder).expect(0)


def raw_sequences(folder, features=3, classes="ab", count=8):
    rng = np.random.default_rng(1)
    for label in classes:
        (folder / label).mkdir(parents=True)
        for i in range(count):
            np.save(folder / label / f"{i}.npy", rng.normal(size=(4 + i, features)).astype(np.float32))


def raw_sets(path, count=16, longest=5, **changed):
    rng = np.random.default_rng(1)
    arrays = {"features": rng.normal(size=(count, longest, 7)), "lengths": np.full(count, longest),
              "order": np.stack([rng.permutation(longest) for _ in range(count)])}
    for name, (at, value) in changed.items():
        arrays[name][at] = value
    np.savez(path, **arrays)


def folders_of_pictures(folder):
    for label in ["a", "b \u00fc"]:
        (folder / "d" / label).mkdir(parents=True)
        for name in ["0.png", "with space.png", "line\nbreak.png", "gr\u00fcn.png", "4.jpg"]:
            pixels = np.arange(3 * 40 * 50, dtype=np.uint8).reshape(40, 50, 3)
            Image.fromarray(pixels).save(folder / "d" / label / name)
    (folder / "d/a/no.jpg").write_text("no picture")
    (folder / "d/a/empty.png").touch()
    (folder / "d/a/torn.png").write_bytes((folder / "d/a/0.png").read_bytes()[:60])
    converts_except(folder, "images", "d", {"a/no.jpg": "not a JPEG, PNG or WebP", "a/empty.png": "empty", "a/torn.png": "damaged PNG"})
    (folder / "d/empty").mkdir()
    one_message(runner.run(["convert", "images", "d", "--out", "x.h5"], cwd=folder), 65, "d/empty is empty")
    (folder / "one/only").mkdir(parents=True)
    shutil.copy(folder / "d/a/0.png", folder / "one/only")
    one_message(runner.run(["convert", "images", "one", "--out", "x.h5"], cwd=folder), 65, "only one class, only")


def folders_of_sequences(folder):
    raw_sequences(folder / "d")
    rng = np.random.default_rng(2)
    for name, array in {"object": np.array([1, "x"], dtype=object), "nan": np.array([[0, 1, np.nan]]), "none": np.zeros((0, 3)),
                        "wide": np.zeros((4, 5)), "fortran": np.asfortranarray(rng.normal(size=(9, 3))),
                        "big_endian": rng.normal(size=(9, 3)).astype(">f8"), "beyond": np.full((2, 3), 1e300)}.items():
        np.save(folder / f"d/a/{name}.npy", array, allow_pickle=True)
    (folder / "d/b/torn.npy").write_bytes((folder / "d/b/0.npy").read_bytes()[:-5])
    converts_except(folder, "sequence", "d", {
        "a/object.npy": "Python objects", "a/nan.npy": "NaN in row 0, feature 2", "a/none.npy": "length 0",
        "a/wide.npy": "5 features per row", "a/beyond.npy": "beyond float32", "b/torn.npy": "truncated"})


def files_of_sets(folder):
    raw_sets(folder / "p.npz", order=(0, [0, 1, 2, 3, 3]), lengths=(slice(1, 4), [9, 0, -1]), features=(4, np.nan))
    converts_except(folder, "pointer", "p.npz", {
        "p.npz#0": "not a permutation of 0 to 4: 3 occurs twice", "p.npz#1": "its length is 9, the array has room for 5",
        "p.npz#2": "no elements", "p.npz#3": "its length is -1", "p.npz#4": "NaN in element 0"})
    whole = (folder / "p.npz").read_bytes()
    (folder / "torn.npz").write_bytes(whole[:len(whole) // 2])
    one_message(runner.run(["convert", "pointer", "torn.npz", "--out", "x.h5"], cwd=folder), 65, "torn.npz: not a .npz file")


def a_conversion_continues_after_a_full_disk(folder):
    raw_sequences(folder / "d", count=40)
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
    words = runner.command(["convert", "sequence", "d", "--out", "d.h5"])
    done = subprocess.run(words, cwd=folder, preexec_fn=limit, capture_output=True, text=True, timeout=120)
    assert done.returncode == 73 and "raise the limit (ulimit -f) and run the same command again" in done.stderr and "free" not in done.stderr.split("error:")[1] and not (folder / "d.h5").exists(), done
    runner.run(["convert", "sequence", "d", "--out", "d.h5"], cwd=folder).expect(0)
    runner.run(["convert", "sequence", "d", "--out", "e.h5"], cwd=folder).expect(0)
    assert (folder / "d.h5").read_bytes() == (folder / "e.h5").read_bytes() and not (folder / "d.h5.partial").exists()


def paths_that_cannot_be_used(folder):
    name = "x" * 300
    raw_sequences(folder / "d")
    runner.synth(folder / "d.h5", 40)
    for words, code in [(["convert", "images", name], 65), (["convert", "pointer", name], 65), (["inspect", name], 65),
                        (["convert", "sequence", "d", "--out", name], 73), (["synth", "pointer", "--out", name], 73),
                        (["synth", "sequence", "--layout", "npy", "--out", name], 73), (["--resume", name], 74),
                        (["--dataset", "d.h5", "--run.folder", name, "--name", "r"], 73)]:
        one_message(runner.run(words, cwd=folder), code, "File name too long")
    one_message(runner.run(["--resume", "d.h5"], cwd=folder), 74, "d.h5: it is not a folder")
    for command in (["convert", "sequence", "d"], ["synth", "pointer"]):
        one_message(runner.run([*command, "--out", ""], cwd=folder), 64, "--out is empty")
        # The standard output is a pipe here.
        one_message(runner.run([*command, "--out", "/dev/stdout"], cwd=folder), 73, "is a device or a pipe")


def train_rows(folder, task, file, name, *more, np=None, **options):
    rows = dict(data__val_share=0, metrics__enabled=False, train__epochs=1)
    if task in ("pointer", "sequence"):
        rows["model__hidden"] = 8
    if task == "sequence":
        rows["sequence__encoder_epochs"] = 0
    return runner.train(folder, *more, np=np, **{**rows, "task": task, "data__file": file, "run__name": name, **options})


def sequences_damaged_after_conversion(folder):
    raw_sequences(folder / "d")
    runner.run(["convert", "sequence", "d", "--out", "d.h5"], cwd=folder).expect(0)
    with h5py.File(folder / "d.h5", "r+") as f:
        bad, worse = (int(i) for i in f["splits/train"][2:4])
        f["inputs/values"][int(f["inputs/offsets"][bad]) + 1, 2] = np.nan
    where = f"d.h5#{bad}: row 1, column 2 is nan"
    one_message(train_rows(folder, "sequence", "d.h5", "r"), 65, where, "data.on_bad_sample: skip")
    one_message(train_rows(folder, "sequence", "d.h5", "s", np=2), 65, where)
    one_message(train_rows(folder, "sequence", "d.h5", "t", data__verify=True), 65, f"d.h5#{bad}: the checksum does not match")
    with h5py.File(folder / "d.h5", "r+") as f:
        f["targets"][worse] = 7
    one_message(train_rows(folder, "sequence", "d.h5", "u"), 65, f"d.h5#{worse}: class 7")
    result = train_rows(folder, "sequence", "d.h5", "v", np=2, data__on_bad_sample="skip").expect(
        0, where, f"d.h5#{worse}: class 7 is not between 0 and 1", "2 bad samples left out")
    assert result.output.count(where) == 1, result.output


def orders_damaged_after_conversion(folder):
    raw_sets(folder / "p.npz")
    runner.run(["convert", "pointer", "p.npz", "--out", "d.h5"], cwd=folder).expect(0)
    with h5py.File(folder / "d.h5", "r+") as f:
        bad = int(f["splits/train"][1])
        f["targets/values"][int(f["targets/offsets"][bad])] = 77
    where = f"d.h5#{bad}: the order names element 77 of a set of 5"
    one_message(train_rows(folder, "pointer", "d.h5", "r", np=2), 65, where)
    train_rows(folder, "pointer", "d.h5", "s", data__on_bad_sample="skip").expect(0, where, "1 bad sample left out")


def pictures_with_a_class_that_does_not_exist(folder):
    runner.run(["synth", "classify", "--samples", 40, "--size", 32, "--out", "d.h5"], cwd=folder).expect(0)
    with h5py.File(folder / "d.h5", "r+") as f:
        bad = int(f["splits/train"][1])
        f["targets"][bad] = 99
        f["targets"][int(f["splits/train"][2])] = -1
    options = {"task": "classify", "model__name": "simple_cnn", "train__epochs": 1, "metrics__enabled": False}
    where = f"d.h5#{bad}: class 99 is not between 0 and 9"
    one_message(runner.train(folder, **options), 65, where)
    runner.train(folder, **options, data__on_bad_sample="skip", run__name="s").expect(0, where, "class -1 is not between 0 and 9", "2 bad samples left out")
    with h5py.File(folder / "d.h5", "r+") as f:
        f["targets"][...] = -1
    one_message(runner.run(["eval", "runs/s", "--data.on_bad_sample", "skip"], cwd=folder), 65, "all 10 samples of the test split of d.h5 were left out")


def data_of_another_kind(folder):
    for name, features, classes in [("d", 3, "ab"), ("wide", 5, "ab"), ("other", 3, "ax"), ("more", 3, "abc")]:
        raw_sequences(folder / name, features, classes)
        runner.run(["convert", "sequence", name, "--out", f"{name}.h5"], cwd=folder).expect(0)
    runner.synth(folder / "faces.h5", 20)
    raw_sets(folder / "p.npz")
    raw_sets(folder / "longer.npz", longest=7)
    for name in ["p", "longer"]:
        runner.run(["convert", "pointer", f"{name}.npz", "--out", f"{name}.h5"], cwd=folder).expect(0)
    for task in ["classify", "pointer", "headpose"]:
        one_message(train_rows(folder, task, "d.h5", "x"), 65, f"d.h5 holds samples of task 'sequence', not {task}")
    # Made without classes, which classify would miss first.
    one_message(train_rows(folder, "classify", "faces.h5", "x"), 65,
                "faces.h5 holds samples of task 'headpose', not classify: `--task headpose` trains on it")
    train_rows(folder, "sequence", "d.h5", "s", checkpoint__every="1epoch").expect(0)
    train_rows(folder, "pointer", "p.h5", "p").expect(0)
    for run, file, text in [("s", "wide.h5", "rows have 5 features; the network takes 3"), ("s", "other.h5", "has the classes a, x; the network knows a, b"),
                            ("s", "more.h5", "has the classes a, b, c"), ("s", "faces.h5", "task 'headpose', not sequence"),
                            ("p", "longer.h5", "has 7 rows; the network takes up to 5")]:
        one_message(runner.run(["eval", f"runs/{run}", "--data", file], cwd=folder), 65, file, text)
    weights = next((folder / "runs/s/checkpoints").glob("*/model.safetensors"))
    one_message(train_rows(folder, "sequence", "wide.h5", "x", model__init=weights), 74, "conv1.weight")
    assert not (folder / "runs/x").exists()


def a_password_that_others_can_read(folder):
    runner.synth(folder / "d.h5", 40)
    one_message(runner.train(folder, np=2, metrics__auth_file="gone"), 78, "metrics.auth_file", "gone", "No such file")
    (folder / "auth").write_text("user:password\n")
    (folder / "auth").chmod(0o640)
    one_message(runner.train(folder, np=2, metrics__auth_file="auth"), 78, "auth has mode 0640", "chmod 600")
    assert not (folder / "runs/r").exists()
    (folder / "auth").chmod(0o600)
    runner.train(folder, np=2, metrics__auth_file="auth").expect(0)


runner.main([missing_data, a_data_file_that_may_not_be_read, a_metric_without_a_validation_split, a_link_to_itself, truncated_data, a_foreign_file_and_a_wrong_schema, impossible_labels,
             a_corrupt_sample, zero_samples,
             more_ranks_than_samples_train_with_a_warning, unwritable_run_folder,
             an_existing_name_is_never_overwritten, corrupt_checkpoints, resume_with_another_network, a_requested_gpu_that_does_not_exist,
             weights_of_torch_save, library_texts_are_not_shown, a_network_that_does_not_fit_into_the_memory, weights_of_another_shape, weights_that_are_not_finite, a_loss_that_is_not_finite, a_name_that_the_program_reserves,
             pictures_that_are_not_regular_files, folders_of_pictures, folders_of_sequences, files_of_sets,
             a_conversion_continues_after_a_full_disk, paths_that_cannot_be_used, sequences_damaged_after_conversion, orders_damaged_after_conversion,
             pictures_with_a_class_that_does_not_exist, data_of_another_kind,
             a_password_that_others_can_read])
