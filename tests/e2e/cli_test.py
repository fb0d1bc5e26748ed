"""The command line: help, completion, version, config printing, typos, dry runs."""

import os
import re
import shutil
import subprocess

import yaml

import runner


def help_names_every_command_and_section(folder):
    result = runner.run(["--help"]).expect(0)
    for word in ["train", "eval", "convert", "synth", "inspect", "--batch-size", "--print-config", "--dry-run", "--help all"]:
        assert word in result.output, word
    assert "optimizer.lr" not in result.output and len(result.output.splitlines()) < 70, result.output
    for every in (["--help", "all"], ["help", "all"], ["train", "--help", "all"]):
        full = runner.run(every).expect(0, "--optimizer.lr, --lr", "--print-config", "only for task sequence").output
        assert len(full.splitlines()) > 200, every
    commands = re.findall(r"^  ([a-z]+) ", result.output.split("commands:")[1].split("flags of train")[0], re.MULTILINE)
    assert {"train", "eval", "predict", "export", "convert", "synth", "inspect"} <= set(commands), commands
    usage = {"train": "dtrain [train] [", "bench": "dtrain bench data|comm|step ["}
    for command in commands:
        own = runner.run([command, "--help"]).expect(0, usage.get(command, f"dtrain {command} ["), "Usage: ", "--help").output
        assert own != result.output and len(own.splitlines()) <= 80, own


def help_fits_a_terminal(folder):
    for arguments in [["--help"], ["--help", "all"], ["train", "--help"], ["eval", "--help"], ["predict", "--help"], ["export", "--help"], ["inspect", "--help"],
                      ["doctor", "--help"], ["tune", "--help"], ["trace", "--help"], ["plan", "--help"], ["bench", "--help"], ["bench", "data", "--help"], ["bench", "comm", "--help"], ["bench", "step", "--help"]]:
        for line in runner.run(arguments).expect(0).output.splitlines():
            assert len(line) <= 80, (arguments, line)
    own = runner.run(["train", "--help"]).output
    for command in ["eval", "predict", "export"]:
        assert "RUN|CHECKPOINT" in runner.run([command, "--help"]).output.split("Options:")[0], command
    for word in ["--batch-size ", "--resume ", "--print-config", "--dry-run", "CONFIG.yaml", "dtrain --help", "docs/configuration.md"]:
        assert word in own, word


def flags_of(command):
    """The flags that a command's own help lists; all keys for train."""
    text = runner.run([command, "--help", "all"] if command == "train" else [command, "--help"]).output
    return {flag for line in text.splitlines() if line.startswith("  ") for flag in re.findall(r"--[a-z][\w.-]*", line[:36].split("  ")[1] if line[2] == "-" else "")}


def completed(script, *words):
    """What bash offers for the last word of a command line."""
    line = " ".join(f"'{word}'" for word in words)
    code = f". {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _dtrain; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout.split()


def bash_completes_commands_flags_and_values(folder):
    script = folder / "dtrain.bash"
    script.write_text(runner.run(["--manual", "bash"]).expect(0).output)
    assert {"train", "eval", "predict", "export", "convert", "synth", "inspect"} <= set(completed(script, "dtrain", ""))
    assert completed(script, "dtrain", "pre") == ["predict"]
    assert completed(script, "dtrain", "--optimizer.clip") == ["--optimizer.clip_norm", "--optimizer.clip_value"]
    assert completed(script, "dtrain", "train", "--ep") == ["--epochs"]
    assert completed(script, "dtrain", "--amp", "") == ["auto", "fp16", "bf16", "tf32", "fp32", "fp64", "off"]
    assert completed(script, "dtrain", "--task", "=", "po") == ["pointer"]
    assert completed(script, "dtrain", "eval", "runs/r", "--split", "") == ["train", "val", "test"]
    assert completed(script, "dtrain", "eval", "--ep") == []
    assert completed(script, "dtrain", "train", "a") == []  # files, by bash
    for command in ["train", "eval", "predict", "export", "convert", "synth", "inspect"]:
        offered = set(completed(script, "dtrain", command, "--"))
        assert flags_of(command) <= offered and len(offered) > 2, (command, flags_of(command) - offered)


