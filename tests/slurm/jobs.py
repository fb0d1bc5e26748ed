"""Jobs of dtrain's batch scripts on a small Slurm: submitted, watched, and compared with a run that nothing disturbed."""

import hashlib
import pathlib
import re

import yaml

import runner

CONFIG = {**runner.SMALL, "data.file": "d.h5", "train.global_batch": 16, "train.epochs": 1000000, "train.eval_every": "1000000epochs",
          "checkpoint.every": "20steps", "checkpoint.keep_last": 3, "checkpoint.keep_best": False, "device.threads": 1,
          "schedule.name": "constant"}
WITHOUT_END = 1000000


def write_config(folder, max_steps, **more):
    """The dtrain.yaml that a job reads whenever it starts. More steps than before do not change the steps before."""
    nested = {}
    for key, value in {**CONFIG, "train.max_steps": max_steps, **more}.items():
        section, name = key.split(".")
        nested.setdefault(section, {})[name] = value
    part = folder / "dtrain.yaml.part"
    part.write_text(yaml.safe_dump(nested))
    part.rename(folder / "dtrain.yaml")


def prepare(folder):
    """A prefix as `cmake --install` fills it, and a data file."""
    (folder / "prefix/bin").mkdir(parents=True)
    (folder / "prefix/share/dtrain").mkdir(parents=True)
    (folder / "prefix/bin/dtrain").symlink_to(pathlib.Path(runner.DTRAIN).resolve())
    (folder / "prefix/share/dtrain/launch").symlink_to(runner.SOURCE.resolve() / "launch")
    (folder / "prefix/env.sh").write_text((runner.SOURCE / "launch/env.sh.in").read_text())
    runner.synth(folder / "d.h5", 75)


class Job:
    def __init__(self, cluster, folder, script, nodes=2, per_node=1, time=60):
        self.cluster, self.folder, self.name = cluster, folder, "job"
        self.log = folder / "log"
        shape = [f"--nodes={nodes}", f"--ntasks-per-node={per_node}", "--cpus-per-task=1", f"--gpus-per-node={per_node}",
                 f"--time={time}", "--signal=B:USR1@10", f"--output={self.log}"]
        env = {**runner.environment(), "DTRAIN_PREFIX": str(folder / "prefix"), "DTRAIN_NAME": self.name,
               "SLURM_WAIT": "10", "TMPDIR": str(cluster.folder / "tmp")}  # for the session folders of an mpirun that does not live to remove them
        program = runner.SOURCE.resolve() / "launch/slurm" / script
        self.id = cluster.call("sbatch", "--parsable", *shape, program, cwd=folder, env=env).strip()

    def field(self, name):
        found = re.search(rf"(?:^|\s){name}=(\S*)", self.cluster.call("scontrol", "show", "job", "-o", self.id))
        return found.group(1)

    def state(self):
        return self.field("JobState")

    def restarts(self):
        return int(self.field("Restarts"))

    def output(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def step(self):
        """The last step that the run has recorded."""
        steps = [int(step) for step in re.findall(r"\| step (\d+)/", self.output())]
        return steps[-1] if steps else 0

    def wait(self, condition, seconds, what):
        try:
            self.cluster.wait(condition, seconds, what)
        except AssertionError as error:
            shown = self.cluster.call("scontrol", "show", "job", self.id)
            raise AssertionError(f"{error}\n--- {self.log.name}\n{self.output()[-6000:]}\n{shown}") from None

    def wait_for_step(self, step, seconds=240):
        self.wait(lambda: self.step() >= step or self.state() not in ("PENDING", "RUNNING"), seconds, f"step {step}")
        assert self.step() >= step, f"{self.state()}\n{self.output()}\n{self.cluster.logs()}"

    def wait_for_requeue(self, seconds=240):
        self.wait(lambda: self.state() == "PENDING", seconds, "the job is queued again")

    def wait_for_end(self, seconds=400):
        active = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")
        self.wait(lambda: self.state() not in active, seconds, "the job ends")
        assert self.state() == "COMPLETED", f"{self.state()}\n{self.output()}\n{self.cluster.logs()}"


    def seconds_to_next_step(self):
        """The longest time between two steps, which is that of the interruption."""
        times = [record["time"] for record in runner.metrics(self.folder / "runs" / self.name)]
        return max(after - before for before, after in zip(times, times[1:]))


def _ledger(output):
    return output.rsplit("ledger ", 1)[1].split()[0]


def _weights(folder, step):
    return hashlib.sha256((folder / f"checkpoints/step_{step:08}/model.safetensors").read_bytes()).hexdigest()


def _losses(folder):
    return [(record["step"], record["loss"], record["grad_norm"], record["learning_rate"]) for record in runner.metrics(folder)]


def same_as_undisturbed(folder, name, log, steps, *arguments, np=2):
    """A run that was interrupted has every loss, the ledger and the weights of one that was left alone."""
    alone = folder / f"runs/undisturbed-{name}"
    whole = runner.run(["--name", alone.name, *arguments], np=np, cwd=folder, timeout=900).expect(0, "finished: all")
    first, second = _losses(alone), _losses(folder / "runs" / name)
    assert [loss[0] for loss in second] == list(range(1, steps + 1)), [loss[0] for loss in second]
    for one, other in zip(first, second, strict=True):
        assert one == other, (one, other)
    assert _ledger(log) == runner.ledger(whole)
    assert _weights(folder / "runs" / name, steps) == _weights(alone, steps)


def steps_trained_twice(job):
    steps = re.findall(r"\| step (\d+)/", job.output())
    return len(steps) - len(set(steps))
