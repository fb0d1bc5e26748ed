"""The tables of step_vs_python.py, from its JSON lines: ratios with their intervals, bars, memory, start, and dtrain's phases."""

import collections
import math
import statistics

import step_sides

# 97.5 % quantiles of Student's t by degrees of freedom, from 1.
T = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093]
LEAST_ROUNDS = 3
SCALING = 0.95
EXPOSED = 0.05  # of a step may be waiting for gradients
UNEQUAL_NOISE = 1.1  # the host was another one during the second of two runs: they are not compared
REFERENCE = "tcmalloc"  # of the bars of memory
SMALLER = {"headpose_cnn": 0.9, "pointer": 0.9, "sequence": 0.9}  # others: 1.0

CELL = ("network", "size", "ranks", "precision")

Ratio = collections.namedtuple("Ratio", "ours theirs mid low high rounds")


def has_bars(size, precision):
    """Others are reported alone."""
    return size != 64 and precision == "fp32"


def least_ratio(network, size, precision, peer):
    """dtrain must be at least this many times as fast, at the lower end of the interval; None: no bar."""
    if not has_bars(size, precision):
        return None
    if peer == step_sides.ALONE:
        return SCALING
    if network in step_sides.FORMS:
        return 2.5 if step_sides.PEERS[peer].get("form", "usual") == "usual" else 1.2
    if network == "mobilenet_v2":
        return 1.15 if peer == "compile" else 1.3
    return {"headpose_cnn": 1.15, "simple_cnn": 1.2}.get(network, 1.0)


