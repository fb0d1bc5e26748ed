"""The contract of communicators (tests/gpu/nccl_contract_test.cpp) between fake GPUs that compute: NCCL where each rank has one, else
staged, in orders of streams."""

import fake_gpu
import runner

PROGRAM = fake_gpu.FOLDER.parent / "gpu/nccl_contract_test"
# They keep a GPU busy with large products, which take minutes here. exchange_test.py has two communicators in flight.
TOO_LONG = ["GpuCommunicator.TwoInFlightOnABusyGpuDoNotWaitForEachOther", "GpuCommunicator.WaitDoesNotBlockTheHost"]
PLACES = [(2, 1, 3), (4, 4, 3)]  # ranks, GPUs, order of streams
OTHER_PLACES = [(1, 1, 0), (2, 1, 0), (2, 2, 0), (2, 2, 1)]


def contract(ranks, gpus, order, cases="*", **settings):
    """The contract's result, as runner.run()'s. `cases`: a filter."""
    env = fake_gpu.environment(gpu_numbers=fake_gpu.OPERATORS, gpu_count=gpus, gpu_order=order, **settings)
    return runner.run([f"--gtest_filter={cases}-{':'.join(TOO_LONG)}"], np=ranks, timeout=300, env=env, program=str(PROGRAM))


def holds(folder, places=PLACES):
    for ranks, gpus, order in places:
        result = contract(ranks, gpus, order)
        result.expect(0)
        assert "SKIPPED" not in result.output, result.output


def holds_elsewhere(folder):
    holds(folder, OTHER_PLACES)


if __name__ == "__main__":
    fake_gpu.main([holds], [holds_elsewhere])
