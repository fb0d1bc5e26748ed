"""dtrain trace: the file that it writes, read as the documented Trace Event Format; and what a run says when memory is full."""

import collections
import gzip
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

import runner

KEYS = {"data.file": "d.h5", "model.image_size": 32, "train.batch_size": 8, "train.accumulate": 2, "data.workers": 2,
        "dist.bucket_mb": 0.5, "dist.first_bucket_mb": 0.25, "train.ema": 0.9}
STEPS = 4
PHASES = ["data_wait", "h2d", "forward", "backward", "allreduce_wait", "optimizer", "checkpoint", "eval", "other"]


def trace(folder, *arguments, np=None, code=0, out="t.json", **options):
    """Returns what is printed, the JSON of the command, and the events of its trace."""
    keys = {**KEYS, **{key.replace("__", "."): value for key, value in options.items()}}
    words = ["trace", "--steps", STEPS, "--out", out, "--json", "out.json", "--force", *arguments, *runner.flags(keys)]
    done = subprocess.run(runner.command(words, np), cwd=folder, env=runner.environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    content = (folder / out).read_bytes()
    text = gzip.decompress(content) if out.endswith(".gz") else content
    return done.stdout, json.loads((folder / "out.json").read_text()), json.loads(text)


class Trace:
    """Events by process and thread, checked against the documented format."""

    def __init__(self, content):
        self.facts = content["otherData"]
        self.events = content["traceEvents"]
        self.processes, self.threads = {}, {}
        for event in self.events:
            assert event["ph"] in "MXbneCsf", event
            assert isinstance(event["pid"], int) and isinstance(event["tid"], int), event
            if event["ph"] == "M" and event["name"] == "process_name":
                self.processes[event["pid"]] = event["args"]["name"]
            if event["ph"] == "M" and event["name"] == "thread_name":
                self.threads[event["pid"], event["tid"]] = event["args"]["name"]
        for event in self.events:
            assert event["ph"] == "M" or event["ts"] >= 0, event
        self.end = max(e["ts"] + e.get("dur", 0) for e in self.events if e["ph"] != "M")

    def slices(self, rank, thread=None, category=None):
        found = [e for e in self.events if e["ph"] == "X" and e["pid"] == rank
                 and (thread is None or self.threads[rank, e["tid"]] == thread)
                 and (category is None or e["cat"] == category)]
        return sorted(found, key=lambda e: (e["ts"], -e["dur"]))

    def of(self, phase, rank=None):
        return [e for e in self.events if e["ph"] == phase and rank in (None, e["pid"])]

    def check_nesting(self):
        """Slices of one thread are apart or one inside the other, to a nanosecond."""
        for rank, tid in self.threads:
            open_ends = []
            slices = [e for e in self.events if e["ph"] == "X" and (e["pid"], e["tid"]) == (rank, tid)]
            for event in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
                end = event["ts"] + event["dur"]
                while open_ends and open_ends[-1] <= event["ts"] + 0.0005:
                    open_ends.pop()
                assert not open_ends or end <= open_ends[-1] + 0.0015, event
                open_ends.append(end)


def check_steps(found, rank, accumulate=2):
    """Steps follow each other; their phases, `other` included, are all of them, and lie in micro-steps."""
    steps = found.slices(rank, "training", "step")
    assert len(steps) == STEPS, [s["name"] for s in steps]
    numbers = [step["args"]["step"] for step in steps]
    assert numbers == list(range(numbers[0], numbers[0] + STEPS)), numbers
    for before, after in zip(steps, steps[1:]):
        assert abs(before["ts"] + before["dur"] - after["ts"]) < 0.002, (before, after)
    phases = found.slices(rank, "training", "phase")
    assert {p["name"] for p in phases} <= set(PHASES)
    micro = found.slices(rank, "training", "micro-step")
    for step in steps:
        number = step["args"]["step"]
        own = [p for p in phases if p["args"]["step"] == number]
        assert {"data_wait", "forward", "backward", "allreduce_wait", "optimizer"} <= {p["name"] for p in own}
        assert abs(sum(p["dur"] for p in own) - step["dur"]) < 0.05, (step, own)
        assert [m["args"]["micro_step"] for m in micro if m["args"]["step"] == number] == list(range(accumulate))
        assert sum(p["name"] == "forward" for p in own) == accumulate
    return steps


def check_loader(found, rank, workers=2):
    names = {name for (pid, _), name in found.threads.items() if pid == rank and name.startswith("loader")}
    assert names == {f"loader {i}" for i in range(workers)}
    stages = [e for e in found.slices(rank) if e["cat"] == "loader"]
    assert {s["name"] for s in stages} == {"read", "decode", "augment"}
    batches = found.slices(rank, category="batch")
    assert batches and all(1 <= b["args"]["samples"] <= 8 for b in batches)
    samples = {(s["args"]["step"], s["args"]["micro_step"], s["args"]["sample"]) for s in stages}
    assert len(samples) >= 8, "at least a batch was read meanwhile"
    return stages


def one_rank_shows_its_steps(folder):
    runner.synth(folder / "d.h5", 300)
    before = sorted(p.name for p in folder.iterdir())
    text, summary, content = trace(folder, out="t.json.gz")
    assert sorted(p.name for p in folder.iterdir()) == sorted([*before, "out.json", "t.json.gz"]), "nothing else is written"
    found = Trace(content)
    found.check_nesting()
    assert list(found.processes) == [0] and found.processes[0].startswith("rank 0: ")
    steps = check_steps(found, 0)
    check_loader(found, 0)
    # What the phases take is what the command and `bench step` measure.
    rank = summary["ranks"][0]
    mean = sum(s["dur"] for s in steps) * 1e-6 / STEPS
    assert abs(mean - rank["step_seconds"]) < 0.05 * rank["step_seconds"] + 5e-3, (mean, rank)
    forward = sum(p["dur"] for p in found.slices(0, "training", "phase") if p["name"] == "forward") * 1e-6 / STEPS
    assert abs(forward - rank["phase_seconds"]["forward"]) < 0.02 * forward + 5e-3
    assert rank["left_out"] == 0 and rank["clock_error_seconds"] == 0
    assert summary["events"] == rank["events"] > 100
    assert not found.slices(0, category="operator"), "on request only"
    assert {c["name"] for c in found.of("C")} == {"batches ready"}
    # A rank that is alone has buckets that nothing carries.
    assert found.of("b") and len(found.of("b")) == len(found.of("n")) == len(found.of("e"))
    assert not found.slices(0, category="communication")
    assert "1 rank sends nothing" in text and "GPU: there is none" in text and "ui.perfetto.dev" in text
    assert found.facts["ranks"] == "1" and "not measured" in found.facts


def ranks_are_on_one_clock(folder):
    runner.synth(folder / "d.h5", 300)
    text, summary, content = trace(folder, np=2)
    found = Trace(content)
    found.check_nesting()
    assert sorted(found.processes) == [0, 1] and found.processes[1].startswith("rank 1: ")
    for rank in (0, 1):
        check_steps(found, rank)
        check_loader(found, rank)
        assert summary["ranks"][rank]["clock_error_seconds"] < 0.1, "of barriers, for each of which another process may take the core"
    window = max(s["ts"] + s["dur"] for rank in (0, 1) for s in found.slices(rank, "training"))
    assert found.end < window + 5e6, "nothing is far outside of the steps"
    # On one clock, a sum over both ranks ends on neither before the other has sent its part.
    carried = "gradients (shared_memory)"
    buckets = [{(b["args"]["step"], b["args"]["bucket"]): b for b in found.slices(rank, carried)} for rank in (0, 1)]
    assert set(buckets[0]) == set(buckets[1]) and len(buckets[0]) >= 2 * STEPS, "several buckets in each step"
    for key, mine in buckets[0].items():
        theirs = buckets[1][key]
        assert mine["name"] == theirs["name"] == f"bucket {key[1]}" and mine["args"]["bytes"] == theirs["args"]["bytes"]
        for one, other in ((mine, theirs), (theirs, mine)):
            assert one["ts"] + one["dur"] > other["ts"] - other["args"]["waited_us"], (one, other)
    for rank in (0, 1):
        rows = {}
        for event in [e for e in found.events if e["ph"] in "bne" and e["pid"] == rank]:
            rows.setdefault(event["id2"]["local"], []).append((event["ts"], "bne".index(event["ph"]), event["ph"]))
        for row in rows.values():
            assert "".join(phase for *_, phase in sorted(row)) == "bne" * STEPS, "ready, sent and done, step after step"
        steps = {s["args"]["step"]: s for s in found.slices(rank, "training", "step")}
        for (step, _), bucket in buckets[rank].items():
            assert steps[step]["ts"] <= bucket["ts"] and bucket["ts"] + bucket["dur"] <= steps[step]["ts"] + steps[step]["dur"]
    arrows = collections.Counter((e["id"], e["ph"]) for e in found.events if e["ph"] in "sf")
    assert arrows and set(arrows.values()) == {1} and len(arrows) % 2 == 0
    assert any(name == "agreement (mpi)" for name in found.threads.values())
    assert "rank sends nothing" not in text


def operators_and_memory_on_request(folder):
    runner.synth(folder / "d.h5", 300)
    text, summary, content = trace(folder, "--operators", "--memory", np=2)
    found = Trace(content)
    found.check_nesting()
    for rank in (0, 1):
        check_steps(found, rank)
        forward = found.slices(rank, "training", "operator")
        backward = found.slices(rank, "training", "backward operator")
        assert {"aten::conv2d", "aten::addmm"} <= {o["name"] for o in forward}
        # LibTorch's, and those that are computed by our own loops, which CPUs with AVX2 have.
        convolutions = [o for o in backward if re.search(r"ConvolutionBackward|layers::.*Conv2d", o["name"])]
        assert len(convolutions) == STEPS * 2 * 5, "five convolutions in each micro-step"
        assert all(o["args"].get("module") for o in convolutions), convolutions[0]
        phases = [p for p in found.slices(rank, "training", "phase") if p["name"] == "backward"]
        for o in convolutions:
            assert any(p["ts"] <= o["ts"] and o["ts"] + o["dur"] <= p["ts"] + p["dur"] + 0.002 for p in phases), o
        # Arrows from forward to backward lead forward in time.
        starts = {e["id"]: e for e in found.of("s", rank) if e["cat"] == "backward"}
        ends = {e["id"]: e for e in found.of("f", rank) if e["cat"] == "backward"}
        assert set(starts) == set(ends) and len(starts) >= len(convolutions)
        assert all(starts[i]["ts"] <= ends[i]["ts"] for i in starts)
        held = [c["args"]["value"] for c in found.of("C", rank) if c["name"] == "tensor memory"]
        peaks = {peak["pass"]: peak for peak in summary["ranks"][rank]["peaks"]}
        assert list(peaks) == ["forward", "backward"]
        assert max(held) >= max(peak["bytes"] for peak in peaks.values()) > 0
        for peak in peaks.values():
            assert sum(one["bytes"] for one in peak["held"]) + peak["others_bytes"] == peak["bytes"]
            sizes = [one["bytes"] for one in peak["held"]]
            assert sizes == sorted(sizes, reverse=True)
        # The output of the first block's convolution alone: 8 pictures of 32 channels and 32×32 values. With some vectors our own loops hold more.
        largest = peaks["forward"]["held"][0]
        assert re.match("(aten|dtrain)::", largest["operator"]) and largest["bytes"] >= 8 * 32 * 32 * 32 * 4, largest
        assert any(one["module"] for one in peaks["forward"]["held"])
        assert any(one["made_in"] == "backward" for one in peaks["backward"]["held"])
        memory = summary["ranks"][rank]["memory_bytes"]
        assert memory["average"] > 0 and memory["activations"] > 0
        assert peaks["backward"]["bytes"] < 3 * memory["activations"]
    size = (folder / "t.json").stat().st_size
    assert 0.5 < size / (170 * summary["events"]) < 2, (size, summary["events"])  # what --max-mib estimates
    assert "Held at the peak of forward" in text and "Held at the peak of backward" in text and "aten::" in text


def other_tasks_are_traced(folder):
    for task in ("sequence", "pointer"):
        runner.run(["synth", task, "--samples", 120, "--out", f"{task}.h5"], cwd=folder).expect(0)
        keys = {"task.name": task, "data.file": f"{task}.h5", "train.batch_size": 8}
        words = ["trace", "--steps", 2, "--warm-steps", 3, "--memory", "--operators", "--out", f"{task}.json", *runner.flags(keys)]
        runner.run(words, cwd=folder).expect(0, "Held at the peak of backward")
        found = Trace(json.loads((folder / f"{task}.json").read_text()))
        found.check_nesting()
        assert len(found.slices(0, "training", "step")) == 2


def writing_slowly_is_no_stall(folder):
    """Who reads the file through a pipe waits for longer than dist.timeout, which ends jobs that make no progress."""
    runner.synth(folder / "d.h5", 60)
    os.mkfifo(folder / "slow.json")
    words = ["trace", "--steps", 2, "--operators", "--out", "slow.json", "--force", *runner.flags({**KEYS, "dist.timeout": 4})]
    with runner.Running(words, cwd=folder) as job:
        with open(folder / "slow.json", "rb") as pipe:
            first = pipe.read(1)
            time.sleep(10)
            content = first + pipe.read()
        assert job.process.wait(60) == 0, job.output()
    assert len(content) > 2 << 16, "more than a pipe holds"
    assert len(Trace(json.loads(content)).slices(0, "training", "step")) == 2


def an_interrupted_trace_leaves_no_file(folder):
    runner.synth(folder / "d.h5", 60)
    words = ["trace", "--warm-steps", 100000, "--out", "t.json.gz", "--json", "out.json", *runner.flags(KEYS)]
    with runner.Running(words, cwd=folder) as job:
        time.sleep(8)  # it says nothing while it measures
        assert job.process.poll() is None, job.output()
        job.process.send_signal(signal.SIGTERM)
        assert job.process.wait(60) == -signal.SIGTERM, job.output()
    assert [path.name for path in folder.iterdir()] == ["d.h5"]


def bad_input_is_explained(folder):
    runner.synth(folder / "d.h5", 60)
    large = ["trace", *runner.flags(KEYS)]
    small = [*large, "--steps", 2]
    (folder / "trace.json.gz").write_text("mine")
    result = runner.run(small, cwd=folder)
    assert result.code == 73 and "--force" in result.output and "trace.json.gz" in result.output, result.output
    assert (folder / "trace.json.gz").read_text() == "mine"
    runner.run([*small, "--out", "d.h5", "--force"], cwd=folder).expect(73, "d.h5")
    runner.run([*small, "--out", "nowhere/t.json"], cwd=folder).expect(73, "nowhere")
    runner.run([*small, "--out", "-"], cwd=folder).expect(64, "--out")
    for json_file in ("x.json", "./x.json", folder / "x.json"):
        runner.run([*small, "--out", "x.json", "--json", json_file], cwd=folder).expect(64, "the same file")
    runner.run([*small, "--warm-steps", 2], cwd=folder).expect(64, "--warm-steps")
    runner.run([*large, "--steps", 0], cwd=folder).expect(64, "--steps")
    result = runner.run([*large, "--steps", 100000, "--max-mib", 1, "--out", "large.json"], np=2, cwd=folder)
    result.expect(64, "a trace of 100000 steps would have about", "the limit is 1.0 MiB: use --steps")
    fitting = int(re.search(r"use --steps (\d+)", result.output).group(1))
    assert 1 <= fitting < 1000, result.output
    long_step = runner.flags({**KEYS, "train.batch_size": 2, "train.accumulate": 24})
    result = runner.run(["trace", "--steps", 1, "--operators", "--max-mib", 1, "--out", "large.json", *long_step], cwd=folder)
    result.expect(64, "the limit is 1.0 MiB: leave out --operators, or raise --max-mib")
    assert not (folder / "large.json").exists() and not [p for p in folder.iterdir() if "large" in p.name]
    runner.run([*small, "--train.epoch", 3], cwd=folder).expect(78, "train.epochs")
    runner.run(["trace", "--help"], cwd=folder).expect(0, "--operators", "--memory", "CONFIG.yaml")


LIMIT = 8 << 30  # of addresses, of which a process without data takes three
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def sizes_in(text):
    """{"weights": bytes, ...} of the line of a step's needs, and {flags: bytes} of the remedies."""
    def number(match):
        return float(match[0]) * UNITS[match[1]]
    kinds = {m[0]: number(m[1:]) for m in re.findall(r"(\w+) ([\d.]+) (B|KiB|MiB|GiB|TiB)[,)]", text)}
    remedies = {m[0]: number(m[1:]) for m in re.findall(r"\n\s*(--[^:]+): -([\d.]+) (B|KiB|MiB|GiB|TiB)", text)}
    return kinds, remedies


def full_memory_names_three_remedies(folder):
    """A batch of 3000 pictures of 512 pixels needs 8.8 GiB, of which the process has less."""
    runner.synth(folder / "d.h5", 3800, size=16)
    keys = {"data.file": "d.h5", "model.image_size": 512, "model.name": "resnet18", "train.batch_size": 3000, "data.prefetch": 1, "data.val_share": 0.05}
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    messages = []
    for words in (["--metrics.enabled", "false", "--run.name", "r"], ["trace", "--steps", 1]):
        done = subprocess.run(runner.command([*words, *runner.flags(keys)]), cwd=folder, env=runner.environment(2),
                              preexec_fn=limit, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        assert done.returncode == 69, (words, done.returncode, done.stdout, done.stderr)
        assert "out of host memory for a tensor of 8.8 GiB with a micro-batch of 3000 samples" in done.stderr, done.stderr
        messages.append(done.stderr)
    kinds, remedies = sizes_in(messages[0])
    assert list(remedies) == list(sizes_in(messages[1])[1]), "training and trace say the same"
    # A CPU without instructions for bfloat16 is not told to use it.
    has_bfloat16 = re.search("avx512_bf16|amx_bf16", pathlib.Path("/proc/cpuinfo").read_text()) is not None
    assert len(remedies) == 2 + has_bfloat16, messages[0]
    smaller = next(flags for flags in remedies if flags.startswith("--batch-size"))
    batch, accumulate = map(int, re.search(r"--batch-size (\d+) --accumulate (\d+)", smaller).groups())
    assert 1 <= batch < 3000 and (accumulate - 1) * batch < 3000 <= accumulate * batch, messages[0]
    expected = (kinds["activations"] + kinds["batches"]) * (1 - batch / 3000)
    assert abs(remedies[smaller] - expected) < 0.1 * expected, messages[0]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert kinds["activations"] * batch / 3000 < memory, "what it leaves fits"
    assert "--model.checkpointing true" in remedies and ("--amp bf16" in remedies) == has_bfloat16
    # What is predicted for 3000 samples is what each of a few samples takes. What does not depend on their number is not in it.
    measured = {}
    for name, flag in (("", []), ("--model.checkpointing true", ["--model.checkpointing", "true"])):
        words = ["bench", "step", "--rounds", 1, "--steps", 2, "--warm-steps", 1, "--seconds", 0.1, "--batch-sizes", "2,4", "--json", "-",
                 *flag, *runner.flags({**keys, "train.batch_size": 2})]
        done = subprocess.run(runner.command(words), cwd=folder, env=runner.environment(2), capture_output=True, text=True, timeout=300)
        few, more = sorted(row["memory_bytes"]["activations"] for row in json.loads(done.stdout)["rows"])
        measured[name] = (more - few) / 2
    predicted = kinds["activations"] / 3000
    assert abs(predicted - measured[""]) < 0.2 * measured[""], (predicted, measured)
    saved = measured[""] - measured["--model.checkpointing true"]
    assert abs(remedies["--model.checkpointing true"] / 3000 - saved) < 0.15 * measured[""], (remedies, measured)
    assert not has_bfloat16 or 0 < remedies["--amp bf16"] < kinds["activations"]


if __name__ == "__main__":
    runner.main([one_rank_shows_its_steps, ranks_are_on_one_clock, operators_and_memory_on_request, other_tasks_are_traced, writing_slowly_is_no_stall,
                 an_interrupted_trace_leaves_no_file, bad_input_is_explained], campaign=[full_memory_names_three_remedies])