def interval(ratios):
    """(middle, low, high): the geometric mean and its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mid = statistics.mean(logs)
    if len(logs) < 2:
        return math.exp(mid), 0, math.inf
    quantile = T[len(logs) - 2] if len(logs) - 2 < len(T) else 1.96 + 2.6 / (len(logs) - 1)
    half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mid), math.exp(mid - half), math.exp(mid + half)


def cell_of(line):
    return tuple(line[key] for key in CELL)


def counts(line):
    return line["other_load"] <= step_sides.MOST_OTHER_LOAD


def pairs(lines):
    """{cell: {peer: [(rate of dtrain, of the peer)]}} of the rounds in which no other process disturbed them, and in which the host was as noisy during both."""
    rounds = collections.defaultdict(dict)
    for line in lines:
        if line["kind"] == "run" and counts(line):
            rounds[cell_of(line), line["session"], line["round"]][line["side"]] = line
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for (cell, _, _), sides in rounds.items():
        for peer in sides.keys() - {"dtrain"}:
            if "dtrain" in sides and are_alike(sides["dtrain"], sides[peer]):
                found[cell][peer].append((sides["dtrain"]["rate"], sides[peer]["rate"]))
    return found


def are_alike(a, b):
    return max(a["noise"], b["noise"]) <= UNEQUAL_NOISE * min(a["noise"], b["noise"])


def ratios(lines):
    """{cell: {peer: Ratio}} of pairs()."""
    return {cell: {peer: Ratio(statistics.median(a for a, _ in found), statistics.median(b for _, b in found),
                               *interval([a / b for a, b in found]), len(found)) for peer, found in peers.items()}
            for cell, peers in pairs(lines).items()}


def is_narrow(ratio, widest):
    return ratio.rounds >= LEAST_ROUNDS and (ratio.high - ratio.low) / ratio.mid <= widest


def verdict(is_met, rounds=LEAST_ROUNDS):
    if rounds < LEAST_ROUNDS:
        return "too few rounds"
    return "met" if is_met else "**missed**"


def where(cell):
    network, size, ranks, precision = cell
    return f"{network} | {size or ''} | {ranks}×{step_sides.CORES // ranks} | {precision}"


def order(cell):
    names = ("headpose_cnn", "simple_cnn", "mobilenet_v2", "resnet18", "resnet50", "pointer", "sequence")
    return names.index(cell[0]), -cell[1], cell[3] != "fp32", cell[2]


def speed_table(found):
    missed = []
    print("| network | size | ranks × threads | precision | against | dtrain samples/s | theirs | dtrain is | 95 % interval | rounds | bar | |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for cell in sorted(found, key=order):
        for peer, r in sorted(found[cell].items(), key=lambda item: (item[0] == step_sides.ALONE, -item[1].theirs)):
            bar = least_ratio(cell[0], cell[1], cell[3], peer)
            is_met = bar is None or r.low >= bar
            if not is_met:
                missed.append(f"{cell[0]} {cell[2]}×{step_sides.CORES // cell[2]} against {peer}: {verdict(is_met, r.rounds).strip('*')}"
                              f" ({r.mid:.2f}, at least {r.low:.2f}; the bar is {bar})")
            span = f"{r.low:.3f} to {r.high:.3f}" if r.rounds > 1 else "–"
            print(f"| {where(cell)} | {peer} | {r.ours:.1f} | {r.theirs:.1f} | {r.mid:.3f} × | {span} | {r.rounds} | "
                  f"{'–' if bar is None else bar} | {'' if bar is None else verdict(is_met, r.rounds)} |")
    return missed


def median_of(lines, cell, side, key):
    """Of all undisturbed lines, or of all if none is."""
    having = [line for line in lines if cell_of(line) == cell and line["side"] == side and key in line]
    values = [line[key] for line in [line for line in having if counts(line)] or having]
    return statistics.median(values) if values else None


def memory_table(lines, cells):
    """Peak memory of the same number of workers that is fastest for PyTorch, and the time until the end of the first step."""
    missed = []
    print("\n| network | size | ranks × threads | precision | PSS MB: dtrain | PyTorch | share | bar | | first step s: dtrain | PyTorch | "
          "compiled, warm-up s: first | later | workers |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for cell in sorted(cells, key=order):
        workers = best_workers(lines, cell)
        theirs = next((line["pss_bytes"] for line in lines if line["kind"] == "probe" and cell_of(line) == cell and line["side"] == REFERENCE and
                       line["workers"] == workers), None)
        ours = median_of(lines, cell, "dtrain", "pss_bytes")
        if not ours or not theirs:
            continue
        bar = SMALLER.get(cell[0], 1.0) if has_bars(cell[1], cell[3]) else None
        is_met = bar is None or ours / theirs <= bar
        if not is_met:
            missed.append(f"{cell[0]} {cell[2]}×{step_sides.CORES // cell[2]}: {ours / theirs:.2f} of the memory, the bar is {bar}")
        starts = [median_of(lines, cell, side, "first_step_seconds") for side in ("dtrain", REFERENCE)]
        warm = [line["warmup_seconds"] for line in lines if line["kind"] == "run" and cell_of(line) == cell and line["side"] == "compile"]
        print(f"| {where(cell)} | {ours / 1e6:.0f} | {theirs / 1e6:.0f} | {ours / theirs:.2f} | {bar or '–'} | {'' if bar is None else verdict(is_met)} | "
              f"{starts[0]:.1f} | {starts[1]:.1f} | {f'{max(warm):.0f} | {min(warm):.0f}' if warm else '– | –'} | {workers} |")
    return missed


def best_workers(lines, cell):
    """Of the DataLoader, where it is fastest; None: not measured."""
    of_cell = [line for line in lines if line["kind"] == "probe" and cell_of(line) == cell and line["side"] == REFERENCE]
    rates = {line["workers"]: line["rate"] for line in [line for line in of_cell if counts(line)] or of_cell}
    return max(rates, key=rates.get) if rates else None


def phase_table(lines, cells):
    missed = []
    names = ("data_wait", "forward", "backward", "allreduce_wait", "optimizer")
    print("\n| dtrain's step | size | ranks × threads | precision | ms | " + " | ".join(names) + " | other | waiting for gradients |")
    print("|---" * (7 + len(names)) + "|")
    for cell in sorted(cells, key=order):
        runs = [line for line in lines if line["kind"] == "run" and cell_of(line) == cell and line["side"] == "dtrain" and counts(line)]
        if not runs:
            continue
        seconds = statistics.median(run["step_seconds"] for run in runs)
        shares = [statistics.median(run["phase_seconds"][name] / run["step_seconds"] for run in runs) for name in names]
        exposed = shares[names.index("allreduce_wait")]
        judged = verdict(exposed <= EXPOSED, len(runs)) if cell[2] > 1 and has_bars(cell[1], cell[3]) else ""
        if judged not in ("", "met"):
            missed.append(f"{cell[0]} {cell[2]}×{step_sides.CORES // cell[2]}: {judged.strip('*')}: it waits for gradients "
                          f"{100 * exposed:.1f} % of a step; the bar is {100 * EXPOSED:.0f} %")
        print(f"| {where(cell)} | {1000 * seconds:.1f} | " + " | ".join(f"{100 * share:.1f} %" for share in [*shares, 1 - sum(shares)]) + f" | {judged} |")
    return missed


def print_report(lines):
    """Prints the tables and returns the bars that are not met."""
    found = ratios(lines)
    missed = speed_table(found) + memory_table(lines, found) + phase_table(lines, found)
    runs = [line for line in lines if line["kind"] == "run"]
    if runs:
        disturbed = sum(not counts(run) for run in runs)
        print(f"\n{len(runs)} runs; {disturbed} do not count, because other processes used more than {100 * step_sides.MOST_OTHER_LOAD:.0f} % of the cores. "
              f"Noise of the others (bench/machine_noise.py): median {statistics.median(run['noise'] for run in runs):.2f}, "
              f"largest {max(run['noise'] for run in runs):.2f} (1: none). A pair of runs is left out where one had {100 * (UNEQUAL_NOISE - 1):.0f} % more than the other.")
    for line in missed:
        print("not met:", line)
    return missed
