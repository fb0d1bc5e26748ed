"""A real Prometheus for tests, and a page of metrics that a test writes itself."""

import http.server
import json
import re
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml


class Failure(Exception):
    pass


class Prometheus:
    """A server that is ready, on a port that it chooses itself: a port that was free a moment ago may be taken when the server
    binds it."""

    def __init__(self, folder, config, cwd=None):
        self.log = folder / "prometheus.log"
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}", "--web.listen-address=127.0.0.1:0"],
            stdout=self.log.open("w"), stderr=subprocess.STDOUT, cwd=cwd)
        try:
            self.url = f"http://{self.address(seconds=60)}"
            self.wait_until("Prometheus is ready", self.ready, 60)
        except BaseException:
            self.process.kill()
            raise

    def address(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            listening = re.search(r'msg="Listening on" address=(\S+)', self.log.read_text())
            if listening:
                return listening[1]
            time.sleep(0.1)
        raise Failure(f"Prometheus does not listen:\n{self.log.read_text()}")

    def ready(self):
        """It listens before it has read its database, and answers all requests but this one with 503 until then."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=30):
                return True
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
            return False

    def query(self, expr):
        url = f"{self.url}/api/v1/query?" + urllib.parse.urlencode({"query": expr})
        try:
            with urllib.request.urlopen(url, timeout=30) as reply:
                return json.load(reply)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise Failure(f"{expr}: {error.read().decode()}") from None

    def wait_until(self, what, condition, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise Failure(f"Prometheus ended:\n{self.log.read_text()}")
            if condition():
                return
            time.sleep(0.5)
        raise Failure(f"{what}: not within {seconds} s")

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def hurried_config(folder, runs, rules):
    """A configuration that scrapes the runs of these folders four times a second, with these rules."""
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump({
        "global": {"scrape_interval": "250ms", "scrape_timeout": "250ms", "evaluation_interval": "500ms"},
        "rule_files": [str(folder / "rules.yml")],
        "scrape_configs": [{"job_name": "dtrain", "honor_labels": True,
                            "file_sd_configs": [{"files": [str(r / "targets" / "*.json") for r in runs], "refresh_interval": "1s"}]}]}))
    return path


class Exposition:
    """Serves one text at /metrics of `address`, as dcgm-exporter would for a machine that has none."""

    def __init__(self, text):
        body = text.encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
