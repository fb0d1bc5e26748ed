"""Training features as users see them: repeatability, averaged weights, overfitting, freezing, early stop, evaluation as JSON."""

import json

import h5py
import numpy as np
import safetensors.numpy

import runner


def weights(folder, name):
    steps = sorted((folder / "runs" / name / "checkpoints").glob("step_*"))
    return safetensors.numpy.load_file(steps[-1] / "model.safetensors")


def two_runs_with_the_same_threads_are_equal_bit_by_bit(folder):
    runner.synth(folder / "d.h5", 60)
    for name in ["a", "b"]:
        runner.train(folder, threads=2, run__name=name, device__threads=2, data__workers=3).expect(0)
    a, b = weights(folder, "a"), weights(folder, "b")
    assert a.keys() == b.keys()
    for key in a:
        assert a[key].tobytes() == b[key].tobytes(), key


def a_few_batches_are_overfitted(folder):
    runner.synth(folder / "d.h5", 60)
    result = runner.train(folder, run__name="o", train__overfit_batches=1, train__epochs=60, optimizer__lr=0.003, model__dropout=0,
                   augment__hflip=True).expect(0, "the same 1 global batch again and again")
    steps = runner.metrics(folder / "runs/o")
    assert steps[-1]["loss"] < 0.2 * steps[0]["loss"], (steps[0]["loss"], steps[-1]["loss"])
    assert "test epoch" not in result.output


def a_share_of_the_training_samples_is_trained_on(folder):
    runner.synth(folder / "d.h5", 60)
    counts = lambda result: result.output.split("d.h5: ")[1].split(" test samples")[0]
    whole = runner.train(folder, run__name="all").expect(0)
    some = runner.train(folder, np=2, run__name="some", data__share=0.2, train__epochs=3).expect(0)
    assert "training (data.share 0.2), " in counts(some), counts(some)
    assert counts(some).split("training")[1].split(", ", 1)[1] == counts(whole).split("training, ")[1], "other splits change too"
    samples, everything = (int(counts(result).split(" training")[0]) for result in [some, whole])
    assert 0.15 < samples / everything < 0.25, (samples, everything)
    assert sum(r["samples"] for r in runner.metrics(folder / "runs/some")) == 3 * samples
    runner.run(["eval", "runs/some", "--split", "train"], cwd=folder).expect(0, f"{samples} samples")
    runner.train(folder, "--resume", "auto", run__name="some", data__share=0.5).expect(78, "a resumed run keeps data.share")
    runner.train(folder, "--resume", "auto", run__name="some", train__epochs=4).expect(0, "training (data.share 0.2), ")
    for wrong in [0, 1.5, -1]:
        runner.train(folder, run__name="wrong", data__share=wrong).expect(78, "data.share", "above 0, up to 1")


def measuring_the_headroom_changes_nothing(folder):
    runner.synth(folder / "d.h5", 60)
    found = {}
    for name, flags in [("plain", []), ("measured", ["--diagnose"])]:
        result = runner.train(folder, *flags, np=2, run__name=name, train__ema=0.9, train__epochs=3).expect(0)
        assert ("if loading were free" in result.output) == (name == "measured"), result.output
        steps = [{key: r[key] for key in ("step", "loss", "grad_norm", "learning_rate", "ledger")} for r in runner.metrics(folder / "runs" / name)]
        found[name] = steps, {key: value.tobytes() for key, value in weights(folder, name).items()}
    assert found["plain"] == found["measured"]
    runner.run(["--diagnose", "--dry-run", "--data.file", "d.h5", "--model.image_size", 32, "--batch-size", 8], cwd=folder).expect(0)


def gradients_that_are_narrow_between_ranks_train_alike(folder):
    runner.synth(folder / "d.h5", 60)
    runs = {}
    for wire in ["fp32", "bf16", "fp16"]:
        options = dict(np=2, run__name=wire, dist__wire=wire, train__epochs=4)
        runner.train(folder, **options).expect(0, "gradients: ", " per step, in one bucket of at most ")
        runs[wire] = runner.metrics(folder / "runs" / wire)
    exact = runs["fp32"]
    for wire in ["bf16", "fp16"]:
        # Two bytes in place of four, but for the sums of loss and weight.
        assert 2 * (runs[wire][-1]["bytes_reduced"] - 16) == exact[-1]["bytes_reduced"] - 16, runs[wire][-1]
        assert any(a["loss"] != b["loss"] for a, b in zip(exact, runs[wire])), "nothing was rounded"
        assert abs(runs[wire][-1]["loss"] / exact[-1]["loss"] - 1) < 0.1, (runs[wire][-1], exact[-1])
    assert "loss_scale" in runs["fp16"][-1] and "loss_scale" not in runs["bf16"][-1], "fp16 needs loss scaling"
    # On one rank nothing travels, and nothing is rounded.
    for wire in ["fp32", "bf16"]:
        runner.train(folder, run__name="one_" + wire, dist__wire=wire).expect(0)
    a, b = weights(folder, "one_fp32"), weights(folder, "one_bf16")
    assert all(a[key].tobytes() == b[key].tobytes() for key in a)


