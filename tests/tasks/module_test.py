"""Task module: TorchScript files that this Python makes are inspected, trained by two ranks, resumed, evaluated and used."""

import csv
import ctypes
import ctypes.util
import hashlib
import io
import json
import shutil
import subprocess
import warnings

import h5py
import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import runner

warnings.filterwarnings("ignore", category=DeprecationWarning)
nn = torch.nn


class Cnn(nn.Module):
    def __init__(self, outputs: int = 3):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(8, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(self.features(x).mean([2, 3])))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Lstm(nn.Module):
    """The last valid hidden state of each sequence; takes the lengths."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 12, 2, batch_first=True)
        self.head = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        states = self.lstm(x)[0]
        last = states[torch.arange(x.size(0), device=x.device), lengths - 1]
        return self.head(last)


class Normed(Mlp):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 2))


class Unused(Mlp):
    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Frozen(Mlp):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)[:, :2] * 2


class OnADevice(Mlp):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) + torch.zeros(2, device=torch.device("cuda:0"))


class Overwrites(Mlp):
    """put_() without accumulation has no deterministic form: LibTorch refuses it in deterministic mode, on the CPU too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        marks = torch.zeros_like(x)
        marks.put_(torch.zeros(1, dtype=torch.long), torch.ones(1))
        return self.layers(x + marks)


class Pair(Mlp):
    def forward(self, x: torch.Tensor):
        return self.layers(x), x


class OneBatchSize(Mlp):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x.view(2, 5))


class ComplexBuffer(Mlp):
    def __init__(self):
        super().__init__()
        self.register_buffer("phase", torch.zeros(2, dtype=torch.complex64))


class NextOfSet(nn.Module):
    """Rows [B, n, 8] -> [B, positions, steps]: as many classes as the longest set has elements."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(8, 16), nn.Linear(8, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.key(x) @ self.query(x).transpose(1, 2)


class TracedLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 12, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0][:, -1]


class Tokens(nn.Module):
    """Rows [B, 5] of whole numbers below 9."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(9, 4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.table(x.long())
        return self.head(x.mean(1))


