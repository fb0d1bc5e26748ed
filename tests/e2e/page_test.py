"""The live page of a real run: it follows the training; browsers that disconnect, a thousand requests at once and a taken port leave
the training as it is; and a password protects it like the metrics."""

import base64
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.request

import runner


def keys(**more):
    return {**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.epochs": 40, "train.eval_every": "10epochs", "run.log_every": 5,
            "data.val_share": 0.25, **{key.replace("__", "."): value for key, value in more.items()}}


def start(folder, np=2, **more):
    if not (folder / "d.h5").exists():
        runner.synth(folder / "d.h5", 64)
    return runner.Running(runner.flags(keys(**more)), np=np, cwd=folder)


def get(url, headers=None, timeout=30):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=timeout) as reply:
        return reply.read().decode(), reply.headers


def page_of(running):
    running.wait_for("live page")
    return re.search(r"live page +(http://\S+/)", running.output()).group(1)


def end_the_linger(running):
    """A finished run keeps its page for metrics.linger_seconds, or until it is asked to stop."""
    os.kill(running.process.pid, signal.SIGUSR1)
    running.wait(400).expect(0)


def losses(folder, name="r"):
    return [(record["step"], record["loss"], record["ledger"]) for record in runner.metrics(folder / "runs" / name)]


class Follower:
    """What a browser does: the history once, then what is new."""

    def __init__(self, url):
        self.url, self.since, self.line, self.points, self.lines, self.places = url, 0, 0, {}, [], []

    def visit(self):
        text, _ = get(f"{self.url}state.json?since={self.since}&line={self.line}")
        answer = json.loads(text)
        if answer["whole"]:
            self.points, self.lines = {}, []
        for point in answer["points"]:
            named = dict(zip(answer["columns"], point))
            assert named["step"] not in self.points, "a point came twice"
            self.points[named["step"]] = named
        self.lines += [line[2] for line in answer["log"]]
        self.places = answer["places"] or self.places
        self.since = answer["number"]
        if answer["log"]:
            self.line = answer["log"][-1][0]
        return answer


def the_page_follows_the_run(folder):
    with start(folder, metrics__linger_seconds=10) as running:
        url = page_of(running)
        html, headers = get(url)
        assert "<title>dtrain</title>" in html and headers["Content-Type"].startswith("text/html"), html
        assert "default-src 'none'" in headers["Content-Security-Policy"], headers
        for name, kind in re.findall(r'(?:href|src)="(live\.(css|js))"', html):
            assert kind in get(url + name)[1]["Content-Type"].replace("javascript", "js"), name
        follower, seen, steps = Follower(url), set(), []
        while True:
            answer = follower.visit()
            seen.add(answer["state"])
            steps.append(answer["step"])
            if answer["state"] == "finished":
                break
            time.sleep(0.2)
        # The address of rank 0 is on the page of the other rank.
        (metrics,) = [line for line in running.output().splitlines() if "rank 1 " in line and "metrics http" in line]
        other, _ = get(re.search(r"http://\S+/", metrics).group())
        assert url in other and "rank 1 of r" in other, other
        end_the_linger(running)
    assert "training" in seen, seen
    written = {record["step"]: record for record in runner.metrics(folder / "runs/r")}
    assert steps == sorted(steps) and steps[-1] == max(written), (steps, max(written))
    assert sorted(follower.points) == sorted(written), "every step record, once"
    for step, record in written.items():
        assert abs(follower.points[step]["loss"] - record["loss"]) <= 1e-6 * abs(record["loss"]), (step, record)
    assert answer["evaluation"]["metrics"][0][0] == "loss" and answer["verdict"].startswith("verdict: "), answer
    assert len(follower.places) == 2 and follower.places[0][0], follower.places
    log = (folder / "runs/r/log.txt").read_text().splitlines()
    assert follower.lines[-1] in log[-1] and log[-1].startswith("finished: "), (follower.lines[-1], log[-1])


def disconnect(address, stop, counts):
    """A browser that asks for something and goes, at a different moment each time."""
    turn = 0
    while not stop.is_set():
        try:
            with socket.create_connection(address, timeout=10) as client:
                turn += 1
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an orderly end
                request = [b"GET /state.json HTTP/1.1\r\n\r\n", b"GET / HT", b"GET /live.js HTTP/1.1\r\n\r\n" * 5, b""][turn % 4]
                client.sendall(request)
                if turn % 3 == 0 and request.endswith(b"\r\n\r\n"):
                    client.recv(100)
                counts["done"] += 1
        except OSError:
            counts["refused"] += 1
        time.sleep(0.01)


