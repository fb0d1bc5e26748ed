"""No command writes over what it reads, over checkpoints or over the files of a run, --force or not."""

import hashlib
import os
import shutil
import subprocess

import numpy as np
from PIL import Image

import runner


def content(folder):
    """Hashes of all files, but for the lock, which names the process that acquired it last."""
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_symlink() and p.name != ".lock"}


def refused(folder, words, *texts, force=True):
    """Exit code 73 with one message, and no file is changed or made."""
    before = content(folder)
    result = runner.run([*words, *(["--force"] if force else [])], cwd=folder).expect(73, *texts)
    assert result.output.count("error:") == 1, result.output
    after = content(folder)
    assert before == after, set(before.items()) ^ set(after.items())


def trained(folder, **options):
    runner.synth(folder / "d.h5", 40)
    runner.train(folder, train__epochs=1, **options).expect(0)
    return next((folder / "runs/r/checkpoints").iterdir())


def pictures(folder):
    for label in "ab":
        (folder / label).mkdir(parents=True)
        for i in range(6):
            Image.fromarray(np.full((40, 40, 3), 20 * i, np.uint8)).save(folder / label / f"{i}.jpg")


def sets(path):
    rng = np.random.default_rng(1)
    np.savez(path, features=rng.random((12, 5, 7)), order=np.stack([rng.permutation(5) for _ in range(12)]))


def convert_keeps_its_source(folder):
    sets(folder / "x.npz")
    for force in (True, False):
        refused(folder, ["convert", "pointer", "x.npz", "--out", "x.npz"], "x.npz is an input of this command", force=force)
    os.link(folder / "x.npz", folder / "hard.npz")
    (folder / "soft.npz").symlink_to("x.npz")
    for name in ["hard.npz", "soft.npz", "./x.npz", str(folder / "x.npz")]:
        refused(folder, ["convert", "pointer", "x.npz", "--out", name], "an input of this command")
    pictures(folder / "ci")
    refused(folder, ["convert", "images", "ci", "--out", "ci/a/0.jpg"], "ci/a/0.jpg is a file of ci, which this command reads")
    os.link(folder / "ci/b/1.jpg", folder / "hard.jpg")
    refused(folder, ["convert", "images", "ci", "--out", "hard.jpg"], "hard.jpg is a file of ci")
    (folder / "train.txt").write_text("a/0\na/1\nb/0\nb/1\n")
    refused(folder, ["convert", "images", "ci", "--train-list", "train.txt", "--out", "train.txt"], "train.txt is an input")
    (folder / "o.h5.quarantine.json").write_text("a/0\nb/0\n")
    refused(folder, ["convert", "images", "ci", "--train-list", "o.h5.quarantine.json", "--out", "o.h5"], "quarantine.json is an input")
    # Another file of that name is the user's.
    refused(folder, ["convert", "images", "ci", "--out", "o.h5"], "o.h5.quarantine.json exists and was not written by dtrain", force=False)
    for name in ["lock", "journal", "samples"]:  # the source is also a file of the folder that OUT is made in
        partial = folder / "p.h5.partial" / name
        partial.parent.mkdir(exist_ok=True)
        for link, text in [(os.link, "names (hard links)"), (os.symlink, "is a symbolic link")]:
            link(folder / "x.npz", partial)
            refused(folder, ["convert", "pointer", "x.npz", "--out", "p.h5"], f"p.h5.partial/{name}", text)
            partial.unlink()


def an_earlier_conversion_in_the_source_may_be_replaced(folder):
    pictures(folder / "ci")
    words = ["convert", "images", "ci", "--size", 32, "--out", "ci/d.h5"]
    runner.run(words, cwd=folder).expect(0)
    runner.run(words, cwd=folder).expect(73, "exists", "--force")
    runner.run([*words, "--force"], cwd=folder).expect(0)
    (folder / "ci/a/6.jpg").write_bytes(b"no picture")  # now there is a list of quarantined samples too
    for _ in range(2):
        runner.run([*words, "--force"], cwd=folder).expect(0, "d.h5.quarantine.json")
    (folder / "ci/other.h5").write_bytes(b"\x89HDF\r\n\x1a\n and something else")
    refused(folder, ["convert", "images", "ci", "--out", "ci/other.h5"], "ci/other.h5 is a file of ci")


