"""Each wait of the program on the GPU's path is left out once, in several orders of streams: the numbers of the training are wrong then, or
it fails, or a reason is listed here why it does not need the wait."""

import collections
import concurrent.futures
import subprocess
import tempfile

import cases
import contract_test
import fake_gpu
import numbers_test
import runner

TIMES = ["PhaseClock::", "BackwardTimes::", "NcclCommunicator::drain"]  # no number of the training depends on them
# Waits that a training does not need, by kind and function.
UNNOTICED = {
    ("cudaEventQuery", "wait_for_device"): "the copy to the host that follows waits too; this one looks after other ranks meanwhile",
    ("cudaStreamSynchronize", "CudaStage::~CudaStage"): "a training ends there; one that tune or bench cuts short does not",
    ("record_stream", "CudaStage::begin"): "for a batch that was dropped while it was copied; a training drops none",
    ("record_stream", "StagedCommunicator::stage"): "buckets live as long as the reducer; communicators_need_to_record_streams notices it",
    ("record_stream", "CommThread::Queue::run_next"): "the same, on the way back",
    ("record_stream", "SideStream::run"): "the same, over NCCL",
}
# Nothing waits for a step but the last one, so that much is in progress at once, and host memory is soon used again.
AHEAD = {"train.amp": "bf16", "train.max_steps": 12, "run.log_every": "1000steps", "data.prefetch": 1}
HEADPOSE = {**cases.NETWORKS["headpose_cnn"], **AHEAD}
RUNS = {
    "one rank": (dict(np=None, gpu_count=1), HEADPOSE),
    "lengths": (dict(np=None, gpu_count=1), {**cases.NETWORKS["pointer"], **AHEAD}),
    "staged": (dict(np=2, gpu_count=1), {**HEADPOSE, "train.batch_size": 4, "dist.wire": "bf16"}),
    "NCCL": (dict(np=2, gpu_count=2), {**HEADPOSE, "train.batch_size": 4, "dist.wire": "bf16"}),
}

Wait = collections.namedtuple("Wait", "key kind functions")  # functions: of the program, innermost first


def train(folder, run, **settings):
    """The steps of a training; None if it failed."""
    where, options = RUNS[run]
    name = tempfile.mkdtemp(dir=folder, prefix="run-").rsplit("/", 1)[1]
    keys = {**numbers_test.CHECKED, **options, "device.type": "cuda", "run.name": f"r-{name}"}
    try:
        result = fake_gpu.compute(runner.flags(keys), cwd=folder, timeout=60, **where, **settings)
    except subprocess.TimeoutExpired:
        return None
    if result.code != 0:
        return None
    return numbers_test.steps_of(folder, f"r-{name}")


def short(name):
    """Without arguments of functions and templates."""
    depth, out = 0, ""
    for letter in name.replace("(anonymous namespace)::", ""):
        depth += letter in "(<"
        out += "" if depth else letter
        depth -= letter in ")>"
    return out


def function_names(program, addresses):
    out = subprocess.run(["addr2line", "-f", "-C", "-e", program, *addresses], capture_output=True, text=True, check=True).stdout
    return tuple(short(name) for name in out.splitlines()[::2])


def places(file, program):
    """The waits that a process of the program has written to the file."""
    lines = sorted({tuple(line.split("\t")) for line in file.read_text().splitlines()})
    return [Wait(key, kind, function_names(program, addresses)) for key, kind, *addresses in lines]


def waits_of(folder, run):
    """The places where the training waits, and its numbers."""
    file = folder / f"{run}.waits"
    numbers = train(folder, run, gpu_order=0, gpu_waits=file)
    assert numbers, "it failed"
    assert all(train(folder, run, gpu_order=order) == numbers for order in fake_gpu.ORDERS[1:]), "they depend on the order"
    waits = places(file, fake_gpu.FOLDER / "numbers/dtrain_numbers")
    return [wait for wait in waits if not any(word in name for word in TIMES for name in wait.functions)], numbers


def each_wait_is_needed(folder):
    cases.make_data(folder, ["headpose", "pointer"])
    noticed, known = {}, {}
    for run in RUNS:
        waits, numbers = waits_of(folder, run)
        left = [wait for wait in waits if not noticed.get(wait.key)]
        known.update({wait.key: wait for wait in waits})
        for order in fake_gpu.ORDERS:
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                found = list(pool.map(lambda wait: train(folder, run, gpu_order=order, gpu_without=wait.key) != numbers, left))
            noticed.update({wait.key: True for wait, wrong in zip(left, found) if wrong})
            left = [wait for wait in left if not noticed.get(wait.key)]
        for wait in waits:
            print(f"        {run:9s} {'noticed' if noticed.get(wait.key) else '-':8s} {wait.kind:22s} {' < '.join(wait.functions)}", flush=True)
    left = [wait for wait in known.values() if not noticed.get(wait.key)]
    reasons = {wait: [reason for reason in UNNOTICED if wait.kind == reason[0] and any(reason[1] in name for name in wait.functions)] for wait in left}
    assert all(reasons.values()), [wait for wait in left if not reasons[wait]]
    stale = set(UNNOTICED) - {reason for found in reasons.values() for reason in found}
    assert not stale, stale


def communicators_need_to_record_streams(folder):
    """NCCL and staged. Of the places in one function, one is enough: a staged all_reduce or broadcast keeps its tensor until it has been
    copied to the host, and an all_gather does not."""
    where, file = dict(ranks=2, gpus=2, cases="*Dropped"), folder / "contract.waits"
    contract_test.contract(**where, order=0, gpu_waits=file).expect(0)
    noticed = {}
    for wait in places(file, contract_test.PROGRAM):
        function = wait.functions[0]
        if wait.kind == "record_stream" and not noticed.get(function):
            noticed[function] = any(contract_test.contract(**where, order=order, gpu_without=wait.key).code for order in (2, 3, 0))
    listed = [function for kind, function in UNNOTICED if kind == "record_stream" and function != "CudaStage::begin"]
    assert len(noticed) == len(listed) and all(noticed.values()), (noticed, listed)


if __name__ == "__main__":
    fake_gpu.main([], [communicators_need_to_record_streams, each_wait_is_needed])