def browsers_that_disconnect(folder):
    with start(folder, run__name="alone") as running:
        running.wait(400).expect(0)
    with start(folder) as running:
        address = page_of(running).removeprefix("http://").rstrip("/").split(":")
        stop, counts = threading.Event(), {"done": 0, "refused": 0}
        thread = threading.Thread(target=disconnect, args=((address[0], int(address[1])), stop, counts))
        thread.start()
        try:
            result = running.wait(400).expect(0)
        finally:
            stop.set()
            thread.join()
    assert counts["done"] > 50, counts
    assert "warning" not in result.output, result.output
    assert losses(folder) == losses(folder, "alone"), "the same training"


def status(pid):
    return {key: value for key, value in (line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())}


def a_thousand_requests_at_once(folder):
    with start(folder, run__name="alone") as running:
        running.wait(400).expect(0)
    with start(folder, metrics__linger_seconds=20) as running:
        url = page_of(running)
        running.wait_for("step 40/")
        rank0 = running.ranks()[0]
        before = int(status(rank0)["VmRSS"].split()[0])
        most = {"files": 0, "kib": 0, "threads": 0}
        stop = threading.Event()

        def observe():
            while not stop.wait(0.02):
                try:
                    most["files"] = max(most["files"], len(os.listdir(f"/proc/{rank0}/fd")))
                    most["kib"] = max(most["kib"], int(status(rank0)["VmRSS"].split()[0]))
                    most["threads"] = max(most["threads"], int(status(rank0)["Threads"]))
                except OSError:
                    return

        watcher = threading.Thread(target=observe)
        threads = int(status(rank0)["Threads"])
        watcher.start()

        def ask(i):
            try:
                return len(get(url + ("state.json", "", "live.js", "metrics")[i % 4], {"Accept-Encoding": "gzip"} if i % 2 else None, 60)[0])
            except UnicodeDecodeError:
                return 1  # gzip
            except (OSError, urllib.error.URLError) as problem:
                # Of 1000 threads some may not run for two seconds between their connection and their request: those are closed as silent.
                problems.append(repr(problem))
                return ask(i) if time.monotonic() - begin < 60 else 0

        problems = []
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(1000) as pool:
            answered = sum(size > 0 for size in pool.map(ask, range(1000)))
        seconds = time.monotonic() - begin
        running.wait_for("finished: ")
        state = json.loads(get(url + "state.json")[0])
        assert state["step"] == max(step for step, _, _ in losses(folder)), state["step"]
        stop.set()
        watcher.join()
        end_the_linger(running)
    print(f"  {answered} of 1000 answered in {seconds:.1f} s; at most {most['files']} files, {most['threads']} threads, +{(most['kib'] - before) / 1024:.1f} MiB")
    assert answered == 1000 and len(problems) <= 200, (answered, len(problems), problems[:5])
    assert most["files"] <= 256 + 100 and most["threads"] <= threads + 2, (most, threads)
    assert most["kib"] - before < 100 * 1024, (most, before)
    assert losses(folder) == losses(folder, "alone"), "the same training"


def a_taken_port(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with start(folder, np=None, metrics__port=port, train__epochs=20, metrics__linger_seconds=20) as running:
            url = page_of(running)
            assert f":{port}/" not in url, url
            assert json.loads(get(url + "state.json")[0])["run"] == "r"
            targets = json.loads((folder / "runs/targets/r.json").read_text())
            assert targets[0]["targets"] == [url.removeprefix("http://").rstrip("/")], targets
            running.wait_for("finished: ")
            end_the_linger(running)
            running.wait(400).expect(0, f"cannot serve its metrics on 127.0.0.1:{port} (Address already in use)")


def a_password(folder):
    auth = folder / "auth"
    auth.touch(mode=0o600)
    auth.write_text("dtrain:a long password\n")
    with start(folder, np=None, metrics__auth_file=auth, metrics__linger_seconds=5) as running:
        url = page_of(running)
        for name in ("", "live.css", "live.js", "state.json", "metrics"):
            try:
                get(url + name)
                raise AssertionError(f"/{name} needs no password")
            except urllib.error.HTTPError as error:
                assert error.code == 401 and error.headers["WWW-Authenticate"].startswith("Basic"), error
                assert error.read() == b""
            right = {"Authorization": "Basic " + base64.b64encode(b"dtrain:a long password").decode()}
            assert get(url + name, right)[0], name
        running.wait_for("finished: ")
        end_the_linger(running)


def no_page_without_metrics(folder):
    runner.synth(folder / "d.h5", 64)
    result = runner.run(runner.flags(keys(metrics__enabled="false", train__epochs=2)), cwd=folder).expect(0)
    assert "live page" not in result.output and "http://" not in result.output, result.output
    result = runner.run(["--dry-run", *runner.flags(keys())], cwd=folder).expect(0)
    assert "live page" not in result.output, result.output


if __name__ == "__main__":
    runner.main([the_page_follows_the_run, browsers_that_disconnect, a_thousand_requests_at_once, a_taken_port, a_password,
                 no_page_without_metrics])
