"""What each command computes on a GPU is what it computes on the CPU: eval, predict, export, trace, bench, plan and tune on fake GPUs whose
operators and kernels run; lengths in classes, and jobs of four ranks. An operator that is not computed ends the program, and so the test."""

import csv
import json
import math
import sys

import cases
import fake_gpu
import numbers_test
import numpy
import onnxruntime
import runner
from numbers_test import EXACT, difference, others, run_on

sys.path.append(str(runner.SOURCE / "tests/gpu"))
import judge  # noqa: E402

TASKS = {"headpose": "headpose_cnn", "classify": "simple_cnn", "pointer": "pointer", "sequence": "sequence classifier", "module": "module"}
# Bounds of what eval and predict compute, which is in float32 at most, relative to numbers above 1. Angles are in degrees.
IN_FLOAT32 = {"headpose": 1e-4, "classify": 1e-6, "pointer": 1e-6, "sequence": 2e-6, "module": 1e-6}
# Those of 16 bits: bfloat16 beside the CPU's, which rounds in other places, and float16, which a CPU has not, beside float32.
IN_16_BITS = {"headpose": 0.3, "classify": 1e-3, "pointer": 1e-4, "sequence": 2e-4, "module": 4e-3}
IN_INT8 = 0.05  # beside weights that differ by rounding: a few values of activations are rounded to another one
FLIPPED = 0.02  # of orders and classes in 16 bits: two that are nearly equal
FORMS = {"headpose": ["safetensors", "onnx", "onnx-int8"], "classify": ["onnx", "onnx-int8"], "pointer": ["onnx"], "sequence": ["onnx"],
         "module": ["torchscript"]}
TRAINED = {**cases.COMMON, "device.type": "cpu", "train.max_steps": 12, "checkpoint.every": "12steps"}
# Of commands that measure steps: each phase of sequences must have an epoch.
STEPS = {**{key: value for key, value in cases.COMMON.items() if key != "train.max_steps"}, "train.epochs": 2000}
DOUBLE = {"train.amp": "fp64"}


def make_data(folder, networks):
    """What these networks are trained on."""
    cases.make_data(folder, dict.fromkeys(cases.NETWORKS[network]["data.file"].removesuffix(".h5") for network in networks))


def train_each(folder, tasks):
    """A run of each task, trained on the CPU."""
    make_data(folder, [TASKS[task] for task in tasks])
    for task in tasks:
        runner.run(runner.flags({**TRAINED, **cases.NETWORKS[TASKS[task]], "run.name": task}), cwd=folder).expect(0)


def leaves(found):
    """The numbers and texts of the JSON of a command, in order, without the time that it took."""
    if isinstance(found, dict):
        return [leaf for key, value in found.items() if key != "seconds" for leaf in leaves(value)]
    if isinstance(found, list):
        return [leaf for value in found for leaf in leaves(value)]
    return [found]


def apart(a, b):
    """The largest difference of the numbers of two lists, relative to numbers above 1, and the share of texts and whole numbers that differ."""
    assert len(a) == len(b) > 0, (a, b)
    pairs = list(zip(a, b))
    numbers = [(x, y) for x, y in pairs if isinstance(x, float) and isinstance(y, float)]
    texts = [x != y for x, y in pairs if not (isinstance(x, float) and isinstance(y, float))]
    assert all(math.isfinite(y) for _, y in numbers), b
    return max((abs(x - y) / max(1, abs(x)) for x, y in numbers), default=0.0), sum(texts) / max(1, len(texts))


def evaluate(folder, run, device, where={}, **options):
    """The JSON of `dtrain eval`."""
    arguments = ["eval", f"runs/{run}", "--device", device, "--json", "eval.json", "--force", *runner.flags(options)]
    run_on(device, arguments, cwd=folder, **where).expect(0)
    return json.loads((folder / "eval.json").read_text())


def predict(folder, run, device, where={}, **options):
    """The numbers and texts of the predictions for all samples. Orders and classes are texts, or whole numbers."""
    arguments = ["predict", f"runs/{run}", cases.NETWORKS[TASKS[run]]["data.file"], "--device", device, "--out", "out", "--force"]
    run_on(device, [*arguments, *runner.flags(options)], cwd=folder, **where).expect(0)
    lines = (folder / "out").read_text().splitlines()
    if options.get("format") == "jsonl":
        return [leaf for line in lines for leaf in leaves(json.loads(line))]
    return [leaf for row in csv.DictReader(lines) for name, cell in row.items() for leaf in values_of(name, cell)]


