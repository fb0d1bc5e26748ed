"""A real Prometheus server, with the shipped configuration and rules and with a password, scrapes a real run on two ranks under
`dtrain launch`, and each expression of the dashboards and of the rules returns data. At its clean end the run removes the targets file, and Prometheus
forgets the targets. The same again for invented steps on GPUs beside a dcgm-exporter, where no expression may say that there is none.
Then an installed program writes a configuration that works as it is.

DTRAIN is the binary to test. Without it DTRAIN_DEMO (tests/monitoring/exposition_demo.cpp) is used instead, as two processes with
invented steps: for work on the dashboards."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "monitoring"))
import board as shipped  # noqa: E402
from prometheus_server import Exposition, Failure, Prometheus, hurried_config  # noqa: E402

LINGER = 30  # seconds that the endpoints stay after the last step, for the last scrapes
USER, PASSWORD = "dtrain", "a: long password"


def adapted_config(folder, runs):
    """The shipped prometheus.yml, with the paths and the password of this test and with shorter intervals."""
    config = yaml.safe_load((shipped.MONITORING / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(shipped.RULES)]
    (scrape,) = config["scrape_configs"]
    (discovery,) = scrape["file_sd_configs"]
    discovery["files"] = [str(runs / "targets" / "*.json")]
    discovery["refresh_interval"] = "1s"
    (folder / "password").write_text(PASSWORD + "\n")
    scrape["basic_auth"] = {"username": USER, "password_file": str(folder / "password")}
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path


def start_run(folder, runs):
    """Returns the processes of the run and its targets files."""
    log = (folder / "run.log").open("w")
    auth = folder / "auth"
    auth.touch(mode=0o600)
    auth.write_text(f"{USER}:{PASSWORD}\n")
    if "DTRAIN" in os.environ:
        command = [os.environ["DTRAIN"], "launch", "-np", "2", "--", "train", "--epochs", "2", "--name", "scraped", "--run.folder", str(runs),
                   "--run.log_every", "2", "--checkpoint.every", "10steps", "--metrics.port", "0", "--metrics.linger_seconds", str(LINGER), "--metrics.auth_file", str(auth)]
        commands, files = [command], ["scraped.json", "scraped.launch.json"]
    else:
        commands = [[os.environ["DTRAIN_DEMO"], str(rank), str(runs), "25"] for rank in (0, 1)]
        files = ["demo.0.json", "demo.1.json"]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")
    processes = [subprocess.Popen(c, cwd=folder, stdout=log, stderr=subprocess.STDOUT, env=environment) for c in commands]
    return processes, [runs / "targets" / name for name in files]


def missing_data(server, expressions):
    return [(where, expr) for where, expr in expressions if not server.query(expr)]


def check_labels(server):
    def ranks_are_there():  # a scrape may be late
        return {series["metric"]["rank"] for series in server.query("dtrain_steps_total")} == {"0", "1"}

    server.wait_until("series of ranks 0 and 1", ranks_are_there, 30)
    for series in server.query('{__name__=~"dtrain_.+"}'):
        doubled = [label for label in series["metric"] if label.startswith("exported_")]
        if doubled:
            raise Failure(f"honor_labels is not in effect: {doubled} in {series['metric']}")
    server.wait_until("the training loss of a job is one series", lambda: len(server.query("dtrain_loss{split='train'}")) == 1, 30)


def end(processes, server):
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=120)
    if server is not None:
        server.process.terminate()
        server.process.wait(timeout=60)


def the_configuration_of_a_run_folder_is_ready_to_use(folder):
    """As an installed program writes it, unchanged, and with Prometheus started in another folder."""
    prefix, here = folder / "prefix", folder / "here"
    here.mkdir()
    subprocess.run(["cmake", "--install", os.environ["DTRAIN_BUILD"], "--prefix", str(prefix)], check=True, stdout=subprocess.DEVNULL)
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    with (folder / "run.log").open("w") as log:
        run = subprocess.Popen([prefix / "bin/dtrain", "--epochs", "1", "--train.max_steps", "5", "--name", "r", "--metrics.port", "0",
                                "--metrics.linger_seconds", "60"], cwd=here, stdout=log, stderr=subprocess.STDOUT, env=environment)
    server = None
    try:
        config = here / "runs/targets/prometheus.yml"  # written after the targets file
        deadline = time.monotonic() + 240
        while not config.exists():
            if run.poll() is not None or time.monotonic() > deadline:
                raise Failure("the run wrote no configuration of Prometheus")
            time.sleep(0.2)
        server = Prometheus(folder, config, cwd="/")
        server.wait_until("the rank is up", lambda: [s["value"][1] for s in server.query('up{job="dtrain"}')] == ["1"], 60)
        rules = json.load(urllib.request.urlopen(f"{server.url}/api/v1/rules", timeout=30))["data"]["groups"]
        if "DtrainStalled" not in [rule["name"] for group in rules for rule in group["rules"]]:
            raise Failure(f"Prometheus did not load the rules: {rules}")
        print("Prometheus finds a run with the configuration that the run wrote")
    finally:
        end([run], server)


def dashboards_and_rules_have_data(folder):
    runs = folder / "runs"
    processes, targets = start_run(folder, runs)
    server = None
    try:
        server = Prometheus(folder, adapted_config(folder, runs))

        def all_up():  # the two ranks, and the supervisor
            for process in processes:
                if process.poll() is not None:
                    raise Failure(f"the run ended with {process.returncode} before it was scraped")
            return len([s for s in server.query('up{job="dtrain"}') if s["value"][1] == "1"]) == 3

        server.wait_until("ranks and supervisor up", all_up, 300)
        for target in targets:
            if not target.exists():
                raise Failure(f"{target} is missing while the run continues")
        expressions = shipped.dashboard_expressions() + shipped.rule_expressions()
        lacking = expressions

        def all_return_data():
            nonlocal lacking
            lacking = missing_data(server, expressions)
            if lacking and all(p.poll() is not None for p in processes):
                raise Failure("the run ended")
            return not lacking

        try:
            server.wait_until("every expression returns data", all_return_data, 300)
        except Failure as failure:
            raise Failure(f"{failure}; no data for:\n" + "\n".join(f"  {w}: {e}" for w, e in lacking)) from None
        check_labels(server)
        print(f"{len(expressions)} expressions of the dashboards and the rules return data")

        for process in processes:
            code = process.wait(timeout=300)
            if code != 0:
                raise Failure(f"the run ended with {code}")
        left = [str(t) for t in targets if t.exists()]
        if left:
            raise Failure(f"still there after the run ended normally: {left}")
        server.wait_until("the targets are removed", lambda: not server.query('up{job="dtrain"}'), 60)
    finally:
        end(processes, server)


# Of dcgm-exporter 4: the host's label was `Hostname` in versions before. One GPU that both ranks use, and one that none uses.
DCGM = "".join(f'{name}{{gpu="{i}",UUID="{uuid}",pci_bus_id="0000:65:00.{i}",device="nvidia{i}",modelName="Demo GPU",{host}="localhost"}} {value}\n'
               for name, value in [("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.4), ("DCGM_FI_PROF_DRAM_ACTIVE", 0.3),
                                   ("DCGM_FI_DEV_MEMORY_TEMP", 80), ("DCGM_FI_DEV_XID_ERRORS", 31)]
               for i, (uuid, host) in enumerate([("GPU-demo", "hostname"), ("GPU-other", "Hostname")]))


def gpus_and_dcgm_exporter_have_data(folder):
    runs = folder / "runs"
    demo = os.environ["DTRAIN_BUILD"] + "/tests/monitoring/exposition_demo" if "DTRAIN" in os.environ else os.environ["DTRAIN_DEMO"]
    exporter = Exposition(DCGM)
    log = (folder / "run.log").open("w")
    processes = [subprocess.Popen([demo, str(rank), str(runs), "300", "gpu"], stdout=log, stderr=subprocess.STDOUT) for rank in (0, 1)]
    server = None
    try:
        config = hurried_config(folder, [runs], yaml.safe_load(shipped.RULES.read_text()))
        text = yaml.safe_load(config.read_text())
        text["scrape_configs"].append({"job_name": "dcgm", "static_configs": [{"targets": [exporter.address]}]})
        config.write_text(yaml.safe_dump(text))
        server = Prometheus(folder, config)
        expressions = shipped.dashboard_expressions("10s")
        lacking = [expr for _, expr in expressions]

        def all_return_data():
            nonlocal lacking
            lacking = [f"{where}: {expr}" for where, expr in expressions
                       if not (found := server.query(expr)) or any("no GPU" in str(s) or "no dcgm-exporter" in str(s) for s in found)]
            return not lacking

        try:
            server.wait_until("every expression returns data of the GPU", all_return_data, 120)
        except Failure as failure:
            raise Failure(f"{failure}; no data for:\n" + "\n".join(lacking)) from None
        (tensor,) = [expr for where, expr in expressions if where.endswith("'Tensor cores'")]

        def are_of_the_gpu():
            found = {s["metric"]["rank"]: (s["metric"].get("UUID"), float(s["value"][1])) for s in server.query(tensor)}
            return found == {"0": ("GPU-demo", 0.4), "1": ("GPU-demo", 0.4)}

        server.wait_until("the series of dcgm-exporter are those of the ranks' GPU", are_of_the_gpu, 30)
        print("with GPUs and dcgm-exporter no expression falls back")
    finally:
        for process in processes:
            process.kill()
            process.wait()
        exporter.close()
        if server is not None:
            server.end()


def main():
    if not shutil.which("prometheus"):
        print("prometheus is missing (launch/bootstrap --tests installs it)")
        return 77
    tests = [dashboards_and_rules_have_data, gpus_and_dcgm_exporter_have_data] + ([the_configuration_of_a_run_folder_is_ready_to_use] if "DTRAIN" in os.environ else [])
    for test in tests:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            try:
                test(folder)
            except Failure as failure:
                print("FAILED:", failure)
                for log in ("run.log", "prometheus.log"):
                    if (folder / log).exists():
                        print(f"--- {log} (end)\n" + (folder / log).read_text(errors="replace")[-3000:])
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
