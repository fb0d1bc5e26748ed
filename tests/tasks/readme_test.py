"""The README of every task can be pasted: its Python, its commands and its YAML, in their order, on fewer samples and for fewer steps."""

import csv
import re
import shlex
import subprocess
import sys

import runner

TASKS = runner.SOURCE / "src/tasks"

# What makes a command shorter: options that replace those of the README, by the command (`train` is the one without a name).
SHORTER = {
    "headpose": {"synth": {"--samples": 60, "--size": 90}, "convert": {"--size": 32}, "train": {"--epochs": 1, "--model.image_size": 32}},
    "classify": {"synth": {"--samples": 100, "--size": 64}, "convert": {"--size": 40},
                 "train": {"--train.max_steps": 3, "--batch-size": 16, "--train.global_batch": 16, "--model.image_size": 32}},
    "pointer": {"synth": {"--samples": 200}, "train": {"--epochs": 1, "--model.hidden": 32}},
    "sequence": {"synth": {"--samples": 100}, "train": {"--epochs": 2, "--model.hidden": 32, "--sequence.encoder_epochs": 1,
                                                        "--sequence.classifier_epochs": 1, "--sequence.iterations": 1}},
    "module": {"synth": {"--samples": 800}, "train": {"--epochs": 2}},
}
# The metric that `eval` prints, for each run of the READMEs, and what it must reach where the short run learns something: at least, at most.
REACHED = {"heads": ("mae", None, 40), "photos": ("top1", None, None), "orders": ("position_accuracy", 0.2, None),
           "waves": ("accuracy", None, None), "mine": ("top1", 0.2, None), "rows": ("mae", None, 0.6)}


def blocks(task):
    """[(language, text)] of the code of the README, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```", (TASKS / task / "README.md").read_text(), re.DOTALL | re.MULTILINE)


def shortened(words, options):
    """The words with the values of `options`."""
    words = list(words)
    for flag, value in options.items():
        if flag in words:
            del words[words.index(flag):words.index(flag) + 2]
        words += [flag, str(value)]
    return words


def run_command(task, line, folder, seen):
    words, ranks = shlex.split(line, comments=True), None
    if words[0] == "mpirun":
        assert words[1] == "-np", line
        words, ranks = words[3:], int(words[2])
    assert words[0] == "dtrain", line
    command = "train" if words[1].startswith("--") else words[1]
    options = dict(SHORTER[task].get(command, {}))
    if command == "train":
        options |= {"--metrics.enabled": "false", "--workers": 1}
    result = runner.run(shortened(words[1:], options), np=ranks, cwd=folder).expect(0)
    seen.append(command)
    if command == "eval":
        metric, at_least, at_most = REACHED[words[2].removeprefix("runs/")]
        value = float(re.search(rf"^{metric} +([\d.]+)", result.output, re.MULTILINE).group(1))
        assert at_least is None or value >= at_least, result.output
        assert at_most is None or value <= at_most, result.output
    if "--out" in words:
        out = folder / words[words.index("--out") + 1]
        assert out.exists(), line
        if command == "predict":
            rows = list(csv.DictReader(out.read_text().splitlines()))
            assert rows and all(row["error"] == "" for row in rows), rows[:3]


def pasted(task):
    def test(folder):
        seen, commands = [], []
        for language, text in blocks(task):
            if language == "python":
                (folder / "paste.py").write_text(text)
                subprocess.run([sys.executable, "paste.py"], cwd=folder, check=True, capture_output=True)
            elif language == "sh":
                lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
                commands += lines
                for line in lines:
                    run_command(task, line, folder, seen)
            else:
                assert language == "yaml", language
                says_what_the_flags_say(text, commands, folder)
        for command in ["train", "eval", "predict"]:
            assert command in seen, f"the README of {task} shows no {command}: {seen}"

    test.__name__ = f"the_readme_of_{task}_can_be_pasted"
    return test


def says_what_the_flags_say(text, commands, folder):
    (folder / "mine.yaml").write_text(text)
    words = next(words for words in map(shlex.split, commands) if words[1].startswith("--") and "mine" in words)
    meant = runner.run([*[word for word in words[1:] if word not in ["--name", "mine"]], "--print-config"], cwd=folder).expect(0)
    assert runner.run(["mine.yaml", "--print-config"], cwd=folder).expect(0).output == meant.output


def every_task_has_a_readme_with_commands(folder):
    tasks = sorted(path.name for path in TASKS.iterdir() if path.is_dir())
    assert tasks == sorted(SHORTER), (tasks, "add the new task to SHORTER and REACHED")
    for task in tasks:
        assert any(language == "sh" for language, _ in blocks(task)), task


runner.main([every_task_has_a_readme_with_commands, *map(pasted, SHORTER)])
