"""The files of this project for the lint tests: those that git tracks, and new ones that it does not ignore."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(os.environ.get("DTRAIN_SOURCE") or pathlib.Path(__file__).resolve().parents[2])


def files(*patterns):
    """Returns sorted paths relative to ROOT that match any of the globs (all files if there are no globs)."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True).stdout.split("\0")
    paths = [pathlib.PurePosixPath(name) for name in listed if name and (ROOT / name).is_file()]
    return sorted(path for path in paths if not patterns or any(path.match(pattern) for pattern in patterns))


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")
