"""The services of docker/compose.yaml, started one by one without Docker from what that file says: the trainer in its image, and
Debian's Prometheus in place of the image of Prometheus, in a network where each has the name of its service. Prometheus finds both
ranks by the mounted files. Grafana is not run: neither Debian nor PyPI has it."""

import contextlib
import json
import os
import re
import shutil
import time

import image
import runner
import yaml
from container import Container, volume
from network import Network

PROMETHEUS_USER = "65534:65534"  # the user of the image of Prometheus
FOLDER = runner.SOURCE / "docker"


def compose():
    """The services, with the default of each variable."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (FOLDER / "compose.yaml").read_text())
    assert "$" not in text, "a variable without a default"
    return yaml.safe_load(text)["services"]


def mounts(service, named):
    """{path in the container: source}, by path, so that a folder is mounted before what lies in it."""
    found = {}
    for mount in service["volumes"]:
        source, path, *options = mount.split(":")
        found[path] = (FOLDER / source if source.startswith(".") else named[source], *options)
    return dict(sorted(found.items()))


def start(name, service, network, named, **more):
    return Container(built["name"], service["command"], network=network.namespace(name), hostname=service.get("hostname", name),
                     hosts=network.hosts, volumes={**mounts(service, named), **more.pop("volumes", {})}, **more)


def ask(box, expression):
    answer = box.run("curl", "-sS", "--get", "--data-urlencode", f"query={expression}", "http://127.0.0.1:9090/api/v1/query").output
    return json.loads(answer)["data"]["result"] if answer.startswith("{") else []


def wait_until(what, condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(1)


def prometheus_finds_the_ranks_of_the_trainer(folder):
    services = compose()
    named = {name: volume(folder, name) for name in ("work", "runs")}
    (folder / "prometheus").mkdir()
    os.chown(folder / "prometheus", 65534, 65534)
    named["prometheus"] = folder / "prometheus"
    libraries = image.libraries()
    with contextlib.ExitStack() as boxes:
        network = boxes.enter_context(Network(["trainer", "prometheus"]))
        trainer = boxes.enter_context(start("trainer", services["trainer"], network, named, env={"OMP_NUM_THREADS": "1"},
                                            shm=services["trainer"]["shm_size"].removesuffix("b"), volumes={str(libraries): (libraries, "ro")}))
        program = shutil.which("prometheus")
        prometheus = boxes.enter_context(start("prometheus", services["prometheus"], network, named, user=PROMETHEUS_USER, read_only=True,
                                               entrypoint=["/usr/local/bin/prometheus"], volumes={"/usr/local/bin/prometheus": (program, "ro")}))
        trainer.wait_for("step 1/", 300)
        wait_until("both ranks are scraped", lambda: len(ask(prometheus, 'up{job="dtrain"} == 1')) == 2)
        wait_until("steps of both ranks", lambda: {series["metric"]["rank"] for series in ask(prometheus, "dtrain_steps_total")} == {"0", "1"})
        assert {series["metric"]["instance"] for series in ask(prometheus, "up")} == {"trainer:9500", "trainer:9501"}
        rules = json.loads(prometheus.run("curl", "-sS", "http://127.0.0.1:9090/api/v1/rules").output)["data"]["groups"]
        assert rules, "no rules were loaded"
        trainer.health().expect(0, "2 metrics endpoints answer")
        saved = trainer.stop(180).expect(75, "(asked to stop)", "finished: stopped on request")
    with Network(["trainer", "prometheus"]) as network:  # as `restart: on-failure` starts it again
        with start("trainer", services["trainer"], network, named, env={"OMP_NUM_THREADS": "1"}, volumes={str(libraries): (libraries, "ro")}) as again:
            step = int(re.search(r"stopped on request at step (\d+)", saved.output)[1])
            again.wait_for("resumed")
            again.wait_for(f"| step {step + 1}/", 120)
            assert f"step_{step:08d}" in again.output(), again.output()
            again.stop().expect(75)


built = {}
image.main([prometheus_finds_the_ranks_of_the_trainer], built, None if shutil.which("prometheus") else "not installed: prometheus (launch/bootstrap --tests)")