def values_of(name, cell):
    """Of a cell of the predictions."""
    try:
        return [cell] if name == "order" else [float(word) for word in cell.split()]
    except ValueError:
        return [cell]


def say(what, *found):
    print(f"        {what:36s} " + "  ".join(f"{one:.1e}" for one in found), flush=True)


def evaluations_and_predictions(folder, tasks, precisions, **options):
    """Of the same checkpoints on both."""
    train_each(folder, tasks)
    for task in tasks:
        for amp in precisions:
            found = {}
            for device in ("cpu", "cuda"):
                # A CPU does not compute in float16, and a fake GPU multiplies tf32 in float32.
                how = amp if device == "cuda" or amp == "bf16" else "fp32"
                report = evaluate(folder, task, device, amp=how)
                assert report.pop("precision") == how, report
                found[device] = leaves(report["metrics"]), leaves(report), predict(folder, task, device, amp=how, **options)
            metrics, report, rows = (apart(cpu, gpu) for cpu, gpu in zip(*found.values()))
            assert len(found["cpu"][2]) >= 2 * cases.SAMPLES
            say(f"{task} {amp}", metrics[0], *report, *rows)
            if amp in ("fp32", "tf32"):
                assert all(number <= IN_FLOAT32[task] and text == 0 for number, text in (metrics, report, rows)), (task, amp, found)
            else:  # bins, and the list of the worst samples, may differ
                assert max(metrics[0], rows[0]) <= IN_16_BITS[task] and rows[1] <= FLIPPED, (task, amp, found)


def evaluations_and_predictions_agree(folder):
    evaluations_and_predictions(folder, ["headpose", "pointer"], ["fp32"])


def other_evaluations_and_predictions_agree(folder):
    evaluations_and_predictions(folder, others(TASKS, ["headpose", "pointer"]), ["fp32"])


def evaluations_and_predictions_agree_in_16_bits(folder):
    evaluations_and_predictions(folder, ["headpose"], ["bf16"])


def evaluations_and_predictions_agree_in_all_precisions(folder):
    evaluations_and_predictions(folder, list(TASKS), ["fp32", "tf32", "bf16", "fp16"], format="jsonl")


def ranks_and_orders(folder, tasks, orders, jobs):
    """Of eval and predict: ranks on GPUs, and streams in other orders, beside one rank on the CPU."""
    train_each(folder, tasks)
    for task in tasks:
        report, rows = leaves(evaluate(folder, task, "cpu")), predict(folder, task, "cpu", split="test")
        for np, gpus in jobs:
            for order in orders:
                how = {"where": {"np": np, "gpus": gpus, "order": order}, "batch-size": 7}
                found = [apart(report, leaves(evaluate(folder, task, "cuda", **how))),
                         apart(rows, predict(folder, task, "cuda", split="test", **how))]
                say(f"{task} {np or 1} {gpus} {order}", *found[0], *found[1])
                assert all(number <= IN_FLOAT32[task] and text == 0 for number, text in found), (task, how, found)


def ranks_evaluate_and_predict_as_one(folder):
    ranks_and_orders(folder, ["sequence"], [0], [(2, 2)])


def ranks_evaluate_and_predict_as_one_in_any_order(folder):
    ranks_and_orders(folder, ["sequence"], [0], [(2, 1)])
    ranks_and_orders(folder, ["headpose", "pointer"], fake_gpu.ORDERS, [(None, 1), (2, 1), (2, 2), (4, 4)])


def evaluations_of_trainings(folder, tasks):
    """The last evaluation of the validation split, and that of the test split, in float64."""
    make_data(folder, [TASKS[task] for task in tasks])
    for task in tasks:
        found = {}
        for device in ("cpu", "cuda"):
            keys = {**cases.NETWORKS[TASKS[task]], **DOUBLE, "train.eval_every": "2steps"}
            numbers_test.train(folder, f"{task}-{device}", device, **keys)
            records = runner.metrics(folder / f"runs/{task}-{device}", "eval")
            assert [record["split"] for record in records] == ["val", "val", "test"], records
            found[device] = leaves([[record["metrics"], record.get("tables", [])] for record in records])
        number, text = apart(found["cpu"], found["cuda"])
        say(task, number, text)
        assert number <= EXACT and text == 0, found


def evaluations_of_trainings_agree_in_double_precision(folder):
    evaluations_of_trainings(folder, ["headpose"])


def other_evaluations_of_trainings_agree_in_double_precision(folder):
    evaluations_of_trainings(folder, others(TASKS, ["headpose"]))


