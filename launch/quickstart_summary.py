#!/usr/bin/env python3
"""Summarizes a finished run: its folder, the addresses of its metrics, the test error. Reads only the files of the run.

usage: quickstart_summary.py RUN_FOLDER
"""
import json
import pathlib
import sys


def test_metrics(run):
    """The last test evaluation in metrics.jsonl as a dict, or None. An incomplete last line is skipped."""
    found = None
    for line in (run / "metrics.jsonl").read_text().splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict) and record.get("split") == "test":
            found = record.get("metrics", record)
    return found


def metrics_addresses(run):
    """host:port of the endpoints in the order of the ranks."""
    ranks = json.loads((run / "environment.json").read_text())["ranks"]
    return [rank["metrics"] for rank in ranks if rank["metrics"]]


def main(argv):
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 64
    run = pathlib.Path(argv[1]).resolve()
    metrics = test_metrics(run)
    if metrics is None or "mae" not in metrics:
        print(f"{run}/metrics.jsonl has no test MAE: the run did not finish normally", file=sys.stderr)
        return 1
    angles = ", ".join(f"{angle} {metrics['mae_' + angle]:.2f}" for angle in ("yaw", "pitch", "roll")
                       if f"mae_{angle}" in metrics)
    addresses = metrics_addresses(run)
    print(f"\nrun folder: {run}")
    print("metrics:    " + (", ".join(f"http://{a}/metrics" for a in addresses) + " (while it ran)" if addresses
                            else "there was no endpoint"))
    print(f"test MAE:   {metrics['mae']:.2f} degrees" + (f" ({angles})" if angles else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
