"""h5py opens a data file written by dtrain, and its content is exactly what docs/file_formats.md says."""

import ctypes
import ctypes.util
import pathlib
import struct
import subprocess
import sys
import tempfile

import h5py
import numpy as np


ROWS = [4, 1, 7, 3, 7, 2]


def xxh64(data: bytes, seed: int) -> int:
    function = ctypes.CDLL(ctypes.util.find_library("xxhash")).XXH64
    function.restype = ctypes.c_uint64
    return function(data, ctypes.c_size_t(len(data)), ctypes.c_uint64(seed))


def attributes_checksum(attributes) -> int:
    """As docs/file_formats.md specifies it."""
    forms = {bytes: ("text", bytes), np.int64: ("int64", lambda v: struct.pack("<q", v)),
             np.uint64: ("uint64", lambda v: struct.pack("<Q", v)), np.float64: ("float64", lambda v: struct.pack("<d", v))}
    checksum = 0
    for name in sorted(set(attributes) - {"attributes_checksum"}):
        value = attributes[name]
        kind, pack = next(form for type_, form in forms.items() if isinstance(value, type_))
        for part in (name.encode(), kind.encode(), pack(value)):
            checksum = xxh64(part, checksum)
    return checksum


def slices(group):
    offsets = group["offsets"][:]
    assert offsets.dtype == np.int64 and len(offsets) == len(ROWS) + 1
    return [group["values"][a:b] for a, b in zip(offsets, offsets[1:])]


def check_rows(folder: str) -> None:
    for kind in ("orders", "classes"):
        file = pathlib.Path(folder) / f"{kind}.h5"
        subprocess.run([sys.argv[1], str(file), kind], check=True)
        with h5py.File(file) as f:
            assert f["inputs/values"].dtype == np.float32 and f["inputs/values"].shape == (sum(ROWS), 3)
            for i, rows in enumerate(slices(f["inputs"])):
                assert np.array_equal(rows, i + np.arange(ROWS[i] * 3, dtype=np.float32).reshape(-1, 3) / 8)
            if kind == "orders":
                for i, order in enumerate(slices(f["targets"])):
                    assert order.dtype == np.int64 and order.tolist() == list(range(ROWS[i]))[::-1]
            else:
                assert f["targets"].dtype == np.int64 and f["targets"][:].tolist() == [0, 1, 2, 0, 1, 2]
                assert f.attrs["class_names"].decode().split("\n") == ["walk", "run", "stand still"]
            offset = f["inputs/values"].id.get_offset()
            assert file.read_bytes()[offset + 48 : offset + 60] == f["inputs/values"][4].tobytes()
            for name in ("inputs/values", "inputs/offsets"):
                assert f[name].chunks is None and f[name].compression is None, name


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "d.h5"
        subprocess.run([sys.argv[1], str(file)], check=True)
        with h5py.File(file) as f:
            n = f.attrs["num_samples"]
            assert n == 7 and f.attrs["format"] == b"dtrain" and f.attrs["version"] == 1 and f.attrs["task"] == b"headpose"
            assert f.attrs["crop"] == b"0.6" and f.attrs["share"] == 0.1 and f.attrs["version"].dtype == np.int64
            assert f.attrs["attributes_checksum"] == attributes_checksum(dict(f.attrs))
            assert f["inputs"].shape == (n, 5, 4, 3) and f["inputs"].dtype == np.uint8
            assert f["targets"].shape == (n, 3) and f["targets"].dtype == np.float32
            expected = np.array([[(i * 7 + k) % 256 for k in range(60)] for i in range(n)], np.uint8)
            assert np.array_equal(f["inputs"][:].reshape(n, 60), expected)
            x = np.arange(n, dtype=np.float32)
            assert np.array_equal(f["targets"][:], np.stack([x, -x / 2, x / 3], 1))
            assert np.array_equal(f["group"][:], np.arange(n) // 2)
            assert f["splits/train"][:].tolist() == [6, 0, 2] and "val" not in f["splits"]
            offsets = f["source/offsets"][:]
            names = [bytes(f["source/bytes"][a:b]).decode() for a, b in zip(offsets, offsets[1:])]
            assert names == [f"AFW/photo_{i}.jpg" for i in range(n)], names
            # The first sample begins at the offset that h5py reports.
            offset = f["inputs"].id.get_offset()
            assert file.read_bytes()[offset + 60 : offset + 120] == expected[1].tobytes()
            for name in ("inputs", "targets", "checksums", "group", "source/bytes", "source/offsets", "splits/train"):
                assert f[name].chunks is None and f[name].compression is None, name
            assert f["checksums"].dtype == np.uint64 and f.attrs["checksum"].dtype == np.uint64
            assert len(set(f["checksums"][:].tolist())) == n
        check_rows(folder)


if __name__ == "__main__":
    sys.exit(main())
