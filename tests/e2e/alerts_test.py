"""Makes each fault on purpose, against a real Prometheus with the shipped rules, whose durations are divided by 60: each alert fires on
its fault and on nothing else, and none on a healthy run. First with the real sinks and invented steps (exposition_demo), all at once;
then with real runs on two ranks: healthy, waiting for a slow disk, a rank that is stopped, and ranks that are killed."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "monitoring"))
import board as shipped  # noqa: E402
import mounts  # noqa: E402
import runner  # noqa: E402
from prometheus_server import Exposition, Failure, Prometheus, hurried_config  # noqa: E402

DEMO = os.environ["DTRAIN_BUILD"] + "/tests/monitoring/exposition_demo"
# Each read of a sample takes 60 ms more. For the ranks alone, not for mpirun.
SLOW_READS = {"OMPI_MCA_mca_base_env_list": f"LD_PRELOAD={os.environ['DTRAIN_BUILD']}/bench/faults/libfaults.so;DTRAIN_FAULT=read:60000"}
# The alerts that each fault of the demo must fire.
FAULTS = {
    "nan": {"DtrainLossNotFinite"},
    "scale": {"DtrainLossScaleCollapsed"},
    "starved": {"DtrainLoaderStarved"},
    "slow": {"DtrainStraggler"},
    "heat": {"DtrainGpuThrottled"},
    "skips": {"DtrainStepsSkipped"},
    "stalled": {"DtrainStalled", "DtrainHeartbeatLost", "DtrainCheckpointOld"},  # a run without steps saves nothing either
    "unsaved": {"DtrainCheckpointOld"},
    "restarts": {"DtrainRestarts"},
    "killed": {"DtrainRankDown"},  # of `up`, which has the labels of the targets file: the demo writes one for each rank
}


class Watch:
    """Which alerts of which run have been pending or firing so far."""

    def __init__(self, server):
        self.server, self.firing, self.pending = server, {}, {}
        disk = shutil.disk_usage(tempfile.gettempdir())  # of this machine
        self.real = {"DtrainDiskNearlyFull"} if disk.free < 0.05 * disk.total and disk.free < 100e9 else set()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def run(self):
        while not self.stop.wait(0.5):
            try:
                with urllib.request.urlopen(f"{self.server.url}/api/v1/alerts", timeout=10) as reply:
                    alerts = json.load(reply)["data"]["alerts"]
            except OSError:
                continue
            for alert in alerts:
                seen = self.firing if alert["state"] == "firing" else self.pending
                seen.setdefault(alert["labels"].get("job_id", ""), set()).add(alert["labels"]["alertname"])

    def forget(self):
        self.firing, self.pending = {}, {}

    def wait_for(self, job, alerts, seconds):
        end = time.monotonic() + seconds
        while not alerts <= self.firing.get(job, set()):
            if time.monotonic() > end:
                raise Failure(f"{job}: {alerts - self.firing.get(job, set())} not within {seconds} s; firing {self.firing}, pending {self.pending}")
            time.sleep(0.2)

    def expect_silence(self, job, allowed=frozenset()):
        fired = self.firing.get(job, set()) - allowed - self.real
        if fired:
            raise Failure(f"{job}: {fired} fired")


def demo(folder, runs, job, rank, fault="", gpu=False, seconds=180):
    words = [DEMO, str(rank), str(runs), str(seconds), f"job={job}", f"fault={fault}"] + (["gpu"] if gpu else [])
    with (folder / f"{job}.{rank}.log").open("w") as log:
        return subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)


def full_disk(folder):
    """A run folder on a small disk that is nearly full; None where nothing can be mounted."""
    if not mounts.allowed([]):
        return None
    disk = folder / "small"
    disk.mkdir()
    mounts.tmpfs(disk, "8m")
    (disk / "filler").write_bytes(bytes((8 << 20) - (200 << 10)))
    return disk


def every_alert_fires_on_its_fault(folder):
    runs = folder / "runs"
    runs.mkdir()
    disk = full_disk(folder)
    rules = shipped.hurried_rules(checkpoint_age=15)  # the demo saves each second, except in its fault
    processes, made = {}, None
    server = Prometheus(folder, hurried_config(folder, [runs] + ([disk] if disk else []), rules))
    try:
        if disk is None:  # the series are made up, the rule is the real one
            print("the disk of the runs is made up: nothing can be mounted here")
            text = 'dtrain_disk_free_bytes{job_id="full"} 4e9\ndtrain_disk_size_bytes{job_id="full"} 1e11\n'
            made = Exposition(text)
            (runs / "targets").mkdir()
            (runs / "targets" / "full.json").write_text(json.dumps([{"targets": [made.address], "labels": {"job_id": "full"}}]))
        else:
            processes["full", 0] = demo(folder, disk, "full", 0)
        for fault in FAULTS:
            for rank in (0, 1):
                processes[fault, rank] = demo(folder, runs, fault, rank, fault, gpu=fault == "heat")
        for rank in (0, 1):
            processes["healthy", rank] = demo(folder, runs, "healthy", rank)
            processes["healthy-gpu", rank] = demo(folder, runs, "healthy-gpu", rank, gpu=True)
        with Watch(server) as watch:
            server.wait_until("all are scraped", lambda: len(server.query("dtrain_steps_total > 10")) >= len(processes) - 1, 60)
            for rank in (0, 1):
                processes["killed", rank].kill()
            watch.wait_for("full", {"DtrainDiskNearlyFull"}, 60)
            for fault, alerts in FAULTS.items():
                watch.wait_for("killed.1" if fault == "killed" else fault, alerts, 60)
            lacking = [(where, expr) for where, expr in shipped.rule_expressions(rules) if not server.query(expr)]
            if lacking:
                raise Failure("no data for:\n" + "\n".join(f"  {w}: {e}" for w, e in lacking))
            for job, alerts in FAULTS.items():
                watch.expect_silence(job, alerts)
            watch.expect_silence("full", {"DtrainDiskNearlyFull"})
            for job in ("healthy", "healthy-gpu"):
                watch.expect_silence(job)
            fired = set().union(*watch.firing.values())
        left = set(shipped.alerts()) - fired
        if left:
            raise Failure(f"no fault here for {left}")
        print(f"{len(fired)} alerts fired, each on its fault alone")
    finally:
        server.end()
        for process in processes.values():
            process.kill()
            process.wait()
        if made:
            made.close()
        if disk:
            subprocess.run(["umount", "-l", str(disk)], check=True)


def train(folder, name, environment=None, **options):
    """A run on two ranks that trains until it is ended."""
    keys = {**runner.SMALL, "data.file": folder / "d.h5", "run.name": name, "run.folder": folder / "runs", "train.epochs": 100000,
            "model.image_size": 64, "train.batch_size": 16, "checkpoint.every": "10sec", "train.eval_every": "10sec",
            **{key.replace("__", "."): value for key, value in options.items()}}
    log = (folder / f"{name}.log").open("w")
    return subprocess.Popen(runner.command(runner.flags(keys), 2), cwd=folder, env={**runner.environment(), **(environment or {})},
                            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def ranks_of(process):
    """The dtrain processes of an mpirun, by rank."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == process.pid:
                variables = dict(item.split("=", 1) for item in (entry / "environ").read_text().split("\0") if "=" in item)
                found[int(variables["OMPI_COMM_WORLD_RANK"])] = int(entry.name)
        except (OSError, KeyError, ValueError):
            continue
    return [found[rank] for rank in sorted(found)]


