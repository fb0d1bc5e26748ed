"""The run that is disturbed: a tiny sequence network, whose epochs change between two phases, with an evaluation, a save and a test."""

import hashlib
import json
import shutil

import runner

SAMPLES = 60  # 44 of them for training: the last step of an epoch has fewer samples than the others
GLOBAL_BATCH = 8
STEPS_PER_EPOCH = 6
EPOCHS = 6
STEPS = STEPS_PER_EPOCH * EPOCHS
SAVE_EVERY = 4
EVAL_EVERY = 2 * STEPS_PER_EPOCH
KEYS = {
    **runner.SMALL_ROWS, "task": "sequence", "data.file": "d.h5", "run.name": "r", "model.hidden": 8, "optimizer.lr": 0.01,
    "train.global_batch": GLOBAL_BATCH, "train.epochs": EPOCHS, "sequence.encoder_epochs": 1, "sequence.classifier_epochs": 1,
    "train.eval_every": f"{EVAL_EVERY}steps", "checkpoint.every": f"{SAVE_EVERY}steps", "checkpoint.keep_last": 2,
}


def arguments(np, resume=False):
    """Of dtrain; `np` None: one process without mpirun."""
    keys = {**KEYS, "train.batch_size": 1}  # so that an evaluation has several batches
    return runner.flags(keys) + (["--resume", "auto"] if resume else [])


def make_data(path):
    runner.run(["synth", "sequence", "--samples", SAMPLES, "--out", path]).expect(0)


def newest_step(run):
    """Of the checkpoints with a manifest; -1: there is none."""
    steps = [int(path.parent.name[5:]) for path in run.glob("checkpoints/step_????????/MANIFEST.json")]
    return max(steps, default=-1)


def owes_evaluation(run, step):
    """That of its step, which a job begins with: it may be stopped there again."""
    return json.loads((run / f"checkpoints/step_{step:08}/state.json").read_text())["evaluation_owed"]


def json_lines(file):
    """The records of a file; a last line that was cut short is left out."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def records(run):
    return json_lines(run / "metrics.jsonl")


def last_step(run):
    """The last one that was reported; 0: none was."""
    return max((record["step"] for record in records(run) if record["kind"] == "step"), default=0)


def outcome(run, output):
    """What must be equal, bit by bit, whatever happened on the way: {what: value}."""
    found = {}
    for record in records(run):
        if record["kind"] == "step":
            found[f"step {record['step']}"] = (record["loss"], record["grad_norm"], record["learning_rate"])
        elif record["kind"] == "eval":
            key = f"{record['split']} after step {record['step']}"
            value = json.dumps([record["metrics"], record.get("tables")], sort_keys=True)
            if found.setdefault(key, value) != value:
                found[key + ", again"] = value
    steps = [record["step"] for record in records(run) if record["kind"] == "step"]
    found["steps in order"] = steps == list(range(1, STEPS + 1)) or steps
    folder = run / f"checkpoints/step_{STEPS:08}"
    for file in sorted(folder.glob("*.safetensors")):
        found[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    line = output.rsplit("finished: ", 1)[-1].splitlines()[0] if "finished: " in output else ""
    for key in ("ledger ", "best accuracy "):
        found[key.strip()] = line.split(key)[1].split()[0] if key in line else "missing"
    return found


def differences(expected, found):
    return [f"{key}: {found.get(key, 'missing')} instead of {expected.get(key, 'nothing')}"
            for key in sorted(expected.keys() | found.keys()) if expected.get(key) != found.get(key)]


def leftovers(run):
    """Temporary files and folders in that of the runs, with the targets."""
    return sorted(str(path.relative_to(run.parent)) for path in run.parent.rglob("*") if ".tmp" in path.name or ".old-" in path.name)


class Undisturbed:
    """How the runs must end, by number of ranks, and what all runs use."""

    def __init__(self, folder):
        self.folder = folder
        self.data = folder / "d.h5"
        make_data(self.data)
        self.outcomes, self.seconds = {}, {}

    def expected(self, np):
        """The outcome for that number of ranks, with mpirun or without."""
        ranks = np or 1
        if ranks not in self.outcomes:
            place = self.new_folder(f"undisturbed{ranks}")
            result = runner.run(arguments(np), np=np, cwd=place).expect(0, "finished: all")
            self.outcomes[ranks] = outcome(place / "runs/r", result.output)
            self.seconds[ranks] = result.seconds
            # What both runs lack would be equal.
            found = self.outcomes[ranks]
            assert "missing" not in found.values() and any(key.endswith(".safetensors") for key in found), found
            assert found["steps in order"] is True and any(key.startswith("test after") for key in found), found
            shutil.rmtree(place)
        return self.outcomes[ranks]

    def new_folder(self, name):
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (place / "d.h5").symlink_to(self.data)
        return place
