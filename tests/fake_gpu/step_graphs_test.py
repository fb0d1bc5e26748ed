"""Steps as CUDA graphs (train.cuda_graph): a training gives the same numbers with them, to the last bit, and asks for few launches."""

import re

import cases
import fake_gpu
import numbers_test
import runner

STEPS = 14  # of which the fourth is captured, and ten are launched as graphs
CAPTURED = "micro-step of a step is captured"
NETWORKS = ["headpose_cnn", "module"]
LENGTHS = {  # two shapes of each
    "pointer choosing": {**cases.NETWORKS["pointer choosing"], "data.length_classes": 2},
    "sequence encoder": {**cases.NETWORKS["sequence encoder"], "data.length_classes": 2},
}
OTHER_NETWORKS = ["simple_cnn", "resnet18", "mobilenet_v2", "resnet50"]
OPTIONS = {
    "accumulate 3, clip_norm, ema": {"train.accumulate": 3, "train.batch_size": 4, "optimizer.clip_norm": 0.5, "train.ema": 0.9},
    "overflow": {"train.amp": "fp16", "amp.init_scale": 16777216},
}
OTHER_OPTIONS = {
    "accumulate 3": {"train.accumulate": 3, "train.batch_size": 4},
    "clip_norm, ema": {"optimizer.clip_norm": 0.5, "train.ema": 0.9},
    "checkpointing": {"model.checkpointing": True},
    "sgd, bf16": {"optimizer.name": "sgd", "train.amp": "bf16"},
}
PLAIN = {"train.amp": "fp64", "train.deterministic": True, "train.max_steps": STEPS}


def train(folder, name, graphs, **how):
    """Loss and norm of each step, and the output."""
    output = numbers_test.output_of(folder, name, "cuda", **{**PLAIN, **how, "train.cuda_graph": graphs})
    return numbers_test.steps_of(folder, name), output


def same_with_graphs(folder, name, *captures, **options):
    """`captures`: the least and the largest number of them."""
    without, _ = train(folder, f"{name}-eager", False, **options)
    with_graphs, output = train(folder, f"{name}-graphs", True, **options)
    assert captures[0] <= output.count(CAPTURED) <= captures[1], output
    assert with_graphs == without, (name, with_graphs, without)


def networks_give_the_same_numbers(folder, names=NETWORKS):
    cases.make_data(folder)
    for name in names:
        same_with_graphs(folder, name.replace(" ", "-"), 1, 1, **cases.NETWORKS[name])


def few_lengths_give_the_same_numbers(folder):
    cases.make_data(folder, ["pointer", "sequence"])
    for name, keys in LENGTHS.items():
        same_with_graphs(folder, name.replace(" ", "-"), 2, 4, **keys, **{"train.max_steps": 2 * STEPS})


def ranks_with_other_lengths_give_the_same_numbers(folder):
    cases.make_data(folder, ["sequence"])
    keys = {**LENGTHS["sequence encoder"], "train.max_steps": 2 * STEPS, "train.batch_size": 4}
    same_with_graphs(folder, "lengths", 1, 32, np=2, gpus=2, **keys)


def phases_give_the_same_numbers(folder):
    """Each phase has graphs of its own."""
    cases.make_data(folder, ["sequence"])
    keys = {**LENGTHS["sequence encoder"], "sequence.encoder_epochs": 1, "sequence.classifier_epochs": 1, "train.batch_size": 24}
    same_with_graphs(folder, "phases", 2, 8, **keys, **{"train.max_steps": 20})  # of 8 each


def other_networks_give_the_same_numbers(folder):
    networks_give_the_same_numbers(folder, OTHER_NETWORKS)


def options_give_the_same_numbers(folder, options=OPTIONS):
    cases.make_data(folder, ["headpose"])
    for i, (name, keys) in enumerate(options.items()):
        kinds = 2 if "accumulate" in name else 1
        same_with_graphs(folder, f"option-{i}", kinds, kinds, **{**cases.NETWORKS["headpose_cnn"], **keys})


def other_options_give_the_same_numbers(folder):
    options_give_the_same_numbers(folder, OTHER_OPTIONS)
    cases.make_data(folder, ["classify"])
    same_with_graphs(folder, "weighted", 1, 1, **cases.WEIGHTED)


RANKS = {**cases.NETWORKS["headpose_cnn"], "train.batch_size": 4, "train.accumulate": 2}


def ranks_give_the_same_numbers(folder):
    """Over NCCL all is captured."""
    cases.make_data(folder, ["headpose"])
    # Beyond an epoch, in whose last step the ranks have other samples than before, and one of them as many.
    same_with_graphs(folder, "nccl", 2, 2, np=2, gpus=2, **RANKS, **{"train.max_steps": 20})


def ranks_on_one_gpu_give_the_same_numbers(folder):
    """What comes before the last micro-step is captured, because the last one waits for the host."""
    cases.make_data(folder, ["headpose"])
    same_with_graphs(folder, "staged", 1, 1, np=2, gpus=1, **RANKS)


def ranks_with_shared_norms_give_the_same_numbers(folder):
    cases.make_data(folder, ["headpose"])
    same_with_graphs(folder, "nccl-shared-norms", 2, 2, np=2, gpus=2, **RANKS, **{"train.sync_batch_norm": True})
    same_with_graphs(folder, "staged-shared-norms", 0, 0, np=2, gpus=1, **RANKS, **{"train.sync_batch_norm": True})


