"""The data of step_vs_python.py: files of dtrain that both sides read, made once in a folder."""

import pathlib
import shutil
import subprocess
import tempfile

IMAGES = 1600
SETS, LONGEST_SET = 20000, 20
SEQUENCES, SHORTEST, LONGEST, FEATURES, CLASSES = 6400, 50, 400, 8, 5


def file_of(dtrain, folder, task, size):
    """The file of this task; of pictures of this size. Only its training split is left, so that nothing is evaluated."""
    path = pathlib.Path(folder) / (f"{task}_{size}.h5" if task in ("headpose", "classify") else f"{task}.h5")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".new.h5")
        make_sequences(dtrain, unfinished) if task == "sequence" else synthesize(dtrain, unfinished, task, size)
        keep_training_split(unfinished)
        unfinished.rename(path)
    return path


def synthesize(dtrain, path, task, size):
    options = ["--samples", SETS, "--max-length", LONGEST_SET] if task == "pointer" else ["--samples", IMAGES, "--size", size]
    run(dtrain, "synth", task, *options, "--out", path, "--force")


def make_sequences(dtrain, path):
    """Random rows: dtrain's own waves have at most 200."""
    import numpy
    draws = numpy.random.default_rng(1)
    folder = pathlib.Path(tempfile.mkdtemp(dir=path.parent))
    for i in range(SEQUENCES):
        of_class = folder / "train" / f"class{i % CLASSES}"
        of_class.mkdir(parents=True, exist_ok=True)
        numpy.save(of_class / f"{i:05}.npy", draws.standard_normal((draws.integers(SHORTEST, LONGEST + 1), FEATURES), dtype=numpy.float32))
    run(dtrain, "convert", "sequence", folder, "--out", path, "--force")
    shutil.rmtree(folder)


def keep_training_split(path):
    import h5py
    with h5py.File(path, "r+") as file:
        for name in ("val", "test"):
            if name in file["splits"]:
                del file["splits"][name]


def run(*words):
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