def the_folder_of_a_conversion_is_never_emptied_of_other_files(folder):
    pictures(folder / "ci")
    (folder / "d.h5.partial").mkdir()
    (folder / "d.h5.partial/mine.txt").write_text("mine")
    runner.run(["convert", "images", "ci", "--size", 32, "--out", "d.h5"], cwd=folder).expect(0)
    assert [p.name for p in (folder / "d.h5.partial").iterdir()] == ["mine.txt"]
    pictures(folder / "e.h5.partial")
    refused(folder, ["convert", "images", "e.h5.partial", "--out", "e.h5"], "e.h5.partial is an input")


def predict_and_eval_keep_what_they_read(folder):
    checkpoint = trained(folder)
    pictures(folder / "photos")
    shutil.copy(folder / "photos/a/1.jpg", folder / "z.jpg")
    for force in (True, False):
        refused(folder, ["predict", "runs/r", "z.jpg", "--out", "z.jpg"], "z.jpg is an input", force=force)
        refused(folder, ["predict", "runs/r", "d.h5", "--out", "d.h5"], "d.h5 is an input", force=force)
        refused(folder, ["eval", "runs/r", "--data", "d.h5", "--json", "d.h5"], "d.h5 is an input", force=force)
    refused(folder, ["eval", "runs/r", "--json", "d.h5"], "d.h5 is an HDF5 file")  # the data that it finds by itself
    refused(folder, ["predict", "runs/r", "z*.jpg", "--out", "z.jpg"], "z.jpg is an input")
    for words in [["predict", "runs/r", "photos", "--out", "photos/b/2.jpg"], ["predict", "runs/r", "photos/b", "photos/a", "--out", "photos/b/2.jpg"]]:
        refused(folder, words, "2.jpg is a")
    os.link(checkpoint / "model.safetensors", folder / "weights")
    refused(folder, ["eval", "runs/r", "--json", "weights"], "weights is a file of")
    rows = ["predict", "runs/r", "photos", "--out", "photos/rows.csv"]
    runner.run(rows, cwd=folder).expect(0)
    runner.run([*rows, "--force"], cwd=folder).expect(0)
    (folder / "photos/notes.csv").write_text("input,label\na.jpg,1\n")
    refused(folder, [*rows[:-1], "photos/notes.csv"], "photos/notes.csv is a file of photos")
    # A pipe among the inputs: writing to it replaces nothing.
    os.mkfifo(folder / "photos/pipe")
    reader = subprocess.Popen(["cat", "photos/pipe"], cwd=folder, stdout=subprocess.PIPE, text=True)
    runner.run(["predict", "runs/r", "photos", "--out", "photos/pipe"], cwd=folder, timeout=60).expect(0)
    assert reader.communicate(timeout=60)[0].count("\n") == 13
    os.remove(folder / "photos/pipe")
    # "-" is the standard output, in the folder of a checkpoint too.
    runner.run(["eval", ".", "--data", folder / "d.h5", "--json", "-"], cwd=checkpoint).expect(0)
    runner.run(["predict", ".", folder / "z.jpg", "--out", "-"], cwd=checkpoint).expect(0)
    assert not (checkpoint / "-").exists()
    runner.run(["eval", "runs/r", "--devise", "cpu"], cwd=folder).expect(64, "not expected: --devise cpu; did you mean '--device'?")
    runner.run(["predict", "runs/r", "d.h5", "--spit=val"], cwd=folder).expect(64, "did you mean '--split'? (dtrain predict --help)")
    runner.run(["export", "runs/r", "--format", "onnx", "--zzz", "8"], cwd=folder).expect(64, "not expected: --zzz 8 (dtrain export --help)")
    refused(folder, ["eval", "runs/r", "--json", "nodir/x.json"], "nodir/x.json", "No such file or directory")
    with open("/dev/full", "w") as full:
        lost = subprocess.run(runner.command(["eval", "runs/r"]), cwd=folder, env=runner.environment(), stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=120)
    assert lost.returncode == 73 and lost.stderr.count("error:") == 1, lost
    assert "standard output" in lost.stderr and "No space left on device" in lost.stderr, lost
    for words in [["eval", "runs/r"], ["predict", "runs/r", "z.jpg"], ["inspect", "runs/r"], ["inspect", "d.h5"], ["ls"], ["report", "runs/r", "--text"],
                  ["eval", "runs/r", "--json", "-"]]:
        closed = subprocess.run(["bash", "-c", 'exec "$@" >&-', "bash", *runner.command(words)], cwd=folder, env=runner.environment(),
                                stderr=subprocess.PIPE, text=True, timeout=120)
        assert closed.returncode == 73 and closed.stderr.count("error:") == 1, (words, closed)
        assert "the standard output: Bad file descriptor" in closed.stderr, (words, closed)
    runner.run(["eval", "runs/r", "--json", "runs/r/eval.json"], cwd=folder).expect(0)
    runner.run(["eval", "runs/r", "--json", "runs/r/eval.json", "--force"], cwd=folder).expect(0)


