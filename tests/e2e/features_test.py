"""Training features as their users meet them: determinism, averaged weights, overfitting, freezing, early stop, evaluation as JSON."""

import json

import h5py
import safetensors.numpy

import runner


def options(**more):
    return {**runner.SMALL, "data.file": "d.h5", **{key.replace("__", "."): value for key, value in more.items()}}


def train(folder, np=None, threads=1, **more):
    return runner.run(runner.flags(options(**more)), np=np, cwd=folder, env=runner.environment(threads))


def weights(folder, name):
    steps = sorted((folder / "runs" / name / "checkpoints").glob("step_*"))
    return safetensors.numpy.load_file(steps[-1] / "model.safetensors")


def two_deterministic_runs_with_threads_are_equal_bit_by_bit(folder):
    runner.synth(folder / "d.h5", 60)
    for name in ["a", "b"]:
        train(folder, threads=2, run__name=name, train__deterministic=True, device__threads=2, data__workers=3).expect(0)
    a, b = weights(folder, "a"), weights(folder, "b")
    assert a.keys() == b.keys()
    for key in a:
        assert a[key].tobytes() == b[key].tobytes(), key


def a_few_batches_are_learned_by_heart(folder):
    runner.synth(folder / "d.h5", 60)
    result = train(folder, run__name="o", train__overfit_batches=1, train__epochs=60, optimizer__lr=0.003, model__dropout=0,
                   augment__hflip=True).expect(0, "the same 1 global batch again and again")
    steps = runner.metrics(folder / "runs/o")
    assert steps[-1]["loss"] < 0.2 * steps[0]["loss"], (steps[0]["loss"], steps[-1]["loss"])
    assert "test: " not in result.output


def averaged_weights_are_saved_and_evaluated_and_resume(folder):
    runner.synth(folder / "d.h5", 60)
    base = dict(train__ema=0.9, optimizer__lr=0.01)
    train(folder, np=2, run__name="whole", **base).expect(0)
    train(folder, np=2, run__name="parts", train__max_steps=5, **base).expect(0)
    train(folder, np=2, run__name="parts", run__resume="auto", **base, train__max_steps=0).expect(0, "resumed")
    whole, parts = weights(folder, "whole"), weights(folder, "parts")
    for key in whole:
        assert whole[key].tobytes() == parts[key].tobytes(), key
    last = sorted((folder / "runs/whole/checkpoints").glob("step_*"))[-1]
    raw = safetensors.numpy.load_file(last / "optimizer.safetensors")
    name = next(key for key in whole if key.endswith("fc.2.weight"))
    assert raw["param." + name].tobytes() != whole[name].tobytes()


def frozen_layers_keep_their_values_and_nothing_to_train_is_said(folder):
    runner.synth(folder / "d.h5", 60)
    train(folder, run__name="a", model__freeze="features.*", train__max_steps=1).expect(0)
    train(folder, run__name="b", model__freeze="features.*").expect(0)
    a, b = weights(folder, "a"), weights(folder, "b")
    for key in a:
        same = a[key].tobytes() == b[key].tobytes()
        assert same == key.startswith("features."), key
    train(folder, run__name="c", model__freeze="*").expect(78, "nothing is left to train")
    train(folder, run__name="d", model__freeze="nolayer.*").expect(78, "nolayer.*")


def early_stop_says_so_and_a_metric_that_is_none_is_named(folder):
    runner.synth(folder / "d.h5", 60)
    result = train(folder, np=2, run__name="s", train__patience=2, train__min_delta=1000, train__epochs=50).expect(0)
    assert "2 evaluations without a better mae" in result.output, result.output
    train(folder, run__name="t", train__metric="mea").expect(78, "'mea' is none of this task's metrics: loss, mae")


def shared_batch_statistics_make_two_ranks_equal_one(folder):
    runner.synth(folder / "d.h5", 60)
    base = dict(train__sync_batch_norm=True, train__global_batch=8, train__amp="fp64", optimizer__name="sgd",
                schedule__name="constant", optimizer__lr=0.01)
    train(folder, np=1, run__name="one", train__batch_size=8, **base).expect(0)
    train(folder, np=2, run__name="two", train__batch_size=4, **base).expect(0)
    one, two = weights(folder, "one"), weights(folder, "two")
    for key in one:
        assert abs(one[key] - two[key]).max() <= 1e-10 * max(1, abs(one[key]).max()), key


def a_diverged_run_says_so_with_samples(folder):
    runner.synth(folder / "d.h5", 60)
    train(folder, run__name="r", optimizer__lr=1e30, optimizer__name="sgd", schedule__name="constant", train__epochs=20,
          data__val_share=0).expect(79, "is not finite: ", "d.h5#", "the weights have diverged")


def evaluation_names_the_worst_and_writes_json(folder):
    runner.synth(folder / "d.h5", 60)
    train(folder, run__name="r").expect(0)
    one = runner.run(["eval", "runs/r", "--split", "val", "--worst", "3", "--json", "one.json"], cwd=folder).expect(
        0, "the 3 worst samples", "absolute error in degrees", "yaw")
    runner.run(["eval", "runs/r", "--split", "val", "--worst", "3", "--json", "two.json"], cwd=folder, np=2).expect(0)
    a, b = (json.loads((folder / name).read_text()) for name in ["one.json", "two.json"])
    assert [w["id"] for w in a["worst"]] == [w["id"] for w in b["worst"]] and len(a["worst"]) == 3
    assert list(a["metrics"]) == ["loss", "mae", "mae_yaw", "mae_pitch", "mae_roll"]
    assert abs(a["metrics"]["mae"] - b["metrics"]["mae"]) < 1e-4
    for row in a["tables"][0]["cells"]:
        assert abs(sum(row) - 100) < 1e-9, row
    with h5py.File(folder / "d.h5") as f:
        offsets, text = f["source/offsets"][:], f["source/bytes"][:].tobytes()
        worst = a["worst"][0]
        assert text[offsets[worst["id"]]:offsets[worst["id"] + 1]].decode() == worst["source"]
    assert one.output.index("\nloss ") < one.output.index("\nmae ") < one.output.index("\nmae_yaw ")


if __name__ == "__main__":
    runner.main([two_deterministic_runs_with_threads_are_equal_bit_by_bit, a_few_batches_are_learned_by_heart,
                 averaged_weights_are_saved_and_evaluated_and_resume,
                 frozen_layers_keep_their_values_and_nothing_to_train_is_said,
                 early_stop_says_so_and_a_metric_that_is_none_is_named, shared_batch_statistics_make_two_ranks_equal_one,
                 a_diverged_run_says_so_with_samples, evaluation_names_the_worst_and_writes_json])
