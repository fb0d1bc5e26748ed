"""TensorBoard itself reads the event file of the C++ writer, and a resumed run replaces the steps that it repeats."""

import glob
import math
import os
import subprocess
import sys
import tempfile
import time

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def write_run(runs):
    subprocess.run([os.environ["DTRAIN_DEMO"], "0", runs, "0"], check=True, stdout=subprocess.DEVNULL)


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


with tempfile.TemporaryDirectory() as runs:
    write_run(runs)
    folder = os.path.join(runs, "demo")
    files = glob.glob(os.path.join(folder, "events.out.tfevents.*"))
    check(len(files) == 1, f"one event file, got {files}")
    events = EventAccumulator(folder)
    events.Reload()
    tags = set(events.Tags()["scalars"])
    wanted = {"loss/train", "loss/val", "lr", "grad_norm", "samples_per_second", "phase/forward", "phase/data_wait",
              "eval/val/mae", "eval/val/mae_yaw"}
    check(wanted <= tags, f"missing tags {wanted - tags} in {tags}")
    loss = events.Scalars("loss/train")
    check([e.step for e in loss] == [1, 5, 10, 15, 20], f"logging steps, got {[e.step for e in loss]}")
    check(all(abs(e.value - math.exp(-0.01 * e.step)) < 1e-6 for e in loss), "values of loss/train")
    check(abs(loss[0].wall_time - time.time()) < 600, f"wall time {loss[0].wall_time}")
    check([e.value for e in events.Scalars("eval/val/mae")] == [6.0, 6.0], "values of eval/val/mae")

    time.sleep(1.1)  # the file's name carries the second
    write_run(runs)  # the same steps once more, as after a resume from step 0
    again = EventAccumulator(folder)
    again.Reload()
    steps = [e.step for e in again.Scalars("loss/train")]
    check(steps == [1, 5, 10, 15, 20], f"a repeated step must count once, got {steps}")
print("ok")
