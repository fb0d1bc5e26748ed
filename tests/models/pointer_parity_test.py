"""Compares the pointer network with the same network in Python: outputs, choices, gradients and twenty training steps."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import pointer_network

TOOL, STEPS, BATCH = sys.argv[1], 20, 8
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}  # so that sums have the same order on both sides


def in_dtrain(folder, network, data, precision, lr):
    sets, order, lengths = data
    source, target = folder / "in.safetensors", folder / "out.safetensors"
    save_file({**network.state_dict(), "sets": sets, "order": order, "lengths": lengths}, source)
    subprocess.run([str(w) for w in (TOOL, source, target, precision, BATCH, STEPS, 0, lr)], check=True, env=ONE_THREAD,
                   stdout=subprocess.DEVNULL)
    return load_file(target)


def in_python(network, losses_of, data, dtype, lr):
    sets, order, lengths = data
    network, sets = network.to(dtype), sets.to(dtype)
    result = {}
    with torch.no_grad():
        result["choices"] = network.greedy(sets, lengths)
        result["loss_each"] = losses_of(sets, lengths, order)
    optimizer = torch.optim.AdamW(network.parameters(), lr=lr, weight_decay=0.01)
    losses = []
    for step in range(STEPS):
        at = step % (len(sets) // BATCH) * BATCH
        part = slice(at, at + BATCH)
        optimizer.zero_grad()
        loss = losses_of(sets[part], lengths[part], order[part]).sum() / lengths[part].sum()
        loss.backward()
        if step == 0:
            result.update({f"grad.{name}": p.grad.clone() for name, p in network.named_parameters()})
        optimizer.step()
        losses.append(loss.item())
    result["losses"] = torch.tensor(losses, dtype=torch.float64)
    return {**result, **network.state_dict()}


def difference(ours, theirs):
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    return ((ours.double() - theirs.double()).abs().max() / theirs.double().abs().max().clamp(min=1)).item()


def relative(value, truth):
    return ((value.double() - truth).abs().max() / truth.abs().max()).item()


def compare(folder, name, data, form):
    torch.manual_seed(4)
    start = pointer_network.PointerNetwork().state_dict()

    def fresh():
        network = pointer_network.PointerNetwork()
        network.load_state_dict(start)
        return network

    worst, exact_gradients = {}, {}
    for precision, dtype, lr in (("fp64", torch.float64, 1e-3), ("fp32", torch.float32, 1e-4)):
        ours = in_dtrain(folder, fresh(), data, precision, lr)
        network = fresh()
        theirs = in_python(network, getattr(network, form), data, dtype, lr)
        # Untrained scores are close to each other: a choice may differ in float32 only where Python's own would tie.
        same = (ours["choices"] == theirs["choices"]).all(1).double().mean().item()
        assert same == 1 if precision == "fp64" else same >= 0.95, (name, precision, same)
        for key, value in theirs.items():
            if key == "choices":
                continue
            exact = precision == "fp64"
            if key.startswith("grad."):
                # Both precisions are compared with float64. An untrained network scores all elements almost equally, so the decoder's
                # gradients almost cancel and have few correct digits in float32: a larger error is allowed where Python has one of that
                # size too. Which of the two is larger depends on the kernels that a CPU has.
                truth = exact_gradients.setdefault(key, value.double())
                error = relative(ours[key], truth)
                bound = 1e-10 if exact else max(1e-4, 2 * relative(value, truth))
            elif key == "losses":
                error = ((ours[key] - value).abs() / value.abs()).max().item()
                bound = 1e-10 if exact else 1e-2
            elif key == "loss_each":
                error, bound = difference(ours[key], value), 1e-12 if exact else 1e-5
            elif exact:
                error, bound = difference(ours[key], value), 1e-10
            else:
                continue  # not for weights after float32 steps of Adam, which turn rounding errors of small gradients into whole steps
            assert error <= bound, (name, precision, key, error)
            kind = key.split(".")[0] if "." in key else key
            worst[precision, kind] = max(worst.get((precision, kind), 0), error)
    print(f"{name}: " + ", ".join(f"{p} {k} {e:.1e}" for (p, k), e in sorted(worst.items())))


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compare(folder, "equal lengths, decode loop", pointer_network.generated(32, 9), "losses_by_step")
        compare(folder, "padded, packed in Python", pointer_network.generated(32, 9, 2), "losses_at_once")


if __name__ == "__main__":
    main()