def any_order_of_streams_gives_the_same_numbers(folder, np=None, orders=fake_gpu.SOME_ORDERS):
    cases.make_data(folder, ["headpose"])
    base = {**cases.NETWORKS["headpose_cnn"], "train.batch_size": 4}
    at_once, _ = train(folder, "at-once", True, np=np, gpus=np or 1, **base)
    for order in orders:
        later, _ = train(folder, f"order-{order}", True, np=np, gpus=np or 1, order=order, **base)
        assert later == at_once, (order, later, at_once)


def any_other_order_of_streams_gives_the_same_numbers(folder):
    any_order_of_streams_gives_the_same_numbers(folder, orders=fake_gpu.OTHER_ORDERS)


def any_order_of_streams_of_two_ranks_gives_the_same_numbers(folder):
    any_order_of_streams_gives_the_same_numbers(folder, np=2, orders=fake_gpu.ORDERS)


def a_run_goes_on_where_it_was_saved(folder):
    cases.make_data(folder, ["headpose"])
    base = {**cases.NETWORKS["headpose_cnn"], "checkpoint.every": "6steps", "schedule.name": "constant"}
    whole, _ = train(folder, "whole", True, **base)
    train(folder, "parts", True, **{**base, "train.max_steps": 6})
    parts, _ = train(folder, "parts", True, words=["--resume", "auto"], **base)
    assert parts == whole, (parts, whole)


def a_step_asks_for_few_launches(folder, networks=("headpose_cnn",), most=12):
    cases.make_data(folder, ["headpose", "classify"])
    for name in networks:
        keys = {**cases.COMMON, **cases.NETWORKS[name], "train.amp": "bf16", "train.cuda_graph": True, "run.name": ""}
        result, (counts,) = fake_gpu.counted(runner.flags(keys), cwd=folder)
        result.expect(0, CAPTURED)
        for step in cases.COUNTED:
            launches, waits = counts.of("launch", steps=[step]), counts.of("wait", steps=[step])
            assert 3 <= launches <= most and waits == 0, (name, step, launches, waits, counts.names("launch", steps=[step]))


def a_step_of_a_large_network_asks_for_few_launches(folder):
    a_step_asks_for_few_launches(folder, ["resnet50"])


def what_cannot_be_captured_runs_without_graphs(folder):
    """A network of the user's that draws from LibTorch's generator, which no graph knows."""
    cases.make_data(folder, ["headpose"])
    runner.save_script_network(folder / "drops.pt", dropout=0.5)
    base = {**cases.NETWORKS["module"], "model.file": "drops.pt"}
    without, _ = train(folder, "eager", False, **base)
    with_graphs, output = train(folder, "graphs", True, **base)
    assert output.count("CUDA graphs cannot be used, so these steps run without them. On rank 0: ") == 1, output
    assert with_graphs == without, (with_graphs, without)


OTHER = "a step with graphs gives other values of "


def runs_as_without_graphs(folder, work, warnings, captured, rank=None, **options):
    """Graphs leave out `work`, on this rank or on all. `warnings`: the rank and the reason of each."""
    cases.make_data(folder, ["headpose"])
    settings = {"gpu_spoil": work} if rank is None else {"gpu_spoil": work, "gpu_spoil_rank": rank}
    without, _ = train(folder, "eager", False, **options)
    with_graphs, output = train(folder, "spoiled", True, settings=settings, **options)
    found = re.findall(r"CUDA graphs cannot be used, so (?:the|these) steps run without them. On rank (.*)", output)
    assert sorted(found) == warnings, (found, output)
    assert output.count(CAPTURED) == captured, output
    assert len(without) == STEPS and with_graphs == without, (with_graphs, without)


def spoiled_graphs_are_not_used(folder):
    runs_as_without_graphs(folder, "_fused_adamw_", [f"0: {OTHER}the parameter features.0.0.weight"], 0, **cases.NETWORKS["headpose_cnn"])


def spoiled_graphs_of_ranks_on_one_gpu_are_not_used(folder):
    """Each rank finds out by itself."""
    warnings = [f"{rank}: {OTHER}gradient bucket 1" for rank in range(2)]
    runs_as_without_graphs(folder, "cudnn_batch_norm_backward", warnings, 0, np=2, gpus=1, **RANKS)


def a_spoiled_graph_of_one_rank_is_used_by_none(folder):
    """The update is spoiled, so the graphs of what comes before the last micro-step are used."""
    runs_as_without_graphs(folder, "_fused_adamw_", [f"1: {OTHER}the parameter features.0.0.weight"], 1, rank=1, np=2, gpus=2, **RANKS)


if __name__ == "__main__":
    fake_gpu.main([networks_give_the_same_numbers, phases_give_the_same_numbers, options_give_the_same_numbers,
                   ranks_give_the_same_numbers, any_order_of_streams_gives_the_same_numbers, a_run_goes_on_where_it_was_saved,
                   a_step_asks_for_few_launches, what_cannot_be_captured_runs_without_graphs, spoiled_graphs_are_not_used,
                   a_spoiled_graph_of_one_rank_is_used_by_none], [
                       spoiled_graphs_of_ranks_on_one_gpu_are_not_used,
                       other_networks_give_the_same_numbers, a_step_of_a_large_network_asks_for_few_launches,
                       few_lengths_give_the_same_numbers, other_options_give_the_same_numbers,
                       ranks_on_one_gpu_give_the_same_numbers, ranks_with_other_lengths_give_the_same_numbers,
                       ranks_with_shared_norms_give_the_same_numbers, any_other_order_of_streams_gives_the_same_numbers,
                       any_order_of_streams_of_two_ranks_gives_the_same_numbers])
