"""A network for containers: a namespace for each, joined by a bridge in one more. Nothing of it is in the machine's own namespace."""

import subprocess
import uuid


def ip(*words):
    done = subprocess.run(["ip", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


class Network:
    """`hosts` has the address of each name; `namespace(name)` is for Container(network=...)."""

    def __init__(self, names):
        self.prefix = f"dtrain-{uuid.uuid4().hex[:8]}"
        self.hosts = {name: f"10.213.77.{number}" for number, name in enumerate(names, 1)}
        self.made = []

    def namespace(self, name):
        return f"{self.prefix}-{name}"

    def add(self, name):
        ip("netns", "add", self.namespace(name))
        self.made.append(name)
        ip("-n", self.namespace(name), "link", "set", "lo", "up")

    def __enter__(self):
        try:
            self.add("switch")
            switch = self.namespace("switch")
            ip("-n", switch, "link", "add", "br0", "type", "bridge")
            ip("-n", switch, "link", "set", "br0", "up")
            for number, (name, address) in enumerate(self.hosts.items(), 1):
                self.add(name)
                own = self.namespace(name)
                ip("-n", own, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{number}", "netns", switch)
                ip("-n", switch, "link", "set", f"port{number}", "master", "br0", "up")
                ip("-n", own, "address", "add", f"{address}/24", "dev", "eth0")
                ip("-n", own, "link", "set", "eth0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.made:
            subprocess.run(["ip", "netns", "delete", self.namespace(name)], check=False)
