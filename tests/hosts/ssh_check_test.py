"""launch/ssh/check: what it says of hosts that are ready, and of each fault, by rsh_agent; and by real ssh in by_real_ssh, which ctest runs
apart from the others, so that it is shown as skipped where it cannot run."""

import os
import pathlib
import re
import shutil
import subprocess
import time

import hosts
import link
import runner
import sshd
from host import WORK

CHECK = runner.SOURCE / "launch/ssh/check"
AGENT = hosts.HERE / "rsh_agent"
KEYS = {**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.max_steps": 3, "train.batch_size": 2, "data.val_share": 0, "metrics.enabled": False}


def prefix_on(host, text="the same"):
    """A prefix of the host's own, with a program that does nothing."""
    program = host.inside("/srv/prefix/bin/dtrain")
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n# {text}\n")
    program.chmod(0o755)


def check(some, *words, agent=AGENT, prefix="/srv/prefix", timeout=300):
    return some[0].run([CHECK, "--rsh", agent, "--prefix", prefix, "--timeout", 3, *words], timeout=timeout)


def expect(result, code, *patterns):
    assert result.code == code, f"exit code {result.code}, not {code}:\n{result.output}"
    for pattern in patterns:
        assert re.search(pattern, result.output), f"no {pattern!r} in\n{result.output}"


def installed(some):
    """The prefix of the program under test, on all hosts: a link to it, which is bin/dtrain as in an installation."""
    for host in some.all:
        (host.inside("/srv/real/bin")).mkdir(parents=True)
        os.symlink(runner.DTRAIN, host.inside("/srv/real/bin/dtrain"))
    return "/srv/real"


def train_by_the_printed_line(some, result, folder):
    runner.synth(folder / "d.h5", 64)
    some.give(folder / "d.h5")
    (line,) = re.findall(r"^  (mpirun .*)$", result.output, re.MULTILINE)
    words = " ".join(runner.flags(KEYS))
    env = {key: value for key, value in some.environment().items() if key != "OMPI_MCA_plm_rsh_agent"}  # the line has to say it
    some[0].run(["sh", "-c", f"{line} {words}"], env=env, timeout=300).expect(0, "finished: all 3 steps", "rank 5     host2")


def hosts_that_are_ready(folder):
    with hosts.Hosts(3) as three:
        prefix = installed(three)
        result = check(three, *[f"{name}:2" for name in three.names], prefix=prefix)
        expect(result, 0, "3 hosts are ready, notes: 0", r"mpirun -np 6 --host host0:2,host1:2,host2:2 .*plm_rsh_agent", "oob_tcp_keepalive_time")
        assert "if_include" not in result.output, result.output
        train_by_the_printed_line(three, result, folder)


def add_bridges(some):
    """A bridge of containers has the same address on all hosts, and leads nowhere."""
    for host in some.all:
        prefix_on(host)
        link.inside(host.pid, "ip", "link", "add", "docker0", "type", "bridge")
        link.inside(host.pid, "ip", "address", "add", "172.17.0.1/16", "dev", "docker0")
        link.inside(host.pid, "ip", "link", "set", "docker0", "up")


def several_networks(folder):
    with hosts.Hosts(2) as two:
        add_bridges(two)
        (two[0].inside(WORK) / "two").write_text("# mine\nhost0 slots=1\n\nhost1 slots=3 max_slots=4\n")
        result = check(two, "--hostfile", "two")
        expect(result, 0, "note:  some hosts have several network interfaces.*docker0", "mpirun -np 4 --host host0:1,host1:3",
               r"btl_tcp_if_include 10\.213\.0\.0/24 --mca oob_tcp_if_include 10\.213\.0\.0/24")


def own_names_of_debian(folder):
    """Debian's installer gives a host's own name the address 127.0.1.1: its network is that of the way to another host."""
    with hosts.Hosts(2) as two:
        add_bridges(two)
        for host in two.all:
            host.names(two.table.replace(f"{host.address} ", "127.0.1.1 "))
        expect(check(two, *two.names), 0, r"note:  some hosts have several network interfaces.*\n +the line below names the network of their names",
               r"btl_tcp_if_include 10\.213\.0\.0/24 --mca oob_tcp_if_include 10\.213\.0\.0/24")
        # No network is on both hosts, but that of the bridges.
        link.inside(two[1].pid, "ip", "address", "delete", f"{two[1].address}/24", "dev", "eth0")
        link.inside(two[1].pid, "ip", "address", "add", f"{two[1].address}/16", "dev", "eth0")
        result = check(two, *two.names)
        expect(result, 0, r"several network interfaces.*\n +the line below names no network.*: add --mca btl_tcp_if_include NETWORK")
        (line,) = re.findall(r"^  mpirun .*$", result.output, re.MULTILINE)
        assert "if_include" not in line, line


def faults_are_named(folder):
    with hosts.Hosts(4, clocks={1: 300}) as four:
        prefix_on(four[0])
        prefix_on(four[1])
        prefix_on(four[2], "another build")
        four[1].names(four.table.replace("host3", "other"))
        four[3].names(four.table.replace("10.213.0.2 host1", "127.0.1.1 host1"))
        link.firewall(four[2], four[3])
        link.refuse_connections(four[0], four[2])
        result = check(four, *four.names)
        expect(result, 1, r"fault: host3 has no /srv/prefix/bin/dtrain\n +rsync -a /srv/prefix/ host3:", "fault: host2 has another build of dtrain than host0\n +rsync",
               "fault: host1 cannot resolve the name host3", r"fault: host3 takes host1 for itself \(127\.0\.1\.1\)",
               r"note:  the clock of host1 is (29|30|31)\d s ahead", r"fault: host2 and host3 cannot connect to each other \(timeout; timeout\)",
               r"fault: host2 cannot connect to host0 \(timeout\), though host0 can connect to host2")
        assert "mpirun -np" not in result.output and "host0 and" not in result.output, result.output
        expect(check(four, "host0", prefix="/srv/none"), 1, r"fault: host0 has no /srv/none/bin/dtrain\n +neither has this host: --prefix")


def hosts_without_a_login(folder):
    with hosts.Hosts(3) as three:
        for host in three.all:
            prefix_on(host)
        three[0].names(three.table.replace("host1", "other"))
        three.lose(2)
        result = check(three, *three.names)
        expect(result, 1, "no login on host1 .*Could not resolve hostname host1.*\n +add host1 to /etc/hosts", "no login on host2 .*connect to host host2")


def wrong_use(folder):
    with hosts.Hosts(1) as one:
        for words, text in [([], "name the hosts"), (["--wrong"], "unknown option --wrong"), (["a:0"], "number of ranks"), (["a", "a"], "twice"),
                            (["--hostfile", "none"], "cannot read none"), (["--hostfile", "/"], "cannot read /"),
                            (["--hostfile", "/dev/null"], "/dev/null names no host"), (["a;b"], "no host name")]:
            expect(check(one, *words), 64, text)
        expect(check(one, "a", agent="no-such-agent -p 2222"), 64, "--rsh no-such-agent -p 2222: there is no program no-such-agent")


def host_files(folder):
    """As people write them: lines of Windows, no end of the last line, tabs, a host that comes again."""
    with hosts.Hosts(2) as two:
        for host in two.all:
            prefix_on(host)
        for number, text in enumerate([b"host0 slots=1\r\nhost1 slots=3\r\n", b"host0 slots=1\nhost1\tslots=3", b"host0\r\n\r\nhost1 slots=3",
                                       b"host0\nhost1 slots=1\n\thost1 slots=2\n", b"host1\nhost0\nhost1\nhost1"]):
            (two[0].inside(WORK) / "file").write_bytes(text)
            expect(check(two, "--hostfile", "file"), 0, "2 hosts are ready", "--host host1:3,host0:1" if number == 4 else "--host host0:1,host1:3")
        expect(check(two, "--hostfile", "file", "host0"), 64, "host0 is named twice")


def a_login_that_hangs(folder):
    """Every call of the remote shell ends, also where that ignores SIGTERM."""
    def call(agent):
        program = folder / "agent"
        program.write_text(f"#!/bin/bash\n{agent}\n")
        program.chmod(0o755)
        begin = time.monotonic()
        done = subprocess.run([CHECK, "--rsh", program, "--prefix", "/srv/prefix", "--timeout", "1", "a", "b"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        return runner.Result(done.returncode, done.stdout, time.monotonic() - begin)

    def runs(process):
        try:
            return pathlib.Path(f"/proc/{process}/cmdline").read_text() != ""  # not that of a zombie
        except OSError:
            return False

    hangs = "echo $$ >>hanging; trap '' TERM; while :; do sleep 1; done"
    expect(call(f"cd {folder}; [ $1 = b ] || {{ echo end; exit; }}; {hangs}"), 1, r"fault: the login on b does not answer within 33 s\n +\S+/agent b true")
    # A host that answers to the first question only.
    expect(call(f"cd {folder}; [ ! -e asked-$1 ] || {{ {hangs}; }}; touch asked-$1; echo end"), 1,
           "fault: no port could be opened on b: the login does not answer within 60 s")
    end = time.monotonic() + 30  # SIGKILL comes 2 s after SIGTERM, and check does not wait for it
    for process in (folder / "hanging").read_text().split():
        while runs(process):
            assert time.monotonic() < end, f"process {process} is still there"
            time.sleep(0.1)


def by_real_ssh(folder):
    with hosts.Hosts(3) as three:
        prefix = installed(three)
        sshd.start(three, folder)
        result = check(three, *[f"{name}:2" for name in three.names], prefix=prefix, agent=sshd.AGENT)
        expect(result, 0, "3 hosts are ready, notes: 0", f"plm_rsh_agent '{sshd.AGENT}'")
        train_by_the_printed_line(three, result, folder)
        three[1].inside("/srv/ssh/accepted").write_text("")
        three[0].inside("/srv/ssh/known").write_text("".join(line for line in open(three[0].inside("/srv/ssh/known")) if "host2" not in line))
        expect(check(three, *three.names, prefix=prefix, agent=sshd.AGENT), 1, "no login on host1 .*Permission denied.*\n +ssh-copy-id host1",
               "no login on host2 .*Host key verification failed.*\n +ssh host2 true")


TESTS = [hosts_that_are_ready, several_networks, own_names_of_debian, faults_are_named, hosts_without_a_login, host_files, a_login_that_hangs, wrong_use]

if __name__ == "__main__":
    wanted = runner.chosen(TESTS, [by_real_ssh])
    if by_real_ssh in wanted:
        if os.geteuid() != 0 or pathlib.Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
            runner.skip("sshd drops its privileges by other users, which needs root")
        if not shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin"):
            runner.skip("openssh-server is not installed; launch/bootstrap --tests installs it")
    hosts.main(wanted, ["perl", "nft", "faketime"])
