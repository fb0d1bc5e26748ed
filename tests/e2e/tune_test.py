"""dtrain tune: the largest batch within a budget, settings that are as good or better than what was given, a config that trains, on one rank
and two, and what it says when nothing fits, the time is short, or it is interrupted."""

import json
import pathlib
import signal
import subprocess
import time

import runner

# Flags keep these as they are: fewer stages, for a short test.
LOADER = runner.flags({"data.workers": 1, "data.prefetch": 4})
NETWORK = runner.flags({"train.amp": "fp32", "model.channels_last": True, "model.checkpointing": False})
KEYS = {"data.file": "d.h5", "model.image_size": 32, "metrics.port": 0, "data.workers": 1}


def write_config(folder, **more):
    """A config file: its keys are where tune begins, not what it keeps."""
    keys = {**KEYS, **{key.replace("__", "."): value for key, value in more.items()}}
    lines = []
    for section in dict.fromkeys(key.split(".")[0] for key in keys):
        lines.append(f"{section}:")
        for key, value in keys.items():
            if key.split(".")[0] == section:
                lines.append(f"  {key.split('.', 1)[1]}: {json.dumps(value)}")
    (folder / "my.yaml").write_text("\n".join(lines) + "\n")


def tune(folder, *arguments, np=None, code=0):
    """Returns the text and the JSON of `dtrain tune my.yaml`."""
    words = ["tune", "my.yaml", "--seconds", 0.1, *arguments, "--json", "out.json", "--force"]
    done = subprocess.run(runner.command(words, np), cwd=folder, env=runner.environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=400)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout, json.loads((folder / "out.json").read_text())


def memory_of(folder, batch_size, keys):
    """Bytes that a process takes with a batch, as tune measures it."""
    _, found = tune(folder, "--minutes", 0.02, *runner.flags(keys), "--batch-size", batch_size, "--memory-budget", "64GiB")
    assert found["rows"][0]["train.batch_size"] == batch_size and found["rows"][0]["note"] == "fits", found["rows"][0]
    return int(found["rows"][0]["memory_bytes"])


def check_rows(found):
    """What holds of every result."""
    assert found["command"] == "tune" and not found["interrupted"]
    memory = [row for row in found["rows"] if row["stage"] == "memory"]
    # The search may have been made again for another precision or with checkpointing: the last one for the settings that were found.
    fitting = [row["train.batch_size"] for row in memory
               if row["note"] == "fits" and all(row[key] == found["found"][key] for key in ("train.amp", "model.checkpointing"))]
    assert fitting and found["largest_batch"]["batch_size"] == max(fitting), found["rows"]
    for row in memory:
        assert (row["note"] == "fits") == (row["memory_bytes"] is not None and row["memory_bytes"] <= found["budget_bytes"]), row
    for row in found["rows"]:
        if row["stage"] in ("network", "batch", "loader") and row["note"] == "":
            assert row["samples_per_second"] > 0, row
    # The network is chosen again with the batch that was found.
    chosen = [(row["stage"], row["train.batch_size"]) for row in found["rows"] if row["chosen"] and row["stage"] in ("network", "batch")]
    assert len(chosen) == len(set(chosen)) and sum(stage == "batch" for stage, _ in chosen) <= 1, chosen
    batches = [index for index, row in enumerate(found["rows"]) if row["stage"] == "batch"]
    fastest = {}  # by precision, before there was a batch
    for row in found["rows"][:batches[0]] if batches else []:
        if row["stage"] == "network" and row["samples_per_second"]:
            fastest[row["train.amp"]] = max(fastest.get(row["train.amp"], 0), row["samples_per_second"])
    again = {row["train.amp"] for row in found["rows"][batches[-1]:] if row["stage"] == "network"} if batches else set()
    assert all(fastest[amp] >= 0.7 * max(fastest.values()) for amp in again), (fastest, again)
    assert found["found"]["train.batch_size"] <= found["largest_batch"]["batch_size"]
    assert found["found_samples_per_second"]["median"] > 0