def averaged_weights_are_saved_and_evaluated_and_resume(folder):
    runner.synth(folder / "d.h5", 60)
    base = dict(train__ema=0.9, optimizer__lr=0.01)
    runner.train(folder, np=2, run__name="whole", **base, checkpoint__every="4steps").expect(0)
    runner.train(folder, np=2, run__name="parts", run__resume="runs/whole/checkpoints/step_00000004", **base).expect(0, "step 4 of")
    whole, parts = weights(folder, "whole"), weights(folder, "parts")
    for key in whole:
        assert whole[key].tobytes() == parts[key].tobytes(), key
    last = sorted((folder / "runs/whole/checkpoints").glob("step_*"))[-1]
    raw = safetensors.numpy.load_file(last / "optimizer.safetensors")
    name = next(key for key in whole if key.endswith("fc.2.weight"))
    assert raw["param." + name].tobytes() != whole[name].tobytes()


def phases_averages_and_the_plateau_resume_bit_by_bit(folder):
    runner.run(["synth", "sequence", "--samples", 60, "--out", "d.h5"], cwd=folder).expect(0)
    options = {"task": "sequence", "data.file": "d.h5", "model.hidden": 16, "sequence.encoder_epochs": 2,
               "sequence.classifier_epochs": 2, "sequence.iterations": 2, "sequence.encoder_lr_ratio": 0.5,
               "train.epochs": 8, "train.batch_size": 8, "train.ema": 0.9, "train.metric": "reconstruction_mse",
               "schedule.name": "plateau", "schedule.patience": 0, "schedule.threshold": 0.2, "schedule.gamma": 0.5,
               "optimizer.lr": 0.01, "metrics.port": 0, "run.log_every": 1, "data.workers": 1,
               "run.progress": "lines", "checkpoint.every": "1step", "checkpoint.keep_last": 100}
    run = lambda name, **more: runner.run(runner.flags({**options, "run.name": name, **more}), np=2, cwd=folder)
    run("whole").expect(0, "phase encoder from epoch 1", "phase classifier from epoch 3", "phase encoder from epoch 5")
    steps = runner.metrics(folder / "runs/whole")
    per_epoch = len(steps) // 8
    assert len({step["learning_rate"] for step in steps}) > 2, "the plateau never reduced the learning rate"
    whole = weights(folder, "whole")
    # Within the first phase, at the first change, within the second phase, and in the repeated first phase.
    for stop in [per_epoch + 1, 2 * per_epoch, 3 * per_epoch + 1, 5 * per_epoch - 1]:
        name = f"parts{stop}"
        run(name, **{"run.resume": f"runs/whole/checkpoints/step_{stop:08}"}).expect(0, f"step {stop} of")
        for mine, other in zip(steps[stop:], runner.metrics(folder / "runs" / name), strict=True):
            for key in ["step", "loss", "grad_norm", "learning_rate"]:
                assert mine[key] == other[key], (stop, key, mine, other)
        parts = weights(folder, name)
        assert parts.keys() == whole.keys()
        for key in whole:
            assert whole[key].tobytes() == parts[key].tobytes(), (stop, key)


def the_last_metrics_are_printed_once(folder):
    runner.synth(folder / "d.h5", 60)
    result = runner.train(folder, run__name="r", data__val_share=0.2).expect(0)
    assert result.output.count("val epoch 2/2 | loss ") == result.output.count("test epoch 2/2 | loss ") == 1
    assert result.output.count("mae_roll") == 3, result.output  # two validations and the test


def frozen_layers_keep_their_values_and_nothing_to_train_is_an_error(folder):
    runner.synth(folder / "d.h5", 60)
    runner.train(folder, run__name="a", model__freeze="features.*", train__max_steps=1).expect(0)
    runner.train(folder, run__name="b", model__freeze="features.*").expect(
        0, "phase train from epoch 1: 4 of 19 tensors are trained, 15 are frozen by model.freeze")
    a, b = weights(folder, "a"), weights(folder, "b")
    for key in a:
        same = a[key].tobytes() == b[key].tobytes()
        assert same == key.startswith("features."), key
    runner.train(folder, run__name="a", run__resume="auto", model__freeze="fc").expect(78, "a resumed run keeps model.freeze")
    runner.train(folder, run__name="c", model__freeze="*").expect(78, "nothing is left to train")
    runner.train(folder, run__name="d", model__freeze="nolayer.*").expect(78, "nolayer.*")
    runner.run(["synth", "sequence", "--samples", 30, "--out", "s.h5"], cwd=folder).expect(0)
    later = dict(task="sequence", data__file="s.h5", model__hidden=8, sequence__encoder_epochs=1, train__epochs=2)
    runner.train(folder, np=2, run__name="e", **later, model__freeze="conv*,bn*,lstm,fc").expect(78, "in phase 'classifier'")
    assert not any((folder / "runs" / name).exists() for name in "cde"), "the names are taken"


