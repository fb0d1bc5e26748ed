"""The kinds of the matrix: what is sent to which process, and how the job and the run must end."""

import os
import random
import re
import shutil
import signal
import time

import runner

import left
import moments
import workload
from job import Job
from record import Failure

SAVED = 75
KILLED_BY_USR1 = (-signal.SIGUSR1, 128 + signal.SIGUSR1)
LIMIT = 10.0  # seconds from SIGUSR1 to the exit
GONE = 20.0  # seconds within which the survivors of a killed process are gone
LOST = 3 * workload.SAVE_EVERY  # steps that a kill may cost: one save may have been under way
ROOM = 14  # steps that a run must still have for a moment of its middle to come


class Case:
    """A run that is disturbed, perhaps several times, and then goes on to its end."""

    def __init__(self, kind, index, matrix, np):
        self.kind, self.index, self.matrix, self.np = kind, index, matrix, np
        self.draw = random.Random(f"{matrix.record.seed} {kind} {index}")
        self.what = None  # by which the newest job is disturbed
        self.begin_run()

    def begin_run(self):
        self.folder = self.matrix.undisturbed.new_folder(f"{self.kind}{self.index}")
        self.run = self.folder / "runs/r"
        self.jobs = []

    def job(self, plan=None, **options):
        """The next job of the run."""
        job = Job(self.folder, workload.arguments(self.np, resume=bool(self.jobs)), np=self.np, plan=plan, **options)
        self.started(job)
        self.what = plan
        return job

    def started(self, job):
        self.jobs.append(job)
        self.matrix.jobs.append(job)

    def step(self):
        return max(workload.newest_step(self.run), 0)

    def require(self, fact, text, job=None):
        if fact:
            return
        tail = "" if job is None else "\n  " + "\n  ".join(line[:160] for line in job.output().splitlines()[-25:])
        raise Failure(f"np {self.np}, job {len(self.jobs)}, {self.what}: {text}{tail}")

    def is_complete(self, job):
        """The run is at its end, and all of it is as if nothing had happened."""
        wrong = workload.differences(self.matrix.undisturbed.expected(self.np), workload.outcome(self.run, job.output()))
        self.require(not wrong, "the run differs from one that was left alone: " + "; ".join(wrong[:8]), job)
        self.require(not workload.leftovers(self.run), f"left in the run folder: {workload.leftovers(self.run)}", job)

    def finish(self):
        """Resumes the run, which must begin at its newest checkpoint and end as one that was left alone."""
        step, disturbed_by = workload.newest_step(self.run), self.what
        job = self.job()
        self.what = f"resumed after {disturbed_by}"
        self.require(job.wait() == 0, f"the resumed run ended with {job.code}", job)
        begins = re.search(r"resumed +step (\d+) of", job.output())
        self.require(step < 0 or begins and int(begins[1]) == step, f"the resumed run did not begin at step {step}", job)
        self.is_complete(job)
        self.nothing_of_ours_left(job)

    def nothing_of_ours_left(self, job):
        processes = job.left_after(GONE)
        self.require(not processes, f"processes left behind: {processes}", job)
        ours = left.ours(self.folder)
        self.require(not ours, f"left behind: {ours}", job)

    def clean_up(self):
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- SIGUSR1 ------------------------------------------------------------------------------------------------------
def chains(draw, names):
    """The moments in groups of three: each group disturbs one run."""
    names = list(names)
    draw.shuffle(names)
    groups = [names[i:i + 3] for i in range(0, len(names), 3)]
    return [sorted(group, key=lambda name: name in moments.AT_THE_END) for group in groups]