def finds_what_fits_and_writes_a_config(folder):
    runner.synth(folder / "d.h5", 200)
    write_config(folder, train__batch_size=4, train__global_batch=128, train__epochs=1, optimizer__lr=0.003)
    keys = {"train.amp": "fp32", "model.checkpointing": False, "data.workers": 1, "data.prefetch": 4}
    low, high = (memory_of(folder, batch, keys) for batch in (4, 128))
    assert 100 << 20 < low < high, (low, high)
    text, found = tune(folder, "--minutes", 6, "--amp", "fp32", "--memory-budget", (low + high) // 2)
    check_rows(found)
    assert found["largest_batch"]["end"] == "limit" and 4 < found["largest_batch"]["batch_size"] < 128, found["largest_batch"]
    assert any(row["stage"] == "memory" and row["note"] != "fits" for row in found["rows"]), "the bisect saw both sides"
    assert found["found_global_batch"] == 128 == found["global_batch"]
    assert found["found"]["train.amp"] == "fp32" and any("--amp" in one for one in found["left_out"]), "a flag is kept"
    batch, accumulate = found["found"]["train.batch_size"], found["found_accumulate"]
    assert (accumulate - 1) * batch < 128 <= accumulate * batch, (batch, accumulate)
    assert "largest batch that fits into" in text and "my.tuned.yaml" in text
    tuned = (folder / "my.tuned.yaml").read_text()
    assert f"batch_size: {batch} " in tuned and "global_batch: 128" in tuned and "lr: 0.003" in tuned, tuned
    runner.run(["my.tuned.yaml", "--dry-run"], cwd=folder).expect(0, f"1 rank × {batch} × accumulate {accumulate}")
    assert not (folder / "runs").exists(), "nothing else is written"


def a_trial_that_takes_far_too_much_ends_alone(folder):
    """Its process is ended at twice the budget; tune learns from it and goes on."""
    runner.synth(folder / "d.h5", 400)  # of which 320 train
    write_config(folder, train__batch_size=256, train__global_batch=256, model__image_size=96)
    keys = {"train.amp": "fp32", "model.channels_last": True, "model.checkpointing": False, "data.workers": 1, "data.prefetch": 4}
    budget = 11 * memory_of(folder, 2, keys) // 10
    begin = time.monotonic()
    text, found = tune(folder, "--minutes", 0.5, *runner.flags(keys), "--memory-budget", budget)
    assert time.monotonic() - begin < 180, "--minutes is about the most that it takes, on an idle machine"
    check_rows(found)
    ended = [row for row in found["rows"] if row["note"].startswith("it used more than")]
    assert ended and ended[0]["train.batch_size"] == 256 and ended[0]["memory_bytes"] is None, found["rows"]
    assert found["largest_batch"]["batch_size"] < 256, text


def the_fastest_network_has_to_fit(folder):
    """Recomputed activations cost time, so that the fastest is without; the budget lies between what both need."""
    runner.synth(folder / "d.h5", 100)
    write_config(folder, model__name="mobilenet_v2", model__checkpointing=True, train__batch_size=64, train__global_batch=64)
    fixed = {"train.amp": "fp32", "model.channels_last": True, "data.workers": 1, "data.prefetch": 1}
    less, more = (memory_of(folder, 64, {**fixed, "model.checkpointing": recomputes}) for recomputes in (True, False))
    assert less < more, (less, more)
    for one_batch in (True, False):
        only = ["--batch-size", 64] if one_batch else []
        text, found = tune(folder, "--minutes", 5, *runner.flags(fixed), *only, "--memory-budget", (less + more) // 2)
        check_rows(found)
        rows = [row for row in found["rows"] if row["stage"] == "network"]
        refused = [row for row in rows if "does not fit" in row["note"]]
        assert ("not tried: network: the fastest does not fit into memory" in text) == bool(refused), text
        assert not any(row["chosen"] or row["model.checkpointing"] for row in refused), rows
        batch = found["found"]["train.batch_size"]
        assert batch * found["found_accumulate"] >= 64
        assert found["found"]["model.checkpointing"] or (batch < 64 and not one_batch), found


def two_ranks_agree(folder):
    runner.synth(folder / "d.h5", 300)
    write_config(folder, train__batch_size=8, train__global_batch=64)
    for _ in range(3):  # what else runs on the machine may hide that the network takes far longer than its data
        text, found = tune(folder, "--minutes", 2, *NETWORK, np=2)
        check_rows(found)
        loader = [row for row in found["rows"] if row["stage"] == "loader"]
        if all(row["note"].startswith("loading alone") for row in loader):
            break
    assert found["ranks"] == 2 and found["largest_batch"]["batch_size"] == 32 and found["largest_batch"]["end"] == "all fit"
    assert found["largest_batch"]["start"] == found["largest_batch"]["catalog_row"] == "", "these are of GPUs"
    stages = {row["stage"] for row in found["rows"]}
    assert stages == {"memory", "batch", "loader", "result"}, stages
    assert all(row["note"].startswith("loading alone") for row in loader), loader
    assert sum("other settings gain nothing" in row["note"] and row["chosen"] for row in loader) == 1, loader
    for key in ("data.prefetch", "data.workers"):
        assert found["found"][key] == found["given"][key], "what was not tried stays"
    runner.run(["my.tuned.yaml", "--dry-run"], np=2, cwd=folder).expect(0, "global batch 64")


def a_narrow_wire_is_tried_where_gradients_travel(folder):
    """Over MPI; in shared memory, which is the default here, there are no bytes to save."""
    runner.synth(folder / "d.h5", 300)
    write_config(folder, train__batch_size=8, train__global_batch=16)
    wires = {}
    for backend in ("mpi", "auto"):
        _, found = tune(folder, "--minutes", 5, *NETWORK, *LOADER, "--dist.backend", backend, np=2)
        check_rows(found)
        wires[backend] = {row["dist.wire"] for row in found["rows"]}
        changed = found["found"]["dist.wire"] != found["given"]["dist.wire"]
        assert (f'wire: {found["found"]["dist.wire"]}' in (folder / "my.tuned.yaml").read_text()) == changed, found["found"]
    assert wires == {"mpi": {"fp32", "bf16"}, "auto": {"fp32"}}, wires


def ranks_with_other_flags_try_the_same(folder):
    """What a flag keeps for rank 0 is kept, whatever the other rank has: with other candidates, one would wait for the other."""
    runner.synth(folder / "d.h5", 300)
    runner.save_script_network(folder / "net.pt")  # takes so little that loading is much of a step
    write_config(folder, task__name="module", model__file="net.pt", train__batch_size=8, train__global_batch=16)
    words = [runner.DTRAIN, "tune", "my.yaml", "--minutes", 1, "--json", "out.json", "--amp", "fp32", "--model.channels_last", "true",
             "--batch-size", 8]
    commands = ([*words, "--seconds", 0.1, "--workers", 1], [*words, "--seconds", 0.4, "--lr", "--workers", 2, "--data.prefetch", 3])
    done = subprocess.run(runner.ranks(*commands), cwd=folder, env=runner.environment(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
    assert done.returncode == 0, (done.returncode, done.stdout)
    found = json.loads((folder / "out.json").read_text())
    check_rows(found)
    tried = {(row["data.workers"], row["data.prefetch"]) for row in found["rows"] if row["stage"] == "loader" and row["note"] == ""}
    assert tried == {(1, 2), (1, 4), (1, 8)}, found["rows"]
    assert "data.workers (--workers): given by a flag" in found["left_out"], found["left_out"]
    assert not any("data.prefetch" in one for one in found["left_out"]), found["left_out"]


def suggests_a_learning_rate(folder):
    runner.synth(folder / "d.h5", 300)
    write_config(folder, train__batch_size=32)
    text, found = tune(folder, "--minutes", 2, "--find-lr", *NETWORK, *LOADER, "--batch-size", 32)
    test = found["range_test"]
    assert len(test["rates"]) == len(test["losses"]) >= 20 and test["rates"] == sorted(test["rates"]), test
    assert abs(test["rates"][0] / 1e-7 - 1) < 1e-6 and test["losses"][0] > 0
    assert test["suggestion"] is not None and 1e-5 < test["suggestion"]["rate"] < 0.3, test["suggestion"]
    assert "the loss falls fastest at" in text
    lines = [line for line in (folder / "my.tuned.yaml").read_text().splitlines() if line.strip().startswith("lr:")]
    assert abs(float(lines[0].split()[1]) / test["suggestion"]["rate"] - 1) < 1e-9 and "was 0.001" in lines[0]


def what_does_not_fit_is_explained(folder):
    runner.synth(folder / "d.h5", 60)
    write_config(folder, train__batch_size=4)
    result = runner.run(["tune", "my.yaml", "--memory-budget", "20MiB", "--minutes", 0.1], cwd=folder)
    result.expect(69, "a batch of one sample of headpose_cnn does not fit into the 20.0 MiB of the host's memory", "it needs", "--memory-budget")
    assert not (folder / "my.tuned.yaml").exists()


def ends_with_what_it_has_on_ctrl_c(folder):
    runner.synth(folder / "d.h5", 300)
    write_config(folder, train__batch_size=4, train__global_batch=128)
    with runner.Running(["tune", "my.yaml", "--minutes", 5, "--json", "out.json"], cwd=folder) as running:
        running.wait_for("memory: batch 4: ")
        running.wait_for("network: ")
        running.process.send_signal(signal.SIGINT)
        result = running.wait(60)
    result.expect(130, "interrupted: this is what was found so far")
    found = json.loads((folder / "out.json").read_text())
    assert found["interrupted"] and found["rows"][0]["stage"] == "memory" and found["patch"] == ""
    assert not (folder / "my.tuned.yaml").exists()
    # In the middle of a trial of memory: its process ends too.
    with runner.Running(["tune", "my.yaml", "--minutes", 5], cwd=folder) as running:
        child = None
        end = time.monotonic() + 60
        while child is None and time.monotonic() < end:
            child = trial_of(running.process.pid)
            time.sleep(0.01)
        assert child, "a process for a trial was seen"
        running.process.send_signal(signal.SIGINT)
        running.wait(60).expect(130, "interrupted")
        assert not pathlib.Path(f"/proc/{child}").exists()


def trial_of(parent):
    """The process id of a trial of memory that `parent` has started; None: there is none."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"\0--memory-trial\0{parent}\0" in (entry / "cmdline").read_text():
                return int(entry.name)
        except OSError:
            continue
    return None


def bad_input_is_explained(folder):
    runner.run(["tune", "--help"], cwd=folder).expect(0, "--minutes", "--memory-budget", "--find-lr", "CONFIG.yaml")
    runner.synth(folder / "d.h5", 40)
    write_config(folder, train__batch_size=4)
    runner.run(["tune", "my.yaml", "--minute", 3], cwd=folder).expect(78, "--minutes")
    runner.run(["tune", "my.yaml", "--minutes", "soon"], cwd=folder).expect(64, "--minutes")
    for budget in ("much", -1, 0, 2**64, "-5MiB"):
        runner.run(["tune", "my.yaml", "--memory-budget", budget], cwd=folder).expect(64, "--memory-budget")
    runner.run(["tune", "my.yaml", "--json", ""], cwd=folder).expect(64, "--json: the name is empty")
    runner.run(["tune", "my.yaml", "--resume", "runs/x"], cwd=folder).expect(64, "--resume")
    runner.run(["tune", "none.yaml"], cwd=folder).expect(78, "none.yaml")
    runner.run(["tune", "--memory-trial", 1], cwd=folder).expect(64, "dtrain tune")
    (folder / "my.tuned.yaml").write_text("mine")
    runner.run(["tune", "my.yaml", "--minutes", 0.05], cwd=folder).expect(73, "my.tuned.yaml", "--force")
    assert (folder / "my.tuned.yaml").read_text() == "mine"
    runner.run(["tune", "my.yaml", "--out", "d.h5", "--force"], cwd=folder).expect(73, "d.h5")


def what_cannot_be_written_is_said_before_the_work(folder):
    runner.synth(folder / "d.h5", 40)
    write_config(folder, train__batch_size=4)
    given = (folder / "my.yaml").read_text()

    def refused(code, *arguments, says):
        result = runner.run(["tune", *arguments], cwd=folder)
        result.expect(code, says)
        assert "memory: " not in result.output, "nothing was tried"

    refused(73, "my.yaml", "--out", "none/my.tuned.yaml", says="none/my.tuned.yaml")
    refused(73, "my.yaml", "--out", "my.yaml", "--force", says="my.yaml is an input of this command")
    refused(73, "--out", "my.yaml", "my.yaml", "--force", says="my.yaml is an input of this command")
    (folder / "link.yaml").symlink_to("my.yaml")
    refused(73, "my.yaml", "--out", "link.yaml", "--force", says="the same file as my.yaml")
    refused(73, "my.yaml", "--json", "my.yaml", "--force", says="my.yaml is an input of this command")
    refused(64, "my.yaml", "--out", "new", "--json", "./new", says="--out and --json are the same file")
    refused(64, "my.yaml", "--out", "-", says="--out")
    (folder / "dtrain.yaml").write_text(given)
    refused(73, "--out", "dtrain.yaml", "--force", says="dtrain.yaml is an input of this command")
    assert (folder / "my.yaml").read_text() == given == (folder / "dtrain.yaml").read_text()
    assert sorted(path.name for path in folder.iterdir()) == ["d.h5", "dtrain.yaml", "link.yaml", "my.yaml"]


def presets_set_what_the_user_does_not_set(folder):
    runner.synth(folder / "d.h5", 60)
    keys = {"data.file": "d.h5", "model.image_size": 32, "metrics.port": 0, "data.workers": 1}
    done = runner.run(["--dry-run", "--preset", "rtx3060", *runner.flags(keys)], cwd=folder)
    done.expect(0, "preset     rtx3060 (11.8 GiB; estimated", "sets train.batch_size 256", "global batch 256")
    runner.run(["--dry-run", "--preset", "rtx3060", "--batch-size", 8, *runner.flags(keys)], cwd=folder).expect(
        0, "kept train.batch_size (--batch-size)", "global batch 8 ")
    runner.run(["--dry-run", "--preset", "auto", "--device.type", "cpu", *runner.flags(keys)], cwd=folder).expect(
        0, "preset     auto: the run uses no GPU, so nothing is set", "global batch 32 ")
    runner.run(["--dry-run", "--preset", "v100", *runner.flags(keys)], cwd=folder).expect(78, "V100", "CUDA 12")
    runner.run(["--dry-run", "--preset", "rtx309", *runner.flags(keys)], cwd=folder).expect(78, "did you mean 'rtx3090'")


if __name__ == "__main__":
    runner.main([finds_what_fits_and_writes_a_config, a_trial_that_takes_far_too_much_ends_alone, two_ranks_agree, ranks_with_other_flags_try_the_same, suggests_a_learning_rate, what_does_not_fit_is_explained, ends_with_what_it_has_on_ctrl_c,
                 bad_input_is_explained, what_cannot_be_written_is_said_before_the_work, presets_set_what_the_user_does_not_set],
                campaign=[the_fastest_network_has_to_fit, a_narrow_wire_is_tried_where_gradients_travel])
