"""Bad input gets one clear error with its exit code, and nothing is lost."""

import hashlib
import os
import shutil
import subprocess

import h5py
import numpy as np

import runner


def train(folder, *more, np=None, **options):
    merged = {**runner.SMALL, "data.file": "d.h5", "run.name": "r", **{k.replace("__", "."): v for k, v in options.items()}}
    return runner.run(list(more) + runner.flags(merged), cwd=folder, np=np)


def one_message(result, code, *texts):
    result.expect(code, *texts)
    assert result.output.count("error:") == 1, f"not one message:\n{result.output}"


def fingerprint(folder):
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


def missing_data(folder):
    one_message(train(folder), 65, "d.h5")
    one_message(train(folder, np=2), 65, "d.h5")
    result = runner.run(["--dataset", "300wlp"], cwd=folder)
    one_message(result, 65, "300wlp.h5", "dtrain convert 300wlp")


def a_link_to_itself(folder):
    (folder / "d.h5").symlink_to("d.h5")
    one_message(train(folder), 65, "d.h5")
    one_message(runner.run(["--dataset", "d.h5", "--dry-run"], cwd=folder), 65, "d.h5")
    one_message(runner.run(["inspect", "d.h5"], cwd=folder), 65, "d.h5")


def truncated_data(folder):
    runner.synth(folder / "d.h5", 40)
    os.truncate(folder / "d.h5", (folder / "d.h5").stat().st_size // 2)
    one_message(train(folder, np=2), 65, "d.h5")


def foreign_and_wrong_schema(folder):
    with h5py.File(folder / "d.h5", "w") as f:
        f["images"] = np.zeros((4, 32, 32, 3), np.uint8)
    one_message(train(folder), 65, "d.h5", "dtrain convert")
    runner.synth(folder / "e.h5", 40)
    with h5py.File(folder / "e.h5", "r+") as f:
        del f["targets"]
        f["targets"] = np.zeros((40, 2), np.float32)
    one_message(train(folder, data__file="e.h5"), 65, "e.h5", "targets")
    (folder / "text.h5").write_text("this is no HDF5 file")
    one_message(train(folder, data__file="text.h5"), 65, "text.h5")


def impossible_labels(folder):
    for value in (np.nan, 181.0):
        runner.synth(folder / "d.h5", 40)
        with h5py.File(folder / "d.h5", "r+") as f:
            f["targets"][7, 1] = value
        one_message(train(folder, np=2), 65, "d.h5#7", "pitch")
        (folder / "d.h5").unlink()


def rot_in_a_sample(folder):
    runner.synth(folder / "d.h5", 40)
    with h5py.File(folder / "d.h5", "r+") as f:
        f["inputs"][3, 5, 5, 0] ^= 1
    train(folder, data__verify=True, data__val_share=0).expect(65, "d.h5#3", "checksum")
    runner.run(["inspect", "d.h5", "--verify"], cwd=folder).expect(65, "d.h5#3")


def zero_samples(folder):
    runner.synth(folder / "d.h5", 4)
    with h5py.File(folder / "d.h5", "r+") as f:  # all of them are for testing
        for name in list(f["splits"]):
            del f["splits"][name]
        f["splits/test"] = np.arange(4)
    one_message(train(folder, np=2), 65, "d.h5", "no training samples")
    with h5py.File(folder / "d.h5", "r+") as f:
        for name in ("inputs", "targets"):
            shape, kind = f[name].shape, f[name].dtype
            del f[name]
            f.create_dataset(name, (0,) + shape[1:], kind)
        f.attrs["num_samples"] = 0
    one_message(train(folder, np=2), 65, "d.h5")


def more_ranks_than_samples_trains_with_a_warning(folder):
    runner.synth(folder / "d.h5", 3)
    with h5py.File(folder / "d.h5", "r+") as f:
        for name in list(f["splits"]):
            del f["splits"][name]
        f["splits/train"] = np.arange(2)
    train(folder, np=4, data__val_share=0, train__epochs=3).expect(0, "more ranks (4) than training samples (2)", "finished: all 3 steps")


def unwritable_run_folder(folder):
    runner.synth(folder / "d.h5", 40)
    (folder / "runs").write_text("a file where the folder should be")
    one_message(train(folder, np=2), 73, "cannot create folder runs")
    assert (folder / "runs").read_text() == "a file where the folder should be"


def full_disk_while_saving(folder):
    mount = folder / "small"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(mount)], capture_output=True).returncode != 0:
        raise AssertionError("cannot mount a small tmpfs: run the tests as root (CI does)")
    try:
        runner.synth(folder / "d.h5", 64)
        options = {**runner.SMALL, "data.file": folder / "d.h5", "run.folder": mount, "run.name": "r", "checkpoint.every": "2s",
                   "checkpoint.keep_last": 5, "checkpoint.keep_best": False, "train.epochs": 30, "data.val_share": 0}
        result = runner.run(runner.flags(options), np=2, cwd=folder)
        one_message(result, 73, "No space left on device", "step_")
        kept = sorted(p.name for p in (mount / "r/checkpoints").iterdir())
        assert kept == ["step_00000002"], kept
        runner.run(["inspect", mount / "r/checkpoints/step_00000002", "--verify"]).expect(0)
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def an_existing_name_is_never_overwritten(folder):
    runner.synth(folder / "d.h5", 40)
    train(folder, train__epochs=1).expect(0)
    before = fingerprint(folder / "runs/r")
    one_message(train(folder, np=2, train__epochs=1), 73, "runs/r", "--resume auto")
    assert fingerprint(folder / "runs/r") == before


