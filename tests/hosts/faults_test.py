"""What happens to hosts and to the network between them while eight ranks train on four hosts. Each fault ends the job, or lets it go on, as
documented, and the message names the host or the link. (The restart after a fault is the supervisor's, which has tests of its own.)

usage: faults_test.py [TEST...]     without names: all that need no slow links"""

import contextlib
import os
import re
import time

import hosts
import link
import runner
from host import WORK

# By default mpirun notices a host that is gone after 300 s and 9 probes of 20 s, and probes no connection on which it has just sent something.
KEEPALIVE = {"oob_tcp_keepalive_time": 5, "oob_tcp_keepalive_intvl": 2, "oob_tcp_keepalive_probes": 3}
NOTICED = 11  # seconds, of these
SLACK = 30  # seconds, for a machine that has other things to do
LOST_DAEMON = 205  # what mpirun ends with when a host does not answer any more
KEYS = {**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.max_steps": 100000, "train.epochs": 100000, "train.batch_size": 2,
        "data.val_share": 0, "metrics.enabled": False, "dist.bucket_mb": 1}
TO_MEET = 60  # seconds that all ranks have to connect to each other
SHORT = {"train.max_steps": 6}


@contextlib.contextmanager
def four_hosts(folder, **options):
    runner.synth(folder / "d.h5", 64)
    with hosts.Hosts(4, **options) as four:
        four.give(folder / "d.h5")
        yield four


def wanted(result, *texts):
    """The texts are in what the program says of the error; who says it is no part of that."""
    said = "\n".join(line.split("error: ", 1)[-1].split("warning: ", 1)[-1] for line in result.output.splitlines() if "error: " in line or "warning: " in line or line.startswith(("verdict", "finished")))
    missing = [text for text in texts if text not in said]
    assert not missing, f"{missing} not in the output:\n{result.output}"


def strike(four, fault, keys=None, mca=None, limit=NOTICED + SLACK):
    """Trains, does it at step 5, and returns the result; the job must end within `limit` seconds after that."""
    with four.job(runner.flags({**KEYS, **(keys or {})}), mca=mca) as job:
        job.wait_for("step 5/", timeout=180)
        fault()
        begin = time.monotonic()
        result = job.wait(limit)
        result.seconds = time.monotonic() - begin
        print(f"        it ended with {result.code} after {result.seconds:.1f} s", flush=True)
        return result


def gone(four, indices, seconds=SLACK):
    """No rank is left on these hosts."""
    end = time.monotonic() + seconds
    while left := {four.names[i]: four[i].ranks() for i in indices if four[i].ranks()}:
        assert time.monotonic() < end, left
        time.sleep(0.2)


def a_lost_host_ends_the_job(folder):
    with four_hosts(folder) as four:
        result = strike(four, lambda: four.lose(3), mca=KEEPALIVE).expect(LOST_DAEMON, "on node host3")
        gone(four, range(3))
        # It comes back, empty, and the next job is as any other.
        four.start(3)
        four.give(folder / "d.h5", [3])
        four.train(runner.flags({**KEYS, **SHORT, "run.name": "again"})).expect(0, "finished: all 6 steps")
    assert result.seconds < NOTICED + SLACK


def a_lost_host_is_named_by_the_watchdog(folder):
    """mpirun itself waits longer here, and is ended as a supervisor would."""
    with four_hosts(folder) as four, four.job(runner.flags({**KEYS, "dist.timeout": 10})) as job:
        job.wait_for("step 5/", timeout=180)
        four.lose(3)
        job.wait_for("error: ", timeout=10 + SLACK)
        gone(four, range(3))
        runner.kill(four[0].processes("mpirun"))
        result = job.wait(SLACK)
        wanted(result, "host3", " sent no heartbeat", "ssh host3")


def a_link_cut_for_good(folder):
    with four_hosts(folder) as four:
        strike(four, four.links[3].cut, mca=KEEPALIVE).expect(LOST_DAEMON, "on node host3")
        gone(four, range(4))


def a_link_that_loses_what_its_host_sends(folder):
    with four_hosts(folder, slow=[3]) as four:
        strike(four, lambda: four.links[3].delay("never", ["out"]), mca=KEEPALIVE).expect(LOST_DAEMON, "on node host3")
        gone(four, range(3))


def firewalled(folder, directions, *texts):
    with four_hosts(folder) as four:
        result = strike(four, lambda: link.firewall(four[2], four[3], directions), {"dist.timeout": 15}, limit=15 + SLACK)
        assert result.code == 76, result.output
        wanted(result, *texts)
        gone(four, range(4))


def a_firewall_between_two_hosts(folder):
    firewalled(folder, ("input", "output"), "host2 and host3 do not reach each other", "firewall", "`launch/ssh/check host2 host3`")


def a_firewall_that_drops_one_direction(folder):
    firewalled(folder, ("input",), "from host3 to host2", "firewall", "`launch/ssh/check host2 host3`")


def at_the_start(folder, prepare):
    """Nothing may wait forever before the watchdog begins."""
    with four_hosts(folder) as four:
        prepare(four)
        with four.job(runner.flags({**KEYS, **SHORT})) as job:
            wanted(job.wait(TO_MEET + SLACK).expect(76), "host2", "host3", "firewall", "launch/ssh/check")
        gone(four, range(4))


def a_firewall_at_the_start(folder):
    at_the_start(folder, lambda four: link.firewall(four[2], four[3]))


def a_host_that_refuses_connections_of_another_one(folder):
    at_the_start(folder, lambda four: link.refuse_connections(four[3], four[2]))


