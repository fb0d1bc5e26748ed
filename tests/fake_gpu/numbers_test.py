"""The GPU's path computes what the CPU's does: trainings on fake GPUs whose operators and kernels run, beside the same ones on the CPU."""

import itertools

import cases
import fake_gpu
import runner

STEPS = 4
CHECKED = {**cases.COMMON, "metrics.enabled": True, "train.max_steps": STEPS, "run.log_every": 1, "device.cudnn_benchmark": False}
EXACT = 1e-6  # of losses and norms in float64: pictures are float32, and the two sides round them in other places
AMPLIFY = ("mobilenet_v2", "resnet50")  # of that rounding: batch norms of 8 samples and one pixel, so their first step is compared
# Of the default run: each kind of layer, and what changes most of a step. The others are a campaign.
NETWORKS = ["headpose_cnn", "pointer choosing", "sequence encoder"]
OPTIONS = ["accumulate 3", "clip_norm", "ema"]


def steps_of(folder, name):
    """Loss and gradient norm of each step that was made, from the run's lines."""
    return [(line["loss"], line["grad_norm"]) for line in runner.metrics(folder / "runs" / name) if line.get("grad_norm") is not None]


def difference(cpu, gpu):
    """The largest relative difference of a loss or norm."""
    assert len(cpu) == len(gpu) > 0, (cpu, gpu)
    return max(abs(x - y) / max(abs(x), 1e-12) for a, b in zip(cpu, gpu) for x, y in zip(a, b))


def run_on(device, arguments, np=None, gpus=1, order=None, **how):
    """The result of a command on the CPU, or on fake GPUs that compute."""
    if device == "cpu":
        return runner.run(arguments, np=np, **how)
    more = {} if order is None else {"gpu_order": order}
    return fake_gpu.compute(arguments, np=np, gpu_count=gpus, **more, **how)


def output_of(folder, name, device, np=None, words=(), gpus=1, order=None, settings=(), **options):
    """What a training prints. `settings`: further ones of the fake GPUs."""
    keys = {**CHECKED, "device.type": device, "run.name": name, **{key.replace("__", "."): value for key, value in options.items()}}
    return run_on(device, [*words, *runner.flags(keys)], np=np, gpus=gpus, order=order, cwd=folder, **dict(settings)).expect(0).output


def train(folder, name, device, **how):
    """The steps of a training."""
    output_of(folder, name, device, **how)
    return steps_of(folder, name)


def each(folder, cases_of, bound, steps=STEPS):
    """Compares the first steps of each case, by name."""
    found = {}
    for name, options in cases_of.items():
        compared = 1 if name.startswith(AMPLIFY) else steps
        run = name.replace(" ", "-").replace("'", "")
        cpu, gpu = (train(folder, f"{run}-{device}", device, **options)[:compared] for device in ("cpu", "cuda"))
        found[name] = difference(cpu, gpu)
        print(f"        {name:32s} {found[name]:.1e}", flush=True)
    assert all(value <= bound for value in found.values()), found


def others(known, chosen):
    return [name for name in known if name not in chosen]


def networks_in_double_precision(folder, names):
    cases.make_data(folder)
    each(folder, {name: {"train.amp": "fp64", **cases.NETWORKS[name]} for name in names}, EXACT)


def options_in_double_precision(folder, names):
    cases.make_data(folder, ["headpose"])
    base = {**cases.NETWORKS["headpose_cnn"], "train.amp": "fp64"}
    each(folder, {name: {**base, **cases.OPTIONS[name]} for name in names}, EXACT)


def networks_agree_in_double_precision(folder):
    networks_in_double_precision(folder, NETWORKS)


def other_networks_agree_in_double_precision(folder):
    networks_in_double_precision(folder, others(cases.NETWORKS, NETWORKS))


def options_agree_in_double_precision(folder):
    options_in_double_precision(folder, OPTIONS)
    cases.make_data(folder, ["classify"])
    each(folder, {"weighted classes": {"train.amp": "fp64", **cases.WEIGHTED}}, EXACT)


def other_options_agree_in_double_precision(folder):
    options_in_double_precision(folder, others(cases.OPTIONS, OPTIONS))


FIRST_STEPS = [("fp32", 1e-3, 5e-2), ("bf16", 0.1, 0.5)]  # precision, bound, bound where rounding is amplified


def networks_in_the_first_step(folder, names, precisions=FIRST_STEPS):
    """With the kernels of batch norm emulated, which double precision does not use."""
    cases.make_data(folder)
    for precision, bound, bound_of_amplified in precisions:
        for amplify in (False, True):
            networks = {name: cases.NETWORKS[name] for name in names if name.startswith(AMPLIFY) == amplify}
            each(folder, {f"{name} {precision}": {"train.amp": precision, "train.max_steps": 1, **keys} for name, keys in networks.items()},
                 bound_of_amplified if amplify else bound, steps=1)


