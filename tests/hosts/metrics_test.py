"""One Prometheus, on the host of rank 0, finds the metrics of all ranks on all hosts through the target files of the run folder."""

import json
import subprocess
import time
import urllib.parse

import hosts
import runner
from host import WORK

CONFIG = """global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - {job_name: dtrain, honor_labels: true, file_sd_configs: [{files: [/srv/work/runs/targets/*.json], refresh_interval: 1s}]}
"""
PORT = 9090


def query(host, expression):
    url = f"http://127.0.0.1:{PORT}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    words = ["curl", "--silent", "--fail", "--max-time", "10", url]
    done = host.run(words)
    return json.loads(done.output)["data"]["result"] if done.code == 0 else []


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, what()
        time.sleep(1)
    return found


def one_prometheus_sees_all_ranks_of_all_hosts(folder):
    runner.synth(folder / "d.h5", 64)
    with hosts.Hosts(4) as four:
        four.give(folder / "d.h5")
        keys = {**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.max_steps": 100000, "train.epochs": 100000, "train.batch_size": 2,
                "data.val_share": 0, "metrics.bind": "0.0.0.0"}
        (four[0].inside(WORK) / "prometheus.yml").write_text(CONFIG)
        with four.job(runner.flags(keys)) as job:
            job.wait_for("step 3/", timeout=180)
            targets = json.loads((four[0].inside(WORK) / "runs/targets/r.json").read_text())
            print("       ", [target["targets"] for target in targets], flush=True)
            # On rank 0's host, which is the only one that has the run folder.
            server = four[0].popen(["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=/srv/tsdb", f"--web.listen-address=127.0.0.1:{PORT}"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            up = wait_until(lambda: len(found := query(four[0], "up == 1")) == 8 and found, 90,
                            lambda: f"not all of eight ranks are up: {query(four[0], 'up')}")
            assert {one["metric"]["instance"].rsplit(":", 1)[0] for one in up} <= {*four.names, *(host.address for host in four.all)}, up
            assert len({one["metric"]["instance"] for one in up}) == 8
            (steps,) = query(four[0], "count(dtrain_steps_total)") or [None]
            assert steps and steps["value"][1] == "8", steps
            server.kill()


def addresses_that_lead_nowhere_are_not_given(folder):
    """By default the endpoints are for their own host alone: no target may name 127.0.0.1 for a rank of another host, and the first lines say why."""
    runner.synth(folder / "d.h5", 64)
    with hosts.Hosts(2) as two:
        two.give(folder / "d.h5")
        keys = {**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.max_steps": 100000, "train.epochs": 100000, "train.batch_size": 2,
                "data.val_share": 0}
        with two.job(runner.flags(keys)) as job:
            job.wait_for("step 1/", timeout=180)
            targets = json.loads((two[0].inside(WORK) / "runs/targets/r.json").read_text())
            wrong = [one for one in targets if one["labels"]["node"] != "host0" and one["targets"][0].startswith("127.")]
            said = "metrics.bind" in job.output()
    assert not wrong and said, wrong


if __name__ == "__main__":
    hosts.main([one_prometheus_sees_all_ranks_of_all_hosts, addresses_that_lead_nowhere_are_not_given], ["prometheus", "curl"])
