"""tests/gpu/run on simulated machines: without a GPU, and with one that works or fails."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tree

sys.path.append(str(tree.ROOT / "tests/gpu"))
import judge  # noqa: E402

SMI = "echo '0, Fake GPU, GPU-1, 0000:01:00.0, 24576 MiB, 580.0, 8.6'"
# A dtrain that trains nothing. The environment says how it fails.
DTRAIN = r"""#!/usr/bin/env python3
import json, os, pathlib, sys

words = sys.argv[1:]
fault = os.environ.get
def flag(name, default=""):
    return words[words.index(name) + 1] if name in words else default
if words == ["--version"]:
    print("dtrain 0.0.0")
    sys.exit(0)
if words[0] == "synth":
    sys.exit(0)
if words[0] == "eval":
    pathlib.Path(flag("--json")).write_text(json.dumps({"samples": 2, "metrics": {"mae": float(fault("EVALUATED", 4))}}))
    sys.exit(0)
if words[0] == "predict":
    rows = int(fault("ROWS", 2))
    pathlib.Path(flag("--out")).write_text("id,class\n" + "1,2\n" * rows)
    sys.exit(0 if rows else 80)
if words[0] == "trace":
    summary, content = json.loads(pathlib.Path(__file__).with_name("trace.json").read_text())
    summary["ranks"][0]["left_out"] = int(fault("LEFT_OUT", 0))
    pathlib.Path(flag("--json")).write_text(json.dumps(summary))
    pathlib.Path(flag("--out")).write_text(json.dumps(content))
    sys.exit(int(fault("TRACE_CODE", 0)))
if flag("--batch-size") == "100000":
    print("error: out of memory on cuda:0 for a tensor of 47.2 GiB with a micro-batch of 100000 samples (peak 1.0 GiB of 24.0 GiB): "
          "a step needs 50.0 GiB\\nPredicted savings:\\n  --batch-size 50000 --accumulate 2: -25.0 GiB")
    sys.exit(int(fault("OOM_CODE", 69)))
name = flag("--name")
if flag("--amp") == fault("FAILING"):
    print("error: the loss is NaN")
    sys.exit(79)
run = pathlib.Path("runs") / name
run.mkdir(parents=True)
steps = int(flag("--train.max_steps", "8"))
loss = float(fault("FLAT", 0)) or None
drift = float(fault("DRIFT", 0)) * ("deterministic-2" in name or name.endswith("-g"))
records = [{"kind": "step", "step": step, "loss": loss or 1 / step + drift, "samples_per_second": 100.0 * (step % 3 + 1), "memory_used_bytes": 5}
           for step in range(16 if "--resume" in words else 1, steps + 1)]
records.append({"kind": "eval", "split": "test", "metrics": {"mae": 4}})
captured = 2 if "--train.accumulate" in words else 1
(run / "log.txt").write_text("CUDA graphs: the last micro-step of a step is captured (in 0.1 s)\\n" * captured)
(run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
if name == "metrics":
    import http.server, threading, time
    page = "".join(line + "\n" for line in ("dtrain_steps_total{rank=\"0\"} 60", "dtrain_gpus{rank=\"0\"} " + fault("GPUS", "1"),
        "dtrain_loss{split=\"train\"} 0.1", "dtrain_gpu_memory_used_bytes 1e9", "dtrain_gpu_memory_total_bytes 2e10",
        "dtrain_gpu_temperature_celsius 60", "dtrain_device_memory_bytes{kind=\"allocated\"} 1e8",
        "dtrain_device_memory_bytes{kind=\"peak\"} 2e8", "dtrain_gpu_utilization_ratio 0.9"))
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page.encode())
    server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pathlib.Path("runs/targets").mkdir()
    pathlib.Path("runs/targets/metrics.json").write_text(json.dumps([{"targets": [f"127.0.0.1:{server.server_port}"]}]))
    time.sleep(1.5)
