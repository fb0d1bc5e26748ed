"""The ONNX graph of every network, run by onnxruntime: PyTorch's outputs from PyTorch's weights."""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import save_file

import networks
from networks import check_close, session

WRITE_ONNX = sys.argv[1]
SIZE = 64
IMAGES = {"task": "classify", "image_size": str(SIZE), "mean": "0.485,0.456,0.406", "std": "0.229,0.224,0.225"}


def write(network, metadata, folder):
    """Exports the network and returns it in onnxruntime."""
    source, target = folder / "m.safetensors", folder / "m.onnx"
    save_file({name: tensor.contiguous() for name, tensor in network.state_dict().items()}, source, metadata)
    done = subprocess.run([WRITE_ONNX, source, target], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    model = session(target)
    assert model.get_modelmeta().custom_metadata_map == metadata
    return model


def image_networks(folder):
    for name, make in networks.IMAGE_NETWORKS.items():
        task, outputs = ("headpose", 3) if name == "headpose_cnn" else ("classify", 7)
        network = networks.randomized(make(outputs))
        model = write(network, {**IMAGES, "task": task, "network": name}, folder)
        given, made = model.get_inputs()[0], model.get_outputs()[0]
        assert (given.name, given.shape) == ("images", ["batch", 3, SIZE, SIZE]), (given.name, given.shape)
        assert (made.name, made.shape) == ("angles" if task == "headpose" else "logits", ["batch", outputs])
        for batch in (1, 5):
            x = torch.randn(batch, 3, SIZE, SIZE)
            with torch.no_grad():
                error = check_close(f"{name}, batch {batch}", model.run(None, {"images": x.numpy()})[0], network(x))
            print(f"{name}, batch {batch}: within {error:.1e}")


def sequences_of_any_length(folder):
    features, classes = 6, 4
    network = networks.randomized(networks.CnnLstm(features, classes))
    model = write(network, {"task": "sequence", "network": "cnn_lstm", "features": str(features)}, folder)
    for lengths in ([9], [30, 1, 2, 17, 8]):
        padded = np.full((len(lengths), max(lengths) + 3, features), np.nan, np.float32)  # NaN beyond the lengths must not be read
        expected = []
        for i, length in enumerate(lengths):
            sequence = torch.randn(length, features)
            padded[i, :length] = sequence.numpy()
            with torch.no_grad():
                expected.append(network(sequence).numpy())
        actual = model.run(None, {"sequences": padded, "lengths": np.array(lengths, np.int64)})[0]
        check_close(f"lengths {lengths}", actual, np.stack(expected))


def pointers_decode_greedily(folder):
    features, longest = 8, 7
    network = networks.PointerNetwork(features).eval()
    for parameter in network.parameters():
        parameter.data *= 3  # initial weights give almost equal scores
    model = write(network, {"task": "pointer", "network": "pointer_network", "features": str(features),
                          "longest": str(longest)}, folder)
    orders = set()
    for lengths in ([7], [4, 7, 1, 2, 6]):
        padded = np.full((len(lengths), longest, features), np.nan, np.float32)  # NaN beyond the lengths must not be read
        expected = np.full((len(lengths), longest), -1)
        for i, length in enumerate(lengths):
            elements = torch.randn(length, features)
            padded[i, :length] = elements.numpy()
            with torch.no_grad():
                expected[i, :length] = network(elements)
            orders.add(tuple(expected[i]))
        actual = model.run(None, {"elements": padded, "lengths": np.array(lengths, np.int64)})[0]
        assert np.array_equal(actual, expected), f"lengths {lengths}:\n{actual}\nexpected\n{expected}"
    assert not {tuple(range(n)) + (-1,) * (longest - n) for n in (4, 6, 7)} & orders, "the order says nothing"


if __name__ == "__main__":
    torch.manual_seed(11)
    for test in (image_networks, sequences_of_any_length, pointers_decode_greedily):
        with tempfile.TemporaryDirectory() as place:
            test(pathlib.Path(place))
        print("ok", test.__name__)
