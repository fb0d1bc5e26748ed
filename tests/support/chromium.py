"""A headless Chromium that a test steers with the DevTools protocol, over a pair of pipes: no port, and no library."""

import base64
import fcntl
import json
import os
import shutil
import signal
import subprocess
import threading
import time

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "chrome")


def program():
    """The browser of this machine; None where there is none."""
    return next((found for found in map(shutil.which, NAMES) if found), None)


def high(descriptor):
    """The same pipe under a number that the shell does not use."""
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(descriptor)
    return copy


class Browser:
    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        read, self.write_end = map(high, os.pipe())
        self.read_end, write = map(high, os.pipe())
        words = [program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 "--no-first-run", f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{read} 4>&{write}', "bash", *words], pass_fds=(read, write),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        start_new_session=True, env={**os.environ, "TMPDIR": str(folder)})
        os.close(read)
        os.close(write)
        self.events, self.answers, self.next = [], {}, 0
        self.changed = threading.Condition()
        threading.Thread(target=self.receive, daemon=True).start()

    def receive(self):
        rest = b""
        while piece := os.read(self.read_end, 1 << 16):
            *messages, rest = (rest + piece).split(b"\0")
            with self.changed:
                for message in map(json.loads, messages):
                    if "id" in message:
                        self.answers[message["id"]] = message
                    else:
                        self.events.append(message)
                self.changed.notify_all()

    def call(self, method, session=None, timeout=60, **parameters):
        with self.changed:
            self.next += 1
            number = self.next
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        with self.changed:
            if not self.changed.wait_for(lambda: number in self.answers, timeout):
                raise TimeoutError(method)
            answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)  # and all that it has started
        self.process.wait()
        os.close(self.write_end)


class Tab:
    """A page of a width in pixels, with a preferred color scheme."""

    def __init__(self, browser, url, width, height=900, scheme="light"):
        self.browser, self.first = browser, len(browser.events)
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression, seconds=30):
        end = time.monotonic() + seconds
        while True:
            try:
                if value := self.evaluate(expression):
                    return value
            except RuntimeError:
                pass  # the page is still loading
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {expression}")
            time.sleep(0.1)

    def errors(self):
        """What the console of this page says: errors, warnings, exceptions, and loads that failed or were refused."""
        found = []
        for event in self.browser.events[self.first:]:
            if event.get("sessionId") != self.session:
                continue
            what = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(what["exceptionDetails"])
            elif event["method"] == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
                found.append(what["args"])
            elif event["method"] == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
                found.append(what["entry"]["text"])
        return found

    def picture(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(data))