def sequence_epochs_without_a_classifier_are_refused(folder):
    runner.run(["synth", "sequence", "--samples", 30, "--out", "d.h5"], cwd=folder).expect(0)
    sequence = dict(task="sequence", model__hidden=8, sequence__encoder_epochs=1, sequence__classifier_epochs=1,
                    sequence__iterations=2)
    runner.train(folder, np=2, run__name="a", **sequence, train__epochs=1).expect(
        78, "2 iterations of 1 + 1 epochs need 4 epochs; train.epochs is 1: the classifier would never be trained")
    assert not (folder / "runs/a").exists()
    cut_short = runner.train(folder, np=2, run__name="a", **sequence, train__epochs=2).expect(
        0, "phase encoder from epoch 1", "phase classifier from epoch 2")
    assert cut_short.output.count("2 iterations of 1 + 1 epochs need 4 epochs; train.epochs is 2") == 1, cut_short.output


def padding_is_measured_over_all_ranks(folder):
    for i, rows in enumerate([20, 10, 20, 10, 20, 10, 20, 20]):  # any four of them include one with 20 rows
        path = folder / "d/train" / "ab"[i % 2] / f"{i}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.random.default_rng(i).normal(size=(rows, 3)))
    runner.run(["convert", "sequence", "d", "--out", "d.h5"], cwd=folder).expect(0)
    runner.train(folder, np=2, task="sequence", model__hidden=8, sequence__encoder_epochs=0, data__val_share=0,
                 data__length_window=0, train__batch_size=4, train__epochs=1).expect(0, "| padding 18.8 % |")
    assert [step["padding_waste"] for step in runner.metrics(folder / "runs/r")] == [1 - 130 / 160]
    # Batches of one sample need no padding, with two lengths. With one length half of the samples need as much again.
    for classes, lengths, padding in [(2, "10, 20", "0.0"), (1, "20", "18.8")]:
        runner.train(folder, run__name=f"c{classes}", task="sequence", model__hidden=8, sequence__encoder_epochs=0, data__val_share=0,
                     data__length_classes=classes, train__batch_size=1, train__epochs=1).expect(
                         0, f"batches are padded to these numbers of rows: {lengths}", f"| padding {padding} % |")


def early_stop_is_reported_and_an_unknown_metric_is_named(folder):
    runner.synth(folder / "d.h5", 60)
    result = runner.train(folder, np=2, run__name="s", train__patience=2, train__min_delta=1000, train__epochs=50).expect(0)
    assert "2 evaluations without a better mae" in result.output, result.output
    runner.train(folder, run__name="t", train__metric="mea").expect(78, "'mea' is none of this task's metrics: loss, mae")


def a_diverged_run_names_samples_and_records_its_failure(folder):
    runner.synth(folder / "d.h5", 60)
    options = {"optimizer__name": "sgd", "schedule__name": "constant", "data__val_share": 0}
    result = runner.train(folder, run__name="r", optimizer__lr=1e30, train__epochs=20, checkpoint__every="1steps", **options)
    result.expect(79, "is not finite: ", "d.h5#", "the weights have diverged")
    end = runner.metrics(folder / "runs/r", "state")[-1]
    assert (end["state"], end["exit_code"]) == ("failed", 79) and f"error: {end['reason']}\n" in result.output, end
    assert [end["failure"][key] for key in ("rank", "culprit", "kind", "exit_code")] == [0, 0, "numerics", 79], end
    runner.run(["report", "runs/r", "--text"], cwd=folder).expect(0, "run       r  failed", "is not finite: ")


def evaluation_names_the_worst_samples_and_writes_json(folder):
    runner.synth(folder / "d.h5", 60)
    runner.train(folder, run__name="r").expect(0)
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
    runner.main([two_runs_with_the_same_threads_are_equal_bit_by_bit, a_few_batches_are_overfitted,
                 a_share_of_the_training_samples_is_trained_on, measuring_the_headroom_changes_nothing,
                 averaged_weights_are_saved_and_evaluated_and_resume,
                 phases_averages_and_the_plateau_resume_bit_by_bit, the_last_metrics_are_printed_once,
                 frozen_layers_keep_their_values_and_nothing_to_train_is_an_error,
                 sequence_epochs_without_a_classifier_are_refused, padding_is_measured_over_all_ranks,
                 early_stop_is_reported_and_an_unknown_metric_is_named,
                 a_diverged_run_names_samples_and_records_its_failure, evaluation_names_the_worst_samples_and_writes_json])
