"""tests/gpu/run on simulated machines: without a GPU, and with one that works or fails."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import tree

SMI = "echo '0, Fake GPU, GPU-1, 0000:01:00.0, 24576 MiB, 580.0, 8.6'"
DTRAIN = """if [ "$1" = --version ]; then echo dtrain 0.0.0; exit 0; fi
while [ $# != 0 ]; do case $1 in --name) name=$2 ;; --amp) amp=$2 ;; predict) predict=1 ;; --out) out=$2 ;; esac; shift; done
[ -z "$predict" ] || { printf 'id,class\\n%s' "${ROWS-1,2}" >"$out"; [ "${ROWS-1,2}" ]; exit $((80 * $?)); }
[ "$amp" != "${FAILING:-none}" ] || { echo "loss is NaN"; exit 79; }
mkdir -p "runs/$name"
for rate in 100 300 200; do echo "{\\"step\\": 1, \\"loss\\": 0.5${DRIFT:+${name##*-}}, \\"samples_per_second\\": $rate}"
done >"runs/$name/metrics.jsonl"
echo '{"split": "test", "metrics": {"mae": 4}}' >>"runs/$name/metrics.jsonl"
"""


class GpuRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bundle = self.folder / "bundle"
        tests = [{"name": "t", "command": ["{mpirun}", "-np", "2", "{bin}/kernel_test"], "environment": {}, "timeout": 60}]
        self.script(self.bundle / "run", 'exec "$@"')
        self.script(self.bundle / "bin/dtrain", DTRAIN)
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
                         ["fp32", "tf32", "fp16", "bf16", "fp32 on 2 ranks", "classify", "pointer", "sequence", "module", "deterministic, twice"])
        self.assertEqual([t["predicted_rows"] for t in report["trainings"][5:9]], [1] * 4)
        self.assertEqual({e["samples_per_second"] for e in report["throughput"]}, {200})
        self.assertEqual(len(report["throughput"]), 9)
        self.assertEqual(report["trainings"][0]["evaluations"]["test"]["mae"], 4)
        self.assertEqual(report["counts"], {"passed": 20, "failed": 0, "skipped": 0, "not run": 0})

    def test_a_failure_is_reported(self):
        self.script(self.folder / "smi/nvidia-smi", SMI)
        result, report = self.run_it(FAILING="fp16")
        self.assertEqual(result.returncode, 1)
        failed = [t for t in report["trainings"] if t["result"] == "failed"]
        self.assertEqual([(t["name"], t["exit_code"]) for t in failed], [("fp16", 79)])
        self.assertIn("loss is NaN", failed[0]["output"])

    def failures(self, **environment):
        self.script(self.folder / "smi/nvidia-smi", SMI)
        result, report = self.run_it(**environment)
        self.assertEqual(result.returncode, 1)
        return {t["name"]: t["output"] for t in report["trainings"] if t["result"] == "failed"}

    def test_a_failing_prediction_is_named(self):
        failed = self.failures(ROWS="")
        self.assertEqual(list(failed), ["classify", "pointer", "sequence", "module"])
        self.assertIn("predict: ", failed["pointer"])

    def test_deterministic_runs_with_different_losses_fail(self):
        failed = self.failures(DRIFT="1")
        self.assertEqual(list(failed), ["deterministic, twice"])
        self.assertIn("0.51, 0.51, 0.51], then [0.52,", failed["deterministic, twice"])

    def test_a_python_without_torch_fails_only_module(self):
        self.script(self.folder / "python", "echo no torch; exit 1")
        failed = self.failures()
        self.assertEqual(list(failed), ["module"])
        self.assertIn("torch.jit.script: no torch", failed["module"])


if __name__ == "__main__":
    unittest.main()