def corrupt_checkpoints(folder):
    runner.synth(folder / "d.h5", 64)
    train(folder, checkpoint__every="4s", checkpoint__keep_best=False, train__max_steps=8, data__val_share=0).expect(0)
    checkpoints = folder / "runs/r/checkpoints"
    assert sorted(p.name for p in checkpoints.iterdir()) == ["step_00000004", "step_00000008"]
    weights = checkpoints / "step_00000008/model.safetensors"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 4
    weights.write_bytes(data)
    # the newest good one is taken, and what was skipped is said
    train(folder, "--resume", "auto", train__max_steps=12, data__val_share=0).expect(
        0, "skipped checkpoint", "step_00000008", "model.safetensors", "step 4 of")
    shutil.rmtree(folder / "runs/r/checkpoints/step_00000012")
    for good in (folder / "runs/r/checkpoints").glob("*/MANIFEST.json"):
        good.write_text("{}")
    before = fingerprint(folder / "runs/r")
    one_message(train(folder, "--resume", "runs/r"), 74, "runs/r")
    one_message(train(folder, "--resume", "auto"), 74, "none that verifies")  # never from the start over the old run
    assert fingerprint(folder / "runs/r") == before


def resume_with_another_network(folder):
    runner.synth(folder / "d.h5", 40)
    train(folder, train__epochs=1).expect(0)
    before = fingerprint(folder / "runs/r")
    one_message(train(folder, "--resume", "auto", np=2, model__name="resnet18"), 78, "model.name")
    one_message(train(folder, "--resume", "auto", train__seed=9), 78, "train.seed")
    runner.synth(folder / "other.h5", 40, seed=2)
    one_message(train(folder, "--resume", "auto", data__file="other.h5"), 78, "checksum")
    assert fingerprint(folder / "runs/r") == before


def a_gpu_asked_for_and_absent(folder):
    runner.synth(folder / "d.h5", 40)
    env = runner.environment()
    env["CUDA_VISIBLE_DEVICES"] = ""
    options = {**runner.SMALL, "data.file": "d.h5", "device.type": "cuda"}
    one_message(runner.run(runner.flags(options), np=2, cwd=folder, env=env), 69, "GPU", "--device.type cpu")
    assert not (folder / "runs").exists()


def weights_of_another_shape(folder):
    runner.synth(folder / "d.h5", 40)
    train(folder, train__epochs=1).expect(0)
    weights = next((folder / "runs/r/checkpoints").glob("*/model.safetensors"))
    one_message(train(folder, run__name="s", model__init=weights, model__name="resnet18"), 74, "conv1.weight")
    train(folder, run__name="t", model__init=weights, train__epochs=1).expect(0)


def a_loss_that_left_the_numbers(folder):
    runner.synth(folder / "d.h5", 40)
    one_message(train(folder, optimizer__lr=1e30, train__epochs=1), 79, "--lr")
    assert not list((folder / "runs/r/checkpoints").iterdir()), "a network of NaN was saved"


def a_name_that_is_taken_by_the_program(folder):
    runner.synth(folder / "d.h5", 40)
    one_message(train(folder, run__name="targets"), 78, "run.name")
    assert not (folder / "runs").exists()


def pictures_that_are_no_files(folder):
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


runner.main([missing_data, a_link_to_itself, truncated_data, foreign_and_wrong_schema, impossible_labels,
             rot_in_a_sample, zero_samples,
             more_ranks_than_samples_trains_with_a_warning, unwritable_run_folder, full_disk_while_saving,
             an_existing_name_is_never_overwritten, corrupt_checkpoints, resume_with_another_network, a_gpu_asked_for_and_absent,
             weights_of_another_shape, a_loss_that_left_the_numbers, a_name_that_is_taken_by_the_program,
             pictures_that_are_no_files])
