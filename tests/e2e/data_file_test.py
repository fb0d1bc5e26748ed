"""Data files that are damaged, hostile, changed while they are read, or no files: one message, its exit code, and no wait."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import h5py
import numpy as np

import runner


def one_message(result, code, *texts):
    result.expect(code, *texts)
    assert result.output.count("error:") == 1, f"not exactly one message:\n{result.output}"
    for raw in ("HDF5-DIAG", "Segmentation", "terminate called", "signal"):
        assert raw not in result.output.replace("crashed (Segmentation fault)", ""), result.output
    return result


def probe_processes(folder):
    """The process ids of the helpers of commands that ran in this folder. One that has ended has no folder, though it is still listed."""
    found = set()
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == "dtrain-probe" and (entry / "cwd").samefile(folder):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def no_helper_is_left(folder):
    end = time.monotonic() + 10
    while probe_processes(folder) and time.monotonic() < end:
        time.sleep(0.05)
    assert not probe_processes(folder), "a helper was left"


def as_older_dtrain_wrote_it(new, old):
    """HDF5 1.6's metadata, and text of variable length: in such a file, one byte can crash the HDF5 library."""
    with h5py.File(new) as f, h5py.File(old, "w", libver="earliest") as g:
        def copy(name, item):
            if isinstance(item, h5py.Dataset):
                g.create_dataset(name, data=item[...])

        f.visititems(copy)
        for name, value in f.attrs.items():
            if name != "attributes_checksum":
                g.attrs[name] = runner.text(value)


def with_damaged_attributes(source):
    """Copies, in each of which one byte is changed: the version of the type of one attribute; the size of a text of variable length."""
    with h5py.File(source) as f:
        names = list(f.attrs)
    whole = source.read_bytes()
    for name in names:
        key = name.encode() + b"\0"
        at = whole.index(key) + (len(key) + 7) // 8 * 8
        yield whole[:at] + b"\xff" + whole[at + 1:]
    at = whole.index(b"GCOL") + 16 + 8 + 5  # of the eight bytes of the size of the first object of the global heap, the sixth
    yield whole[:at] + b"\xff" + whole[at + 1:]


def every_command_refuses_a_file_that_the_library_cannot_survive(folder):
    runner.synth(folder / "new.h5", 40)
    as_older_dtrain_wrote_it(folder / "new.h5", folder / "d.h5")
    runner.train(folder, train__epochs=1).expect(0, "finished: all")  # older files stay readable
    runner.run(["inspect", "d.h5", "--verify"], cwd=folder).expect(0, "not covered by a checksum: the attributes")
    crashing = None
    for damaged in with_damaged_attributes(folder / "d.h5"):
        (folder / "bad.h5").write_bytes(damaged)
        result = one_message(runner.run(["inspect", "bad.h5"], cwd=folder, timeout=60), 65, "bad.h5")
        if "crashed (Segmentation fault)" in result.output:
            crashing = damaged
    if "HDF5 1.10.8" in runner.run(["--version"]).output:  # another version may refuse them without a crash
        assert crashing, "none of them crashed the library"
    (folder / "bad.h5").write_bytes(crashing or damaged)
    for arguments in (["eval", "runs/r", "--data", "bad.h5"], ["predict", "runs/r", "bad.h5"]):
        one_message(runner.run(arguments, cwd=folder, timeout=60), 65, "bad.h5")
    for np_ in (None, 2):
        one_message(runner.train(folder, np=np_, data__file="bad.h5", run__name="x"), 65, "bad.h5")
    assert not (folder / "runs/x").exists()
    no_helper_is_left(folder)