def a_host_name_that_does_not_resolve(folder):
    with four_hosts(folder) as four:
        four[0].names(four.table.replace("host3", "other"))
        result = four.train(runner.flags({**KEYS, **SHORT}), timeout=SLACK + 30)
        assert result.code != 0, result.output
        assert "Could not resolve hostname host3" in result.output, result.output
        assert not (four[0].inside(WORK) / "runs").exists()


def a_host_that_others_cannot_name_trains(folder):
    """Daemons and ranks find each other by address; only the host that runs mpirun needs the names."""
    with four_hosts(folder) as four:
        four[1].names("127.0.0.1 localhost\n")
        four.train(runner.flags({**KEYS, **SHORT})).expect(0, "finished: all 6 steps")


def a_delayed_link(folder):
    """100 ms there and back on one link: slower, and nothing else. All links are of one kind: one that forwards packets by itself carries less."""
    with four_hosts(folder, slow=range(4)) as four:
        fast = four.train(runner.flags({**KEYS, **SHORT, "run.name": "fast"})).expect(0)
        four.links[3].delay(0.05)
        slow = four.train(runner.flags({**KEYS, **SHORT, "run.name": "slow"})).expect(0, "finished: all 6 steps")
        assert runner.ledger(slow) == runner.ledger(fast)
        wanted(slow, "slow network: from host3 ", ", to host3 ", "`ethtool`")
        assert "slow network" not in fast.output, fast.output


def a_link_of_10_mbit(folder):
    """A warning at the start names the host: with a small network, because each step of it takes a second already."""
    runner.run(["synth", "pointer", "--samples", 200, "--out", folder / "sets.h5"]).expect(0)
    keys = {**{key: value for key, value in KEYS.items() if key != "model.image_size"}, "task": "pointer", "model.hidden": 128, "data.file": "sets.h5",
            "train.max_steps": 40}
    with four_hosts(folder) as four:
        four.give(folder / "sets.h5")
        fast = four.train(runner.flags({**keys, "run.name": "fast"})).expect(0)
        four.links[3].limit("10mbit")
        result = four.train(runner.flags(keys), timeout=500).expect(0, "finished: all 40 steps")
        assert runner.ledger(result) == runner.ledger(fast)
        print("       ", [line for line in result.output.splitlines() if "slow network" in line or line.startswith("verdict")], flush=True)
        wanted(result, "slow network: from host3 ", ", to host3 ", "communication", "`ethtool`")


def a_clock_5_minutes_off(folder):
    """Training does not ask the time of day; `doctor` names the host."""
    with four_hosts(folder, clocks={3: 300}) as four:
        here, there = (int(four[0].run([hosts.HERE / "rsh_agent", name, "date +%s"]).expect(0).output) for name in ("host0", "host3"))
        assert 290 < there - here < 330, (here, there)
        four.train(runner.flags({**KEYS, **SHORT})).expect(0, "finished: all 6 steps")
        result = four.train(["doctor", *runner.flags({**KEYS, **SHORT})])
        found = re.search(r"^note: clock skew, ranks 6-7 on host3$.*?its clock is (\d+)\.\d\d s ahead.*?^ *fix +sudo chronyc makestep$", result.output, re.DOTALL | re.MULTILINE)
        assert found and 299 <= int(found[1]) <= 301, result.output


def a_full_disk_of_the_run_folder(folder):
    with four_hosts(folder) as four:
        result = strike(four, lambda: four[0].fill("/srv"), {"checkpoint.every": "2steps"}, limit=SLACK)
        assert result.code == 73, result.output
        assert "[rank 0 on host0] error: " in result.output and result.output.count("error: ") == 1, result.output
        wanted(result, "No space left on device", "free some space")


def a_full_disk_of_another_host_does_not_matter(folder):
    """Only rank 0 writes."""
    with four_hosts(folder) as four:
        four[3].fill("/srv")
        four.train(runner.flags({**KEYS, **SHORT})).expect(0, "finished: all 6 steps")


def a_full_dev_shm_of_another_host(folder):
    """Its ranks talk to each other over TCP."""
    with four_hosts(folder) as four:
        four[3].fill("/dev/shm")
        result = four.train(runner.flags({**KEYS, **SHORT}))
        wanted(result, "host3", "/dev/shm", "finished: all 6 steps")


def a_full_tmp_of_another_host(folder):
    with four_hosts(folder) as four:
        four[3].fill("/tmp")
        result = four.train(runner.flags({**KEYS, **SHORT}))
        assert result.code == 64, result.output
        wanted(result, "on host host3: /tmp has", "free some space, or set TMPDIR")


TESTS = [
    a_lost_host_ends_the_job, a_lost_host_is_named_by_the_watchdog, a_link_cut_for_good,
    a_firewall_between_two_hosts, a_firewall_that_drops_one_direction, a_firewall_at_the_start,
    a_host_that_refuses_connections_of_another_one, a_host_name_that_does_not_resolve, a_host_that_others_cannot_name_trains,
    a_link_of_10_mbit, a_clock_5_minutes_off,
    a_full_disk_of_the_run_folder, a_full_disk_of_another_host_does_not_matter, a_full_dev_shm_of_another_host, a_full_tmp_of_another_host,
]
# A test of its own in ctest, which shows it as skipped where TAP interfaces cannot be made.
SLOW_LINKS = [a_link_that_loses_what_its_host_sends, a_delayed_link]

if __name__ == "__main__":
    wanted_tests = runner.chosen(TESTS, SLOW_LINKS)
    if set(wanted_tests) & set(SLOW_LINKS) and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        runner.skip("/dev/net/tun cannot be opened")
    hosts.main(wanted_tests, ["nft", "tc", "faketime"])
