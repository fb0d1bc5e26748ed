"""What a job has left on the machine: shared memory, sockets, temporary files."""

import os
import pathlib
import shutil

SHARED = pathlib.Path("/dev/shm")
BEFORE = set(SHARED.glob("dtrain-*"))  # of other jobs of this machine


def ours(folder):
    """Files and sockets of dtrain itself. `folder` has the job's own folder for temporary files, tmp."""
    found = [str(path) for path in (folder / "tmp").rglob("*") if "dtrain" in path.name]
    found += [str(path) for path in set(SHARED.glob("dtrain-*")) - BEFORE if not is_of_a_living_process(path.name)]
    found += [line.split()[-1] for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:] if str(folder) in line.split()[-1]]
    return found


def is_of_a_living_process(name):
    """dtrain-PID-NUMBER: other jobs of this machine have such files too."""
    process = name.split("-")[1]
    return process.isdigit() and os.path.exists(f"/proc/{process}")


def segments(job):
    """Of Open MPI's shared memory between ranks, of the job with that number."""
    return list(SHARED.glob(f"vader_segment.*.{int(job):x}.*")) if job.isdigit() else []


def of_open_mpi(folder, *jobs):
    return [str(path) for path in (folder / "tmp").iterdir()] + [str(path) for job in jobs for path in segments(job)]


def remove_what_open_mpi_left(folder, job):
    for path in segments(job):
        path.unlink(missing_ok=True)
    for path in (folder / "tmp").iterdir():
        shutil.rmtree(path, ignore_errors=True)
