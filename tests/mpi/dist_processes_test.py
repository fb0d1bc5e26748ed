"""Whole processes under mpirun and in the environment of srun: their ranks, which launches are refused, and how a job ends when
a rank throws, is stopped, or makes no progress."""

import os
import re
import signal
import subprocess
import sys
import time
import unittest

import mounts
import runner

mounts.own_shared_memory()
PROBE = sys.argv.pop(1)
TIMEOUT = 3.0  # of the watchdog, seconds; other tests run beside this one
LOADED = 15.0  # seconds that a loaded machine may need in addition


def clean_environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "PMIX_", "PMI_", "OMPI_COMM_"))}
    return {"TMPDIR": runner.sessions()} | kept | more


def probe(*arguments, **environment):
    return subprocess.run([PROBE, *map(str, arguments)], env=clean_environment(**environment), text=True, capture_output=True,
                          timeout=120)


def mpirun(ranks, *arguments, options=("--oversubscribe", "--bind-to", "none"), before=(), each=()):
    return subprocess.run([*before, "mpirun", *options, "-np", str(ranks), *each, PROBE, *map(str, arguments)], env=clean_environment(),
                          text=True, capture_output=True, timeout=120)


# Each rank is process 2 of a namespace of its own, as in a container of its own. (Process 1 cannot kill itself.)
OWN_PROCESSES = ("unshare", "--pid", "--fork", "sh", "-c", '"$@"; exit $?', "sh")


class Launch(unittest.TestCase):
    def test_ranks_know_their_rank_and_the_number_of_ranks(self):
        result = mpirun(3, "world")
        self.assertEqual(result.returncode, 0, result.stderr)
        for rank in range(3):
            self.assertRegex(result.stdout, rf"rank {rank} of 3, local {rank} of 3 of the host of rank 0, Open MPI v[0-9.]+")

    def test_a_single_process_is_rank_0_of_1(self):
        self.assertIn("rank 0 of 1, local 0 of 1", probe("world").stdout)

    def test_all_ranks_leave_with_the_largest_code(self):
        result = mpirun(3, "code", 1)
        self.assertEqual(result.returncode, 75, result.stderr)

    def test_hints_before_mpi(self):
        hint = lambda **environment: probe("hint", **environment).stdout
        self.assertEqual(hint(), "hint 0, on its host 0\n")
        self.assertEqual(hint(OMPI_COMM_WORLD_RANK="2", OMPI_COMM_WORLD_LOCAL_RANK="1"), "hint 2, on its host 1\n")
        self.assertEqual(hint(PMIX_RANK="3"), "hint 3, on its host 3\n")
        step = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "4", "SLURM_LOCALID": "1"}
        self.assertEqual(hint(**step), "hint 4, on its host 1\n")
        self.assertEqual(hint(**step, PMIX_RANK="4"), "hint 4, on its host 1\n")
        self.assertEqual(hint(SLURM_PROCID="4", SLURM_LOCALID="1"), "hint 0, on its host 0\n")


class Slurm(unittest.TestCase):
    ALLOCATION = dict(SLURM_JOB_ID="7", SLURM_JOBID="7", SLURM_NTASKS="4", SLURM_NODELIST="node1", SLURM_TASKS_PER_NODE="4")

    def test_srun_without_pmix_is_refused_with_advice(self):
        step = dict(SLURM_STEP_ID="0", SLURM_STEPID="0", SLURM_PROCID="1", SLURM_STEP_NUM_TASKS="4")
        result = probe("world", **self.ALLOCATION, **step)
        self.assertEqual(result.returncode, 64)
        self.assertIn("srun --mpi=pmix", result.stderr)
        self.assertIn("mpirun -np 4", result.stderr)
        self.assertEqual(result.stdout, "")

    def test_a_pmi_that_mpi_does_not_support_is_refused_too(self):
        result = probe("world", SLURM_NTASKS="4", SLURM_STEP_ID="0", SLURM_PROCID="1", PMI_RANK="1", PMI_SIZE="4")
        self.assertEqual(result.returncode, 64)
        self.assertIn("srun --mpi=pmix", result.stderr)

    def test_a_single_process_in_an_allocation_is_allowed(self):
        batch_script = dict(SLURM_PROCID="0", SLURM_NODEID="0")
        single_task = dict(SLURM_PROCID="0", SLURM_STEP_ID="1", SLURM_STEPID="1", SLURM_STEP_NUM_TASKS="1")
        for name, more in {"salloc": {}, "sbatch": batch_script, "srun -n 1": single_task}.items():
            with self.subTest(name):
                result = probe("world", **self.ALLOCATION, **more)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("rank 0 of 1", result.stdout)


