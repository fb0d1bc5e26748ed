"""Python's safetensors library and dtrain read each other's files bit for bit: every type, scalars, empty tensors."""

import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
         torch.uint8, torch.bool]


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().flatten().view(torch.uint8).numpy()) if tensor.numel() else b""


def expect_same(ours: dict, theirs: dict) -> None:
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    for name, a in ours.items():
        b = theirs[name]
        assert a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b), name


def main() -> None:
    torch.manual_seed(0)
    tensors = {str(t): (torch.randn(3, 5) * 50).to(t) for t in TYPES}
    tensors |= {"scalar": torch.tensor(3.5), "empty": torch.zeros(0, 4), "odd": torch.arange(3, dtype=torch.uint8),
                "nan": torch.tensor([float("nan"), float("-inf"), -0.0]), "name with ü \" \\": torch.ones(1)}
    metadata = {"format": "pt", "text": "line\nbreak \"ü\" \\ \u0001"}
    with tempfile.TemporaryDirectory() as folder:
        source, copy = pathlib.Path(folder) / "in.safetensors", pathlib.Path(folder) / "out.safetensors"
        save_file(tensors, source, metadata)
        names = subprocess.run([sys.argv[1], source, copy], check=True, capture_output=True, text=True).stdout
        assert set(names.splitlines()) == set(tensors), names
        expect_same(load_file(copy), tensors)
        with safe_open(copy, "pt") as f:
            assert f.metadata() == metadata, f.metadata()
        x = torch.arange(48, dtype=torch.float32).reshape(2, 4, 3, 2)
        expect_same(load_file(f"{copy}.own"), {
            "channels_last": x, "byte": torch.ones(3, dtype=torch.uint8), "transposed": x.transpose(0, 3).contiguous(),
            "scalar": torch.tensor(7), "empty": torch.zeros(0, 3, dtype=torch.float16)})


if __name__ == "__main__":
    sys.exit(main())
