"""The dashboards and their provisioning, as far as they can be checked without Grafana: that they are what make_dashboards.py writes,
their layout and data source, and that each series that they ask for is in a real page of the real sink."""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

import yaml

import board as shipped

problems = []


def check(condition, what):
    if not condition:
        problems.append(what)


@contextlib.contextmanager
def page(*arguments):
    """The page of the demo's rank 0, and that of its supervisor."""
    with tempfile.TemporaryDirectory() as runs:
        demo = subprocess.Popen([os.environ["DTRAIN_DEMO"], "0", runs, "60", *arguments], stdout=subprocess.PIPE, text=True)
        try:
            address, launch = demo.stdout.readline().strip(), demo.stdout.readline().strip()
            for _ in range(600):
                text = urllib.request.urlopen(f"http://{address}/metrics", timeout=30).read().decode()
                if "dtrain_last_checkpoint_step{" in text:
                    break
                time.sleep(0.1)
            yield text + urllib.request.urlopen(f"http://{launch}/metrics", timeout=30).read().decode()
        finally:
            demo.kill()
            demo.wait()


def series_names(text):
    return {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line and not line.startswith("#")}


def check_layout(board):
    ids = [p["id"] for p in shipped.panels(board)]
    check(len(ids) == len(set(ids)), f"panel ids repeat: {ids}")
    cells = {}
    for panel in board["panels"]:
        grid = panel["gridPos"]
        check(0 <= grid["x"] and grid["x"] + grid["w"] <= 24 and grid["w"] > 0 and grid["h"] > 0, f"{panel['title']}: {grid}")
        for x in range(grid["x"], grid["x"] + grid["w"]):
            for y in range(grid["y"], grid["y"] + grid["h"]):
                other = cells.setdefault((x, y), panel["title"])
                check(other == panel["title"], f"{panel['title']!r} overlaps {other!r}")
    for panel in shipped.panels(board):
        if panel["type"] == "row":
            continue
        check(panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, f"{panel['title']}: data source")
        refs = [t["refId"] for t in panel["targets"]]
        check(refs and len(refs) == len(set(refs)), f"{panel['title']}: refIds {refs}")
        for target in panel["targets"]:
            check(target["datasource"]["uid"] == "${datasource}", f"{panel['title']}: data source of a target")
            check("$job_id" in target["expr"], f"{panel['title']}: not filtered by run: {target['expr']}")


def check_provisioning():
    folder = shipped.MONITORING / "grafana" / "provisioning"
    source = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())
    check(source["apiVersion"] == 1 and source["datasources"][0]["type"] == "prometheus", "data source provisioning")
    boards = yaml.safe_load((folder / "dashboards" / "dtrain.yaml").read_text())
    check(boards["apiVersion"] == 1 and boards["providers"][0]["type"] == "file", "dashboard provisioning")


def documented(names):
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()
    for name in sorted(names):
        for suffix in ("_bucket", "_sum", "_count"):
            name = name.removesuffix(suffix)
        check(f"`{name}`" in text or f"`{name}{{" in text, f"docs/metrics.md does not describe {name}")


def check_up_to_date():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, shipped.MONITORING / "grafana" / "make_dashboards.py", folder], check=True)
        made = {path.name: path.read_text() for path in pathlib.Path(folder).glob("*.json")}
    there = {path.name: path.read_text() for path in shipped.DASHBOARDS.glob("*.json")}
    check(made == there, "the dashboards are not what monitoring/grafana/make_dashboards.py writes: run it")


boards = shipped.load_boards()
check_up_to_date()
check_provisioning()
check({name: board["uid"] for name, board in boards.items()} == {"training": "dtrain", "ranks": "dtrain-ranks", "gpus": "dtrain-gpus"},
      "three boards with fixed uids")
variables = {}
for name, board in boards.items():
    check_layout(board)
    check("__inputs" not in board and "DS_PROMETHEUS" not in str(board), f"{name}: __inputs belongs to Grafana's import page")
    check(board["id"] is None, f"{name}: a provisioned board has no id")
    own = {v["name"]: v for v in board["templating"]["list"]}
    check(own["datasource"]["type"] == "datasource" and own["datasource"]["query"] == "prometheus", f"{name}: variable datasource")
    used = {word for word in ("job_id", "rank") if any(f"${word}" in t["expr"] for p in board["panels"] for t in p.get("targets", []))}
    check(used <= set(own), f"{name}: lacks a variable among {used}")
    variables |= own

with page("gpu") as text:
    exported = series_names(text)
check(any(name.startswith("dtrain_gpu_") for name in exported), "the demo exports GPU series")
asked = shipped.dashboard_expressions() + shipped.rule_expressions()
check(len(asked) > 70, f"only {len(asked)} expressions found")
for where, expr in asked:
    names = shipped.metric_names(expr)
    check(names or "up{" in expr, f"{where} asks for no series: {expr}")
    for name in names - exported - shipped.recorded_names():
        problems.append(f"{where} asks for {name}, which is not exported")
for name in ("job_id", "rank"):
    for metric in shipped.metric_names(variables[name]["definition"]):
        check(metric in exported, f"variable {name} asks for {metric}")
documented({name for name in exported if name.startswith("dtrain_")})

for problem in problems:
    print("FAILED:", problem)
print(f"{len(asked)} expressions, {len(exported)} series names")
sys.exit(1 if problems else 0)