def zsh_completion_has_the_same_flags(folder):
    text = runner.run(["--manual", "zsh"]).expect(0).output
    assert text.startswith("#compdef dtrain\n")
    for part in ["'--lr=[", "'--optimizer.lr=[", ":(auto fp16 bf16 tf32 fp32 fp64 off)'", "'--print-config[", "'--split=[", "'eval:"]:
        assert part in text, part
    assert flags_of("train") <= set(re.findall(r"'(--[\w.-]+)", text))
    if shutil.which("zsh"):
        (folder / "_dtrain").write_text(text)
        subprocess.run(["zsh", "-n", "_dtrain"], cwd=folder, check=True)


def the_manual_page_names_every_flag(folder):
    page = runner.run(["--manual", "man"]).expect(0).output
    (folder / "dtrain.1").write_text(page)
    done = subprocess.run(["groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-P-cbou", "dtrain.1"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    plain = re.sub(r"\s+", " ", done.stdout)
    for part in ["dtrain - distributed training", "mpirun -np N", "--optimizer.lr", "--lr", "FLAGS OF eval", "--split", "EXIT STATUS", "./dtrain.yaml"]:
        assert part in plain, part
    usage = (runner.SOURCE / "docs/usage.md").read_text()
    codes = re.findall(r"^\| (\d+) \| (.*) \|$", usage[usage.index("| exit code |"):], re.M)
    assert len(codes) == 14, codes
    for code, meaning in codes:
        assert f" {code} {meaning} " in plain[plain.index("EXIT STATUS"):] + " ", (code, meaning)
    missing = {flag for flag in flags_of("train") if flag not in done.stdout.replace("\u2010", "-")}
    assert not missing, missing


def the_installed_prefix_completes_and_has_its_page(folder):
    prefix = folder / "prefix"
    subprocess.run(["cmake", "--install", os.environ["DTRAIN_BUILD"], "--prefix", str(prefix)], check=True, stdout=subprocess.DEVNULL)
    for path in ["share/man/man1/dtrain.1", "share/bash-completion/completions/dtrain", "share/zsh/site-functions/_dtrain"]:
        assert (prefix / path).stat().st_size > 5000, path
    words = f". {prefix}/env.sh; complete -p dtrain"
    done = subprocess.run(["bash", "--norc", "-ic", words], capture_output=True, text=True, stdin=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", "HOME": str(folder)})
    assert "-F _dtrain dtrain" in done.stdout, done
    done = subprocess.run(["sh", "-c", f". {prefix}/env.sh && dtrain --manual zsh | head -1"], capture_output=True, text=True)
    assert done.stdout == "#compdef dtrain\n", done


def what_is_no_manual_is_refused(folder):
    for words in (["--manual"], ["--manual", "fish"], ["--manual", "bash", "zsh"]):
        runner.run(words).expect(64, "--manual needs one word: bash or zsh")


def version_names_all_libraries(folder):
    result = runner.run(["--version"]).expect(0)
    for word in ["dtrain ", "LibTorch 2.", "CUDA", "NCCL", "MPI", "HDF5 1."]:
        assert word in result.output, result.output


def print_config_is_valid_input(folder):
    first = runner.run(["--train.epochs", "7", "--lr", "0.02", "--print-config"], cwd=folder).expect(0)
    (folder / "again.yaml").write_text(first.output)
    assert yaml.safe_load(first.output)["train"]["epochs"] == 7
    second = runner.run(["again.yaml", "--print-config"], cwd=folder).expect(0)
    assert first.output == second.output


def the_heap_is_tcmalloc(folder):
    # LibTorch's many short-lived large blocks cost page faults with glibc's heap. Nothing refers to the library by name.
    linked = subprocess.run(["ldd", runner.DTRAIN], capture_output=True, text=True, check=True).stdout
    assert re.search(r"libtcmalloc_minimal\.so\S* => /", linked), linked


def a_start_does_not_wait_for_the_operators_of_gpus(folder):
    """They are loaded where there is a driver (tests/device/gpu_operators_test.cpp)."""
    linked = subprocess.run(["ldd", runner.DTRAIN], capture_output=True, text=True, check=True).stdout
    assert "libtorch_cpu" in linked and not re.search("libtorch_cuda|libcudnn|libcublas", linked), linked


def all_typos_at_once(folder):
    (folder / "typo.yaml").write_text("train:\n  epoch: 3\n  batch_size: many\noptimiser:\n  lr: 0.1\n")
    no_mpi = {**runner.environment(), "OMPI_MCA_pml": "none_of_this_name"}  # MPI_Init fails
    assert runner.run(["--dry-run"], cwd=folder, env=no_mpi).code not in (0, 78)
    result = runner.run(["typo.yaml", "--traim.seed", "1", "--lr", "-5"], cwd=folder, env=no_mpi).expect(
        78, "typo.yaml:2:3", "train.epochs", "typo.yaml:3:", "batch_size", "typo.yaml:5:3", "optimizer.lr", "--traim.seed", "train.seed", "--lr")
    assert result.seconds < 10


def typos_are_reported_once_under_mpirun(folder):
    result = runner.run(["--train.epoch", "3"], np=3, cwd=folder)
    assert result.code == 78, result.output
    assert result.output.count("did you mean") == 1, result.output


def what_fails_early_on_another_host_is_said_there(folder):
    """Before MPI starts. srun sets other variables than mpirun."""
    mpirun = {"OMPI_COMM_WORLD_RANK": "4", "OMPI_COMM_WORLD_SIZE": "8"}
    srun = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "4", "PMIX_RANK": "4"}
    for variables, local in ((mpirun, "OMPI_COMM_WORLD_LOCAL_RANK"), (srun, "SLURM_LOCALID")):
        for rank, speaks in (("0", True), ("1", False)):
            result = runner.run(["--optimizer.lrr", 1], cwd=folder, env={**runner.environment(), **variables, local: rank})
            assert result.code == 78 and ("error: on host " in result.output and "did you mean" in result.output) == speaks, (variables, rank, result.output)


def unknown_commands(folder):
    runner.run(["trian"], cwd=folder).expect(64, "did you mean 'train'")
    runner.run(["benchmark"], cwd=folder).expect(64, "unknown command 'benchmark'")
    runner.run(["convert", "imagenet", "."], cwd=folder).expect(64, "300wlp")
    runner.run(["eval"], cwd=folder).expect(64, "RUN|CHECKPOINT")
    (folder / "photos").mkdir()
    (folder / "d.h5").touch()
    runner.run(["photos"], cwd=folder).expect(64, "photos is a folder, not a command", "dtrain convert NAME photos", "dtrain --resume photos")
    runner.run(["d.h5"], cwd=folder).expect(64, "d.h5 is a file, not a command", "dtrain --dataset d.h5")


def data_in_the_place_of_a_config(folder):
    (folder / "d.h5").touch()
    runner.run(["train", "d.h5"], cwd=folder).expect(78, "d.h5: is a data file, not a config in YAML; `--dataset d.h5` trains on it")


def first_words_of_other_programs_are_understood(folder):
    assert runner.run(["-V"]).expect(0).output == runner.run(["--version"]).expect(0).output
    for words in (["help", "convert"], ["--help", "convert"]):
        assert runner.run(words).expect(0).output == runner.run(["convert", "--help"]).expect(0).output
    runner.run(["-h", "-h"]).expect(0, "dtrain")
    runner.run(["help", "convrt"]).expect(64, "unknown command 'convrt'; did you mean 'convert'?")
    runner.run(["-name", "r"]).expect(64, "unknown flag -name: flags begin with two dashes, as --name")


def commands_of_one_process_refuse_several(folder):
    for words in [["convert", "images", "d"], ["synth", "classify", "--out", "c.h5"], ["inspect", "c.h5"]]:
        result = runner.run(words, np=2, cwd=folder).expect(64, f"dtrain {words[0]} is one process", "give it without mpirun")
        assert result.output.count("is one process") == 1, result.output
    assert not list(folder.iterdir())
    runner.run(["synth", "headpose", "--samples", 4, "--size", 32, "--out", "c.h5"], np=1, cwd=folder).expect(0, "wrote c.h5")


def lost_output_is_reported(folder):
    for words in ["--help", "--version", "--print-config", "train --help"]:
        done = subprocess.run(["bash", "-c", f"{runner.DTRAIN} {words} > /dev/full"], cwd=folder, env=runner.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 73 and "cannot write the standard output: No space left on device" in done.stderr, (words, done)
        closed = subprocess.run(["bash", "-c", f"{runner.DTRAIN} {words} >&-"], cwd=folder, env=runner.environment(),
                                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert closed.returncode == 73 and "cannot write the standard output: Bad file descriptor" in closed.stderr, (words, closed)


def closed_standard_streams_do_not_corrupt_files(folder):
    command = f"{runner.DTRAIN} synth pointer --samples 30 --out a.h5"
    for streams in ["2>&-", "<&- >&- 2>&-"]:
        done = subprocess.run(["bash", "-c", f"{command} --force {streams}"], cwd=folder, env=runner.environment())
        assert done.returncode == 0, (streams, done)
        runner.run(["inspect", "a.h5", "--verify"], cwd=folder).expect(0)


def numbers_out_of_range_are_refused(folder):
    flags = {"bench data": "--seconds", "bench step": "--seconds", "bench comm": "--seconds", "tune": "--minutes", "trace": "--max-mib"}
    for command, flag in [*flags.items(), ("tune", "--seconds"), ("plan", "--seconds")]:
        for value in ("nan", "inf", "-1", "1e9", "word"):
            result = runner.run([*command.split(), flag, value], cwd=folder).expect(64, f"dtrain {command}: {flag}: {value} is not in ")
            assert result.output.count("error:") == 1, result.output
    for words in ("convert images p --size 0", "convert images p --threads -1", f"synth classify --seed {2**64}", "plan --ranks 8,,9",
                  "synth classify --size 15", "synth classify --size 2049", "synth pointer --max-length 2", "synth pointer --max-length 1001"):
        flag, value = words.split()[-2:]
        result = runner.run(words.split(), cwd=folder).expect(64, f"{flag}: ", value)
        assert len(result.output) < 200 and not any(folder.iterdir()), result.output
    runner.run(["synth", "--help"]).expect(0, "INT in [16 - 2048]", "INT in [3 - 1000]")


def options_that_do_not_apply_are_refused(folder):
    runner.run(["synth", "classify", "--layout", "images", "--samples", 30, "--size", 32, "--out", "p"], cwd=folder).expect(0)
    for words, text in [("convert images p --test-share 0.3", "the data set has its own splits"), ("convert images p --test-sequences 01", "--test-sequences applies only to biwi"),
                        ("convert sequence p --size 64", "--size is of pictures"), ("synth pointer --size 64", "--size is of pictures"),
                        ("synth sequence --max-length 5", "--max-length is of pointer"), ("synth classify --seed -1", "--seed")]:
        runner.run([*words.split(), "--out", "o.h5"], cwd=folder).expect(64, text)
    assert sorted(p.name for p in folder.iterdir()) == ["p"]


def keys_of_other_tasks_are_refused_where_they_are_given(folder):
    (folder / "c.yaml").write_text("task: pointer\naugment:\n  hue: 0.1\n  noise: 0.1\nmodel: {image_size: 64}\n")
    runner.run(["c.yaml", "--sequence.iterations", 2, "--train.class_weights", "none"], cwd=folder).expect(
        78, "5 problems", "c.yaml:3:8: augment.hue: does nothing for task pointer", "it is for tasks with pictures: leave it out",
        "c.yaml:4:10: augment.noise", "c.yaml:5:21: model.image_size", "--sequence.iterations: does nothing",
        "--train.class_weights: does nothing")
    for words, key in [("--pointer.teacher_forcing 0.5", "pointer.teacher_forcing"), ("--model.hidden 64", "model.hidden"),
                       ("--task classify --model.name simple_cnn --train.sync_batch_norm", "train.sync_batch_norm"),
                       ("--model.name resnet18 --model.dropout 0.1", "model.dropout"), ("--data.length_window 3", "data.length_window")]:
        runner.run([*words.split(), "--print-config"], cwd=folder).expect(78, f"{key}: does nothing for task")
    printed = runner.run(["--task", "pointer", "--print-config"], cwd=folder).expect(0).output
    keys = yaml.safe_load(printed)
    assert set(keys["model"]) == {"name", "dropout", "hidden", "init", "freeze"} and "augment" not in keys and "sequence" not in keys, keys
    assert runner.run(["--print-config", "--augment.crop_ratio", 1.5], cwd=folder).expect(0).output.count("crop_ratio: 1.5") == 1


def words_of_other_trainers_get_a_hint(folder):
    for flag, hint in [("--gpus", "mpirun -np N"), ("--grad-clip", "'--optimizer.clip_norm'"), ("--early-stopping", "'--train.patience'"),
                       ("--learning_rate", "'--lr'"), ("--gradient_accumulation_steps", "'--accumulate'"), ("--pretrained", "'--init'"),
                       ("--optimizer", "'--optimizer.name'"), ("--batch", "'--batch-size'"), ("--num_workers", "'--workers'"),
                       ("--precision", "'--amp'"), ("--checkpoint_path", "'--resume'")]:
        runner.run([flag, 1], cwd=folder).expect(78, f"{flag}: unknown flag", hint)
    (folder / "photos").mkdir()
    runner.run(["--dataset", "photos"], cwd=folder).expect(78, "'photos' is a folder", "dtrain convert NAME photos", "images (a subfolder of pictures per class)")


def a_letter_is_no_unit_of_an_interval(folder):
    runner.run(["--checkpoint.every", "10s"], cwd=folder).expect(78, "10steps or 10sec")
    (folder / "c.yaml").write_text("run: {log_every: 2e}\ncheckpoint: {every: 10m}\n")
    runner.run(["c.yaml"], cwd=folder).expect(78, "2 problems", "write 2epochs", "write 10min")
    printed = runner.run(["--print-config", "--checkpoint.every", "30sec,500", "--run.log_every", "1epoch"], cwd=folder).expect(0).output
    assert "every: \"500steps,30sec\"" in printed or "every: 500steps,30sec" in printed, printed


def dry_run_ends_at_step_1_and_writes_nothing(folder):
    runner.synth(folder / "d.h5", 40)
    before = sorted(p.name for p in folder.iterdir())
    result = runner.run(["--dry-run", "--data.file", "d.h5"] + runner.flags(runner.SMALL), cwd=folder).expect(
        0, "step 1/1", "global batch", "finished: the 1 step is done")
    assert ", 0 test samples" not in result.output, result.output  # it shows what the full run would use
    runner.run(["--dry-run", "--data.file", "d.h5", "--metrics.auth_file", "absent"] + runner.flags(runner.SMALL), cwd=folder).expect(78, "metrics.auth_file")
    assert sorted(p.name for p in folder.iterdir()) == before, result.output


def a_config_in_the_folder_is_used(folder):
    runner.synth(folder / "d.h5", 24)
    lines = {}
    for key, value in {**runner.SMALL, "data.file": "d.h5", "run.name": "fromfile", "train.epochs": 1}.items():
        section, name = key.split(".")
        lines.setdefault(section, {})[name] = value
    (folder / "dtrain.yaml").write_text(yaml.safe_dump(lines))
    runner.run([], cwd=folder).expect(0, "dtrain.yaml", "finished: all")
    assert (folder / "runs/fromfile/config.yaml").exists()
    runner.run(["inspect", "runs/fromfile", "--verify"], cwd=folder).expect(0, "checkpoints/step_", "match their SHA-256")


runner.main([help_names_every_command_and_section, help_fits_a_terminal, bash_completes_commands_flags_and_values,
             zsh_completion_has_the_same_flags, the_manual_page_names_every_flag, the_installed_prefix_completes_and_has_its_page,
             what_is_no_manual_is_refused, keys_of_other_tasks_are_refused_where_they_are_given, words_of_other_trainers_get_a_hint,
             a_letter_is_no_unit_of_an_interval, version_names_all_libraries, the_heap_is_tcmalloc, a_start_does_not_wait_for_the_operators_of_gpus, print_config_is_valid_input, all_typos_at_once,
             typos_are_reported_once_under_mpirun, what_fails_early_on_another_host_is_said_there, unknown_commands, data_in_the_place_of_a_config,
             first_words_of_other_programs_are_understood, commands_of_one_process_refuse_several, lost_output_is_reported, closed_standard_streams_do_not_corrupt_files, options_that_do_not_apply_are_refused,
             dry_run_ends_at_step_1_and_writes_nothing,
             a_config_in_the_folder_is_used])