class UsesStreams(nn.Module):
    """Of GPUs alone, but the code has to load everywhere."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc(x.mean([2, 3]))
        if x.is_cuda:
            torch.cuda.synchronize()
            with torch.cuda.stream(torch.cuda.Stream(x.device)):
                x = 2 * x
        return x


def save(network, path, seed=3):
    torch.manual_seed(seed)
    network = network()
    torch.jit.script(network).save(str(path))
    return network


def xxh64(data, seed):
    function = ctypes.CDLL(ctypes.util.find_library("xxhash")).XXH64
    function.restype = ctypes.c_uint64
    return function(data, ctypes.c_size_t(len(data)), ctypes.c_uint64(seed))


def rows_file(path, samples, targets, class_names=None):
    """A dtrain file of rows (docs/file_formats.md); samples of one shape as one array, else as a list of [T, F]."""
    count = len(targets)
    names = [f"s,{i}" for i in range(count)]
    with h5py.File(path, "w") as f:
        f.attrs.update({"format": "dtrain", "version": np.int64(1), "task": "sequence", "num_samples": np.int64(count),
                        "checksum": np.uint64(int.from_bytes(hashlib.sha256(path.name.encode()).digest()[:8], "little")),
                        "index_checksum": np.uint64(0)})
        if class_names:
            f.attrs["class_names"] = "\n".join(class_names)
        if isinstance(samples, list):
            f["inputs/values"] = np.concatenate(samples).astype(np.float32)
            f["inputs/offsets"] = np.cumsum([0] + [len(s) for s in samples]).astype(np.int64)
        else:
            f["inputs"] = samples.astype(np.float32)
        f["targets"] = targets
        inputs = [np.asarray(sample, np.float32).tobytes() for sample in samples]
        stored = [xxh64(target.tobytes(), xxh64(sample, 0)) for sample, target in zip(inputs, f["targets"][...])]
        f["checksums"] = np.array(stored, np.uint64)
        f["group"] = np.arange(count, dtype=np.int64)
        f["source/bytes"] = np.frombuffer("".join(names).encode(), np.uint8)
        f["source/offsets"] = np.cumsum([0] + [len(n) for n in names]).astype(np.int64)
        for name, first in [("train", 0), ("val", 1), ("test", 2)]:
            share = np.arange(count) % 6
            ids = np.flatnonzero(share > 1 if first == 0 else share == first - 1)
            f[f"splits/{name}"] = ids.astype(np.int64)
    return names


def sequences(path, count=90):
    """Sequences of 3 to 20 rows whose class is the column with the largest sum."""
    draw = np.random.default_rng(5)
    samples, targets = [], []
    for _ in range(count):
        kind = draw.integers(3)
        rows = draw.normal(0, 0.3, (draw.integers(3, 21), 4))
        rows[:, kind] += 1
        samples.append(rows.astype(np.float32))
        targets.append(kind)
    rows_file(path, samples, np.array(targets, np.int64), ["a", "b,c", "d"])
    return samples, np.array(targets)


def newest(folder, name):
    return sorted((folder / "runs" / name / "checkpoints").glob("step_????????"))[-1]


def table(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def predict(folder, arguments, code=0):
    done = subprocess.run(runner.command(["predict", *arguments]), cwd=folder, env=runner.environment(), stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=300, text=True)
    assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr[-4000:])
    return table(done.stdout)


def a_cnn_learns_with_two_ranks_and_gives_python_its_weights(folder):
    runner.synth(folder / "d.h5", 60)
    network = save(Cnn, folder / "cnn.pt")
    result = runner.train(folder, np=2, task="module", task__loss="smooth_l1", model__file="cnn.pt", optimizer__lr=0.01, train__epochs=3,
                          augment__crop_scale=1).expect(0, "network torchscript", "mae", "finished: all", "draws its own random numbers")
    assert result.output.count("draws its own random numbers") == 1, result.output
    losses = [record["loss"] for record in runner.metrics(folder / "runs/r")]
    assert losses[-1] < losses[0], losses

    weights = newest(folder, "r") / "model.safetensors"
    with safe_open(weights, "pt") as f:
        metadata = f.metadata()
    assert metadata["module_file"] == "cnn.pt" and metadata["network"] == "torchscript" and metadata["loss"] == "smooth_l1"
    assert metadata["module_sha256"] == hashlib.sha256((folder / "cnn.pt").read_bytes()).hexdigest()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network.load_state_dict(load_file(weights), strict=True)
    changed = [name for name, tensor in network.state_dict().items() if not torch.equal(tensor, before[name])]
    assert set(changed) == set(before), set(before) - set(changed)

    rows = predict(folder, ["runs/r", "d.h5", "--split", "test"])
    with h5py.File(folder / "d.h5") as f:
        ids = f["splits/test"][:]
        images, targets = f["inputs"][:][ids], f["targets"][:][ids]
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    with torch.no_grad():
        expected = network.eval()(((torch.tensor(images) / 255 - mean) / std).permute(0, 3, 1, 2)).numpy()
    found = np.array([[float(x) for x in row["output"].split()] for row in rows])
    assert np.abs(found - expected).max() < 1e-3 * np.abs(expected).max(), np.abs(found - expected).max()
    evaluated = runner.run(["eval", "runs/r"], cwd=folder, np=2).expect(0)
    mae = float(evaluated.output.split("\nmae ")[1].split()[0])
    assert abs(mae - np.abs(found - targets).mean()) < 2e-3, mae


def each_kind_goes_all_the_way(folder):
    """By one and two ranks: trained, resumed with the same bits, evaluated, predicted and exported, with one answer."""
    pictures = runner.synth(folder / "d.h5", 40)
    sequences(folder / "s.h5", 60)
    x = np.random.default_rng(1).normal(size=(40, 5)).astype(np.float32)
    rows_file(folder / "n.h5", x, (x[:, :2] * 3).astype(np.float32))
    kinds = [(Cnn, pictures.name, {"task.loss": "mse"}), (Mlp, "n.h5", {"task.inputs": "rows"}),
             (Lstm, "s.h5", {"task.inputs": "rows+lengths", "task.loss": "cross_entropy"})]
    for network, data, options in kinds:
        save(network, folder / "net.pt")
        for ranks in [None, 2]:
            name = f"{network.__name__}{ranks}"
            settings = {**(runner.SMALL if network is Cnn else runner.SMALL_ROWS), "task": "module", "model.file": "net.pt", "data.file": data, "run.name": name, "checkpoint.every": "2steps",
                        "checkpoint.keep_last": 9, "optimizer.lr": 0.01, **options}
            runner.run(runner.flags(settings), np=ranks, cwd=folder).expect(0, "finished: all")
            shutil.copytree(folder / "runs" / name, folder / "runs" / f"{name}.again")
            steps = sorted((folder / "runs" / f"{name}.again" / "checkpoints").glob("step_*"))
            assert len(steps) > 1, steps
            for later in steps[1:]:
                shutil.rmtree(later)
            runner.run(runner.flags({**settings, "run.name": f"{name}.again", "run.resume": "auto"}), np=ranks, cwd=folder).expect(0, "finished: all", "step 2 of")
            assert newest(folder, name).name == newest(folder, f"{name}.again").name == steps[-1].name
            whole, parts = (load_file(newest(folder, n) / "model.safetensors") for n in [name, f"{name}.again"])
            for key, tensor in whole.items():
                assert torch.equal(tensor, parts[key]), (name, key)

            out = folder / f"{name}.csv"
            runner.run(["predict", f"runs/{name}", data, "--split", "test", "--batch-size", "3", "--out", out], np=ranks, cwd=folder).expect(0)
            rows = table(out.read_text())
            runner.run(["eval", f"runs/{name}", "--json", "e.json", "--force"], np=ranks, cwd=folder).expect(0)
            metrics = json.loads((folder / "e.json").read_text())["metrics"]
            runner.run(["export", f"runs/{name}", "--format", "torchscript", "--out", f"{name}.pt"], cwd=folder).expect(0)
            answers, targets, classes = python_answers(torch.jit.load(str(folder / f"{name}.pt")), folder / data)
            assert len(rows) == len(answers) > 3
            if network is Lstm:
                shares = answers.softmax(1).max(1)
                said = [classes[i] for i in shares.indices]
                assert [row["class"] for row in rows] == said
                assert np.allclose([float(row["probability"]) for row in rows], shares.values, atol=1e-4)
                assert abs(metrics["top1"] - np.mean([s == classes[t] for s, t in zip(said, targets)])) < 1e-6, metrics
            else:
                found = np.array([[float(v) for v in row["output"].split()] for row in rows])
                assert np.allclose(found, answers, atol=1e-3 * float(answers.abs().max())), (found, answers)
                assert abs(metrics["mae"] - np.abs(found - targets).mean()) < 1e-4 * max(1, metrics["mae"]), metrics


def python_answers(script, path):
    """What Python says of the test split: answers, targets, names of the classes."""
    with h5py.File(path) as f, torch.no_grad():
        ids = f["splits/test"][:]
        targets = f["targets"][:][ids]
        classes = runner.text(f.attrs.get("class_names", "")).split("\n")
        if isinstance(f["inputs"], h5py.Group):
            values, offsets = f["inputs/values"][:], f["inputs/offsets"][:]
            samples = [torch.tensor(values[offsets[i]:offsets[i + 1]])[None] for i in ids]
            return torch.cat([script(s, torch.tensor([s.size(1)])) for s in samples]), targets, classes
        inputs = torch.tensor(f["inputs"][:][ids])
        if inputs.dtype == torch.uint8:
            mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
            inputs = ((inputs / 255 - mean) / std).permute(0, 3, 1, 2)
        return script(inputs), targets, classes


def an_lstm_over_rows_and_lengths_tells_classes_apart(folder):
    samples, targets = sequences(folder / "s.h5")
    network = save(Lstm, folder / "lstm.pt")
    (folder / "c.yaml").write_text("task: {name: module, loss: cross_entropy, inputs: rows+lengths}\nmodel: {file: lstm.pt}\n")
    runner.train(folder, "c.yaml", np=2, data__file="s.h5", model__image_size=None, optimizer__lr=0.02, train__epochs=12).expect(0, "top1", "finished: all")
    network.load_state_dict(load_file(newest(folder, "r") / "model.safetensors"), strict=True)
    rows = predict(folder, ["runs/r", "s.h5", "--batch-size", "7"])
    assert [row["input"] for row in rows] == [f"s,{i}" for i in range(len(samples))]
    right = 0
    with torch.no_grad():
        for row, sample, target in zip(rows, samples, targets):
            shares = network.eval()(torch.tensor(sample)[None], torch.tensor([len(sample)])).softmax(1)[0]
            assert row["class"] == ["a", "b,c", "d"][int(shares.argmax())]
            assert abs(float(row["probability"]) - float(shares.max())) < 1e-4
            right += int(shares.argmax()) == target
    assert right > 0.9 * len(rows), right
    top1 = float(runner.run(["eval", "runs/r"], cwd=folder, np=2).expect(0).output.split("\ntop1 ")[1].split()[0])
    with h5py.File(folder / "s.h5") as f:
        test = f["splits/test"][:]
    by_hand = np.mean([rows[i]["class"] == ["a", "b,c", "d"][targets[i]] for i in test])
    assert abs(top1 - by_hand) < 1e-3 or abs(top1 - 100 * by_hand) < 0.1, (top1, by_hand)


def an_mlp_over_rows_fits_numbers(folder):
    x = np.random.default_rng(1).normal(size=(60, 5)).astype(np.float32)
    rows_file(folder / "n.h5", x, (x[:, :2] * 3).astype(np.float32))
    save(Mlp, folder / "mlp.pt")
    (folder / "c.yaml").write_text("task: module\nmodel: {file: mlp.pt}\n")
    options = dict(np=2, task__inputs="rows", data__file="n.h5", optimizer__lr=0.02, train__epochs=5)
    runner.train(folder, "c.yaml", **options).expect(0, "mae", "finished: all")
    losses = [record["loss"] for record in runner.metrics(folder / "runs/r")]
    assert losses[-1] < 0.7 * losses[0], losses
    save(Unused, folder / "unused.pt")
    runner.train(folder, "c.yaml", **options, model__file="unused.pt", run__name="u").expect(0, "unused parameters", "spare.weight, spare.bias", "finished: all")


def a_bad_sample_gives_a_row_that_says_so(folder):
    x = np.random.default_rng(1).normal(size=(60, 5)).astype(np.float32)
    rows_file(folder / "n.h5", x, x[:, :2].copy())
    save(Mlp, folder / "mlp.pt")
    runner.train(folder, task="module", model__file="mlp.pt", task__inputs="rows", data__file="n.h5", train__epochs=1).expect(0)
    good = predict(folder, ["runs/r", "n.h5", "--batch-size", "7"])
    y = x[:, :2].copy()
    y[5, 1] = np.nan
    rows_file(folder / "y.h5", x, y)
    training = dict(task="module", model__file="mlp.pt", task__inputs="rows", data__file="y.h5", train__epochs=1, run__name="y")
    runner.train(folder, **training).expect(65, "y.h5#5: target 1 is nan")
    runner.train(folder, **training, data__on_bad_sample="skip").expect(0, "left out: y.h5#5: target 1 is nan")
    x[7, 2] = np.nan
    x[13:16] = np.inf  # all of a rank's share of a step
    rows_file(folder / "bad.h5", x, x[:, :2].copy())
    for ranks in [1, 2, 3]:
        arguments = ["predict", "runs/r", "bad.h5", "--batch-size", "3", "--out", "bad.csv", "--force"]
        runner.run(arguments, cwd=folder, np=ranks).expect(65, "4 of 60 inputs could not be predicted")
        rows = table((folder / "bad.csv").read_text())
        assert [row["input"] for row in rows] == [row["input"] for row in good]
        for i, (row, other) in enumerate(zip(rows, good)):
            if i in [7, 13, 14, 15]:
                assert row["output"] == "" and ("is nan" if i == 7 else "is inf") in row["error"], row
            else:
                given, expected = ([float(v) for v in r["output"].split()] for r in [row, other])
                assert np.allclose(given, expected, atol=1e-6) and row["error"] == "", (i, row, other)


def inspect_tells_what_would_stop_training(folder):
    save(Cnn, folder / "cnn.pt")
    save(Lstm, folder / "lstm.pt")
    save(Mlp, folder / "mlp.pt")
    save(Unused, folder / "unused.pt")
    save(Frozen, folder / "frozen.pt")
    save(OnADevice, folder / "device.pt")
    save(Pair, folder / "pair.pt")
    save(OneBatchSize, folder / "batch.pt")
    torch.jit.freeze(torch.jit.script(Mlp().eval())).save(str(folder / "none.pt"))
    torch.jit.trace(TracedLstm(), torch.zeros(2, 5, 4)).save(str(folder / "traced.pt"))
    torch.save(Mlp().state_dict(), folder / "state.pt")
    (folder / "text.pt").write_text("no TorchScript")

    def inspect(name, code, *texts):
        return runner.run(["inspect", f"{name}.pt"], cwd=folder).expect(code, *texts)

    inspect("cnn", 0, "parameters  851 in 8 tensors", "buffers     3: features.1.running_mean", "output      Float [3, 3]", "aten::dropout")
    inspect("lstm", 0, "buffers     none", "output      Float [3, 3] for 3 made-up samples, Float [3, 12, 4] with their lengths")
    inspect("mlp", 0, "parameters  130 in 4 tensors")
    inspect("unused", 0, "unused parameters, which are not trained: spare.weight, spare.bias")
    inspect("frozen", 65, "defect      the output does not depend on any trainable parameter", "1 defect that would stop")
    inspect("device", 65, "defect      the device 'cuda:0' is fixed in the code")
    inspect("pair", 65, "defect      ", "it must return one tensor")
    inspect("none", 65, "defect      no trainable parameters")
    inspect("traced", 0, "warning     the device 'cpu' is fixed in the code: it can train on that device only")
    inspect("batch", 65, "defect      forward or backward fails on 3 made-up samples, Float [3, 12, 5]: ", "1 defect that would stop")
    inspect("state", 65, "state.pt is not a TorchScript file", "torch.jit.script")
    inspect("text", 65, "text.pt")
    missing = runner.run(["inspect", "missing.pt"], cwd=folder)
    assert missing.code == 65 and "does not exist" in missing.output


def a_run_refuses_what_it_cannot_train(folder):
    x = np.random.default_rng(1).normal(size=(30, 5)).astype(np.float32)
    rows_file(folder / "n.h5", x, x[:, :3].copy())
    rows_file(folder / "classes.h5", x, np.arange(30, dtype=np.int64) % 3)
    save(Mlp, folder / "mlp.pt")
    save(Frozen, folder / "frozen.pt")
    save(ComplexBuffer, folder / "complex.pt")
    (folder / "text.pt").write_text("no TorchScript")

    def train(code, *texts, np=None, **options):
        words = {key.replace("_", ".", 1): value for key, value in options.items()}
        all_options = {**runner.SMALL_ROWS, "task": "module", "task.inputs": "rows", "data.file": "n.h5", "model.file": "mlp.pt", **words}
        result = runner.run(runner.flags(all_options), np=np, cwd=folder).expect(code, *texts)
        assert "step 1" not in result.output
        return result

    refused = train(65, "mlp.pt cannot be trained on n.h5", "mse needs an output of the targets' shape: the output is [3, 2], the targets are Float [3, 3]", np=2)
    assert refused.output.count("cannot be trained") == 1, refused.output
    train(65, "cross_entropy needs classes as int64 targets", task_loss="cross_entropy")
    train(65, "n.h5 holds rows, but task.inputs is image: set --task.inputs rows", task_inputs="image")
    train(65, "forward() takes 1 arguments, but task.inputs passes 2", task_inputs="rows+lengths")
    train(65, "classes.h5#2: class 2 is not between 0 and 1", task_loss="cross_entropy", data_file="classes.h5")
    both = train(65, "mse needs an output of the targets' shape", "the output does not depend on any trainable parameter", model_file="frozen.pt")
    assert len([line for line in both.output.splitlines() if line.startswith("  ")]) == 2, both.output  # one line per defect
    train(65, "'phase' is ComplexFloat, which checkpoints cannot store", model_file="complex.pt")
    train(65, "text.pt is not a TorchScript file", model_file="text.pt")
    train(65, "none.pt: there is no such TorchScript file", model_file="none.pt")
    (folder / "folder.pt").mkdir()
    train(65, "folder.pt: it is not a regular file", model_file="folder.pt")
    train(78, "model.file", model_file="")
    train(78, "--dataset FILE", data_file="")
    train(78, "--train.freeze_batch_norm: does nothing for task module with network torchscript", train_freeze_batch_norm=True)


def a_failure_of_the_code_is_one_sentence(folder):
    tokens = np.random.default_rng(1).integers(0, 9, (60, 5)).astype(np.float32)
    rows_file(folder / "good.h5", tokens, tokens[:, :3].copy())
    save(Tokens, folder / "net.pt")
    options = dict(task="module", model__file="net.pt", model__image_size=None, task__inputs="rows", train__epochs=1)
    runner.train(folder, **options, data__file="good.h5").expect(0, "finished: all")
    line = next(i for i, text in enumerate(open(__file__), 1) if "self.table(x.long())" in text)
    said = ["an index is outside of the table of an embedding, in ", f"module_test.py, line {line}: x = self.table(x.long()); forward() got float32 [",
            ", 5] with values from "]
    rows_file(folder / "all.h5", tokens + 9, tokens[:, :3].copy())
    tokens[59, 2] = 12  # of the training split, and of no trial
    rows_file(folder / "one.h5", tokens, tokens[:, :3].copy())
    refused = runner.train(folder, **options, data__file="all.h5", run__name="a").expect(65, "forward or backward fails on 3 samples, Float [3, 5]: ", *said)
    ended = runner.train(folder, **options, data__file="one.h5", run__name="b").expect(70, *said)
    for result in [refused, ended]:
        assert "Traceback" not in result.output and "HERE" not in result.output, result.output
    runner.train(folder, "--debug", **options, data__file="all.h5", run__name="c").expect(65, "Traceback of TorchScript, original code", *said)


def a_micro_batch_of_one_sample_is_avoided_or_said_before_the_first_step(folder):
    x = np.random.default_rng(1).normal(size=(78, 5)).astype(np.float32)
    rows_file(folder / "n.h5", x, x[:, :2].copy())  # 52 to train on
    save(Normed, folder / "net.pt")
    options = dict(task="module", model__file="net.pt", model__image_size=None, task__inputs="rows", data__file="n.h5", train__epochs=1)
    for words in [[], ["--dry-run"]]:
        refused = runner.train(folder, *words, **options, train__batch_size=17)
        refused.expect(78, "net.pt cannot train on a micro-batch of one sample", "Expected more than 1 value per channel",
                       "The last step of each epoch has one", "use --batch-size 15, 16, 18 or 19")
        assert "step 1 " not in refused.output and not (folder / "runs").exists(), refused.output
    runner.train(folder, **options, train__batch_size=16).expect(0, "finished: all 4 steps")
    runner.train(folder, **options, train__batch_size=5, run__name="two", np=2).expect(0, "finished: all 6 steps")
    save(Mlp, folder / "net.pt")
    runner.train(folder, **options, train__batch_size=17, run__name="any", schedule__warmup_steps=500).expect(
        0, "the learning rate rises for 500 steps (schedule.warmup_steps 500), and the run has 4, and reaches 1 % of --lr",
        "use --schedule.warmup_steps 5%, which is 1 step", "finished: all 4 steps")


def a_bad_sample_that_leaves_one_of_a_pair_is_named(folder):
    x = np.random.default_rng(1).normal(size=(78, 5)).astype(np.float32)
    rows_file(folder / "n.h5", x, x[:, :2].copy())
    with h5py.File(folder / "n.h5", "r+") as file:
        file["checksums"][59] += np.uint64(1)  # of the training split
    save(Normed, folder / "net.pt")
    options = dict(task="module", model__file="net.pt", model__image_size=None, task__inputs="rows", data__file="n.h5", train__epochs=1,
                   data__on_bad_sample="skip", data__verify=True)
    ended = runner.train(folder, **options, train__batch_size=2).expect(
        65, "warning: net.pt cannot train on one sample: ", "Expected more than 1 value per channel", "if data.on_bad_sample skip leaves one of them out",
        "the one sample that is left of a micro-batch, in step ", "Repair the data", "Left out: n.h5#59")
    assert ended.output.index("warning: net.pt cannot train") < ended.output.index("step 1/"), ended.output
    runner.train(folder, **options, train__batch_size=4, run__name="four").expect(0, "1 bad sample left out")


def orders_of_sets_longer_than_the_trial(folder):
    runner.run(["synth", "pointer", "--samples", 60, "--max-length", 20, "--out", "sets.h5"], cwd=folder).expect(0)
    save(NextOfSet, folder / "next.pt")
    options = dict(task="module", model__file="next.pt", task__inputs="rows", data__file="sets.h5", train__epochs=1)
    runner.train(folder, **options, task__loss="cross_entropy").expect(0, "finished: all")
    runner.run(["eval", "runs/r"], cwd=folder, np=2).expect(0, "top1")
    torch.manual_seed(3)
    torch.jit.script(nn.Linear(8, 12)).save(folder / "fixed.pt")  # as many steps as the trial has rows, by chance
    runner.train(folder, **{**options, "model__file": "fixed.pt"}, task__loss="cross_entropy", run__name="f").expect(65, "needs an output [samples, classes, ...]")
    refused = runner.train(folder, **options, task__loss="mse", run__name="m").expect(65, "the number of targets differs from sample to sample", "Use cross_entropy or nll")
    assert not (folder / "runs/m").exists(), refused.output


def code_may_name_functions_of_gpus(folder):
    runner.synth(folder / "d.h5", 40)
    save(UsesStreams, folder / "net.pt")
    runner.train(folder, task="module", model__file="net.pt", train__epochs=1).expect(0, "finished: all")


def another_file_than_the_trained_one_is_refused(folder):
    runner.synth(folder / "d.h5", 30)
    save(Cnn, folder / "cnn.pt")
    runner.train(folder, task="module", model__file="cnn.pt", train__epochs=1).expect(0)
    (folder / "cnn.pt").rename(folder / "moved.pt")
    runner.run(["eval", "runs/r"], cwd=folder).expect(74, "cnn.pt, which is not there: name it with --module")
    runner.run(["eval", "runs/r", "--module", "moved.pt"], cwd=folder, np=2).expect(0, "mae")
    assert len(predict(folder, ["runs/r", "d.h5", "--module", "moved.pt"])) == 30
    save(Cnn, folder / "cnn.pt", seed=4)
    runner.run(["eval", "runs/r"], cwd=folder).expect(74, "cnn.pt is another file (SHA-256 ")


def deterministic_mode_reaches_libtorch(folder):
    draw = np.random.default_rng(1)
    rows_file(folder / "d.h5", draw.normal(size=(60, 5)), draw.normal(size=(60, 2)).astype(np.float32))
    save(Overwrites, folder / "net.pt")
    options = dict(task="module", model__file="net.pt", model__image_size=None, task__inputs="rows", task__loss="mse", train__epochs=1)
    runner.train(folder, **options).expect(0, "finished: all")
    runner.train(folder, **options, run__name="d", train__deterministic=True).expect(70, "put_", "deterministic")


runner.main([a_cnn_learns_with_two_ranks_and_gives_python_its_weights, code_may_name_functions_of_gpus, each_kind_goes_all_the_way,
             an_lstm_over_rows_and_lengths_tells_classes_apart, an_mlp_over_rows_fits_numbers, a_bad_sample_gives_a_row_that_says_so,
             inspect_tells_what_would_stop_training,
             a_run_refuses_what_it_cannot_train, a_failure_of_the_code_is_one_sentence,
             a_micro_batch_of_one_sample_is_avoided_or_said_before_the_first_step, a_bad_sample_that_leaves_one_of_a_pair_is_named,
             orders_of_sets_longer_than_the_trial,
             deterministic_mode_reaches_libtorch, another_file_than_the_trained_one_is_refused])