def networks_agree_in_the_first_step(folder):
    networks_in_the_first_step(folder, NETWORKS, FIRST_STEPS[-1:])


def networks_agree_in_the_first_step_of_other_precisions(folder):
    networks_in_the_first_step(folder, NETWORKS, FIRST_STEPS[:-1])


def other_networks_agree_in_the_first_step(folder):
    networks_in_the_first_step(folder, others(cases.NETWORKS, NETWORKS))


def ranks(folder, jobs, shared):
    """Two ranks on `jobs`, GPUs and order of streams, beside two on the CPU."""
    cases.make_data(folder, ["headpose"])
    base = {**cases.NETWORKS["headpose_cnn"], "train.amp": "fp64", "train.batch_size": 4, "train.sync_batch_norm": shared}
    cpu = train(folder, "cpu", "cpu", np=2, **base)
    for gpus, order in jobs:
        gpu = train(folder, f"gpu-{gpus}-{order}", "cuda", np=2, gpus=gpus, order=order, **base)
        print(f"        shared norms {shared}, {gpus} GPUs, order {order}: {difference(cpu, gpu):.1e}", flush=True)
        assert difference(cpu, gpu) <= EXACT


def ranks_agree(folder):
    ranks(folder, [(1, 0), (2, 0)], shared=True)


def ranks_at_once_agree(folder):
    ranks(folder, [(1, None), (2, None)], shared=True)


def ranks_with_norms_of_their_own_agree(folder):
    ranks(folder, [(1, None), (1, 0), (2, None), (2, 0)], shared=False)


def runs_move_between_cpu_and_gpu(folder, devices=("cuda", "cpu", "cuda")):
    cases.make_data(folder, ["headpose"])
    base = {**cases.NETWORKS["headpose_cnn"], "train.amp": "fp64", "checkpoint.every": "2steps", "schedule.name": "constant"}
    whole = train(folder, "whole", "cpu", train__max_steps=6, **base)
    for part, device in enumerate(devices):
        moved = train(folder, "moved", device, words=["--resume", "auto"] if part else [], train__max_steps=2 * part + 2, **base)
    assert difference(whole, moved) <= EXACT, (whole, moved)


def runs_that_begin_on_the_cpu_move(folder):
    runs_move_between_cpu_and_gpu(folder, ("cpu", "cuda", "cpu"))


def a_step_whose_gradients_overflow_is_skipped(folder):
    cases.make_data(folder, ["headpose"])
    train(folder, "r", "cuda", **cases.NETWORKS["headpose_cnn"], train__amp="fp16", amp__init_scale=16777216, train__max_steps=8)
    steps = runner.metrics(folder / "runs/r")
    skipped = list(itertools.accumulate(step["grad_norm"] is None for step in steps))
    assert len(steps) == 8 and 0 < skipped[-1] < 8, steps
    # The CPU has no fp16. Each skipped step halves the scale, and none is made often enough to double it.
    assert [(step["skipped_total"], step["loss_scale"]) for step in steps] == [(n, 16777216 / 2**n) for n in skipped], steps


def any_order_of_streams_gives_the_same_numbers(folder, orders=fake_gpu.SOME_ORDERS):
    cases.make_data(folder, ["headpose"])
    base = {**cases.NETWORKS["headpose_cnn"], "train.amp": "bf16"}
    at_once = train(folder, "at-once", "cuda", **base)
    for order in orders:
        later = train(folder, f"order-{order}", "cuda", order=order, **base)
        assert later == at_once, (order, later, at_once)


def any_other_order_of_streams_gives_the_same_numbers(folder):
    any_order_of_streams_gives_the_same_numbers(folder, fake_gpu.OTHER_ORDERS)


if __name__ == "__main__":
    fake_gpu.main([networks_agree_in_double_precision, options_agree_in_double_precision, networks_agree_in_the_first_step, ranks_agree,
                   runs_move_between_cpu_and_gpu, a_step_whose_gradients_overflow_is_skipped, any_order_of_streams_gives_the_same_numbers],
                  [other_networks_agree_in_double_precision, other_options_agree_in_double_precision, other_networks_agree_in_the_first_step,
                   networks_agree_in_the_first_step_of_other_precisions, ranks_at_once_agree, ranks_with_norms_of_their_own_agree,
                   runs_that_begin_on_the_cpu_move, any_other_order_of_streams_gives_the_same_numbers])
