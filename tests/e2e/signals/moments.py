"""The kinds of moments at which a signal comes, as plans for signal_at.cpp, drawn at random within the kind."""

import workload

EVALUATES = '"state":"evaluating"'
SAVES = '"state":"saving"'
SLOW = 0.5  # seconds that each read of a sample takes longer in a long evaluation


def before_main(draw, np, step):
    return {"call": "load"}


def before_mpi(draw, np, step):
    return draw.choice([{"call": "handler"}, {"call": "init"}, {"call": "init", "delay_us": draw.randrange(1, 200_000)}])


def after_mpi(draw, np, step):
    """From MPI_Init to the first step: the run folder is made, the network is probed, a checkpoint is loaded."""
    return draw.choice([
        {"call": "init_end"}, {"call": "init_end", "delay_us": draw.randrange(1, 400_000)},
        {"call": "fsync", "nth": draw.randrange(1, 5), "rank": 0}, {"call": "rename", "nth": draw.randrange(1, 3), "rank": 0},
        {"after": "phase encoder from" if step < workload.STEPS_PER_EPOCH else "phase ", "call": "text"},
    ])


def first_step(draw, np, step):
    """The first one of the process."""
    return {"after": '"state":"training"', "call": "text", "delay_us": draw.choice([0, draw.randrange(1, 60_000)])}


def data_wait(draw, np, step):
    """While a reader reads, and the training waits for it: it has used up what was read ahead during the slow reads before. It does so in a step,
    so neither an evaluation nor a checkpoint may come with that one or the one before."""
    after = draw.choice([each for each in range(step + 1, step + 8)
                         if 0 < each % workload.EVAL_EVERY < workload.EVAL_EVERY - 2 and 0 < each % workload.SAVE_EVERY < workload.SAVE_EVERY - 1])
    return {"after": f'"step":{after},"epoch"', "call": "pread", "nth": draw.randrange(6, 11), "slow_us": 50_000,
            "delay_us": draw.choice([0, draw.randrange(1, 50_000)])}


def evaluation(draw, np, step):
    plan = {"after": EVALUATES, "after_nth": 1}
    return plan | draw.choice([{"call": "text"}, {"call": "pread", "nth": draw.randrange(1, 5), "slow_us": 20_000},
                               {"call": "text", "delay_us": draw.randrange(1, 20_000)}])


def long_evaluation(draw, np, step):
    """An evaluation that takes much longer than a batch of it."""
    return {"after": EVALUATES, "call": "text", "slow_us": round(SLOW * 1_000_000)}


def saving(draw, np, step):
    """At one of the fsyncs and renames of a checkpoint, or as its state is gathered; rank 0 writes."""
    plan = {"after": SAVES, "after_nth": draw.randrange(1, 3) if step < workload.STEPS - 12 else 1}
    return plan | draw.choice([{"call": "text"}, {"call": "fsync", "nth": draw.randrange(1, 8), "rank": 0},
                               {"call": "rename", "rank": 0}, {"call": "text", "delay_us": draw.randrange(1, 60_000)}])


def phase_change(draw, np, step):
    """At the last step of a phase, between the two, and at the first step of the next."""
    change = (step // workload.STEPS_PER_EPOCH + 1) * workload.STEPS_PER_EPOCH
    last = max(change - 1, step + 1)  # that one may be the first of the process
    return draw.choice([{"after": f'"step":{change},"epoch"', "call": "text"},
                        {"after": f'"step":{change},"epoch"', "call": "text", "delay_us": draw.randrange(1, 30_000)},
                        {"after": f'"step":{change + 1},"epoch"', "call": "text"},
                        {"after": f'"step":{last},"epoch"', "call": "text"},
                        {"after": "] phase ", "after_nth": 2, "call": "text"}])


def test_split_begins(step):
    """The last evaluation of the process."""
    return {"after": f'"step":{workload.STEPS},"state":"evaluating"', "after_nth": 1 if step == workload.STEPS else 2}


def test_split(draw, np, step):
    plan = test_split_begins(step)
    return plan | draw.choice([{"call": "text"}, {"call": "pread", "nth": draw.randrange(1, 5), "slow_us": 20_000},
                               {"call": "text", "delay_us": draw.randrange(1, 10_000)}])


def long_test_split(draw, np, step):
    return test_split_begins(step) | {"call": "text", "slow_us": round(SLOW * 1_000_000)}


def shut_down(draw, np, step):
    return draw.choice([{"after": '"kind":"verdict"', "call": "text"}, {"after": '"state":"finished"', "call": "text"},
                        {"after": '"state":"finished"', "call": "rename", "rank": 0}, {"call": "finalize"},
                        {"call": "finalize", "delay_us": draw.randrange(1, 30_000)}, {"call": "finalize_end"}, {"call": "exit"}])


# As rank 0 writes config.yaml, environment.json, the targets and the rules for Prometheus, and the report.
SMALL_FILES = [{"call": "fsync", "nth": nth, "rank": 0} for nth in range(1, 8)] + [{"after": '"state":"finished"', "call": "fsync", "rank": 0}]

# In the order in which they can follow each other in one run.
ALL = {"before main": before_main, "before MPI_Init": before_mpi, "after MPI_Init": after_mpi, "first step": first_step,
       "data wait": data_wait, "evaluation": evaluation, "long evaluation": long_evaluation, "saving": saving,
       "phase change": phase_change, "test split": test_split, "long test split": long_test_split, "shut-down": shut_down}
AT_THE_END = ("test split", "long test split", "shut-down")


def draw_plan(name, draw, np, step):
    """A plan for a process that begins at that step, of a rank that is drawn too."""
    plan = {"rank": draw.randrange(np or 1), "wait": draw.randrange(2)} | ALL[name](draw, np, step)
    return plan