def only_a_data_file_replaces_a_data_file(folder):
    trained(folder)
    runner.synth(folder / "other.h5", 12)
    is_hdf5 = "is an HDF5 file, as data sets are, and this output is none. Nothing replaces it, not even --force"
    for form in ["onnx", "safetensors"]:
        refused(folder, ["export", "runs/r", "--format", form, "--out", "d.h5"], f"d.h5 {is_hdf5}")
    runner.run(["eval", "runs/r"], cwd=folder).expect(0)
    (folder / "photo.png").write_bytes(b"")
    for words in [["predict", "runs/r", "photo.png", "--out"], ["eval", "runs/r", "--data", "d.h5", "--json"], ["report", "runs/r", "--svg"],
                  ["ls", "--json"], ["bench", "comm", "--json"], ["synth", "pointer", "--layout", "npz", "--samples", 4, "--out"]]:
        refused(folder, [*words, "other.h5"], f"other.h5 {is_hdf5}")
    refused(folder, ["synth", "headpose", "--samples", 4, "--size", 48, "--out", "other.h5"], "exists", force=False)
    runner.run(["synth", "headpose", "--samples", 4, "--size", 48, "--out", "other.h5", "--force"], cwd=folder).expect(0, "wrote other.h5: 4")


def predict_keeps_the_annotations_that_it_reads(folder):
    trained(folder)
    runner.run(["synth", "headpose", "--layout", "300wlp", "--samples", 4, "--size", 48, "--out", "lp"], cwd=folder).expect(0)
    picture = sorted((folder / "lp").rglob("*.jpg"))[0].relative_to(folder)
    for named in [picture, f"{picture.parent}/*.jpg", picture.parent]:
        refused(folder, ["predict", "runs/r", named, "--layout", "300wlp", "--out", picture.with_suffix(".mat")], "which this command reads")


