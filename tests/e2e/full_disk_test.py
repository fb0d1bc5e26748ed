"""A disk that fills up while a run saves: a small tmpfs."""

import subprocess

import mounts
import runner


def full_disk_while_saving(folder):
    disk = folder / "small"
    disk.mkdir()
    mounts.tmpfs(disk, "24m")
    try:
        runner.synth(folder / "d.h5", 64)
        result = runner.train(folder, np=2, run__folder=disk, checkpoint__every=2, checkpoint__keep_last=5, checkpoint__keep_best=False,
                              train__epochs=30, data__val_share=0).expect(73, "No space left on device", "step_", "move the run folder to another disk and name that with --run.folder")
        assert "--out" not in result.output, result.output
        assert result.output.count("error: ") == 1, result.output
        kept = sorted(p.name for p in (disk / "r/checkpoints").iterdir())
        assert kept == ["step_00000002"], kept
        runner.run(["inspect", disk / "r/checkpoints/step_00000002", "--verify"]).expect(0)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


mounts.main([full_disk_while_saving])
