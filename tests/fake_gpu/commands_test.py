"""Every command, and jobs of several ranks, on fake GPUs from start to end."""

import json

import cases
import fake_gpu
import runner

TRAINED = {**cases.COMMON, **cases.NETWORKS["headpose_cnn"], "run.name": "r", "train.max_steps": 6, "checkpoint.every": "3steps"}
STEPS = runner.flags({key: value for key, value in TRAINED.items() if key not in ("run.name", "train.max_steps")})  # of any run


def train(folder, np=None, code=0, words=(), gpus=1, **changes):
    options = {**TRAINED, **{key.replace("__", "."): value for key, value in changes.items()}}
    result, counts = fake_gpu.counted([*words, *runner.flags(options)], np=np, cwd=folder, gpu_count=gpus)
    return result.expect(code), counts


def the_gpus_are_examined(folder):
    fake_gpu.run(["doctor"], cwd=folder).expect(0, "NVIDIA GeForce RTX 3090")


def a_run_is_evaluated_predicted_with_and_exported(folder):
    cases.make_data(folder, ["headpose"])
    train(folder)
    trained = ["runs/r", "--device", "cuda"]
    for words in [["eval", *trained], ["predict", *trained, "headpose.h5", "--out", "p.csv"], ["bench", "step", "--steps", 5, *STEPS]]:
        result, counts = fake_gpu.counted(words, cwd=folder)
        result.expect(0)
        assert counts[0].of("launch") > 20, (words, counts[0].names("launch"))
    fake_gpu.run(["export", "runs/r", "--format", "onnx", "--out", "r.onnx"], cwd=folder).expect(0)


def a_run_moves_between_gpu_and_cpu(folder):
    cases.make_data(folder, ["headpose"])
    train(folder, train__max_steps=3, device__type="cpu")
    _, (counts,) = train(folder, words=["--resume", "auto"], train__max_steps=6)
    assert counts.steps() == 3 and counts.of("launch", steps=[3]) > 100
    train(folder, words=["--resume", "auto"], train__max_steps=9, device__type="cpu")


def steps_are_traced_measured_planned_and_tuned(folder):
    cases.make_data(folder, ["headpose"])
    for parts in [["--operators"], ["--memory"]]:
        fake_gpu.run(["trace", "--steps", 3, "--out", "t.json", "--force", *parts, *STEPS], cwd=folder).expect(0)
        phases = [e for e in json.loads((folder / "t.json").read_text())["traceEvents"] if e.get("name") == "backward"]
        assert len(phases) >= 3
    fake_gpu.run(["plan", *STEPS], cwd=folder).expect(0)
    fake_gpu.run(["tune", "--minutes", 0.2, *STEPS], cwd=folder).expect(0)


def ranks_use_their_own_gpu_alone(folder, jobs=((2, 1, "staged"), (4, 4, "nccl"), (4, 2, "staged")), shared=True):
    cases.make_data(folder, ["headpose"])
    for ranks, gpus, transport in jobs:
        result, counts = train(folder, np=ranks, gpus=gpus, run__name=f"r{ranks}{gpus}{shared}", train__batch_size=4, train__sync_batch_norm=shared,
                               checkpoint__every="never")
        assert f"gradients  {transport}" in result.output, result.output
        contexts = sorted("".join(one.names("context")) for one in counts)
        assert contexts == sorted(f"GPU {rank % gpus}" for rank in range(ranks)), contexts


def four_ranks_use_one_gpu(folder):
    ranks_use_their_own_gpu_alone(folder, [(4, 1, "staged")])


def ranks_with_norms_of_their_own_use_their_own_gpu_alone(folder):
    ranks_use_their_own_gpu_alone(folder, [(2, 1, "staged"), (4, 1, "staged"), (4, 4, "nccl"), (4, 2, "staged")], shared=False)


if __name__ == "__main__":
    # What the others do is compared by numbers_test.py and commands_numbers_test.py in the default run.
    fake_gpu.main([the_gpus_are_examined, ranks_use_their_own_gpu_alone],
                  [a_run_is_evaluated_predicted_with_and_exported, a_run_moves_between_gpu_and_cpu, steps_are_traced_measured_planned_and_tuned,
                   four_ranks_use_one_gpu, ranks_with_norms_of_their_own_use_their_own_gpu_alone])