"""


def made_trace():
    """The summary and the file of a trace of three steps, with operators and with memory."""
    events = [{"ph": "M", "name": "thread_name", "pid": 0, "tid": number, "args": {"name": name}}
              for number, name in enumerate(("training", "cuda:0 phases", "cuda:0 stream 7"), 1)]

    def add(thread, category, name, begin, duration, **args):
        events.append({"ph": "X", "pid": 0, "tid": thread, "cat": category, "name": name, "ts": begin, "dur": duration, "args": args})
    for step in range(3):
        begin = 10000.0 * (step + 1)
        add(1, "step", f"step {step + 4}", begin, 10000, step=step + 4)
        add(1, "backward operator", "ConvolutionBackward0", begin + 100, 50, sequence=3, module="conv1")
        for position, name in enumerate(("forward", "backward", "optimizer")):
            at = begin + 500 + 3000 * position
            add(2, "phase", name, at, 3000)
            for kernel in range(10):
                add(3, "kernel", "gemm", at + 200 * kernel, 150)
        events.append({"ph": "C", "pid": 0, "tid": 0, "name": "tensor memory", "ts": begin, "args": {"value": 90}})
    peaks = [{"pass": name, "bytes": 90, "held": [{"operator": "aten::conv2d", "bytes": 60}, {"operator": "", "bytes": 20}], "others_bytes": 10}
             for name in ("forward", "backward")]
    return {"not_measured": [], "ranks": [{"rank": 0, "left_out": 0, "peaks": peaks}]}, {"traceEvents": events}


class GpuRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bundle = self.folder / "bundle"
        tests = [{"name": "t", "command": ["{mpirun}", "-np", "2", "{bin}/kernel_test"], "environment": {}, "timeout": 60}]
        self.script(self.bundle / "run", 'exec "$@"')
        self.script(self.bundle / "bin/dtrain", "")
        (self.bundle / "bin/dtrain").write_text(DTRAIN)
        (self.bundle / "bin/trace.json").write_text(json.dumps(made_trace()))
        self.script(self.folder / "python", "exit 0")
        self.script(self.bundle / "bin/mpirun", 'shift 2; exec "$@"')
        self.script(self.bundle / "bin/kernel_test", "exit 0")
        (self.bundle / "tests.json").write_text(json.dumps(tests))

    @staticmethod
    def script(path, body):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/bash\n" + body + "\n")
        path.chmod(0o755)

    def run_it(self, **environment):
        path = f"{self.folder}/smi:/usr/bin:/bin"
        out = self.folder / "gpu.json"
        result = subprocess.run([tree.ROOT / "tests/gpu/run", "--bundle", self.bundle, "--out", out], capture_output=True,
                                text=True, timeout=120, env={"PATH": path, "HOME": os.environ["HOME"],
                                                           "DTRAIN_PYTHON": str(self.folder / "python"), **environment})
        return result, json.loads(out.read_text()) if out.exists() else None

    def test_without_a_gpu_it_is_skipped(self):
        self.script(self.folder / "smi/nvidia-smi", "exit 9")
        result, report = self.run_it()
        self.assertEqual((result.returncode, report), (77, None))
        self.assertIn("no GPU", result.stdout)

    def test_everything_is_in_the_report(self):
        self.script(self.folder / "smi/nvidia-smi", SMI)
        result, report = self.run_it()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(report["gpus"][0]["name"], "Fake GPU")
        self.assertEqual(report["version"], "dtrain 0.0.0")
        self.assertEqual([t["result"] for t in report["tests"]], ["passed"])
        self.assertEqual([t["name"] for t in report["trainings"]],
                         ["fp32", "tf32", "fp16", "bf16", "fp32 on 2 ranks",
                          *("as on the CPU: " + c for c in ("plain", "batch norm of LibTorch", "checkpointing", "accumulate 4", "shared batch norm", "sgd, clip and ema")),
                          *("CUDA graphs: " + c for c in ("float32", "bfloat16, clip and ema", "float16, accumulate 2", "accumulate 2 over NCCL", "shared batch norm over NCCL")),
                          "classify", "pointer", "sequence", "module", "deterministic, twice", "metrics", "trace", "out of memory"])
        self.assertEqual([t["predicted_rows"] for t in report["trainings"][16:20]], [2] * 4)
        self.assertEqual({e["samples_per_second"] for e in report["throughput"]}, {200})
        self.assertEqual(len(report["throughput"]), 15)
        self.assertEqual(sum(e["cuda_graph"] for e in report["throughput"]), 3)
        self.assertEqual(sum(not e["fused_norm"] for e in report["throughput"]), 3)
        self.assertEqual(report["trainings"][0]["evaluations"]["test"]["mae"], 4)
        self.assertEqual(report["counts"], {"passed": 38, "failed": 0, "skipped": 2, "not run": 0})
        skipped = [t for t in report["trainings"] if t["result"] == "skipped"]
        self.assertEqual({t["output"] for t in skipped}, {"NCCL needs 2 GPUs for 2 ranks, and there is 1"})
        self.assertTrue(all(t["name"].endswith("over NCCL") for t in skipped))

    def test_two_gpus_run_graphs_over_nccl(self):
        self.script(self.folder / "smi/nvidia-smi", f"{SMI}\n{SMI}")
        result, report = self.run_it()
        self.assertEqual((result.returncode, report["counts"]["skipped"]), (0, 0))
        over_nccl = {t["name"]: t["result"] for t in report["trainings"] if t["name"].endswith("over NCCL")}
        self.assertEqual(over_nccl, {f"CUDA graphs: {c} over NCCL": "passed" for c in ("accumulate 2", "shared batch norm")})

    def failures(self, **environment):
        """Runs it with faults that concern different entries of the report; returns the outputs of those that failed."""
        self.script(self.folder / "smi/nvidia-smi", SMI)
        result, report = self.run_it(**environment)
        self.assertEqual(result.returncode, 1)
        failed = {t["name"]: t for t in report["trainings"] if t["result"] == "failed"}
        self.assertEqual({t["name"] for t in report["throughput"] if t["result"] == "failed"}, set())
        return failed

    def test_failures_are_reported(self):
        failed = self.failures(FAILING="fp16", ROWS="0", DRIFT="0.01", GPUS="0", OOM_CODE="70", LEFT_OUT="3")
        tasks, like_the_cpu = ["classify", "pointer", "sequence", "module"], [name for name in failed if name.startswith("as on the CPU")]
        self.assertEqual(list(failed), ["fp16", *like_the_cpu, "CUDA graphs: float16, accumulate 2", *tasks, "deterministic, twice", "metrics", "trace", "out of memory"])
        self.assertEqual(failed["fp16"]["exit_code"], 79)
        self.assertIn("loss is NaN", failed["fp16"]["output"])
        self.assertIn("predict: ", failed["pointer"]["output"])
        self.assertEqual(len(like_the_cpu), 6)
        self.assertIn("GPU and CPU: the losses differ in step 1", failed["as on the CPU: plain"]["output"])
        self.assertIn("two runs: the losses differ in step 1", failed["deterministic, twice"]["output"])
        self.assertIn("dtrain_gpus is 0.0, not 1", failed["metrics"]["output"])
        self.assertEqual(failed["trace"]["output"], "--operators: 3 events were left out")
        self.assertEqual(failed["out of memory"]["output"], "exit code 70, not 69")

    def test_predictions_of_some_samples_and_evaluations_that_are_not_those_of_the_training_fail(self):
        failed = self.failures(ROWS="1", EVALUATED="4.5", TRACE_CODE="70")
        tasks = ["classify", "pointer", "sequence", "module"]
        self.assertEqual(list(failed), [*tasks, "trace"])
        for task in tasks:
            self.assertEqual(failed[task]["output"], "eval and training differ: {'mae': (4.5, 4)}; predict: 1 rows for 2 samples")
        self.assertIn("--operators: ", failed["trace"]["output"])

    def test_a_training_that_learns_nothing_fails(self):
        failed = self.failures(FLAT="0.5")
        self.assertIn("nothing was learned: the loss was 0.5 and is 0.5", failed["fp32"]["output"])
        self.assertNotIn("sequence", failed)  # whose phases have losses of their own

    def test_a_python_without_torch_fails_only_module(self):
        self.script(self.folder / "python", "echo no torch; exit 1")
        failed = self.failures()
        self.assertEqual(list(failed), ["module"])
        self.assertIn("torch.jit.script: no torch", failed["module"]["output"])


class Judge(unittest.TestCase):
    STEPS = [{"kind": "step", "step": i, "loss": 1 / i, "samples_per_second": 9.0, "memory_used_bytes": 1} for i in range(1, 9)]

    def test_a_training_without_steps_or_with_a_loss_that_is_not_finite(self):
        self.assertEqual(judge.training(self.STEPS), [])
        self.assertEqual(judge.training([]), ["metrics.jsonl has no step"])
        self.assertIn("not finite", judge.training([*self.STEPS, {**self.STEPS[0], "loss": None}])[0])
        self.assertIn("samples_per_second", judge.training([*self.STEPS, {**self.STEPS[-1], "samples_per_second": 0}])[0])
        self.assertIn("the test split", judge.training([*self.STEPS, {"kind": "eval", "split": "test", "metrics": {"mae": None}}])[0])

    def test_equal_losses_are_of_the_same_steps(self):
        self.assertEqual(judge.equal_losses("x", {1: 2.0}, {1: 2.0}), [])
        self.assertEqual(judge.equal_losses("x", {1: 2.001}, {1: 2.0}, 1e-3), [])
        self.assertIn("differ in step 1", judge.equal_losses("x", {1: 2.003}, {1: 2.0}, 1e-3)[0])
        self.assertIn("steps [1] and [1, 2]", judge.equal_losses("x", {1: 2.0}, {1: 2.0, 2: 1.0})[0])
        self.assertIn("steps [] and []", judge.equal_losses("x", {}, {})[0])

    def test_steps_must_have_been_captured(self):
        line = "[2026-01-02 03:04:05] CUDA graphs: the last micro-step of a step is captured (in 0.1 s)\n"
        self.assertEqual(judge.captured(line, 1), [])
        self.assertIn("0 micro-steps were captured, not 1", judge.captured("warning: CUDA graphs cannot be used", 1)[0])
        self.assertIn("1 micro-steps were captured, not 2", judge.captured(line, 2)[0])

    def test_an_evaluation_may_flip_two_samples(self):
        trained = {"loss": 0.5, "top1": 0.8}

        def judged(**metrics):
            return judge.evaluation({"samples": 200, "metrics": {**trained, **metrics}}, trained)
        self.assertEqual(judged(), [])
        self.assertEqual(judged(top1=0.81, loss=0.504), [])
        self.assertIn("top1", judged(top1=0.815)[0])
        self.assertIn("loss", judged(loss=0.506)[0])
        self.assertIn("eval has the metrics", judge.evaluation({"samples": 200, "metrics": {"loss": 0.5}}, trained)[0])

    def test_full_memory_names_what_to_change(self):
        text = "error: out of memory on cuda:0{} with a micro-batch of 8 samples: Predicted savings:\n  --batch-size 4: -1.0 GiB"
        for tensor in ("", " for a tensor of 47.2 GiB", " for a tensor of 9 B"):
            self.assertEqual(judge.out_of_memory(69, text.format(tensor)), [])
        self.assertEqual(len(judge.out_of_memory(69, "error: out of host memory")), 3)
        self.assertIn("exit code 1", judge.out_of_memory(1, text.format(""))[0])

    def judged_trace(self, flag, change=lambda summary, events: None):
        summary, content = made_trace()
        content["traceEvents"] = change(summary, content["traceEvents"]) or content["traceEvents"]
        return judge.trace(content, summary, flag)

    def test_a_trace_has_steps_and_the_phases_of_the_device(self):
        def only(chosen):
            return lambda summary, events: [e for e in events if chosen(e)]

        def moved(by):
            def change(summary, events):
                for event in events:
                    event["ts"] = event.get("ts", 0) + (by if event.get("cat") == "phase" else 0)
            return change

        def left_out(summary, events):
            summary["ranks"][0]["left_out"] = 2
        for flag in ("--operators", "--memory"):
            self.assertEqual(self.judged_trace(flag), [])
            self.assertEqual(self.judged_trace(flag, only(lambda e: e["name"] != "step 5")), ["2 steps, not 3"])
            self.assertEqual(self.judged_trace(flag, left_out), ["2 events were left out"])
        self.assertEqual(self.judged_trace("--memory", moved(25000)), [], "the device is behind")
        for by in (-20000, 40000):
            self.assertIn("a phase of the device is at", self.judged_trace("--memory", moved(by))[0])
        self.assertEqual(self.judged_trace("--memory", only(lambda e: e["name"] not in ("backward", "optimizer"))),
                         ["the device has no phase backward, optimizer"])

    def test_a_trace_with_operators_has_kernels_in_the_phases_and_modules(self):
        def without_kernels(summary, events):
            return [e for e in events if e.get("cat") != "kernel"]

        def without_permission(summary, events):
            summary["not_measured"] = ["GPU kernels: CUPTI reports none"]
            return without_kernels(summary, events)

        def late_kernels(summary, events):
            for event in events:
                event["ts"] = event.get("ts", 0) + (5000 if event.get("cat") == "kernel" else 0)

        def without_modules(summary, events):
            for event in events:
                event["args"].pop("module", None)
        self.assertEqual(self.judged_trace("--operators", without_kernels), ["0 kernels in 3 steps"])
        self.assertEqual(self.judged_trace("--operators", without_permission), [])
        self.assertIn("us of the kernels are in the phases of the device", self.judged_trace("--operators", late_kernels)[0])
        self.assertEqual(self.judged_trace("--operators", without_modules), ["no operator of the backward pass has a module"])

    def test_a_trace_with_memory_names_who_holds_it(self):
        def other_bytes(summary, events):
            summary["ranks"][0]["peaks"][0]["bytes"] = 100

        def nothing(summary, events):
            summary["ranks"][0]["peaks"][1].update(bytes=0, held=[], others_bytes=0)

        def no_peaks(summary, events):
            del summary["ranks"][0]["peaks"]

        def no_counter(summary, events):
            return [e for e in events if e["ph"] != "C"]
        self.assertEqual(self.judged_trace("--memory", other_bytes), ["90 of 100 bytes are held at the peak of forward"])
        self.assertEqual(self.judged_trace("--memory", nothing),
                         ["0 of 0 bytes are held at the peak of backward", "no operator holds memory at the peak of backward"])
        self.assertEqual(self.judged_trace("--memory", no_peaks), ["peaks of [], not of forward and backward"])
        self.assertEqual(self.judged_trace("--memory", no_counter), ["there is no counter of tensor memory"])

    def test_an_empty_page_has_none_of_the_series(self):
        self.assertEqual(len(judge.metrics_page("", 60)), 9)


if __name__ == "__main__":
    unittest.main()
