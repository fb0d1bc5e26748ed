"""The relabelings of launch/kubernetes/podmonitor.yaml, applied by Prometheus' own promtool to the ports of all pods of all
overlays: which are scraped, and with which labels. The labels that a cluster gives are invented here."""

import copy
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import kustomize
import validation
import yaml

LAUNCH = pathlib.Path(os.environ["DTRAIN_SOURCE"]) / "launch/kubernetes"
META = "__meta_kubernetes_pod_"


def targets(job):
    """A group of targets for each container port of the pods of an MPIJob, as discovery in Kubernetes would find them."""
    found = []
    for role, pod in validation.pods(job).items():
        for container in pod["spec"]["containers"]:
            for port in container.get("ports", [{}]):  # a container without ports is a target without one
                name = f"{job['metadata']['name']}-{role.lower()}-0"
                labels = {
                    "node_name": "node7",
                    "name": name,
                    "container_name": container["name"],
                    "label_training_kubeflow_org_job_name": job["metadata"]["name"],
                }
                if port:
                    labels["container_port_name"] = port["name"]
                address = f"{name}:{port['containerPort']}" if port else name
                found.append({"targets": [address], "labels": {META + key: value for key, value in labels.items()}})
    return found


def scrape_config(monitor, groups):
    """A configuration of Prometheus with the relabelings of the only endpoint of a PodMonitor."""
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    snake = [
        {re.sub(r"(?<!^)(?=[A-Z])", "_", key).lower(): value for key, value in rule.items()}
        for rule in endpoint["relabelings"]
    ]
    return {"scrape_configs": [{"job_name": "pods", "static_configs": groups, "relabel_configs": snake}]}


def scraped(jobs):
    """{address: labels} of what promtool keeps. It waits until its time-out, in case that discovery finds more."""
    monitor = kustomize.documents(LAUNCH / "podmonitor.yaml")[0]
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "prometheus.yml")
        groups = [group for job in jobs for group in targets(job)]
        config.write_text(yaml.safe_dump(scrape_config(monitor, groups)), encoding="utf-8")
        command = ["promtool", "check", "service-discovery", "--timeout=5s", config, "pods"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    kept = [found["labels"] for found in json.loads(result.stdout) if found["labels"]]
    return {labels["instance"]: labels for labels in kept}


class Monitor(unittest.TestCase):
    def test_every_rank_is_scraped_and_nothing_else(self):
        jobs = {
            path.parent.name: kustomize.build(path.parent)[0] for path in LAUNCH.glob("overlays/*/" + kustomize.FILE)
        }
        renamed = copy.deepcopy(jobs["cpu"])  # a port that does not begin with "metrics-"
        renamed["metadata"]["name"] = "renamed"
        renamed["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["ports"][1]["name"] = "rank-0"
        wanted = {"renamed-worker-0:9501": "renamed", "dtrain-gpu-supervised-launcher-0:9600": "dtrain-gpu-supervised"}
        for job in jobs.values():
            name = job["metadata"]["name"]
            wanted |= {f"{name}-worker-0:{9500 + rank}": name for rank in range(job["spec"]["slotsPerWorker"])}
        found = scraped([*jobs.values(), renamed])
        self.assertEqual({address: labels["job_id"] for address, labels in found.items()}, wanted)
        for labels in found.values():
            self.assertEqual((labels["job"], labels["node"]), ("dtrain", "node7"))


if __name__ == "__main__":
    unittest.main()
