"""promtool checks what is shipped: configuration, rules and their behavior, the syntax of each dashboard expression, the
exposition itself, and the targets file."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import board as shipped

if not shutil.which("promtool"):
    print("promtool is missing (Debian package prometheus; launch/bootstrap --tests installs it)")
    sys.exit(77)

failed = False


def promtool(*arguments, text=None, expect=0):
    global failed
    done = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True)
    if done.returncode != expect:
        failed = True
        print(f"FAILED: promtool {' '.join(arguments)} ended with {done.returncode}, not {expect}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


here = pathlib.Path(__file__).resolve().parent
with tempfile.TemporaryDirectory() as folder:
    promtool("check", "config", str(shipped.MONITORING / "prometheus" / "prometheus.yml"))
    promtool("check", "rules", str(shipped.RULES))
    tests = os.path.join(folder, "rules_test.yml")
    pathlib.Path(tests).write_text((here / "rules_test.yml").read_text().replace("RULES", str(shipped.RULES)))
    promtool("test", "rules", tests)

    # Every expression of the board as a recording rule: promtool names the one that does not parse.
    wrapped = {"groups": [{"name": "board", "rules": [
        {"record": f"expression_{i}", "expr": expr, "labels": {"panel": where}}
        for i, (where, expr) in enumerate(shipped.dashboard_expressions())]}]}
    rules = os.path.join(folder, "board.json")
    pathlib.Path(rules).write_text(json.dumps(wrapped))
    promtool("check", "rules", rules)

    demo = subprocess.Popen([os.environ["DTRAIN_DEMO"], "0", folder, "60", "gpu"], stdout=subprocess.PIPE, text=True)
    try:
        address = demo.stdout.readline().strip()
        pathlib.Path(os.path.join(folder, "prometheus.yml")).write_text(
            (shipped.MONITORING / "prometheus" / "prometheus.yml").read_text()
            .replace("../../runs/targets", os.path.join(folder, "targets"))
            .replace(", /work/runs/targets/*.json", "")
            .replace("rules/*.yml", str(shipped.RULES)))
        said = promtool("check", "config", os.path.join(folder, "prometheus.yml"))
        if "WARNING" in said:
            failed = True
            print("FAILED: the targets file was not found or not valid:\n" + said)
        time.sleep(1.5)
        page = urllib.request.urlopen(f"http://{address}/metrics", timeout=30).read().decode()
    finally:
        demo.kill()
        demo.wait()
    said = promtool("check", "metrics", text=page)
    if said.strip():
        failed = True
        print("FAILED: promtool check metrics says:\n" + said)
sys.exit(1 if failed else 0)