def preempt(index, matrix):
    """One group of moments. In a round each moment comes once at each number of ranks."""
    names = [*moments.ALL, "any time"]
    per_round = (len(names) + 2) // 3
    round_index, place = divmod(index, 2 * per_round)
    ranks = 1 + place % 2
    groups = chains(random.Random(f"{matrix.record.seed} groups {round_index} {ranks}"), names)
    # Without mpirun the signal goes to the process itself.
    case = Case("preempt", index, matrix, np=None if ranks == 1 and round_index % 2 else ranks)
    preempt_at(groups[place // 2], case, ranks)


def preempt_at(names, case, ranks):
    """At one moment after the other, in as few runs as have room for them."""
    done = False
    for name in names:
        if not done and name not in moments.AT_THE_END and case.step() > workload.STEPS - ROOM:
            case.finish()
            done = True
        if done:
            case.begin_run()
        done = preempt_once(case, name, ranks)
    if not done:
        case.finish()
    case.clean_up()


def preempt_once(case, name, ranks):
    """True: the run is complete."""
    before = case.step()
    any_time = name == "any time"
    plan = {} if any_time else moments.draw_plan(name, case.draw, case.np, before)
    job = case.job(plan)
    case.what = f"{name} {plan}"
    if any_time:
        typical = 0.9 * case.matrix.undisturbed.seconds.get(ranks, 4)
        job.later(case.draw.uniform(0.0, typical), lambda: job.send(signal.SIGUSR1))
    code = job.wait()
    done = check_preempted(case, name, job, before, any_time)
    case.nothing_of_ours_left(job)
    if job.signaled() is None:
        case.matrix.record.count("preempt", f"{name}: the job had ended before the signal, which does not count as a case")
        return done
    case.require(job.seconds_to_exit() <= LIMIT, f"{job.seconds_to_exit():.1f} s to the exit, and {LIMIT:.0f} s are allowed", job)
    case.matrix.record.add("preempt", f"{name}, {ranks} rank{'s' * (ranks > 1)}", code, job.seconds_to_exit())
    return done


def check_preempted(case, name, job, before, any_time):
    code, board, ranks = job.code, job.board(), case.np or 1
    sent = job.signaled()
    for began, ready in zip(board.main, board.handler):
        if began and ready:
            case.matrix.record.measure("preempt", "from main() until SIGUSR1 is remembered", ready - began)
    case.require(code is not None, "the job hangs", job)
    if sent is None and name == "shut-down" and "delay_us" in job.plan and code == 0:  # it was over sooner
        case.is_complete(job)
        return True
    case.require(sent is not None or any_time, f"the moment did not come: the job ended with {code}", job)
    if code == SAVED:
        stopped = re.search(r"stopped on request at step (\d+) of", job.output())
        case.require(stopped, "no last line says where it stopped", job)
        step = int(stopped[1])
        facts = {"stopped": step, "checkpoint": workload.newest_step(case.run), "last reported": workload.last_step(case.run)}
        case.require(len(set(facts.values())) == 1, f"steps were lost: {facts}", job)
        moved = step > before or step == workload.STEPS or workload.owes_evaluation(case.run, step)
        case.require(moved, f"no progress since step {before}", job)
        if name == "data wait" and job.plan["rank"] == 0:
            waited = [r["phase_seconds"]["data_wait"] for r in workload.records(case.run) if r["kind"] == "step" and r["step"] == step]
            case.require(waited and waited[-1] > 0.02, f"the training did not wait for data: {waited} s", job)
        if name.startswith("long "):
            split = "test" if name == "long test split" else "val"
            done = [r for r in workload.records(case.run) if r["kind"] == "eval" and (r["split"], r["step"]) == (split, step)]
            case.require(not done, f"the {split} split was evaluated to its end", job)
        return False
    if code in KILLED_BY_USR1:
        unready = [rank for rank in range(ranks) if sent is not None and not (board.handler[rank] and board.handler[rank] < sent)]
        if all(board.finalized[:ranks]) and case.np:  # mpirun itself, as it ends
            case.is_complete(job)
            case.matrix.record.count("preempt", "mpirun itself ended by the signal after all its ranks had ended")
            return True
        case.require(unready, "the signal ended a rank that was ready for it", job)
        case.require(max(workload.newest_step(case.run), 0) == before, f"the newest checkpoint was that of step {before}, and is another one", job)
        in_main = [rank for rank in unready if board.main[rank] and board.main[rank] < sent]
        case.require(not in_main, f"the signal ended ranks {in_main} in main(), before it was remembered", job)
        return False
    case.require(code == 0, f"exit code {code}", job)
    late = any_time and (sent is None or wall_clock(arrival(board, sent, ranks)) >= time_of_step(case.run, workload.STEPS - 2))
    # The test split takes a few milliseconds, and may have none left after the signal; a long one has.
    case.require(name in ("test split", "shut-down") or late, "the signal was ignored: exit code 0", job)
    case.is_complete(job)
    return True


def arrival(board, sent, ranks):
    """When the first rank received the signal. mpirun passes it on within the time that is taken here where none did."""
    return min((received for received in board.received[:ranks] if received), default=sent + 0.5)


def wall_clock(monotonic):
    return time.time() - time.monotonic() + monotonic


def time_of_step(run, step):
    return next((r["time"] for r in workload.records(run) if r["kind"] == "step" and r["step"] == step), float("inf"))


# ---- SIGTERM and Ctrl-C to mpirun ---------------------------------------------------------------------------------
def term(index, matrix):
    """At a random time, and then once more in the same run, as it saves again."""
    number = (signal.SIGTERM, signal.SIGINT)[index % 2]
    ranks = 1 + index // 2 % 2
    case = Case("term", index, matrix, np=ranks)
    saves_again = {"after": moments.SAVES, "after_nth": 2, "call": "text", "rank": 0, "wait": 0, "number": int(number)}
    for plan in ({}, saves_again):
        before = case.step()
        if before > workload.STEPS - ROOM:
            break
        job = case.job(plan)
        case.what = f"{number.name} {plan}"
        if not plan:
            job.later(case.draw.uniform(0.1, 0.7) * matrix.undisturbed.seconds.get(ranks, 4), lambda: job.send(number))
        code = job.wait()
        case.require(code is not None, "the job hangs", job)
        if job.signaled() is None:
            case.require(code == 0 and not plan, f"no {number.name}, and exit code {code}", job)
            break
        case.nothing_of_ours_left(job)
        newest = workload.newest_step(case.run)
        case.require(newest >= before if before else newest > 0 or not plan, f"a checkpoint is gone: {newest} is the newest", job)
        verify(case)
        matrix.record.add("term", f"{number.name}{', with checkpoints' * (newest > 0)}, {ranks} rank{'s' * (ranks > 1)}", code, job.seconds_to_exit())
    case.finish()
    case.clean_up()


def verify(case):
    """All checkpoints are intact."""
    if workload.newest_step(case.run) < 0:
        return
    result = runner.run(["inspect", "runs/r", "--verify"], cwd=case.folder)
    case.require(result.code == 0 and "match their SHA-256" in result.output, f"inspect --verify:\n{result.output}")


# ---- kill -9 ------------------------------------------------------------------------------------------------------
TARGETS = ("a rank", "all ranks", "mpirun")


def exact_kill(draw, np, target, plan=None):
    """A plan with which a rank kills itself or mpirun in the middle of something, or nothing for a random time."""
    if not plan and (target == "all ranks" or draw.random() < 0.3):
        return {}
    name = draw.choice(["before MPI_Init", "after MPI_Init", "small files", "first step", "data wait", "evaluation", "saving", "phase change", "shut-down"])
    if not plan:
        plan = draw.choice(moments.SMALL_FILES) if name == "small files" else moments.draw_plan(name, draw, np, 0)
    plan = plan | {"wait": 0, "number": int(signal.SIGKILL)}
    return plan | ({"to": "self"} if target == "a rank" else {})


def kill9(index, matrix, plan=None):
    """At a moment that is drawn, or at that of the plan."""
    target = TARGETS[index % 3]
    ranks = 2 if index % 6 < 5 else 1
    case = Case("kill9", index, matrix, np=ranks)
    plan = exact_kill(case.draw, ranks, target, plan)
    job = case.job(plan)
    case.what = f"{target} {plan}"
    if not plan:
        job.later(case.draw.uniform(0.1, 0.7) * matrix.undisturbed.seconds.get(ranks, 4), lambda: kill(job, target, case.draw))
    code = job.wait()
    case.require(code is not None, "the job hangs", job)
    killed = job.signaled() is not None
    left_s = job.left_after(GONE)
    case.require(not left_s, f"processes left behind after {GONE:.0f} s: {left_s}", job)
    if killed:
        matrix.record.measure("kill9", f"from the death of {target} to the end of all processes", time.monotonic() - job.signaled())
    ours = left.ours(case.folder)
    case.require(not ours, f"left behind: {ours}", job)
    of_mpi = left.of_open_mpi(case.folder, job.board().job)
    if of_mpi:
        matrix.record.count("kill9", f"left by Open MPI after the death of {target}: cases")
    left.remove_what_open_mpi_left(case.folder, job.board().job)
    case.require(killed or not plan or "delay_us" in plan, "the moment did not come", job)
    case.require(not killed or code != 0 or workload.last_step(case.run) == workload.STEPS, "a killed job ended with 0", job)
    verify(case)
    case.require(workload.last_step(case.run) - max(workload.newest_step(case.run), 0) <= LOST, "checkpoints are gone", job)
    case.finish()
    case.clean_up()
    matrix.record.add("kill9", target + ("" if killed else ", too late"), code)


def kill(job, target, draw):
    ranks = job.ranks()
    if target == "mpirun":
        if mpirun := job.mpirun():  # between two jobs of a supervisor there is none
            job.send(signal.SIGKILL, mpirun)
    elif target == "all ranks":
        for process in ranks.values():
            job.send(signal.SIGKILL, process)
    elif ranks:
        job.send(signal.SIGKILL, draw.choice(list(ranks.values())))


# ---- under `dtrain launch` ----------------------------------------------------------------------------------------
def events(case, name):
    return [event for event in workload.json_lines(case.run / "launch.jsonl") if event["event"] == name]


def start_launch(case, plan=None, resume=False):
    words = ["launch", "-np", 2, "--", "train", *workload.arguments(2, resume)]
    job = Job(case.folder, words, plan=plan, extra={"SIGNAL_ONLY_MPIRUN": "1"})
    case.started(job)
    return job


def launch(index, matrix):
    case = Case("launch", index, matrix, np=2)
    if index % 4 == 3:
        stop_launch(case)
    else:
        kill_twice(case, TARGETS[index % 4])
    case.clean_up()


def stop_launch(case):
    """SIGTERM or Ctrl-C to the supervisor, at a random time: all is saved, and the next launch goes on."""
    number = case.draw.choice((signal.SIGTERM, signal.SIGINT))
    job = start_launch(case)
    case.what = f"{number.name} to the supervisor"
    job.later(case.draw.uniform(0.0, 1.0) * case.matrix.undisturbed.seconds[2], lambda: job.send(number))
    code = job.wait()
    sent = job.signaled()
    early = code == -number and "launch of run" not in job.output()  # before main() too
    late = code == 0 and (sent is None or wall_clock(sent) >= time_of_step(case.run, workload.STEPS - 2))
    case.require(code == SAVED or early or late, f"exit code {code}", job)
    facts = (workload.newest_step(case.run), workload.last_step(case.run))
    case.require(code != SAVED or facts[0] == facts[1] or facts == (-1, 0), f"steps were lost: checkpoint and last reported {facts}", job)
    case.require(sent is None or job.seconds_to_exit() <= LIMIT, f"{job.seconds_to_exit():.1f} s to the exit" if sent else "", job)
    case.nothing_of_ours_left(job)
    case.matrix.record.add("launch", f"{number.name} to the supervisor", code, job.seconds_to_exit() if sent else None)
    if code != 0:
        job = start_launch(case, resume=True)
        case.require(job.wait() == 0, f"the next launch ended with {job.code}", job)
    case.is_complete(job)
    case.nothing_of_ours_left(job)


def kill_twice(case, target):
    """Two kills in a run that goes on by itself: one in the middle of something, and one at a random time of the next job."""
    matrix = case.matrix
    plan = exact_kill(case.draw, 2, target)
    job = start_launch(case, plan)
    case.what = f"{target} {plan}, then a second kill"
    jobs = set()
    deaths = follow(case, job, target, plan, jobs)
    code = job.wait()
    case.require(code is not None, "the supervisor hangs", job)
    case.require(code == 0, f"the supervisor ended with {code}", job)
    case.is_complete(job)
    case.nothing_of_ours_left(job)
    case.require(jobs - {""}, "no number of a job was seen", job)  # a job may be killed before its ranks have one
    other = left.of_open_mpi(case.folder, *jobs)
    case.require(not other, f"left behind by Open MPI: {other}", job)
    ends = [event["cause"] for event in events(case, "job_ended")]
    case.require(len(ends) in (len(deaths), len(deaths) + 1) and ends[-1] == "finished", f"{len(deaths)} kills, and the jobs ended so: {ends}", job)
    case.require(deaths or not plan or "delay_us" in plan, "the moment did not come", job)
    lost = [event["lost_steps"] for event in events(case, "job_ended")]
    case.require(max(lost) <= LOST, f"steps that were lost: {lost}", job)
    matrix.record.count("launch", "steps that were lost", sum(lost))
    for _, target_of, seconds in deaths:
        matrix.record.add("launch", f"{target_of} killed", code)
        if seconds is not None:
            matrix.record.measure("launch", f"from the death of {target_of} to the next step", seconds)


def follow(case, job, target, plan, jobs):
    """Sends the kills that no plan does, and notes how long it takes after each until the next step: [(when, target, seconds)]. Adds Open MPI's
    numbers of all jobs to `jobs`."""
    deaths, typical = [], case.matrix.undisturbed.seconds[2]
    second = case.draw.choice(TARGETS)
    at = time.monotonic() + case.draw.uniform(0.2, 0.9) * typical
    pending = None  # (monotonic time, target) of a kill after which no step was seen yet
    end = time.monotonic() + 300
    while job.process.poll() is None and time.monotonic() < end:
        if pending is None and not deaths and not plan and time.monotonic() >= at:
            pending = kill_now(case, job, target)
        elif pending is None and not deaths and plan and job.board().fired:
            pending = (job.board().fired, target)
        elif pending is None and len(deaths) == 1 and second and time.monotonic() >= at:
            pending, second = kill_now(case, job, second), None
        if pending:
            seconds = seconds_to_next_step(case, pending[0])
            if seconds is not None:
                deaths.append((pending[0], pending[1], seconds))
                pending, at = None, time.monotonic() + case.draw.uniform(0.0, 0.3) * typical
        jobs.add(job.board().job)
        time.sleep(0.03)
    if pending:  # the last job ended before the step was seen
        deaths.append((*pending, seconds_to_next_step(case, pending[0])))
    return deaths


def kill_now(case, job, target):
    """None: there is no process to kill now."""
    before = job.sent
    job.sent = None
    kill(job, target, case.draw)
    sent, job.sent = job.sent, before or job.sent
    return (sent, target) if sent else None


def seconds_to_next_step(case, died):
    """Of the job that was started after that death; None: there is none yet."""
    died = wall_clock(died)
    started = next((event["time"] for event in events(case, "job_started") if event["time"] > died), None)
    if started is None:
        return None
    steps = [record["time"] for record in workload.records(case.run) if record["kind"] == "step" and record["time"] > started]
    return steps[0] - died if steps else None


ALL = {"preempt": preempt, "term": term, "kill9": kill9, "launch": launch}
PER_COUNT = {"preempt": 2 * ((len(moments.ALL) + 3) // 3), "term": 4, "kill9": 6, "launch": 4}  # cases in which each cell comes (at least) once
