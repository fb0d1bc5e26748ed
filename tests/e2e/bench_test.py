"""dtrain bench data|comm|step: tables and JSON agree, on one rank and several, and its messages when something is wrong."""

import json
import os
import re
import resource
import subprocess

import runner

SMALL = {key: value for key, value in runner.SMALL.items() if key not in ("run.log_every", "run.progress")}


def bench(folder, part, *arguments, np=None, code=0, **options):
    """Returns the table and the JSON of `dtrain bench PART`."""
    keys = {"data.file": "d.h5", **SMALL, **{key.replace("__", "."): value for key, value in options.items()}}
    words = ["bench", part, *arguments, "--json", "out.json", "--force", *runner.flags(keys)]
    done = subprocess.run(runner.command(words, np), cwd=folder, env=runner.environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout, json.loads((folder / "out.json").read_text())


def rows_below(text, *header):
    """The rows of the table whose header has these words, as dictionaries; a cell holds no two spaces."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if set(header) <= set(line.split()))
    rows = []
    for line in lines[at + 1:]:
        if not line.startswith("  ") or line.startswith("  fit:"):
            break
        rows.append(line.split())
    return lines[at].split(), rows


def near(shown, exact, digits):
    assert abs(float(shown) - exact) <= 0.5001 * 10 ** -digits, (shown, exact)


def comm_measures_every_communicator(folder):
    text, found = bench(folder, "comm", "--seconds", 0.1, "--max-bytes", 1 << 20, np=2, train__sync_batch_norm=True)
    assert found["ranks"] == 2
    assert [c["communicator"] for c in found["communicators"]] == ["gradients", "statistics", "host"]
    assert [c["implementation"] for c in found["communicators"]] == ["shared_memory", "shared_memory", "mpi"]
    assert [o["operation"] for o in found["communicators"][2]["operations"]] == ["all_reduce", "all_gather", "broadcast"]
    for communicator in found["communicators"]:
        for operation in communicator["operations"]:
            sizes = operation["sizes"]
            assert sizes[0]["bytes"] == (8 if operation["operation"] == "all_gather" else 4)
            assert sizes[-1]["bytes"] == 1 << 20 or operation["left_out"] > 0
            factor = {"all_reduce": 1, "all_gather": 0.5, "broadcast": 1}[operation["operation"]]
            for size in sizes:
                assert size["wrong"] == 0 and size["times"] >= 3
                assert 0 < size["seconds_min"] <= size["seconds"] <= size["seconds_max"]
                assert abs(size["algbw_bytes_per_second"] * size["seconds"] / size["bytes"] - 1) < 1e-9
                assert abs(size["busbw_bytes_per_second"] / size["algbw_bytes_per_second"] - factor) < 1e-9
            fit = operation["fit"]  # beside other work, the few small sizes may be as fast as none
            assert fit["latency_seconds"] >= 0 and fit["latency_seconds"] + fit["seconds_per_byte"] > 0, fit
    heading = "gradients (shared_memory, cpu): all_reduce"
    header, rows = rows_below(text[text.index(heading):], "size", "busbw")
    assert header[:9] == ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"], "of nccl-tests"
    sizes = found["communicators"][0]["operations"][0]["sizes"]
    assert len(rows) == len(sizes)
    for row, size in zip(rows, sizes):
        assert [int(row[0]), int(row[1]), row[2:5]] == [size["bytes"], size["count"], ["float", "sum", "-1"]]
        near(row[5], size["seconds"] * 1e6, 2)
        near(row[6], size["algbw_bytes_per_second"] * 1e-9, 3)
        near(row[7], size["busbw_bytes_per_second"] * 1e-9, 3)


def comm_measures_what_gradients_are_between_ranks(folder):
    text, found = bench(folder, "comm", "--seconds", 0.05, "--max-bytes", 4096, np=2, dist__wire="bf16")
    sizes = [one["operations"][0]["sizes"] for one in found["communicators"]]
    assert {size["type"] for size in sizes[0]} == {"bfloat16"} and {size["type"] for size in sizes[1]} == {"float"}
    assert all(size["count"] * 2 == size["bytes"] and size["wrong"] == 0 for size in sizes[0])
    assert " bfloat16 " in text


def comm_finds_results_that_are_wrong(folder):
    damaged = {**runner.environment(), "LD_PRELOAD": os.environ["DTRAIN_BUILD"] + "/tests/e2e/libwrong_mpi.so"}
    words = ["bench", "comm", "--seconds", 0.05, "--min-bytes", 3072, "--max-bytes", 3072, "--json", "wrong.json",
             "--dist.backend", "mpi", *runner.flags(SMALL)]  # what is damaged is MPI
    runner.run(words, np=2, cwd=folder, env=damaged).expect(1, "WRONG VALUES")
    found = json.loads((folder / "wrong.json").read_text())["communicators"][0]["operations"][0]
    assert all(size["wrong"] > 0 for size in found["sizes"]), found


def comm_on_one_rank_says_that_nothing_travels(folder):
    text, found = bench(folder, "comm")
    assert "1 rank: nothing travels" in text
    assert [(c["communicator"], c["operations"]) for c in found["communicators"]] == [("gradients", []), ("host", [])]
    assert found["communicators"][0]["implementation"] == "none"


def data_compares_threads(folder):
    runner.synth(folder / "d.h5", 200)
    for np in (None, 2):
        text, found = bench(folder, "data", "--worker-counts", "1,2", "--rounds", 2, "--seconds", 0.1, np=np)
        assert found["ranks"] == (np or 1) and found["batch_size"] == 8 and 140 <= found["samples"] <= 180
        assert found["file_bytes"] == (folder / "d.h5").stat().st_size
        rates = found["rates"]
        warm = [rate for rate in rates if rate["cache"] == "warm"]
        assert [rate["threads"] for rate in warm] == [0, 1, 2]
        cold = [rate["threads"] for rate in rates if rate["cache"] == "cold"]
        kept = found["kept_in_cache"]
        assert cold == ([1, 2] if kept is not None and kept <= 0.05 else []), (kept, cold)
        assert ("no cold rates" in text) == (not cold)
        for rate in rates:
            speed = rate["samples_per_second"]
            assert 0 < speed["min"] <= speed["median"] <= speed["max"] and speed["rounds"] == 2
            assert rate["bytes_per_sample"] == 32 * 32 * 3 + 3 * 4
            assert rate["read_seconds"] > 0 and rate["cpu_seconds_per_sample"]["median"] > 0
            if rate["threads"] > 0:
                assert rate["augment_seconds"] > rate["decode_seconds"] > 0
        header, rows = rows_below(text, "threads", "samples/s", "augment")
        shown = [row[1:] if row[0] == "reads" else row for row in rows]  # "reads alone"
        for row, rate in zip(shown, rates, strict=True):
            assert row[1] == rate["cache"] and row[0] == (str(rate["threads"]) if rate["threads"] else "alone")
            near(row[2], rate["samples_per_second"]["median"], 1)
            near(row[5], rate["samples_per_second"]["median"] * rate["bytes_per_sample"] * 1e-6, 1)
            near(row[7], rate["read_seconds"] * 1e6, 1)


def data_has_the_threads_of_rank_0(folder):
    """Ranks may have other cores and other --workers: with lists of their own, one would wait for the other."""
    runner.synth(folder / "d.h5", 60)
    more = (os.cpu_count() or 1) + 1  # in the list of no rank with fewer threads
    for mine, theirs in ((more, 1), (1, more)):
        commands = [[runner.DTRAIN, "bench", "data", "--rounds", rounds, "--seconds", 0.05, "--json", "out.json", "--force",
                     *runner.flags({**SMALL, "data.file": "d.h5", "data.workers": workers})] for rounds, workers in ((2, mine), (1, theirs))]
        done = subprocess.run(runner.ranks(*commands), cwd=folder, env=runner.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        assert done.returncode == 0, (done.returncode, done.stdout)
        found = json.loads((folder / "out.json").read_text())
        assert found["ranks"] == 2 and found["own_threads"] == mine, found
        assert (more in [rate["threads"] for rate in found["rates"]]) == (mine == more), found["rates"]
        assert {rate["samples_per_second"]["rounds"] for rate in found["rates"]} == {2}, found["rates"]


def data_emulates_accelerators(folder):
    runner.synth(folder / "d.h5", 60)
    text, found = bench(folder, "data", "--threads", 1, "--rounds", 1, "--seconds", 0.1, "--emulate", "cosmoflow-h100")
    e = found["emulation"]
    assert (e["accelerator"], e["batch_size"], e["compute_seconds"], e["least_utilization"]) == ("cosmoflow-h100", 1, 0.0035, 0.7)
    fed = [one["accelerators"] for one in e["tried"] if one["utilization"] >= 0.7]
    assert e["fed"] == max(fed, default=0), e
    not_fed = [one["accelerators"] for one in e["tried"] if one["utilization"] < 0.7]
    assert min(not_fed, default=e["fed"] + 1) == e["fed"] + 1, e
    if not not_fed:
        assert e["limited_by"] in ("samples", "memory", "threads"), e
    for one in e["tried"]:
        assert 0 < one["utilization"] <= 1
        # An accelerator that is never idle takes a sample each 3.5 ms.
        assert one["samples_per_second"] <= 1.01 * one["accelerators"] / 0.0035, one
    assert f"This machine feeds {e['fed']} of them at 70 % utilization or more" in text
    _, rows = rows_below(text, "accelerators", "utilization")
    assert [int(row[0]) for row in rows] == [one["accelerators"] for one in e["tried"]]


def step_compares_batch_sizes(folder):
    runner.synth(folder / "d.h5", 200)
    for np in (None, 2):
        arguments = ("--batch-sizes", "16,4", "--rounds", 2, "--steps", 4, "--seconds", 2)
        text, found = bench(folder, "step", *arguments, np=np)
        ranks = np or 1
        assert (found["ranks"], found["network"], found["precision"], found["device"]) == (ranks, "headpose_cnn", "fp32", "cpu")
        assert found["computing_threads"] == 1 and "on cpu, computing threads 1, accumulate" in text
        assert [row["batch_size"] for row in found["rows"]] == [4, 16]
        assert text.count("not measured: kernel time and launch gap (no GPU)\n") == 1, text
        assert found["not_measured"] == ["kernel_seconds", "launch_gap_seconds"]
        for row in found["rows"]:
            assert row["out_of_memory"] == "" and row["global_batch"] == row["batch_size"] * ranks
            assert row["not_measured"] == found["not_measured"]
            assert row["kernel_seconds"] is None and row["launch_gap_seconds"] is None, "there is no GPU clock"
            assert row["samples_per_second"]["rounds"] == 2
            assert [one["rank"] for one in row["ranks"]] == list(range(ranks))
            for one in [row, *row["ranks"]]:
                phases = one["phase_seconds"]
                assert phases["forward"] > 0 and phases["backward"] > 0 and phases["checkpoint"] == 0 and phases["eval"] == 0
                assert one["other_seconds"] >= 0
                assert abs(sum(phases.values()) + one["other_seconds"] - one["step_seconds"]) < 1e-9
        small, large = (row["memory_bytes"] for row in found["rows"])
        assert small["weights"] == large["weights"] and small["moments"] == large["moments"]
        assert 1.9 < small["moments"] / small["gradients"] <= 2, "AdamW has two of them"
        assert large["batch"] == 4 * small["batch"] and large["activations"] > small["activations"] > 0
        header, rows = rows_below(text, "batch", "samples/s", "fwd")
        assert len(rows) == 2 * (1 if ranks == 1 else 1 + ranks)
        for row in found["rows"]:
            line = next(cells for cells in rows if cells[0] == str(row["batch_size"]) and len(cells) == len(header))
            cells = dict(zip(header, line))
            near(cells["samples/s"], row["samples_per_second"]["median"], 1)
            near(cells["step"], row["step_seconds"] * 1e3, 2)
            near(cells["fwd"], row["phase_seconds"]["forward"] * 1e3, 2)
            near(cells["other"], row["other_seconds"] * 1e3, 2)
    assert not (folder / "runs").exists(), "nothing is written"


def step_is_the_mean_over_the_phases(folder):
    """`sequence` trains its encoder and then its classifier, each with moments of its own."""
    runner.run(["synth", "sequence", "--samples", 120, "--out", "s.h5"], cwd=folder).expect(0)
    moments = {}
    for encoder, classifier in ((10, 0), (5, 5), (1, 9)):
        keys = {"task.name": "sequence", "data.file": "s.h5", "train.epochs": 10, "sequence.encoder_epochs": encoder,
                "sequence.classifier_epochs": classifier or 1, "metrics.port": 0, "train.batch_size": 8}
        if not classifier:
            keys |= {"train.epochs": 100, "train.max_steps": 10}
        done = runner.run(["bench", "step", "--rounds", 3, "--steps", 10, "--batch-sizes", 8, "--json", "out.json", "--force", *runner.flags(keys)], cwd=folder)
        found = json.loads((folder / "out.json").read_text())
        phases = {phase["name"]: phase["epochs"] for phase in found["phases"]}
        if classifier:
            done.expect(0, f"step: the mean one of the run, {encoder} epoch{'s' * (encoder > 1)} of encoder and {classifier} epochs of classifier")
            assert phases == {"encoder": encoder, "classifier": classifier}, phases
        else:
            done.expect(0)
            assert list(phases) == ["encoder"] and "the mean one" not in done.output, done.output
        moments[classifier] = found["rows"][0]["memory_bytes"]["moments"]
    assert moments[5] == moments[9] > moments[0] > 0, moments


def step_knows_what_free_loading_would_bring(folder):
    runner.synth(folder / "d.h5", 60)
    for np in (None, 2):
        text, found = bench(folder, "step", "--cached", "--batch-sizes", 8, "--rounds", 1, "--steps", 5, "--seconds", 0.5, np=np)
        row, = found["rows"]
        header, rows = rows_below(text, "batch", "samples/s", "cached")
        near(dict(zip(header, rows[0]))["cached"], row["cached_step_seconds"] * 1e3, 2)
        assert 0 < row["cached_step_seconds"] < 1
        assert "as if loading were free" in text


def step_has_batch_sizes_of_its_own(folder):
    runner.synth(folder / "d.h5", 60)
    text, found = bench(folder, "step", "--rounds", 1, "--steps", 2, "--warm-steps", 1)
    assert [row["batch_size"] for row in found["rows"]] == [2, 4, 8, 16, 32]
    text, found = bench(folder, "step", "--rounds", 1, "--steps", 2, "--warm-steps", 1, "--batch-sizes", "2,1000")
    assert [row["batch_size"] for row in found["rows"]] == [2] and found["left_out"] == [1000]
    assert "left out: batches of 1000" in text


def steps_are_whole(folder):
    """An epoch of 48 samples has a step of 32 and one of 16, which is not measured."""
    runner.synth(folder / "d.h5", 60)
    for np in (None, 2):
        text, found = bench(folder, "step", "--rounds", 1, "--steps", 4, "--seconds", 5, "--batch-sizes", 32 // (np or 1), np=np)
        assert 32 < found["samples"] < 64, found["samples"]
        row, = found["rows"]
        slowest = max(one["step_seconds"] for one in row["ranks"])
        assert abs(row["samples_per_second"]["median"] * slowest / 32 - 1) < 1e-6, row


def memory_is_that_of_the_longest_samples(folder):
    """The first batch has other samples with another seed."""
    runner.run(["synth", "sequence", "--samples", 120, "--out", "s.h5"], cwd=folder).expect(0)
    memory = []
    for seed in (1, 2):
        keys = {"task.name": "sequence", "data.file": "s.h5", "train.seed": seed, "metrics.port": 0}
        done = runner.run(["bench", "step", "--rounds", 1, "--steps", 2, "--batch-sizes", 2, "--json", f"{seed}.json", *runner.flags(keys)], cwd=folder)
        done.expect(0)
        memory.append(json.loads((folder / f"{seed}.json").read_text())["rows"][0]["memory_bytes"])
    for kind in ("batch", "activations"):
        assert memory[0][kind] == memory[1][kind] > 0, (kind, memory)


def step_needs_a_batch_size_to_measure(folder):
    runner.synth(folder / "d.h5", 60)
    keys = runner.flags({"data.file": "d.h5", **SMALL})
    for np, ranks in ((None, "1 rank"), (2, "2 ranks")):
        done = runner.run(["bench", "step", "--batch-sizes", "1000,2000", "--json", "none.json", *keys], np=np, cwd=folder)
        done.expect(64, f"no batch size is left to measure: batches of 1000, 2000: {ranks} would need more than the ")
        samples, most = re.search(r"than the (\d+) training samples. Use --batch-sizes (\d+) or less", done.output).groups()
        assert int(most) == int(samples) // (np or 1), done.output
        assert done.output.count("no batch size is left") == 1 and not (folder / "none.json").exists(), done.output


def step_ends_the_row_for_which_there_is_no_memory(folder):
    """A batch of 3000 pictures of 512 pixels needs 8.8 GiB, and the process may map 8."""
    runner.synth(folder / "d.h5", 4000, size=16)
    words = ["bench", "step", "--rounds", 1, "--steps", 2, "--warm-steps", 1, "--batch-sizes", "1,3000", "--json", "-"]
    keys = {"data.file": "d.h5", **SMALL, "model.image_size": 512, "data.prefetch": 1}
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    done = subprocess.run(runner.command(words + runner.flags(keys)), cwd=folder, env=runner.environment(), preexec_fn=limit,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    small, large = json.loads(done.stdout)["rows"]
    assert small["out_of_memory"] == "" and small["samples_per_second"]["median"] > 0
    assert "no host memory for a tensor of 8.8 GiB" in large["out_of_memory"] and "samples_per_second" not in large, large
    words[words.index("1,3000")] = "3000"
    none = subprocess.run(runner.command(words + runner.flags(keys)), cwd=folder, env=runner.environment(), preexec_fn=limit,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert none.returncode == 1 and "no host memory" in json.loads(none.stdout)["rows"][0]["out_of_memory"], (none.returncode, none.stdout)


def other_tasks_work(folder):
    for task in ("sequence", "pointer"):
        runner.run(["synth", task, "--samples", 120, "--out", f"{task}.h5"], cwd=folder).expect(0)
        keys = {"task.name": task, "data.file": f"{task}.h5", "train.batch_size": 8, "metrics.port": 0}
        runner.run(["bench", "step", "--rounds", 1, "--steps", 2, "--batch-sizes", 8, *runner.flags(keys)], cwd=folder).expect(
            0, "samples/s")
        runner.run(["bench", "data", "--rounds", 1, "--seconds", 0.05, *runner.flags(keys)], cwd=folder).expect(0, "samples/s")


def bad_input_is_explained(folder):
    runner.run(["bench"], cwd=folder).expect(64, "data, comm, step")
    runner.run(["bench", "comms"], cwd=folder).expect(64, "did you mean 'comm'")
    runner.run(["bench", "--help"], cwd=folder).expect(0, "loader", "communicators", "training step")
    for part in ("data", "comm", "step"):
        runner.run(["bench", part, "--help"], cwd=folder).expect(0, "--json", "CONFIG.yaml")
        runner.run(["bench", part, "--train.epoch", 3], cwd=folder).expect(78, "train.epochs")
    runner.run(["bench", "data", "--data.file", "none.h5"], cwd=folder).expect(65, "none.h5")
    runner.run(["bench", "step", "--data.file", "none.h5"], cwd=folder).expect(65, "none.h5")
    runner.synth(folder / "d.h5", 40)
    for value in ("0", "-1", "8,0", "many"):
        runner.run(["bench", "step", "--data.file", "d.h5", "--batch-sizes", value], cwd=folder).expect(64, "--batch-sizes")
    runner.run(["bench", "step", "--data.file", "d.h5", "--batch-size", 0], cwd=folder).expect(78, "batch_size")
    runner.run(["bench", "data", "--data.file", "d.h5", "--emulate", "resnet50"], cwd=folder).expect(64, "resnet50-h100")
    runner.run(["bench", "data", "--data.file", "d.h5", "--emulate", "resnet50-h100"], np=2, cwd=folder).expect(
        64, "without mpirun")
    runner.run(["bench", "data", "--data.file", "d.h5", "--threads", 0], cwd=folder).expect(64, "--worker-counts: 0")
    runner.run(["bench", "comm", "--max-bytes", 8, "--min-bytes", 64], cwd=folder).expect(64, "--max-bytes")
    (folder / "out.json").write_text("mine")
    result = runner.run(["bench", "comm", "--json", "out.json"], cwd=folder)
    assert result.code == 73 and "--force" in result.output, result.output
    assert (folder / "out.json").read_text() == "mine"
    runner.run(["bench", "data", "--data.file", "d.h5", "--json", "d.h5", "--force"], cwd=folder).expect(73, "d.h5")


if __name__ == "__main__":
    runner.main([comm_measures_every_communicator, comm_finds_results_that_are_wrong, comm_on_one_rank_says_that_nothing_travels, data_compares_threads,
                 data_has_the_threads_of_rank_0, data_emulates_accelerators, step_compares_batch_sizes, step_is_the_mean_over_the_phases, step_knows_what_free_loading_would_bring,
                 step_has_batch_sizes_of_its_own, steps_are_whole, memory_is_that_of_the_longest_samples, step_needs_a_batch_size_to_measure, step_ends_the_row_for_which_there_is_no_memory,
                 other_tasks_work, bad_input_is_explained])
