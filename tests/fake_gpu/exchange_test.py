"""NCCL between fake GPUs that compute: sums of three processes are those of numpy, also in graphs, and communicators do not wait for each
other."""

import ctypes
import multiprocessing
import os
import subprocess
import sys

import fake_gpu
import numpy as np

RANKS = 3
COUNTS = [1, 1000, 700_000]  # the last one takes several pieces
TYPES = {np.float16: 6, np.float32: 7, np.float64: 8, np.int64: 4, np.uint8: 1}  # ncclDataType_t
OPERATIONS = {0: np.add.reduce, 2: np.max, 3: np.min}  # ncclRedOp_t


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Communicator:
    def __init__(self, unique_id, rank):
        self.nccl = ctypes.CDLL("libnccl.so.2")
        self.comm = ctypes.c_void_p()
        assert self.nccl.ncclCommInitRankConfig(ctypes.byref(self.comm), RANKS, unique_id, rank, None) == 7  # in progress

    def call(self, name, *arguments, stream=None):
        """Arrays are passed by their address."""
        words = [a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else a for a in arguments]
        assert getattr(self.nccl, name)(*words, self.comm, stream) == 7


def given(rank, count, kind):
    return np.random.default_rng(rank).integers(0, 20, count).astype(kind)


def bfloat16(values):
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)  # exact for whole numbers below 256


def check_sums(ids, rank):
    comm = Communicator(ids[0], rank)
    for kind, number in TYPES.items():
        for count in COUNTS:
            rows = [given(r, count, kind) for r in range(RANKS)]
            for operation, fold in OPERATIONS.items():
                out = np.empty(count, kind)
                comm.call("ncclAllReduce", rows[rank], out, ctypes.c_size_t(count), number, operation)
                np.testing.assert_array_equal(out, fold(np.stack(rows), axis=0))
            part = np.empty(count, kind)
            whole = [given(10 + r, count * RANKS, kind) for r in range(RANKS)]
            comm.call("ncclReduceScatter", whole[rank], part, ctypes.c_size_t(count), number, 0)
            np.testing.assert_array_equal(part, np.add.reduce(np.stack(whole)).astype(kind)[rank * count:(rank + 1) * count])
            all_of = np.empty(count * RANKS, kind)
            comm.call("ncclAllGather", rows[rank], all_of, ctypes.c_size_t(count), number)
            np.testing.assert_array_equal(all_of, np.concatenate(rows))
            out = np.zeros(count, kind)
            comm.call("ncclBroadcast", rows[rank], out, ctypes.c_size_t(count), number, 1)
            np.testing.assert_array_equal(out, rows[1])
    rows, out = [given(r, 1000, np.float32) for r in range(RANKS)], np.empty(1000, np.uint16)
    comm.call("ncclAllReduce", bfloat16(rows[rank]), out, ctypes.c_size_t(1000), 9, 0)
    np.testing.assert_array_equal(out, bfloat16(sum(rows)))
    comm.nccl.ncclCommDestroy(comm.comm)


def check_communicators(ids, rank):
    """Two communicators with a stream each. The ranks wait for the streams in different orders."""
    cudart = ctypes.CDLL("libcudart.so.13")
    streams = [ctypes.c_void_p() for _ in ids]
    for stream in streams:
        assert cudart.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
    comms = [Communicator(unique_id, rank) for unique_id in ids]
    for _ in range(20):
        sums = [np.full(10, i + 1, np.float32) for i in range(len(ids))]
        for comm, stream, values in zip(comms, streams, sums):
            comm.call("ncclAllReduce", values, values, ctypes.c_size_t(10), TYPES[np.float32], 0, stream=stream)
        for stream in streams[::-1] if rank == 0 else streams:
            assert cudart.cudaStreamSynchronize(stream) == 0
        for i, values in enumerate(sums):
            np.testing.assert_array_equal(values, np.full(10, RANKS * (i + 1), np.float32))