def outputs(file, form):
    """Of an ONNX file, for inputs that are drawn; of others, their weights."""
    if not form.startswith("onnx"):
        import torch  # takes a second
        from safetensors.torch import load_file
        tensors = load_file(file) if form == "safetensors" else torch.jit.load(file).state_dict()
        return [value for name in sorted(tensors) for value in tensors[name].double().flatten().tolist()]
    session = onnxruntime.InferenceSession(str(file))
    drawn, inputs = numpy.random.default_rng(1), {}
    for one in session.get_inputs():
        shape = [{"batch": 8, "time": 40}.get(size, size) for size in one.shape]
        inputs[one.name] = numpy.full(shape, 10) if one.name == "lengths" else drawn.standard_normal(shape, dtype=numpy.float32)
    return session.run(None, inputs)[0].astype(float).flatten().tolist()


def exports(folder, tasks):
    """What is trained on a GPU in float64, and exported on a machine with one, gives the outputs of what a CPU trains and exports. The same
    checkpoint gives the same bytes on both machines."""
    make_data(folder, [TASKS[task] for task in tasks])
    for task in tasks:
        for device in ("cpu", "cuda"):
            keys = {**cases.NETWORKS[TASKS[task]], **DOUBLE, "checkpoint.every": "4steps", "train.ema": 0.9}
            numbers_test.train(folder, f"{task}-{device}", device, **keys)
        for form in FORMS[task]:
            more = ["--samples", 40] if form == "onnx-int8" else []
            for run, machine in [("cpu", "cpu"), ("cuda", "cpu"), ("cuda", "cuda")]:
                run_on(machine, ["export", f"runs/{task}-{run}", "--format", form, *more, "--out", f"{task}-{run}-{machine}"], cwd=folder).expect(0)
            files = [folder / f"{task}-{run}" for run in ("cpu-cpu", "cuda-cpu", "cuda-cuda")]
            assert files[1].read_bytes() == files[2].read_bytes(), (task, form)
            number = apart(outputs(files[0], form), outputs(files[2], form))[0]
            say(f"{task} {form}", number)
            assert number <= {"onnx": IN_FLOAT32[task], "onnx-int8": IN_INT8}.get(form, EXACT), (task, form, number)
            for file in files:
                file.unlink()


def exports_agree(folder):
    exports(folder, ["headpose"])


def other_exports_agree(folder):
    exports(folder, others(TASKS, ["headpose"]))


def measured(folder, name, network, device="cuda", **options):
    """The JSON of a command that measures the steps of a network."""
    keys = {**STEPS, **cases.NETWORKS[network], "device.type": device, **{key.replace("__", "."): value for key, value in options.items()}}
    arguments = [*name.split(), "--json", "out.json", "--force", *runner.flags(keys)]
    run_on(device, arguments, cwd=folder).expect(0)
    return json.loads((folder / "out.json").read_text())


def check_numbers(found, without=()):
    """All that is to be a number is one, but what the JSON says is not measured."""
    for key, value in found.items():
        if isinstance(value, dict):
            check_numbers(value, without)
        elif isinstance(value, list):
            for one in value:
                check_numbers(one if isinstance(one, dict) else {key: one}, without)
        elif not isinstance(value, (str, bool)):
            assert judge.is_number(value) or (value is None and key in without), (key, found)


def traces(folder, networks):
    make_data(folder, networks)
    for network in networks:
        for flag in ("--operators", "--memory"):
            found = measured(folder, f"trace --steps 3 --out t.json {flag}", network, train__amp="fp32")
            assert found["device"] == "cuda:0"
            problems = judge.trace(json.loads((folder / "t.json").read_text()), found, flag)
            assert not problems, (network, flag, problems)
            check_numbers(found)
        cpu = measured(folder, "trace --steps 3 --out t.json", network, device="cpu", train__amp="fp32")
        for kind in ("weights", "gradients", "moments", "batch"):
            assert found["ranks"][0]["memory_bytes"][kind] == cpu["ranks"][0]["memory_bytes"][kind] > 0, (kind, found, cpu)


def steps_are_traced(folder):
    traces(folder, ["sequence classifier"])


def all_networks_are_traced(folder):
    traces(folder, cases.NETWORKS)


