"""GPUs that fail, are full, too old or missing, and NCCL that fails: the documented exit code and words, each time."""

import concurrent.futures
import re

import cases
import fake_gpu
import runner

FAILED_STEP = 3
SHORT = {**cases.COMMON, "train.max_steps": 4, "run.name": ""}
GRAPHS = {**SHORT, **cases.NETWORKS["headpose_cnn"], "train.max_steps": 7, "train.cuda_graph": True}
NETWORK = cases.NETWORKS["sequence classifier"]  # has dtrain's own kernels, and few of others


def launches(folder, np, options, step, **gpus):
    """How many launches a step of the last rank has, and at which of them a kernel comes for the first time in its phase."""
    result, counts = fake_gpu.counted(runner.flags(options), np=np, cwd=folder, **gpus)
    result.expect(0)
    return counts[-1].of("launch", steps=[step]), counts[-1].first[step]


def expect_report(folder, launch, np, options, step, **gpus):
    rank = (np or 1) - 1
    result = fake_gpu.run(runner.flags(options), np=np, cwd=folder, gpu_fail=f"{step}:{launch}", gpu_fail_rank=rank, **gpus)
    result.expect(69, "an illegal memory access was encountered", "--resume auto continues from the newest checkpoint")
    device = rank % gpus.get("gpu_count", 1)
    assert re.search(rf"cuda:{device} has failed (in|after) step {step}(, phase [a-z0-9_]+)?: ", result.output), result.output
    assert "terminate" not in result.output, result.output
    if np is not None:
        assert f"[rank {rank}] error: " in result.output, result.output


def two_at_a_time(function, arguments):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(function, arguments))  # which raises what a call raised


def each_failure_is_reported(folder, choose, np=None, gpu_count=1, options={**SHORT, **NETWORK}, step=FAILED_STEP):
    """choose(count, first): at which launches the last rank fails, of all and of those of a new kind."""
    cases.make_data(folder, [options["task"]])
    chosen = choose(*launches(folder, np, options, step, gpu_count=gpu_count))
    two_at_a_time(lambda launch: expect_report(folder, launch, np, options, step, gpu_count=gpu_count), chosen)


def all_launches(count, _):
    return range(1, count + 1)


def each_kind(_, first):
    return first


def some_kinds(_, first):
    return first[::8]


def a_gpu_fails_at_some_kinds_of_launch(folder):
    each_failure_is_reported(folder, some_kinds)


def a_gpu_fails_at_each_launch_of_a_step(folder):
    each_failure_is_reported(folder, all_launches)


def a_gpu_fails_at_each_launch_of_a_step_of_graphs(folder):
    each_failure_is_reported(folder, all_launches, options=GRAPHS, step=6)


def one_of_two_gpus_fails_at_each_launch_of_a_step_of_graphs(folder):
    each_failure_is_reported(folder, all_launches, np=2, gpu_count=2, options=GRAPHS, step=6)


def one_of_two_ranks_on_a_gpu_fails(folder):
    each_failure_is_reported(folder, some_kinds, np=2)


def one_of_two_gpus_fails(folder):
    each_failure_is_reported(folder, some_kinds, np=2, gpu_count=2)


def one_of_two_ranks_on_a_gpu_fails_at_each_kind_of_launch(folder):
    each_failure_is_reported(folder, each_kind, np=2)


def one_of_two_gpus_fails_at_each_kind_of_launch(folder):
    each_failure_is_reported(folder, each_kind, np=2, gpu_count=2)


def nccl_fails_at_each_operation(folder):
    cases.make_data(folder, ["headpose"])
    options = {**SHORT, **cases.NETWORKS["headpose_cnn"], "train.max_steps": 2, "dist.bucket_mb": 2, "dist.first_bucket_mb": 1}
    result, counts = fake_gpu.counted(runner.flags(options), np=2, cwd=folder, gpu_count=2)
    operations = sum(count for name, count in counts[0].names("launch").items() if name.startswith("nccl"))
    assert result.code == 0 and operations > 4, (result.output, operations)

    def fail(operation):
        result = fake_gpu.run(runner.flags(options), np=2, cwd=folder, gpu_count=2, nccl_fail=operation)
        result.expect(76, "remote process exited or there was a network error", "dist.backend staged works without NCCL")
        for rank in range(2):
            assert f"[rank {rank}] error: nccl" in result.output, result.output

    two_at_a_time(fail, range(1, operations + 1))


def a_full_gpu_says_what_to_change(folder):
    cases.make_data(folder, ["headpose"])
    options = {**SHORT, **cases.NETWORKS["headpose_cnn"], "train.batch_size": 64, "model.image_size": 64}
    enough, too_little = 512, 24
    fake_gpu.run(runner.flags(options), cwd=folder, gpu_memory_mib=enough).expect(0)
    full = 0
    for mib in range(too_little, enough, (enough - too_little) // 10):
        result = fake_gpu.run(runner.flags(options), cwd=folder, gpu_memory_mib=mib)
        if result.code == 0:
            continue
        full += 1
        result.expect(69, "out of memory on cuda:0", "with a micro-batch of 64 samples", "--batch-size ")
    assert full >= 2, "no limit was too low"


def gpus_that_cannot_be_used_are_refused(folder):
    cases.make_data(folder, ["headpose"])
    options = {**SHORT, **cases.NETWORKS["headpose_cnn"]}

    def run(amp="auto", device="cuda", **gpu):
        return fake_gpu.run(runner.flags({**options, "train.amp": amp, "device.type": device}), cwd=folder, **gpu)

    run(gpu_driver=12080).expect(69, "device.type is cuda, but there is no usable GPU", "driver 580 or newer for CUDA 13")
    run(gpu_driver=12080, device="auto").expect(0, "CPU")
    run(gpu_count=0).expect(69, "device.type is cuda, but there is no usable GPU")
    run(gpu_capability=70).expect(69, "has compute capability 7.0, and dtrain needs 7.5 or newer")
    run(gpu_capability=75, amp="bf16").expect(78, "train.amp: bf16 needs a GPU of compute capability 8.0 or newer; this one has 7.5")
    run(gpu_capability=75).expect(0, "fp16 (auto)")


def a_newer_nccl_is_used_and_an_older_one_refused(folder):
    cases.make_data(folder, ["headpose"])
    words = runner.flags({**SHORT, **cases.NETWORKS["headpose_cnn"], "device.type": "cuda"})

    def run(version):
        return fake_gpu.run(words, np=2, cwd=folder, gpu_count=2, nccl_version=version)

    run(29900).expect(0, "NCCL 2.99.0 is newer than 2.")
    for other in (22000, 30000):
        run(other).expect(69, "dtrain was built with NCCL 2.", "use the NCCL of its LibTorch")


if __name__ == "__main__":
    fake_gpu.main([a_gpu_fails_at_some_kinds_of_launch, a_gpu_fails_at_each_launch_of_a_step_of_graphs,
                   one_of_two_ranks_on_a_gpu_fails, one_of_two_gpus_fails,
                   nccl_fails_at_each_operation, a_full_gpu_says_what_to_change,
                   gpus_that_cannot_be_used_are_refused, a_newer_nccl_is_used_and_an_older_one_refused],
                  [a_gpu_fails_at_each_launch_of_a_step, one_of_two_gpus_fails_at_each_launch_of_a_step_of_graphs,
                   one_of_two_ranks_on_a_gpu_fails_at_each_kind_of_launch,
                   one_of_two_gpus_fails_at_each_kind_of_launch])