def check_graph(ids, rank):
    """A graph has an operation of each communicator, on a stream each. Between its launches one of them is used without it."""
    cudart = ctypes.CDLL("libcudart.so.13")

    def ask(name, *arguments):
        assert getattr(cudart, name)(*arguments) == 0, name

    main, side, event, graph, launched = (ctypes.c_void_p() for _ in range(5))
    for stream in (main, side):
        ask("cudaStreamCreateWithFlags", ctypes.byref(stream), 1)
    ask("cudaEventCreateWithFlags", ctypes.byref(event), 2)
    comms = [Communicator(unique_id, rank) for unique_id in ids]
    values, sums = ([np.zeros(10, np.float32) for _ in ids] for _ in range(2))

    def wait(waits, for_this):
        ask("cudaEventRecord", event, for_this)
        ask("cudaStreamWaitEvent", waits, event, 0)

    ask("cudaStreamBeginCapture", main, 0)
    wait(side, main)
    for comm, stream, one, out in zip(comms, (main, side), values, sums):
        comm.call("ncclAllReduce", one, out, ctypes.c_size_t(10), TYPES[np.float32], 0, stream=stream)
    wait(main, side)
    ask("cudaStreamEndCapture", main, ctypes.byref(graph))
    ask("cudaGraphInstantiate", ctypes.byref(launched), graph, ctypes.c_ulonglong(0))
    assert not any(one.any() for one in sums)
    for launch in range(1, 20):
        for i, one in enumerate(values):
            one[:] = rank + 10 * launch + 100 * i
        alone = np.full(10, launch, np.float32)
        ask("cudaGraphLaunch", launched, main)
        comms[0].call("ncclAllReduce", alone, alone, ctypes.c_size_t(10), TYPES[np.float32], 0, stream=side)
        for stream in (side, main) if rank == 0 else (main, side):
            ask("cudaStreamSynchronize", stream)
        for i, out in enumerate(sums):
            np.testing.assert_array_equal(out, np.full(10, sum(range(RANKS)) + RANKS * (10 * launch + 100 * i), np.float32))
        np.testing.assert_array_equal(alone, np.full(10, RANKS * launch, np.float32))


def job(check, communicators):
    """All ranks of one job, forked before the library is loaded."""
    receivers = [multiprocessing.Pipe(duplex=False) for _ in range(RANKS)]
    processes = []
    for rank in range(RANKS):
        pid = os.fork()
        if pid == 0:
            check([UniqueId.from_buffer_copy(receivers[rank][0].recv_bytes()) for _ in range(communicators)], rank)
            os._exit(0)
        processes.append(pid)
    for _ in range(communicators):
        unique_id = UniqueId()
        ctypes.CDLL("libnccl.so.2").ncclGetUniqueId(ctypes.byref(unique_id))
        for _, sender in receivers:
            sender.send_bytes(bytes(unique_id))
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in processes))


def run(check, **settings):
    env = fake_gpu.environment(gpu_numbers=fake_gpu.OPERATORS, **settings)
    done = subprocess.run([sys.executable, __file__, "job", check], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def sums_are_those_of_numpy(folder):
    run("sums")


def communicators_keep_the_order_of_the_host(folder):
    """As NCCL lets them, where it is asked to: one of them would wait for the other, and rank 0 for the other ranks."""
    os.environ["NCCL_LAUNCH_ORDER_IMPLICIT"] = "1"
    for order in fake_gpu.ORDERS:
        run("communicators", gpu_order=order)


def graphs_sum_at_each_launch(folder):
    run("graph")
    os.environ["NCCL_LAUNCH_ORDER_IMPLICIT"] = "1"
    for order in fake_gpu.ORDERS:
        run("graph", gpu_order=order)


if __name__ == "__main__":
    if sys.argv[1:2] == ["job"]:
        job(*{"sums": (check_sums, 1), "communicators": (check_communicators, 2), "graph": (check_graph, 2)}[sys.argv[2]])
    fake_gpu.main([sums_are_those_of_numpy, communicators_keep_the_order_of_the_host, graphs_sum_at_each_launch])