def measurements(folder, networks, amp, sizes):
    make_data(folder, networks)
    for network in networks:
        found = measured(folder, f"bench step --steps 3 --rounds 2 --batch-sizes {sizes}", network, train__amp=amp)
        check_numbers(found, ("kernel_seconds", "launch_gap_seconds"))
        assert (found["precision"], found["device"]) == (amp, "cuda:0") and not found["left_out"], found
        assert [row["batch_size"] for row in found["rows"]] == [int(size) for size in sizes.split(",")], found
        assert all(row["step_seconds"] > 0 and row["samples_per_second"]["median"] > 0 for row in found["rows"]), found

        plan = "plan --ranks 1,8 --steps 3 --seconds 1"
        found, cpu = (measured(folder, plan, network, device=device, train__amp=amp) for device in ("cuda", "cpu"))
        check_numbers(found)
        assert found["device"] == "cuda:0" and [row["ranks"] for row in found["rows"]] == [1, 8], found
        assert [bucket["bytes"] for bucket in found["gradient_buckets"]] == [bucket["bytes"] for bucket in cpu["gradient_buckets"]]
        for row, same in zip(found["rows"], cpu["rows"]):
            for key in ("global_batch", "micro_batch", "steps_per_epoch", "total_steps"):
                assert row[key] == same[key], (key, row, same)
            # A GPU keeps copies of the weights in 16 bits.
            for kind in ("gradients", "moments", *(["weights"] if amp == "fp32" else [])):
                assert row["memory_bytes"][kind] == same["memory_bytes"][kind] > 0, (kind, row, same)


def steps_are_measured_and_planned(folder):
    measurements(folder, ["sequence classifier"], "fp32", "4,8")


def other_steps_are_measured_and_planned(folder):
    measurements(folder, ["pointer choosing"], "fp32", "2,4")
    part = folder / "part"
    part.mkdir()
    measurements(part, ["headpose_cnn", "sequence encoder", "module"], "bf16", "2,4")


def tuned(folder, network, minutes, *words):
    """The JSON of tune, whose config then trains."""
    keys = {**STEPS, **cases.NETWORKS[network]}
    for key in ("train.batch_size", "data.workers"):  # a flag is kept as it is
        keys.pop(key)
    arguments = ["tune", "--minutes", minutes, "--seconds", 0.1, "--out", "tuned.yaml", "--json", "out.json", "--force", *words]
    fake_gpu.compute([*arguments, *runner.flags(keys)], cwd=folder, timeout=900).expect(0)
    found = json.loads((folder / "out.json").read_text())
    check_numbers(found["found"])
    assert found["device"].startswith("NVIDIA") and found["given_fits"] and found["found_samples_per_second"]["median"] > 0, found
    assert any(row["stage"] == "memory" and row["note"] == "fits" and row["memory_bytes"] > 0 for row in found["rows"]), found
    steps = {"run.name": "tuned", "train.max_steps": 3, "run.log_every": 1, "metrics.enabled": True}
    fake_gpu.compute(["tuned.yaml", *runner.flags(steps)], cwd=folder).expect(0)
    records = runner.metrics(folder / "runs/tuned")
    assert not judge.training(records, learns=False) and len(records) == 3, records
    return found


def a_config_that_is_tuned_trains(folder):
    cases.make_data(folder, ["sequence"])
    tuned(folder, "sequence classifier", 0.1)


def rates_are_tested_as_on_the_cpu(folder):
    """The first rates change next to nothing, so that the first losses are those of the CPU, also where another number of rates is tested."""
    cases.make_data(folder, ["pointer"])
    found = tuned(folder, "pointer", 4, "--find-lr", "--train.amp", "fp64", "--train.batch_size", 8)["range_test"]
    cpu = measured(folder, "tune --find-lr --minutes 4 --seconds 0.1", "pointer", device="cpu", **{"train__amp": "fp64"})["range_test"]
    assert len(found["losses"]) == len(found["rates"]) >= 20 and all(map(math.isfinite, found["losses"])), found
    assert abs(found["losses"][0] / cpu["losses"][0] - 1) <= EXACT and abs(found["losses"][3] / cpu["losses"][3] - 1) <= 1e-5, (found, cpu)


def lengths(folder, networks, classes):
    """Steps of batches that are padded to one of a few lengths have the losses of those that are not, on the CPU."""
    make_data(folder, networks)
    for network in networks:
        run = network.replace(" ", "-")
        keys = {**cases.NETWORKS[network], **DOUBLE}
        cpu = numbers_test.train(folder, run, "cpu", **keys)
        padding = {0: padding_of(folder, run)}
        for count in classes:
            for device in ("cpu", "cuda"):
                name = f"{run}-{count}-{device}"
                found = difference(cpu, numbers_test.train(folder, name, device, **keys, data__length_classes=count))
                padding[count] = padding_of(folder, name)
                say(f"{network}, {count} classes, {device}", found)
                assert found <= EXACT and padding[count] > padding[0] + 0.1, (network, count, device, padding)