class Affinity(unittest.TestCase):
    def cores(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        found = re.findall(r"rank (\d+) may use (\d+): ([\d,]*)", result.stdout)
        shares = {int(rank): set(map(int, cores.split(","))) for rank, _, cores in found}
        for rank, count, _ in found:
            self.assertEqual(int(count), len(shares[int(rank)]))
        return shares

    def test_one_rank_bound_to_a_core_gets_all_that_mpirun_may_use(self):
        allowed = os.sched_getaffinity(0)
        result = mpirun(1, "affinity", options=("--bind-to", "core"))
        self.assertEqual(self.cores(result), {0: allowed})
        self.assertEqual("cores per rank" in result.stderr, len(allowed) > 1, result.stderr)

    def test_ranks_share_the_node(self):
        allowed = os.sched_getaffinity(0)
        shares = self.cores(mpirun(2, "affinity"))
        self.assertEqual(shares[0] | shares[1], allowed)
        self.assertEqual(shares[0] & shares[1], allowed if len(allowed) == 1 else set())

    def test_more_ranks_than_cores_use_all(self):
        allowed = set(sorted(os.sched_getaffinity(0))[:2])
        result = mpirun(3, "affinity", before=("taskset", "-c", ",".join(map(str, allowed))))
        self.assertEqual(self.cores(result), {rank: allowed for rank in range(3)})

    def test_the_users_own_limit_stays(self):
        one = min(os.sched_getaffinity(0))
        result = mpirun(1, "affinity", options=("--bind-to", "none"), before=("taskset", "-c", str(one)))
        self.assertEqual(self.cores(result), {0: {one}})


class Failures(unittest.TestCase):
    def end(self, mode, culprit, ranks=3):
        started = time.monotonic()
        result = mpirun(ranks, mode, culprit, TIMEOUT)
        return result, time.monotonic() - started

    def test_a_rank_that_throws_ends_the_job_with_its_message_and_code(self):
        result, seconds = self.end("throw", 1)
        self.assertEqual(result.returncode, 65, result.stderr)
        self.assertIn("[rank 1] error: sample 7 of faces.h5 is damaged", result.stderr)
        self.assertLess(seconds, 5 + LOADED)

    def test_a_stopped_rank_is_named(self):
        for culprit in (2, 0):
            with self.subTest(culprit=culprit):
                result, seconds = self.end("stop", culprit)
                self.assertEqual(result.returncode, 76, result.stderr)
                self.assertRegex(result.stderr, rf"error: rank {culprit} has sent no heartbeat for [\d.]+ s \(last: phase data, step 12\)")
                self.assertEqual(result.stderr.count("error: rank"), 1, result.stderr)
                self.assertGreater(seconds, TIMEOUT)
                self.assertLess(seconds, TIMEOUT + 6 + LOADED)

    def test_a_stuck_rank_is_named_with_its_phase_and_the_ranks_that_wait_are_not(self):
        result, seconds = self.end("stuck", 1)
        self.assertEqual(result.returncode, 76, result.stderr)
        self.assertRegex(result.stderr, r"error: rank 1 has made no progress for [\d.]+ s in phase data, step 12")
        self.assertEqual(result.stderr.count("error: rank"), 1, result.stderr)
        self.assertLess(seconds, TIMEOUT + 6 + LOADED)

    def test_a_single_rank_is_watched_too(self):
        result, _ = self.end("stuck", 0, ranks=1)
        self.assertEqual(result.returncode, 76, result.stderr)
        self.assertIn("rank 0 has made no progress", result.stderr)

    def test_a_rank_that_never_reaches_the_end_is_named(self):
        result, _ = self.end("missing", 1)
        self.assertEqual(result.returncode, 76, result.stderr)
        self.assertRegex(result.stderr, r"rank 1 has made no progress for [\d.]+ s in phase checkpoint, step 40")

    def killed_in_shared_memory(self, memory, delay, ranks=3, options=(), each=()):
        # --enable-recovery: mpirun would end the other ranks before they notice.
        result = mpirun(ranks, f"killed in {memory}", 1, delay,
                        options=("--oversubscribe", "--bind-to", "none", "--enable-recovery", *options), each=each)
        waits = dict(re.findall(r"rank (\d) waited ([\d.]+) s: .*rank 1 \(process \d+\) has died", result.stdout))
        self.assertEqual(sorted(waits), [str(rank) for rank in range(ranks) if rank != 1], result.stdout + result.stderr)
        for seconds in waits.values():
            self.assertLess(float(seconds) - delay, 1 + LOADED)
        self.assertEqual([f for f in os.listdir("/dev/shm") if f.startswith("dtrain-")], [])

    def test_ranks_that_wait_in_shared_memory_for_a_killed_one_name_it_and_leave_nothing(self):
        for memory in ("memfd", "/dev/shm"):
            for ranks in (2, 3):  # on two cores, two spin at first, and three do not
                for delay in (0, 0.5):
                    with self.subTest(memory=memory, ranks=ranks, delay=delay):
                        self.killed_in_shared_memory(memory, delay, ranks)

    @unittest.skipUnless(subprocess.run([*OWN_PROCESSES, "true"], capture_output=True).returncode == 0, "no process namespace allowed")
    def test_ranks_of_other_process_namespaces_do_so_too(self):
        # Open MPI's shared memory is named by process numbers, which are all the same here.
        for memory in ("memfd", "/dev/shm"):  # a memfd is found through /proc, which does not show the others here
            with self.subTest(memory=memory):
                self.killed_in_shared_memory(memory, 0.5, options=("--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"),
                                             each=OWN_PROCESSES)

    def test_no_alarm_while_the_job_makes_progress(self):
        for mode in ("good", "late"):
            with self.subTest(mode):
                result, _ = self.end(mode, 1)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stdout.count("ended"), 3)

    def test_a_job_that_was_suspended_continues(self):
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "3", PROBE, "good", "0", str(TIMEOUT)]
        job = subprocess.Popen(command, env=clean_environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        pids = [int(job.stdout.readline().split()[1]) for _ in range(3)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(1.5 * TIMEOUT)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        out, err = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, err)
        self.assertEqual(out.count("ended"), 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
