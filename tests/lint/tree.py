"""The files of this project, as the lint tests see them: what git tracks, and what it would if added."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(os.environ.get("DTRAIN_SOURCE") or pathlib.Path(__file__).resolve().parents[2])


def files(*patterns):
    """Paths relative to ROOT whose name matches any of the globs (all files without one), sorted."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True).stdout.split("\0")
    paths = [pathlib.PurePosixPath(name) for name in listed if name and (ROOT / name).is_file()]
    return sorted(path for path in paths if not patterns or any(path.match(pattern) for pattern in patterns))


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")