def checkpoints_and_the_files_of_a_run_are_kept(folder):
    checkpoint = trained(folder)
    weights = checkpoint.relative_to(folder) / "model.safetensors"
    pictures(folder / "ci")
    (folder / "link").symlink_to(folder / "runs/r")
    outs = [str(weights), str(checkpoint.relative_to(folder) / "new"), "runs/r/checkpoints/new", "link/checkpoints/new"]
    maintained = ["runs/r/config.yaml", "runs/r/metrics.jsonl", "runs/r/log.txt", "runs/r/environment.json", "runs/r/.lock", "link/log.txt"]
    events = next((folder / "runs/r").glob("events.out.tfevents.*")).relative_to(folder)
    for command in [["export", "runs/r", "--format", "safetensors", "--out"], ["export", "runs/r", "--format", "onnx", "--out"],
                    ["predict", "runs/r", "d.h5", "--out"], ["eval", "runs/r", "--json"], ["convert", "images", "ci", "--out"],
                    ["synth", "pointer", "--out"]]:
        every = "onnx" in command  # one command with all of them: all ask the same function
        for out in outs if every else outs[:1]:
            refused(folder, [*command, out], "is among the checkpoints of a run")
        for out in [*maintained, str(events)] if every else maintained[:1]:
            refused(folder, [*command, out], "is a file that the run", "maintains")
    os.link(folder / weights, folder / "hard.safetensors")
    refused(folder, ["export", "runs/r", "--format", "safetensors", "--out", "hard.safetensors"], "hard.safetensors is a file of")
    runner.run(["export", "runs/r", "--format", "safetensors", "--out", "runs/r/net.safetensors"], cwd=folder).expect(0)


def commands_with_a_configuration_keep_what_it_reads(folder):
    trained(folder)
    runner.run(["export", "runs/r", "--format", "safetensors", "--out", "w.safetensors"], cwd=folder).expect(0)
    config = "data: {file: d.h5, workers: 1}\nmodel: {image_size: 32, init: w.safetensors}\ntrain: {batch_size: 8}\n"
    (folder / "my.yaml").write_text(config)
    measured = ["bench", "step", "my.yaml", "--batch-sizes", 8, "--rounds", 1, "--steps", 2, "--json", "m.json"]
    runner.run(measured, cwd=folder).expect(0)
    from_file = ["plan", "--measured", "m.json"]
    names = ("my.yaml", "d.h5", "w.safetensors")
    for position, command in enumerate((["bench", "data"], ["bench", "comm"], ["bench", "step"], ["plan"], from_file, ["trace"], ["doctor"])):
        for name in names if position == 0 else [names[position % 3]]:  # all of them ask the same function
            refused(folder, [*command, "my.yaml", "--json", name], f"{name} is an input of this command")
    refused(folder, [*from_file, "my.yaml", "--json", "m.json"], "m.json is an input of this command")
    for name in ("my.yaml", "w.safetensors"):
        refused(folder, ["trace", "my.yaml", "--out", name], f"{name} is an input of this command")
    for name in ("my.yaml", "d.h5", "w.safetensors"):
        refused(folder, ["tune", "--diagnose", "my.yaml", "--minutes", 0.1, "--out", name], f"{name} is an input of this command")
        refused(folder, ["tune", "my.yaml", "--minutes", 0.1, "--json", name], f"{name} is an input of this command")
    (folder / "link.yaml").symlink_to("my.yaml")
    refused(folder, ["bench", "comm", "link.yaml", "--json", "my.yaml"], "my.yaml is the same file as link.yaml, an input of this command")
    (folder / "dtrain.yaml").write_text(config)
    refused(folder, ["bench", "comm", "--json", "dtrain.yaml"], "dtrain.yaml is an input of this command")
    (folder / "dtrain.yaml").unlink()
    (folder / "data").mkdir()
    (folder / "data/quickstart-32.h5").write_text("generated earlier")
    refused(folder, ["bench", "comm", "--model.image_size", 32, "--json", "data/quickstart-32.h5"], "quickstart-32.h5 is an input of this command")


def export_keeps_the_torchscript_file(folder):
    runner.save_script_network(folder / "net.pt")
    trained(folder, task="module", model__file="net.pt", model__name=None)
    for form in ["torchscript", "safetensors"]:
        refused(folder, ["export", "runs/r", "--format", form, "--out", "net.pt"], "net.pt is an input")
    refused(folder, ["predict", "runs/r", "d.h5", "--out", "net.pt"], "net.pt is an input")
    runner.run(["export", "runs/r", "--format", "torchscript", "--out", "out.pt"], cwd=folder).expect(0)