def up(server, job, count):
    return lambda: len(server.query(f'dtrain_steps_total{{job_id="{job}"}} > 5')) == count


def real_runs(folder):
    runs = folder / "runs"
    server = Prometheus(folder, hurried_config(folder, [runs], shipped.hurried_rules()))
    process = None
    try:
        runner.synth(folder / "d.h5", 128, size=64)
        with Watch(server) as watch:
            process = train(folder, "well")
            server.wait_until("the healthy run is scraped", up(server, "well", 2), 120)
            time.sleep(25)  # the longest rate with its `for` has 20 s; the age of a checkpoint is tested with the demo
            watch.expect_silence("well")
            print("no alert in 25 s of a healthy run")

            first, second = ranks_of(process)
            os.kill(second, signal.SIGSTOP)
            watch.wait_for("well", {"DtrainStalled"}, 60)
            print("DtrainStalled fired when a rank was stopped")
            os.kill(second, signal.SIGCONT)
            server.wait_until("the run goes on", lambda: not server.query('ALERTS{job_id="well",alertstate="firing"}'), 60)
            watch.forget()
            os.kill(second, signal.SIGKILL)
            watch.wait_for("well", {"DtrainRankDown"}, 60)
            print("DtrainRankDown fired when a rank was killed")
            process.wait(timeout=60)

            process = train(folder, "waits", SLOW_READS, train__eval_every="never")
            watch.wait_for("waits", {"DtrainLoaderStarved"}, 120)
            watch.expect_silence("waits", {"DtrainLoaderStarved"})
            print("DtrainLoaderStarved fired on a slow disk, and nothing else")
    except Failure as failure:
        logs = "\n".join(f"--- {log.name} (end)\n{log.read_text(errors='replace')[-2000:]}" for log in folder.glob("*.log"))
        raise Failure(f"{failure}\n{logs}") from None
    finally:
        if process is not None and process.poll() is None:
            runner.kill(ranks_of(process))
            process.wait(timeout=60)
        server.end()


def main():
    if not shutil.which("prometheus"):
        print("prometheus is missing (launch/bootstrap --tests installs it)")
        return 77
    # At the same time: both wait for Prometheus most of the time.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return max(pool.map(result_of, (every_alert_fires_on_its_fault, real_runs)))


def result_of(test):
    with tempfile.TemporaryDirectory() as name:
        try:
            test(pathlib.Path(name))
            return 0
        except Exception as failure:  # pylint: disable=broad-except
            print("FAILED:", test.__name__, failure if isinstance(failure, Failure) else traceback.format_exc(), flush=True)
            return 1


if __name__ == "__main__":
    sys.exit(main())
