"""A disk that fills up while a run saves, or that is full when a result is to be written: a small tmpfs."""

import contextlib
import json

import mounts
import runner


def full_disk_while_saving(folder):
    with mounts.small_disk(folder, "24m") as disk:
        runner.synth(folder / "d.h5", 64)
        result = runner.train(folder, np=2, run__folder=disk, checkpoint__every=2, checkpoint__keep_last=5, checkpoint__keep_best=False,
                              train__epochs=30, data__val_share=0).expect(73, "No space left on device", "step_", "move the run folder to another disk and name that with --run.folder")
        assert "--out" not in result.output, result.output
        assert result.output.count("error: ") == 1, result.output
        kept = sorted(p.name for p in (disk / "r/checkpoints").iterdir())
        assert kept == ["step_00000002"], kept
        runner.run(["inspect", disk / "r/checkpoints/step_00000002", "--verify"]).expect(0)


def a_tuned_config_on_a_full_disk(folder):
    """What was found is shown, and nothing names the config that is not there."""
    with mounts.small_disk(folder, "64k") as disk:
        runner.synth(folder / "d.h5", 64)
        with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        keys = runner.flags({"data.file": "d.h5", "model.image_size": 32, "metrics.port": 0, "data.workers": 1, "data.prefetch": 4,
                             "train.amp": "fp32", "model.channels_last": True, "model.checkpointing": False})
        result = runner.run(["tune", *keys, "--minutes", 0.02, "--seconds", 0.1, "--out", disk / "t.yaml", "--json", "out.json"], cwd=folder)
        result.expect(73, f"cannot write {disk}/t.yaml: No space left on device: free some space, or write to another disk", "samples/s")
        assert "trains with it" not in result.output and result.output.count("t.yaml") == 1, result.output
        assert json.loads((folder / "out.json").read_text())["patch"] == ""
        assert [path.name for path in disk.iterdir()] == ["filler"]


mounts.main([full_disk_while_saving, a_tuned_config_on_a_full_disk])
