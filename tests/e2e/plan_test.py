"""dtrain plan: the real program measures, plans for more ranks, reads another machine's measurement, and explains bad input."""

import json
import math
import subprocess

import runner

SMALL = {key: value for key, value in runner.SMALL.items() if key not in ("run.log_every", "run.progress")}
FAST = ("--steps", 3, "--seconds", 1)


def words_of(*arguments, **options):
    keys = {"data.file": "d.h5", **SMALL, **{key.replace("__", "."): value for key, value in options.items()}}
    return ["plan", *arguments, *runner.flags(keys)]


def plan(folder, *arguments, np=None, code=0, **options):
    """Returns the text and the JSON of `dtrain plan`."""
    words = words_of(*arguments, "--json", "plan.json", "--force", **options)
    done = subprocess.run(runner.command(words, np), cwd=folder, env=runner.environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout, json.loads((folder / "plan.json").read_text())


def check_rows(found):
    """What must hold of every plan."""
    for row in found["rows"]:
        n = row["ranks"]
        parts = sum(row[f"{part}_seconds"] for part in ("data", "h2d", "forward", "backward", "exposed", "statistics", "late",
                                                        "optimizer", "other"))
        assert abs(parts - row["step_seconds"]) < 1e-9, row
        assert row["forward_seconds"] > 0 and row["backward_seconds"] > 0 and row["optimizer_seconds"] > 0
        samples = min(row["global_batch"], found["samples"])
        assert abs(row["samples_per_second"] * row["step_seconds"] / samples - 1) < 1e-9
        assert row["steps_per_epoch"] == math.ceil(found["samples"] / row["global_batch"])
        bytes_of_gradients = sum(bucket["bytes"] for bucket in found["gradient_buckets"])
        assert abs(row["sent_bytes"]["gradients"] - 2 * (n - 1) / n * bytes_of_gradients) < 1
        memory = row["memory_bytes"]
        assert memory["gradients"] == bytes_of_gradients + 16, "the buckets, and the sums of loss and weight"
        assert memory["sum"] == sum(memory[kind] for kind in ("weights", "gradients", "moments", "average", "activations", "batches"))
        assert row["nodes"] == math.ceil(n / found["ranks_per_node"])


def plans_from_one_rank(folder):
    runner.synth(folder / "d.h5", 400)
    text, found = plan(folder, *FAST, "--ranks", "1,8,64", "--interconnect", "nvlink4+ib200", "--card", "rtx3090",
                       train__sync_batch_norm=True)
    assert (found["network"], found["precision"], found["device"]) == ("headpose_cnn", "fp32", "cpu")
    assert (found["library"], found["inside"]["name"], found["between"]["name"]) == ("nccl", "nvlink4", "ib200")
    assert found["scaling"] == "grow" and [row["global_batch"] for row in found["rows"]] == [8, 64, 512]
    check_rows(found)
    one, eight, many = found["rows"]
    assert one["efficiency"] == 1 and one["sent_bytes"]["gradients"] == 0 and one["hidden_share"] == 1
    assert one["statistics_seconds"] == 0 and one["late_seconds"] == 0
    assert many["wire_seconds"] > eight["wire_seconds"] > 0
    # Five batch norms of 32 to 512 channels; count, sums and squares, then two sums of gradients.
    sums = sum(8 * (1 + 2 * c) + 16 * c for c in (32, 64, 128, 256, 512))
    assert abs(eight["sent_bytes"]["statistics"] - 2 * 7 / 8 * sums) < 1e-6
    buckets = found["gradient_buckets"]
    # 1 MiB, then up to 25: the network has 1.7 million parameters.
    assert len(buckets) >= 2 and sum(b["bytes"] for b in buckets) > 6e6
    assert all(0 <= b["ready"] <= 1 for b in buckets) and buckets[-1]["ready"] > 0.5
    assert "NCCL" in text and "global batch grows" in text and "Assumed" not in text
    assert f"an epoch is one step of {found['samples']} samples" in many["notes"][0]
    assert not (folder / "runs").exists(), "nothing is written"


def keeps_the_global_batch(folder):
    runner.synth(folder / "d.h5", 200)
    text, found = plan(folder, *FAST, "--ranks", "2,4,100", train__global_batch=32)
    assert found["scaling"] == "keep"
    assert [(row["global_batch"], row["micro_batch"], row["accumulate"]) for row in found["rows"]] == [
        (32, 8, 2), (32, 8, 1), (32, 1, 1)]
    check_rows(found)
    assert "68 of 100 ranks without a sample" in found["rows"][2]["notes"][0]
    assert "Assumed: shm and 100gbe" in text and "shared memory within a node, MPI between nodes" in text and "the global batch of 32 is kept" in text
    slower_text, slower = plan(folder, *FAST, "--ranks", "100", "--dist.backend", "mpi", train__global_batch=32)
    assert slower["library"] == "mpi" and "; MPI" in slower_text, slower_text
    _, grown = plan(folder, *FAST, "--ranks", "2", "--scaling", "grow", train__global_batch=32)
    assert [(row["global_batch"], row["accumulate"]) for row in grown["rows"]] == [(64, 4)]


def measures_the_link_and_checks_itself(folder):
    runner.synth(folder / "d.h5", 200)
    text, found = plan(folder, *FAST, "--ranks", "2,4", np=2)
    (check,) = found["checks"]
    assert found["measured_ranks"] == 2 and found["inside"]["name"] == found["between"]["name"] == "measured"
    assert found["library"] == "hierarchical", found
    assert found["inside"]["bytes_per_second"] > 1e6 and found["inside"]["hop_seconds"] >= 0, found["inside"]
    check_rows(found)
    assert check["micro_batch"] == 8
    assert check["planned_seconds"] > 0 and check["measured_seconds"] > 0, check
    # How far off it is depends on what else the machine does; the program has to say so.
    ratio = check["planned_seconds"] / check["measured_seconds"]
    assert check["far_off"] == (not 1 / 1.5 <= ratio <= 1.5) == ("plan again" in text), (check, text)
    assert "check: 2 ranks with 8 each took" in text
    assert [row["nodes"] for row in found["rows"]] == [2, 4] and found["ranks_per_node"] == 1
    rows = [line.split() for line in text.splitlines() if line.strip().startswith(("2  ", "4  "))]
    assert rows[0][:2] == ["2", "-"] and rows[1][:2] == ["4", "-"], "the same link between all: there are no nodes"


def plans_from_another_machine(folder):
    runner.synth(folder / "d.h5", 200)
    keys = runner.flags({"data.file": "d.h5", **SMALL})
    runner.run(["bench", "step", "--batch-sizes", "4,8", "--rounds", 1, "--steps", 2, "--json", "step.json", *keys],
               cwd=folder).expect(0)
    written = json.loads((folder / "step.json").read_text())
    (folder / "d.h5").unlink()  # the plan needs no data
    text, found = plan(folder, "--measured", "step.json", "--ranks", "16,64", "--interconnect", "5,10",
                       "--device-speed", 20)
    assert found["measured"] == "step.json" and found["samples"] == written["samples"]
    check_rows(found)
    eight = written["rows"][1]
    row = found["rows"][0]
    assert abs(row["forward_seconds"] * 20 - eight["phase_seconds"]["forward"]) < 1e-9
    assert row["memory_bytes"]["activations"] == eight["memory_bytes"]["activations"]
    assert found["gradient_buckets"] == written["gradient_buckets"]
    assert "compute 20 times as fast" in text
    without_batch = {key: value for key, value in SMALL.items() if key != "train.batch_size"}
    words = ["plan", "--measured", "step.json", "--ranks", 1, "--preset", "rtx3090", "--card", "rtx3090", "--json", "-"]
    done = subprocess.run(runner.command([*words, *runner.flags({"data.file": "d.h5", **without_batch})]), cwd=folder, env=runner.environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and json.loads(done.stdout)["rows"][0]["micro_batch"] > 32, (done.returncode, done.stdout, done.stderr)
    text, _ = plan(folder, "--measured", "step.json", "--ranks", "16", train__batch_size=16)
    size = min(16, math.ceil(written["samples"] / 16))  # an epoch may have no 16 for each of 16 ranks
    assert size > 8 and f" {size}~" in text and "was not measured" in text, text


def what_blocks_is_exit_code_1(folder):
    runner.synth(folder / "d.h5", 60)
    text, found = plan(folder, *FAST, "--ranks", "8,1000", code=1)
    assert [bool(row["blocked"]) for row in found["rows"]] == [False, True]
    assert "1000 ranks, BLOCKED: 1000 ranks, and an epoch has" in text
    written = {"network": "headpose_cnn", "precision": "fp32", "device": "cuda:0", "data": "d.h5", "ranks": 1,
               "samples": 1000, "prefetch": 1, "accumulate": 1, "statistics_bytes": [],
               "gradient_buckets": [{"bytes": 1e9, "ready": 1}],
               "rows": [{"batch_size": 8, "out_of_memory": "", "step_seconds": 1, "other_seconds": 0, "load_seconds": 0,
                         "deviation_seconds": 0,
                         "phase_seconds": {"data_wait": 0, "h2d": 0, "forward": 0.1, "backward": 0.2, "optimizer": 0.1},
                         "memory_bytes": {"weights": 1 << 30, "gradients": 1 << 30, "moments": 2 << 30, "average": 0,
                                          "activations": 5 << 30, "batch": 1 << 20}}]}
    written["rows"].append({"batch_size": 64, "out_of_memory": "the host's memory is full"})
    (folder / "large.json").write_text(json.dumps(written))
    text, found = plan(folder, "--measured", "large.json", "--ranks", 2, "--card", "rtx4060", code=1)
    assert "a rank needs 10.0 GiB (1.0 GiB of it for CUDA and NCCL) of 7.8 GiB of rtx4060: use --batch-size 4" in text
    assert "not measured: a micro-batch of 64, for which the memory did not suffice: the host's memory is full" in text
    assert found["too_large"] == [{"micro_batch": 64, "out_of_memory": "the host's memory is full"}]
    plan(folder, "--measured", "large.json", "--ranks", 2, "--card", "rtx3090")


def bad_input_is_explained(folder):
    for value in ("0", "-4", "8,0", "many", "2.5"):
        runner.run(["plan", "--ranks", value], cwd=folder).expect(64, "--ranks")
    runner.run(["plan", "--ranks-per-node", 0], cwd=folder).expect(64, "--ranks-per-node")
    runner.run(["plan", "--interconnect", "nvlnk4"], cwd=folder).expect(64, "did you mean 'nvlink4'")
    runner.run(["plan", "--interconnect", "ib100+nvlink4"], cwd=folder).expect(64, "wrong place")
    runner.run(["plan", "--card", "rtx3900"], cwd=folder).expect(64, "did you mean 'rtx3090'")
    runner.run(["plan", "--card", "v100"], cwd=folder).expect(64, "--card", "V100", "CUDA 12")
    runner.run(["plan", "--device-speed", "fast"], cwd=folder).expect(64, "--device-speed fast")
    runner.run(["plan", "--scaling", "shrink"], cwd=folder).expect(64, "--scaling")
    runner.run(["plan", "--train.epoch", 3], cwd=folder).expect(78, "train.epochs")
    runner.run(["plan", "--data.file", "none.h5"], cwd=folder).expect(65, "none.h5")
    runner.run(["plan", "--measured", "none.json"], cwd=folder).expect(65, "none.json", "is not there")
    (folder / "bad.json").write_text('{"network": "resnet18"}')
    runner.run(["plan", "--measured", "bad.json"], cwd=folder).expect(65, "bad.json has no 'precision'")
    runner.synth(folder / "d.h5", 40)
    runner.run(words_of("--ranks", 2, "--interconnect", "measured", *FAST), cwd=folder).expect(64, "mpirun -np 2 dtrain plan")
    runner.run(words_of("--json", "d.h5", "--force"), cwd=folder).expect(73, "d.h5")
    runner.run(["plan", "--help"], cwd=folder).expect(0, "--interconnect", "CONFIG.yaml", "--measured")


if __name__ == "__main__":
    runner.main([plans_from_one_rank, keeps_the_global_batch, measures_the_link_and_checks_itself, plans_from_another_machine,
                 what_blocks_is_exit_code_1, bad_input_is_explained])