def the_helper_ends_with_a_job_that_is_killed(folder):
    runner.synth(folder / "d.h5", 40)
    options = {**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.epochs": 100000}
    with runner.Running(runner.flags(options), np=2, cwd=folder) as running:
        running.wait_for("step 3/")
        assert len(probe_processes(folder)) == 2, "one for each rank"
        os.kill(running.ranks()[1], signal.SIGKILL)
        running.wait(60)
    no_helper_is_left(folder)


def a_file_that_is_overwritten_while_it_is_trained_on(folder):
    runner.synth(folder / "d.h5", 40)
    runner.synth(folder / "other.h5", 40, seed=2)
    for np_ in (None, 2):
        name = f"r{np_}"
        options = {**runner.SMALL, "data.file": "d.h5", "run.name": name, "train.epochs": 100000}
        with runner.Running(runner.flags(options), np=np_, cwd=folder) as running:
            running.wait_for("step 7/")
            with open(folder / "d.h5", "r+b") as f:
                f.write((folder / "other.h5").read_bytes())  # as many bytes, and never fewer
            running.wait(60).expect(65, "d.h5 was written to since it was opened")
        shutil.rmtree(folder / "runs")
    # A file that is renamed to the path is another one: the run keeps the one that it opened.
    options = {**runner.SMALL, "data.file": "d.h5", "run.name": "s", "train.epochs": 100000, "data.val_share": 0}
    with runner.Running(runner.flags(options), cwd=folder) as running:
        running.wait_for("step 7/")
        os.replace(folder / "other.h5", folder / "d.h5")
        now = int(re.findall(r"^epoch (\d+)/", running.output(), re.MULTILINE)[-1])
        running.wait_for(f"epoch {now + 3}/")
        running.process.send_signal(signal.SIGTERM)
        running.wait(60).expect(75)


def attributes_that_were_changed(folder):
    runner.synth(folder / "d.h5", 40)
    shutil.copy(folder / "d.h5", folder / "whole.h5")
    runner.run(["inspect", "d.h5", "--verify"], cwd=folder).expect(0, "the attributes match theirs")
    for name, value in (("target_unit", b"radian"), ("target_names", b"pitch,yaw,roll")):
        shutil.copy(folder / "whole.h5", folder / "d.h5")
        with h5py.File(folder / "d.h5", "r+") as f:
            f.attrs[name] = np.bytes_(value)
        one_message(runner.train(folder), 65, "d.h5", "`attributes_checksum`")
        one_message(runner.run(["inspect", "d.h5"], cwd=folder), 65, "d.h5", "`attributes_checksum`")
        with h5py.File(folder / "d.h5", "r+") as f:
            f.attrs.pop("attributes_checksum", None)
        one_message(runner.train(folder), 65, f"`{name}`", value.decode())
    assert not (folder / "runs").exists()


def a_resume_compares_what_the_data_mean(folder):
    words = ["synth", "classify", "--samples", 60, "--size", 32]
    runner.run([*words, "--out", "d.h5"], cwd=folder).expect(0)
    options = {"task": "classify", "model__name": "simple_cnn", "metrics__enabled": False, "data__val_share": 0}
    runner.train(folder, **options, train__epochs=1).expect(0)
    with h5py.File(folder / "d.h5", "r+") as f:
        names = runner.text(f.attrs["class_names"]).split("\n")
        f.attrs["class_names"] = "\n".join(reversed(names))
        f.attrs.pop("attributes_checksum", None)
    one_message(runner.train(folder, "--resume", "auto", **options, train__epochs=2), 78, "a resumed run keeps its data",
                "`class_names` of d.h5 is " + names[-1], "was " + names[0])
    # A copy of the same file is the same data, and says so.
    (folder / "d.h5").unlink()
    runner.run([*words, "--out", "d.h5"], cwd=folder).expect(0)
    runner.train(folder, "--resume", "auto", **options, train__epochs=2).expect(0, "data.verify", "d.h5 was written after")
    result = runner.train(folder, "--resume", "auto", **options, train__epochs=3).expect(0)
    assert "data.verify" not in result.output, result.output
    # Samples of a file that was written since may be damaged: the next epoch is compared as a first one is.
    with h5py.File(folder / "d.h5", "r+") as f:
        f["inputs"][...] ^= 1
    runner.train(folder, "--resume", "auto", **options, data__verify=False, train__epochs=4).expect(0)
    (folder / "d.h5").touch()
    one_message(runner.train(folder, "--resume", "auto", **options, data__verify="first_epoch", train__epochs=5), 65,
                "the checksum does not match")


def splits_and_classes_that_say_two_things(folder):
    runner.run(["synth", "classify", "--samples", 40, "--size", 32, "--out", "whole.h5"], cwd=folder).expect(0)

    def changed(change):
        shutil.copy(folder / "whole.h5", folder / "d.h5")
        with h5py.File(folder / "d.h5", "r+") as f:
            f.attrs.pop("attributes_checksum", None)
            change(f)
        return one_message(runner.run(["inspect", "d.h5"], cwd=folder), 65, "d.h5")

    def empty_train(f):
        del f["splits/train"]
        f["splits/train"] = np.zeros(0, np.int64)

    def put(name, value):
        return lambda f: f.attrs.__setitem__(name, value)

    changed(empty_train).expect(65, "/splits/train is empty")
    changed(put("class_names", "a\nb\na")).expect(65, "the class a twice")
    changed(put("class_names", np.bytes_(b"a\nb\0b\nc"))).expect(65, "zero byte")
    changed(put("class_names", np.bytes_(b"a\n\xff"))).expect(65, "not UTF-8")
    changed(put("num_samples", "40")).expect(65, "`num_samples` is the text")


def pipes_sockets_and_devices(folder):
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(folder)
        server.bind("socket")
        os.chdir(here)
        for path in ("pipe", "socket", "/dev/zero"):
            one_message(runner.run(["inspect", path], cwd=folder, timeout=30), 65, path)
            one_message(runner.train(folder, data__file=path), 65, path)
    (folder / "c").mkdir()
    os.mkfifo(folder / "c/MANIFEST.json")
    runner.run(["inspect", "c"], cwd=folder, timeout=30).expect(74, "MANIFEST.json", "not a regular file")
    runner.run(["synth", "headpose", "--layout", "300wlp", "--samples", 12, "--size", 64, "--out", "raw"], cwd=folder).expect(0)
    for flag in ("--train-list", "--val-list", "--test-list"):
        one_message(runner.run(["convert", "300wlp", "raw", "--out", "o.h5", "--size", 32, flag, "pipe"], cwd=folder, timeout=30),
                    65, "pipe: not a regular file")


def annotations_of_matlab_7_3_are_listed_in_one_line(folder):
    runner.run(["synth", "headpose", "--layout", "300wlp", "--samples", 24, "--size", 64, "--out", "raw"], cwd=folder).expect(0)
    annotation = sorted((folder / "raw").rglob("*.mat"))[0]
    with h5py.File(annotation, "w", userblock_size=512) as f:
        f["Pose_Para"] = np.zeros((7, 1))
    header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\2IM"
    annotation.write_bytes(header + annotation.read_bytes()[128:])
    result = runner.run(["convert", "300wlp", "raw", "--out", "d.h5", "--size", 32], cwd=folder).expect(0, "1 damaged", "MATLAB 7.3")
    assert "HDF5" not in result.output.replace("which is HDF5", ""), result.output


def damaged_samples_end_inspect(folder):
    runner.synth(folder / "d.h5", 400)
    with h5py.File(folder / "d.h5", "r+") as f:
        f["inputs"][::7, 5, 5, 0] ^= 1
    for _ in range(5):
        begin = time.monotonic()
        one_message(runner.run(["inspect", "d.h5", "--verify"], cwd=folder, timeout=40), 65, "58 of 400 samples are damaged")
        assert time.monotonic() - begin < 30


def standard_output_that_is_closed_or_full(folder):
    runner.synth(folder / "d.h5", 20)
    words = runner.command(["inspect", "d.h5"])
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 73 and "standard output" in done.stderr, done


runner.main([every_command_refuses_a_file_that_the_library_cannot_survive, the_helper_ends_with_a_job_that_is_killed,
             a_file_that_is_overwritten_while_it_is_trained_on, attributes_that_were_changed, a_resume_compares_what_the_data_mean,
             splits_and_classes_that_say_two_things, pipes_sockets_and_devices, annotations_of_matlab_7_3_are_listed_in_one_line,
             damaged_samples_end_inspect, standard_output_that_is_closed_or_full])
