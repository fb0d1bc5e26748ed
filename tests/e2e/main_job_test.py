"""The main job on real files: a folder in the published layout, convert, four ranks, metrics, checkpoints, evaluation."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.request

import h5py

import runner


def scrape(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
        return page.read().decode()


def without_arguments_the_quick_start_trains(folder):
    for np in (None, 4):
        with runner.Running([], np=np, cwd=folder) as running:
            running.wait_for("step 1/", timeout=300)
            os.kill(running.process.pid, signal.SIGUSR1)
            result = running.wait(120).expect(75, "runs/headpose-", "stopped on request at step")
        assert ("global batch 128 = 4 ranks" if np else "global batch 32 = 1 rank") in result.output, result.output
        # Made once, and used again.
        assert ("generating the quick-start set" in result.output) == (np is None), result.output
    assert sorted(p.name for p in folder.iterdir()) == ["data", "runs"], list(folder.iterdir())


def rank_0_alone_touches_the_run_folder(folder):
    """Each rank in a folder of its own: only that of rank 0 receives files, and a resume needs no other."""
    places = [folder / f"rank{rank}" for rank in range(2)]
    for place in places:
        place.mkdir()
    runner.synth(folder / "d.h5", 40)
    for epochs in ("1", "2"):
        words = ["--resume", "auto"] + runner.flags({**runner.SMALL, "data.file": folder / "d.h5", "run.name": "r", "train.epochs": epochs,
                                                     "checkpoint.every": 2})
        command = [["-np", "1", "--wdir", str(place), runner.DTRAIN, *map(str, words)] for place in places]
        done = subprocess.run(["mpirun", *command[0], ":", *command[1]], env=runner.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        assert done.returncode == 0 and "finished: all" in done.stdout, done.stdout
        assert ("resumed" in done.stdout) == (epochs == "2"), done.stdout
        assert list((places[0] / "runs/r/checkpoints").glob("step_*/rank_1.safetensors"))
        assert not list(places[1].iterdir()), list(places[1].rglob("*"))


def head_pose_from_the_300w_lp_layout(folder):
    runner.run(["synth", "headpose", "--layout", "300wlp", "--samples", 160, "--size", 128, "--out", folder / "raw"]).expect(0)
    assert any((folder / "raw").glob("*_Flip/*.mat"))
    runner.run(["convert", "300wlp", folder / "raw"], cwd=folder, timeout=120).expect(0, "data/300wlp.h5")
    runner.run(["inspect", "data/300wlp.h5", "--verify"], cwd=folder).expect(0, "headpose")
    with h5py.File(folder / "data/300wlp.h5") as f:
        assert f["inputs"].shape[1:] == (224, 224, 3)

    with runner.Running(["--dataset", "300wlp", "--epochs", "2", "--batch-size", "16", "--name", "main", "--metrics.port", "0",
                         "--metrics.linger_seconds", "8", "--data.workers", "1"], np=4, cwd=folder) as running:
        running.wait_for("finished: ", timeout=400)
        for part in ["global batch 64 = 4 ranks × 16 × accumulate 1", "decided by --batch-size; train.global_batch 128 of the embedded headpose_300wlp does not count",
                     "0.001 is for the global batch of 128 of the embedded headpose_300wlp; for 64, linear scaling suggests --lr 0.0005"]:
            assert part in running.output(), running.output()
        targets = json.loads((folder / "runs/targets/main.json").read_text())
        addresses = [address for group in targets for address in group["targets"]]
        assert len(addresses) == 4
        for rank, address in enumerate(addresses):
            page = scrape(address)
            names = ["dtrain_steps_total", "dtrain_phase_seconds_total", "dtrain_step_duration_seconds", "dtrain_build_info"]
            for name in names + (["dtrain_samples_total", "dtrain_loss", "dtrain_job_info"] if rank == 0 else []):  # global metrics: only rank 0
                assert name in page, f"{name} is not on http://{address}/metrics"
            for series in ('dtrain_collective_bytes_total{communicator="gradients"', 'dtrain_device_memory_bytes{',
                           'dtrain_collective_seconds_total{communicator="host"', "dtrain_allocator_retries_total", "dtrain_out_of_memory_total"):
                assert series in page, f"{series} is not on http://{address}/metrics"
            if rank == 0:
                environment = json.loads((folder / "runs/main/environment.json").read_text())
                assert f'config_hash="{environment["config_hash"]}"' in page, page
        result = running.wait(60).expect(0, "mae_yaw", "mae_pitch", "mae_roll", "verdict: ")
    assert result.output.count("test epoch 2/2 | loss ") == 1
    run = folder / "runs/main"
    for name in ["config.yaml", "log.txt", "metrics.jsonl", "environment.json", "report.html"]:
        assert (run / name).stat().st_size > 0, name
    assert list(run.glob("events.out.tfevents.*"))
    assert not (folder / "runs/targets/main.json").exists()
    evaluated = runner.run(["eval", "runs/main"], cwd=folder, np=2).expect(0, "mae_yaw", "samples/s")
    printed = float(result.output.split("test epoch ")[1].split("mae ")[1].split()[0])
    again = float(evaluated.output.split("\nmae ")[1].split()[0])
    assert abs(printed - again) < 0.006, (printed, again)


def the_batch_that_the_user_gives_wins(folder):
    runner.synth(folder / "data/300wlp.h5", 300)
    start = ["--dataset", "300wlp", "--model.image_size", 32, "--dry-run"]

    def banner(*words, np=2, code=0):
        output = runner.run([*start, *words], np=np, cwd=folder).expect(code).output
        return re.sub(r" +", " ", output)

    embedded = banner()
    assert "global batch 128 = 2 ranks × 128 × accumulate 1" not in embedded and "global batch 128 <= 2 ranks × 128 × accumulate 1" in embedded, embedded
    assert "decided by train.global_batch (configs/headpose_300wlp.yaml (embedded):" in embedded and "linear scaling" not in embedded, embedded
    given = banner("--batch-size", 32, "--accumulate", 2)
    assert "global batch 128 = 2 ranks × 32 × accumulate 2" in given and "decided by --batch-size and --accumulate; train.global_batch 128" in given, given
    assert "linear scaling" not in given, given  # the same global batch
    mine = banner("--batch-size", 128, "--lr", 0.01)
    assert "global batch 256 = 2 ranks × 128 × accumulate 1" in mine and "linear scaling" not in mine, mine  # the rate is the user's
    primary = banner("--batch-size", 32, "--train.global_batch", 192)
    assert "global batch 192 = 2 ranks × 32 × accumulate 3" in primary and "decided by train.global_batch (--train.global_batch)" in primary, primary
    assert "for 192, linear scaling suggests --lr 0.0015" in primary, primary
    (folder / "c.yaml").write_text("train:\n  global_batch: 128\n")
    wrong = banner("c.yaml", "--batch-size", 32, "--accumulate", 3, code=78)
    assert "train.global_batch 128 (c.yaml:2:17) on 2 ranks with train.batch_size 32 (--batch-size) needs train.accumulate 2, not train.accumulate 3 (--accumulate)" in wrong, wrong


def head_pose_from_the_biwi_layout(folder):
    runner.run(["synth", "headpose", "--layout", "biwi", "--samples", 96, "--size", 128, "--out", folder / "raw"]).expect(0)
    runner.run(["convert", "biwi", folder / "raw", "--size", "64"], cwd=folder, timeout=120).expect(0, "data/biwi.h5")
    runner.run(["--dataset", "biwi", "--epochs", "1", "--batch-size", "8", "--name", "b", "--model.image_size", "64", "--metrics.port", "0"],
               np=2, cwd=folder).expect(0, "mae_yaw", "finished: all")


def a_taken_port_is_reported_and_training_continues(folder):
    import socket
    runner.synth(folder / "d.h5", 40)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        runner.train(folder, train__epochs=1, metrics__port=port).expect(0, f"127.0.0.1:{port}", "finished: all")


def targets_that_cannot_be_written_are_reported_and_training_continues(folder):
    runner.synth(folder / "d.h5", 40)
    (folder / "runs").mkdir()
    (folder / "runs/targets").write_text("a file where the folder should be")
    result = runner.train(folder, train__epochs=1).expect(0, "finished: all")
    assert result.output.count("warning: Prometheus may not find the metrics of this run: cannot create folder runs/targets: ") == 1, result.output


def every_rank_serves_until_the_report_is_written(folder):
    """A target that is listed and does not answer has crashed. Each read of a sample takes rank 0 0.2 s: the report has twelve samples."""
    runner.synth(folder / "d.h5", 40)
    slow = f"LD_PRELOAD={os.environ['DTRAIN_BUILD']}/bench/faults/libfaults.so;DTRAIN_FAULT=read:200000:0"  # not for mpirun
    words = runner.flags({**runner.SMALL, "data.file": "d.h5", "run.name": "r", "train.epochs": 1, "data.val_share": 0.4})
    env = {**runner.environment(), "OMPI_MCA_mca_base_env_list": slow}
    targets, report = folder / "runs/targets/r.json", folder / "runs/r/report.html"
    with runner.Running(words, np=2, cwd=folder, env=env) as running:
        running.wait_for("finished: all")
        time.sleep(1)  # rank 1 has nothing left to do
        addresses = [address for group in json.loads(targets.read_text()) for address in group["targets"]]
        pages = [scrape(address) for address in addresses]
        assert not report.exists(), "the reads were not slow: nothing was shown"
        running.wait(60).expect(0)
    assert len(pages) == 2 and all("dtrain_steps_total{" in page for page in pages), pages
    assert report.exists() and not targets.exists()


def listening(process):
    """The ports on which a process listens, of IPv4 and IPv6."""
    sockets = set()
    for file in pathlib.Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            sockets.add(os.readlink(file))
    rows = [line.split() for name in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/{process}/net/{name}").read_text().splitlines()[1:]]
    return [int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]


def ranks_of_one_host_listen_for_metrics_alone(folder):
    """Open MPI would listen on all addresses, for ranks of other hosts."""
    runner.synth(folder / "d.h5", 64)
    for np in (None, 2):
        keys = {**runner.SMALL, "data.file": "d.h5", "run.name": f"r{np}", "train.max_steps": 100000, "train.epochs": 100000}
        with runner.Running(runner.flags(keys), np=np, cwd=folder) as running:
            running.wait_for("step 2/")
            ranks = running.ranks() if np else [running.process.pid]
            metrics = json.loads((folder / f"runs/targets/r{np}.json").read_text())
            ports = sorted(int(target["targets"][0].rsplit(":", 1)[1]) for target in metrics)
            assert sorted(port for rank in ranks for port in listening(rank)) == ports, (ranks, ports)
            os.kill(running.process.pid, signal.SIGUSR1)
            running.wait().expect(75)


def with_a_progress_bar_step_lines_are_only_in_the_log(folder):
    runner.synth(folder / "d.h5", 40)
    result = runner.train(folder, train__epochs=1, run__name="bar", run__progress="bar").expect(0, "\033[K")
    assert "| step 1/" not in result.output and "| step 1/" in (folder / "runs/bar/log.txt").read_text(), result.output


def the_installed_program_runs_from_any_folder(folder):
    prefix = folder / "prefix"
    subprocess.run(["cmake", "--install", os.environ["DTRAIN_BUILD"], "--prefix", str(prefix)], check=True, stdout=subprocess.DEVNULL)
    runner.synth(folder / "d.h5", 40)
    words = " ".join(["dtrain", "--name", "i"] + runner.flags({**runner.SMALL, "data.file": folder / "d.h5", "train.epochs": 1}))
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": runner.environment()["TMPDIR"], "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    (folder / "elsewhere").mkdir()
    done = subprocess.run(["bash", "-c", f". {prefix}/env.sh && mpirun -np 4 {words}"], cwd=folder / "elsewhere", env=env,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0 and "finished: the 1 step is done | 1 step in" in done.stdout, done.stdout


runner.main([without_arguments_the_quick_start_trains, rank_0_alone_touches_the_run_folder, head_pose_from_the_300w_lp_layout,
             the_batch_that_the_user_gives_wins, head_pose_from_the_biwi_layout, a_taken_port_is_reported_and_training_continues,
             targets_that_cannot_be_written_are_reported_and_training_continues, every_rank_serves_until_the_report_is_written, ranks_of_one_host_listen_for_metrics_alone,
             with_a_progress_bar_step_lines_are_only_in_the_log, the_installed_program_runs_from_any_folder])
