"""What the cases of a matrix gave: counts by cell and exit code, seconds, failures; printed as a table and written as JSON."""

import json
import os
import statistics


class Failure(Exception):
    """A case did not end as it must; the text says how, with the output of the program."""


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def of_seconds(values):
    """median, 95 % and the longest."""
    return {"median": statistics.median(values), "p95": quantile(values, 0.95), "max": max(values)} if values else {}


def text_of_seconds(values):
    found = of_seconds(values)
    return " ".join(f"{found[key]:7.3f}" for key in ("median", "p95", "max")) if found else " " * 23


class Cell:
    def __init__(self):
        self.codes, self.seconds = {}, []

    def cases(self):
        return sum(self.codes.values())


class Record:
    def __init__(self, seed):
        self.seed = seed
        self.cells = {}  # {(kind, name of the cell): Cell}
        self.seconds = {}  # {(kind, what was measured): [seconds]}
        self.counts = {}  # {(kind, what was counted): number}
        self.failures = []  # {kind, index, reproduce, text}

    def add(self, kind, name, code, seconds=None):
        """A case that ended as it must."""
        cell = self.cells.setdefault((kind, name), Cell())
        cell.codes[code] = cell.codes.get(code, 0) + 1
        if seconds is not None:
            cell.seconds.append(seconds)

    def measure(self, kind, what, seconds):
        self.seconds.setdefault((kind, what), []).append(seconds)

    def count(self, kind, what, number=1):
        self.counts[kind, what] = self.counts.get((kind, what), 0) + number

    def fail(self, kind, index, text):
        reproduce = f"tests/e2e/signals/run --only {kind} --seed {self.seed} --case {index}"
        self.failures.append({"kind": kind, "case": index, "reproduce": reproduce, "text": text})
        print(f"FAILED  {kind} case {index}: {text}\nagain:  {reproduce}", flush=True)

    def line(self, kind):
        cells = [cell for (of, _), cell in self.cells.items() if of == kind]
        seconds = [s for cell in cells for s in cell.seconds]
        failed = sum(failure["kind"] == kind for failure in self.failures)
        return f"{kind:<8} {sum(c.cases() for c in cells):5} ok {failed:3} failed | seconds: {text_of_seconds(seconds).strip()}"

    def print_table(self):
        print(f"{'kind':<8} {'moment or target':<32} {'cases':>5}  seconds: median     95%     max  exit codes")
        for (kind, name), cell in sorted(self.cells.items()):
            codes = " ".join(f"{code}×{number}" for code, number in sorted(cell.codes.items(), key=str))
            print(f"{kind:<8} {name:<32} {cell.cases():5}          {text_of_seconds(cell.seconds)}  {codes}")
        for (kind, what), seconds in sorted(self.seconds.items()):
            print(f"{kind:<8} {what}: {text_of_seconds(seconds).strip()} s (median, 95 %, longest of {len(seconds)})")
        for (kind, what), number in sorted(self.counts.items()):
            print(f"{kind:<8} {what}: {number}")

    def write(self, path, minutes):
        cells = [{"kind": kind, "name": name, "cases": cell.cases(), "codes": {str(k): v for k, v in cell.codes.items()},
                  "seconds": of_seconds(cell.seconds)} for (kind, name), cell in sorted(self.cells.items())]
        measured = [{"kind": kind, "what": what, "cases": len(s), **of_seconds(s)} for (kind, what), s in sorted(self.seconds.items())]
        counts = [{"kind": kind, "what": what, "number": number} for (kind, what), number in sorted(self.counts.items())]
        with open(path, "w") as file:
            json.dump({"seed": self.seed, "minutes": minutes, "cores": os.cpu_count(), "cells": cells, "seconds": measured,
                       "counts": counts, "failures": self.failures}, file, indent=2)
            file.write("\n")
