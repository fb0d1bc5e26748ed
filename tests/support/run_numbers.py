"""What a short run in float64 has computed, to compare it with another one to the last digits."""

import pathlib

import numpy as np
from safetensors.numpy import load_file

import runner


class Numbers:
    """Of a run that ended at this step; `result` is what it printed."""

    def __init__(self, result, run_folder, steps):
        self.ledger = runner.ledger(result)
        self.losses = [record["loss"] for record in runner.metrics(run_folder)]
        assert len(self.losses) == steps, self.losses
        self.tensors = load_file(pathlib.Path(run_folder) / f"checkpoints/step_{steps:08d}/model.safetensors")


def difference(one, other):
    """The largest difference of losses, weights and running statistics, relative where they exceed 1."""
    assert one.tensors.keys() == other.tensors.keys()
    pairs = [(np.array(one.losses), np.array(other.losses))]
    pairs += [(value, other.tensors[key]) for key, value in one.tensors.items() if value.dtype == np.float64]
    assert len(pairs) > 1, "no tensor is float64"
    return float(np.max([(np.abs(a - b) / np.maximum(1, np.abs(a).max())).max() for a, b in pairs]))  # NaN if one is