def padding_of(folder, run):
    return sum(line["padding_waste"] for line in runner.metrics(folder / "runs" / run))


def batches_padded_to_length_classes_agree(folder):
    lengths(folder, ["sequence classifier"], [2])


def other_batches_padded_to_length_classes_agree(folder):
    lengths(folder, ["pointer", "pointer choosing", "sequence encoder"], [1, 2, 4])


def four(folder, network, jobs):
    """Jobs of four ranks, by GPUs and order of streams, beside four ranks on the CPU and one with the same global batch. The sums over ranks of
    batch norm are those of the one."""
    keys = {**cases.NETWORKS[network], **DOUBLE, "train.sync_batch_norm": True}
    if network.startswith("pointer"):  # it has no batch norm
        del keys["train.sync_batch_norm"]
    one = numbers_test.train(folder, "one", "cpu", **keys, train__batch_size=16)
    cpu = numbers_test.train(folder, "cpu", "cpu", np=4, **keys, train__batch_size=4)
    for gpus, order in jobs:
        gpu = numbers_test.train(folder, f"{gpus}-{order}", "cuda", np=4, gpus=gpus, order=order, **keys, train__batch_size=4)
        say(f"{network}, {gpus} GPUs, order {order}", difference(one, gpu), difference(cpu, gpu))
        assert max(difference(one, gpu), difference(cpu, gpu)) <= EXACT, (one, cpu, gpu)


def four_ranks_agree(folder):
    cases.make_data(folder, ["headpose"])
    four(folder, "headpose_cnn", [(4, 0)])


def four_ranks_of_other_networks_agree(folder):
    for network in ("headpose_cnn", "pointer choosing", "sequence encoder", "sequence classifier", "resnet18"):
        part = folder / network.replace(" ", "-")
        part.mkdir()
        make_data(part, [network])
        four(part, network, [(gpus, order) for gpus in (1, 2, 4) for order in (None, 3)])


def other_runs_move_between_cpu_and_gpu(folder):
    """Of each task, and from one number of ranks to another: the losses are those of one rank on the CPU. Moments, averages and choices go with
    them, and a run of sequences goes on into its second phase."""
    cases.make_data(folder)
    moves = {"up": [("cpu", 1), ("cuda", 1), ("cpu", 1)], "down": [("cuda", 1), ("cpu", 1), ("cuda", 1)],
             "jobs": [("cuda", 4), ("cpu", 2), ("cuda", 2)]}
    phases = {"sequence.encoder_epochs": 1, "sequence.classifier_epochs": 1, "data.share": 0.2}  # of 3 steps
    for network in ("simple_cnn", "pointer choosing", "sequence", "module"):
        own = {"task": "sequence", "data.file": "sequence.h5", **phases} if network == "sequence" else cases.NETWORKS[network]
        norms = {"train.sync_batch_norm": True} if network == "sequence" else {}
        keys = {**own, **norms, **DOUBLE, "checkpoint.every": "2steps", "schedule.name": "constant", "train.ema": 0.9}
        run = network.replace(" ", "-")
        whole = numbers_test.train(folder, run, "cpu", train__max_steps=6, **keys, train__batch_size=16)
        for name, parts in moves.items():
            for part, (device, ranks) in enumerate(parts):
                moved = numbers_test.train(folder, f"{run}-{name}", device, np=ranks, gpus=ranks, words=["--resume", "auto"] if part else [],
                                           **keys, train__max_steps=2 * part + 2, train__batch_size=16 // ranks)
            say(f"{network} {name}", difference(whole, moved))
            assert difference(whole, moved) <= EXACT, (network, name, whole, moved)


if __name__ == "__main__":
    fake_gpu.main([evaluations_and_predictions_agree, ranks_evaluate_and_predict_as_one,
                   evaluations_of_trainings_agree_in_double_precision, exports_agree, steps_are_traced, steps_are_measured_and_planned,
                   a_config_that_is_tuned_trains, batches_padded_to_length_classes_agree, four_ranks_agree],
                  [other_evaluations_and_predictions_agree, evaluations_and_predictions_agree_in_16_bits,
                   evaluations_and_predictions_agree_in_all_precisions, ranks_evaluate_and_predict_as_one_in_any_order,
                   other_evaluations_of_trainings_agree_in_double_precision, other_exports_agree, all_networks_are_traced,
                   other_steps_are_measured_and_planned, rates_are_tested_as_on_the_cpu, other_batches_padded_to_length_classes_agree,
                   four_ranks_of_other_networks_agree, other_runs_move_between_cpu_and_gpu])
