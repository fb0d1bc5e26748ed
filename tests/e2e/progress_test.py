"""Progress of the commands that take long: on a terminal a bar with rate and time left that is rewritten in place, elsewhere plain lines,
and no color in either case, with and without NO_COLOR."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import runner

COLUMNS = 100
# Few trials: flags keep what they set.
TUNED = {"task": "classify", "model.image_size": 32, "train.batch_size": 8, "train.amp": "fp32", "model.checkpointing": False, "data.workers": 1,
         "metrics.port": 0}


def on_terminal(arguments, cwd, no_color=False, stdout=None):
    """What appears on a terminal that is COLUMNS wide. `stdout` goes elsewhere where it is given."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, COLUMNS, 0, 0))
    env = runner.environment() | ({"NO_COLOR": "1"} if no_color else {})
    process = subprocess.Popen(runner.command(arguments), cwd=cwd, env=env, stdin=theirs, stdout=stdout or theirs, stderr=theirs)
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    assert process.wait() == 0, text.decode(errors="replace")
    return text.decode(errors="replace")


def check_bar(text, *stages):
    for escape in re.findall("\x1b.{0,6}", text):
        assert escape.startswith("\x1b[K"), f"{escape!r} in {text!r}"
    for stage in stages:
        bars = re.findall(rf"\r{stage} (\[[#-]+\] [^\r\x1b]*)", text)
        assert bars, (stage, text)
        assert re.match(r"\[#+\] .* 100 %", bars[-1]), bars[-1]
        assert all(len(stage) + 1 + len(bar) < COLUMNS for bar in bars), bars


def check_lines(result, *stages):
    assert "\r" not in result.output and "\x1b" not in result.output, result.output
    for stage in stages:
        assert stage in result.output, result.output


def bars_on_a_terminal(folder):
    runner.run(["synth", "classify", "--layout", "images", "--samples", 200, "--size", 48, "--out", folder / "raw"]).expect(0)
    text = on_terminal(["convert", "images", "raw", "--size", 32, "--out", "d.h5"], folder)
    check_bar(text, "reading", "writing")
    assert re.search(r"200/200  100 %  [\d.]+ samples/s  took", text), text
    text = on_terminal(["inspect", "d.h5", "--verify"], folder)
    check_bar(text, "verifying")
    assert "samples match their checksums" in text, text

    keys = {**runner.SMALL, "task": "classify", "data.file": "d.h5", "run.name": "r", "run.progress": "auto", "checkpoint.every": 10}
    text = on_terminal(runner.flags(keys), folder)
    assert re.search(r"\repoch 2/2 \[#+\] (\d+)/\1  loss [\d.]+  [\d.]+ samples/s  eta", text), text
    check_bar(text)
    assert re.search(r"\x1b\[Kval epoch 1/2 \| loss", text), "a line above the bar: " + repr(text)
    assert re.search(r"(^|\n|\x1b\[K)finished: ", text), text

    check_bar(on_terminal(["inspect", "runs/r", "--verify"], folder), "verifying")
    text = on_terminal(["eval", "runs/r"], folder, no_color=True)
    check_bar(text, "evaluating")
    assert "top1" in text, text
    text = on_terminal(["predict", "runs/r", "d.h5", "--out", "p.csv"], folder, no_color=True)
    check_bar(text, "predicting")
    with (folder / "rows.csv").open("w") as rows:
        check_bar(on_terminal(["predict", "runs/r", "d.h5"], folder, stdout=rows), "predicting")
    assert (folder / "rows.csv").read_text() == (folder / "p.csv").read_text()
    text = on_terminal(["predict", "runs/r", "d.h5"], folder)
    assert "predicting" not in text and "\x1b" not in text, "the rows are on the terminal"

    tune = ["tune", *runner.flags({**TUNED, "data.file": "d.h5"}), "--minutes", 0.1, "--seconds", 0.1]
    text = on_terminal(tune, folder, no_color=True)
    check_bar(text, "tune")
    assert re.search(r"\rtune \[#+\] .*  100 %  [\d.]+ trials/min  took", text), text
    assert re.search(r"\rmemory \[[#-]+\] [\d.]+s/6\.0s  \d+ %  eta at most [\d.]+s", text), text
    assert re.search(r"\r(network|loader|result) \[[#-]+\] .* %  [\d.]+ trials/min  eta at most [\d.]+s", text), text
    assert re.search(r"\x1b\[K\[[^\r\n]+\] memory: batch 8: ", text), "a line above the bar: " + repr(text)


def lines_elsewhere(folder):
    runner.run(["synth", "classify", "--layout", "images", "--samples", 100, "--size", 48, "--out", folder / "raw"]).expect(0)
    check_lines(runner.run(["convert", "images", "raw", "--size", 32, "--out", "d.h5"], cwd=folder).expect(0), "reading 100 of 100 (100.0 %)")
    keys = {**runner.SMALL, "task": "classify", "data.file": "d.h5", "run.name": "r", "run.progress": "auto"}
    check_lines(runner.run(runner.flags(keys), cwd=folder).expect(0), "epoch 2/2 | step")
    for arguments in (["eval", "runs/r"], ["inspect", "d.h5", "--verify"], ["predict", "runs/r", "d.h5", "--out", "p.csv"]):
        result = runner.run(arguments, cwd=folder).expect(0)
        check_lines(result)
        assert not re.search("evaluating|verifying|predicting", result.output), "short work says nothing: " + result.output
    tune = ["tune", *runner.flags({**TUNED, "data.file": "d.h5"}), "--minutes", 0.1, "--seconds", 0.1]
    result = runner.run(tune, cwd=folder).expect(0, "memory: batch 8: ", " samples/s")
    check_lines(result)
    assert "trials/min" not in result.output, "each trial has a line: " + result.output


if __name__ == "__main__":
    runner.main([bars_on_a_terminal, lines_elsewhere])
