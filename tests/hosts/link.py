"""The cable between a host and the switch, and what can happen to it. The switch's end of it is named for the host."""

import pathlib
import subprocess
import sys

import host as hosts_of

HERE = pathlib.Path(__file__).resolve().parent
PREFIX_LENGTH = 24


def inside(process, *words):
    """Runs a command in the network of that process, with the programs of the test's own file systems."""
    subprocess.run(["nsenter", f"--target={process}", "--net", *map(str, words)], check=True)


class Link:
    """A pair of virtual Ethernet devices."""

    def __init__(self, host, switch):
        self.host, self.switch = host, switch
        self.make()
        inside(switch, "ip", "link", "set", host.name, "master", "switch")
        self.up()
        # The same after the host was lost: others remember it.
        inside(host.pid, "ip", "link", "set", "eth0", "address", f"02:00:00:00:00:{int(host.address.rsplit('.', 1)[1]):02x}")
        inside(host.pid, "ip", "address", "add", f"{host.address}/{PREFIX_LENGTH}", "dev", "eth0")
        inside(host.pid, "ip", "link", "set", "eth0", "up")

    def make(self):
        subprocess.run(["ip", "link", "add", "eth0", "netns", str(self.host.pid), "type", "veth", "peer", "name", self.host.name,
                        "netns", str(self.switch)], check=True)

    def up(self):
        inside(self.switch, "ip", "link", "set", self.host.name, "up")

    def cut(self):
        """Connections stay open at both ends: neither notices."""
        inside(self.switch, "ip", "link", "set", self.host.name, "down")

    def limit(self, rate):
        """tc's notation, such as 10mbit, in each direction."""
        for process, device in ((self.switch, self.host.name), (self.host.pid, "eth0")):
            inside(process, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "32kb", "latency", "400ms")

    def close(self):
        """The kernel removes both ends with the network of the host, but some time later."""
        subprocess.run(["nsenter", f"--target={self.switch}", "--net", "ip", "link", "delete", self.host.name], stderr=subprocess.DEVNULL)


class SlowLink(Link):
    """A link whose frames pass through slow_link.py."""

    def make(self):
        self.forwarder = subprocess.Popen(
            [sys.executable, "-B", str(HERE / "slow_link.py"), str(self.host.pid), str(self.switch), self.host.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True, env=hosts_of.environment())
        assert self.forwarder.stdout.readline() == "ready\n", f"no link of {self.host.name}"

    def delay(self, seconds, directions=("out", "in")):
        """From the host and to it; `never` instead of a number loses everything."""
        for direction in directions:
            self.forwarder.stdin.write(f"{direction} {seconds}\n")
            self.forwarder.stdin.flush()
            assert self.forwarder.stdout.readline() == "done\n"

    def close(self):
        self.forwarder.stdin.close()
        self.forwarder.wait()
        self.forwarder.stdout.close()


def nft(host, rules):
    subprocess.run(["nsenter", f"--target={host.pid}", "--net", "nft", "--file", "-"], input=f"table inet test {{\n{rules}}}\n", text=True, check=True)


def firewall(host, other, directions=("input", "output")):
    """Packets between the two are dropped by `host`: those that it receives (input), those that it sends (output)."""
    nft(host, "".join(f"chain {hook} {{ type filter hook {hook} priority 0; ip {field} {other.address} drop\n}}\n"
                      for hook, field in (("input", "saddr"), ("output", "daddr")) if hook in directions))


def refuse_connections(host, other):
    """`host` drops what `other` begins, as firewalls usually do; connections that it begins itself work."""
    nft(host, f"chain input {{ type filter hook input priority 0; ip saddr {other.address} tcp flags & (syn | ack) == syn drop\n}}\n")