def a_run_writes_to_nothing_of_others(folder):
    trained(folder)
    train = ["--dataset", "d.h5", "--task", "headpose"]
    (folder / "runs/v").mkdir()
    for link, name, text in [(os.link, ".lock", "names (hard links)"), (os.symlink, ".lock", "is a symbolic link"),
                             (os.symlink, "log.txt", "is a symbolic link"), (os.symlink, "metrics.jsonl", "is a symbolic link")]:
        link(folder / "d.h5", folder / "runs/v" / name)
        refused(folder, [*train, "--name", "v", "--resume", "auto"], f"runs/v/{name}", text, force=False)
        (folder / "runs/v" / name).unlink()
    (folder / "runs/v/checkpoints").symlink_to(folder / "runs/r/checkpoints")
    refused(folder, [*train, "--name", "v", "--resume", "auto"], "runs/r/checkpoints is among the files of another run", force=False)
    # Checkpoints on another disk, and a backup by hard links, are no obstacle.
    shutil.copytree(folder / "runs/r", folder / "backup", copy_function=os.link)
    (folder / "runs/r/checkpoints").rename(folder / "disk")
    (folder / "runs/r/checkpoints").symlink_to(folder / "disk")
    runner.train(folder, "--resume", "auto", train__epochs=2).expect(0, "finished: all")
    assert len(list((folder / "disk").iterdir())) >= 1 and (folder / "runs/r/checkpoints").is_symlink()
    for words in [["--run.folder", "runs/r/checkpoints", "--name", "x"], ["--run.folder", "runs/r", "--name", "checkpoints", "--resume", "auto"]]:
        refused(folder, [*train, *words], "is among the files of another run", force=False)


def a_report_replaces_a_link_and_not_the_file_that_it_leads_to(folder):
    trained(folder)
    shutil.copytree(folder / "runs/r", folder / "runs/s")
    for words, name in [(["report", "runs/r"], "report.html"), (["report", "runs/s", "runs/r"], "comparison.html")]:
        page = folder / "runs/r" / name
        for target in [folder / "d.h5", folder / "runs/s/metrics.jsonl"]:
            for out in [[], ["--out", f"runs/r/{name}"]]:
                page.unlink(missing_ok=True)
                page.symlink_to(target)
                before = target.read_bytes()
                runner.run([*words, *out], cwd=folder).expect(0, f"report: runs/r/{name}")
                assert target.read_bytes() == before, target
                assert not page.is_symlink() and page.read_text().startswith("<!DOCTYPE html>"), page
    (folder / "runs/r/report.html").unlink()
    (folder / "runs/r/report.html").symlink_to(folder / "d.h5")
    refused(folder, ["report", "runs/r", "--out", "d.h5"], "d.h5 is an input of this command", force=False)
    refused(folder, ["report", "runs/r", "--out", "runs/s/report.html"], "is a file that the run", "maintains")


def an_output_that_holds_an_input_is_named(folder):
    trained(folder)
    pictures(folder / "photos")
    refused(folder, ["predict", "runs/r", "photos", "--out", "."], ". holds ", ", an input of this command. Nothing replaces it")
    refused(folder, ["predict", "runs/r", "photos", "--out", "runs/r/checkpoints"], "runs/r/checkpoints is a folder that the run")


runner.main([convert_keeps_its_source, an_earlier_conversion_in_the_source_may_be_replaced,
             the_folder_of_a_conversion_is_never_emptied_of_other_files, predict_and_eval_keep_what_they_read,
             only_a_data_file_replaces_a_data_file,
             predict_keeps_the_annotations_that_it_reads,
             checkpoints_and_the_files_of_a_run_are_kept, commands_with_a_configuration_keep_what_it_reads, export_keeps_the_torchscript_file,
             a_run_writes_to_nothing_of_others, a_report_replaces_a_link_and_not_the_file_that_it_leads_to, an_output_that_holds_an_input_is_named])
