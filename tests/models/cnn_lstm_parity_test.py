"""Compares the sequence network with the same network in Python: outputs and 20 training steps of both phases, from equal weights."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from cnn_lstm_reference import CnnLstm, valid

TOOL = sys.argv[1]
FEATURES, CLASSES, STEPS, RATE = 3, 4, 20, 0.02


def samples(dtype):
    torch.manual_seed(2)
    lengths = torch.tensor([17, 1, 40, 2, 9, 9, 26, 33, 5, 12, 40])  # odd, even, equal, the shortest; two groups
    rows = torch.randn(len(lengths), 40, FEATURES, dtype=dtype) * valid(lengths, 40)[:, :, None]
    hidden = (torch.rand(len(lengths), 40) < 0.3) & valid(lengths, 40)
    return {"rows": rows, "lengths": lengths, "targets": torch.randint(0, CLASSES, (len(lengths),)), "hidden": hidden}


def network(dtype):
    torch.manual_seed(3)
    model = CnnLstm(FEATURES, CLASSES, hidden=32)
    with torch.no_grad():
        for norm in (model.bn1, model.bn2):  # statistics and scales other than 0 and 1
            norm.running_mean.normal_(std=0.3)
            norm.running_var.uniform_(0.5, 2)
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.normal_(std=0.2)
    return model.to(dtype)


def trained(phase, dtype):
    model, data = network(dtype), samples(dtype)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        if phase == "classifier":
            loss = torch.nn.functional.cross_entropy(model(data["rows"], data["lengths"]), data["targets"])
        else:
            mask = data["hidden"][:, :, None]
            error = model.rebuild(data["rows"].masked_fill(mask, 0), data["lengths"]) - data["rows"]
            loss = (error * error * mask).sum() / (data["hidden"].sum() * FEATURES)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), model.state_dict()


def in_dtrain(folder, dtype):
    tensors = {**{k: v.contiguous() for k, v in network(dtype).state_dict().items()}, **samples(dtype),
               "learning_rate": torch.tensor(RATE, dtype=torch.float64)}
    save_file(tensors, folder / "in.safetensors")
    subprocess.run([TOOL, folder / "in.safetensors", folder / "out.safetensors"], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return load_file(folder / "out.safetensors")


def difference(actual, expected):
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    return ((actual.double() - expected.double()).abs().max() / max(1, expected.double().abs().max())).item()


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        for dtype, output_bound, training_bound in ((torch.float32, 1e-5, 1e-2), (torch.float64, 1e-12, 1e-12)):
            results = in_dtrain(Path(name), dtype)
            model, data = network(dtype).eval(), samples(dtype)
            with torch.no_grad():
                outputs = {"logits": model(data["rows"], data["lengths"]), "packed": model(data["rows"], data["lengths"], packed=True),
                           "rebuilt": model.rebuild(data["rows"], data["lengths"])}
            for key, expected in outputs.items():
                worst = difference(results["logits" if key == "packed" else key], expected)
                assert worst <= output_bound, (dtype, key, worst)
            for phase in ("encoder", "classifier"):
                losses, state = trained(phase, dtype)
                assert losses[-1] < losses[0], (phase, losses)
                worst = difference(results[phase + ".losses"], losses)
                for key, expected in state.items():
                    worst = max(worst, difference(results[f"{phase}.{key}"], expected))
                assert worst <= training_bound, (dtype, phase, worst)
                print(f"{dtype}: after {STEPS} steps of the {phase} losses, parameters and statistics differ by {worst:.1e} at most")


main()
