"""Judges what a program on a GPU has written, because an exit code of 0 says little. Every function returns a list of problems as
text, which is empty if all is well. Pure: tests/lint/gpu_scripts_test.py runs them without a GPU."""
import math
import re


def is_number(value):
    return isinstance(value, (int, float)) and math.isfinite(value)


def training(records, learns=True):
    """The records of metrics.jsonl of one training. learns: the loss must have fallen."""
    steps = [r for r in records if r.get("kind") == "step"]
    if not steps:
        return ["metrics.jsonl has no step"]
    problems = []
    losses = [r.get("loss") for r in steps]
    if not all(is_number(loss) for loss in losses):
        return [f"losses that are not finite: {losses}"]
    quarter = max(1, len(losses) // 4)
    first, last = sum(losses[:quarter]) / quarter, sum(losses[-quarter:]) / quarter
    if learns and len(losses) > 1 and not last < first:
        problems.append(f"nothing was learned: the loss was {first:.4g} and is {last:.4g}")
    for name in ("samples_per_second", "memory_used_bytes"):
        if not all(is_number(r.get(name)) and r[name] > 0 for r in steps[1:]):
            problems.append(f"{name} is not positive everywhere: {[r.get(name) for r in steps]}")
    for record in records:
        bad = {name: value for name, value in record.get("metrics", {}).items() if not is_number(value)}
        if bad:
            problems.append(f"metrics of the {record.get('split')} split that are not finite: {bad}")
    return problems


def losses_by_step(records):
    return {r["step"]: r["loss"] for r in records if r.get("kind") == "step"}


def equal_losses(what, a, b, tolerance=0.0):
    """Two {step: loss}: the same steps, and losses that differ by at most this share."""
    if not a or sorted(a) != sorted(b):
        return [f"{what}: steps {sorted(a)} and {sorted(b)}"]
    different = [step for step in sorted(a)
                 if not (is_number(a[step]) and is_number(b[step]) and abs(a[step] - b[step]) <= tolerance * abs(b[step]))]
    if not different:
        return []
    return [f"{what}: the losses differ in step {different[0]}: {[a[s] for s in sorted(a)]}, then {[b[s] for s in sorted(b)]}"]


def captured(log, micro_steps):
    """The log of a run says that this number of micro-steps was captured in CUDA graphs."""
    found = log.count("micro-step of a step is captured")
    return [] if found == micro_steps else [f"{found} micro-steps were captured, not {micro_steps}: {log[-500:]}"]


def evaluation(report, trained):
    """The JSON of `dtrain eval` and the metrics of the test split that the training measured with the same weights."""
    mine = report.get("metrics", {})
    if not mine or sorted(mine) != sorted(trained):
        return [f"eval has the metrics {sorted(mine)}, the training {sorted(trained)}"]
    # Rounding may flip what is said of two samples that are close to a border.
    flipped = 2.001 / max(1, report.get("samples", 0))

    def tolerance(name):
        share = re.search(r"^top\d|accuracy|f1$", name)
        return max(flipped if share else 0, 1e-2 * max(0.1, abs(trained[name])))
    different = {name: (mine[name], trained[name]) for name in mine
                 if not (is_number(mine[name]) and is_number(trained[name]) and abs(mine[name] - trained[name]) <= tolerance(name))}
    return [f"eval and training differ: {different}"] if different else []


def metrics_page(page, steps):
    """A page of the Prometheus endpoint, scraped after the last step."""
    def value(name, *labels):
        for line in page.splitlines():
            if re.match(name + r"[{ ]", line) and all(label in line for label in labels):
                return float(line.rsplit(" ", 1)[1])
        return None
    problems = []
    wanted = {"dtrain_steps_total": steps, "dtrain_gpus": 1}
    for name, number in wanted.items():
        if value(name) != number:
            problems.append(f"{name} is {value(name)}, not {number}")
    for name, *labels in (("dtrain_loss", 'split="train"'), ("dtrain_gpu_memory_used_bytes",), ("dtrain_gpu_memory_total_bytes",),
                          ("dtrain_gpu_temperature_celsius",), ("dtrain_device_memory_bytes", 'kind="allocated"'),
                          ("dtrain_device_memory_bytes", 'kind="peak"')):
        number = value(name, *labels)
        if not is_number(number) or number <= 0:
            problems.append(f"{name}{labels or ''} is {number}")
    utilization = value("dtrain_gpu_utilization_ratio")
    if utilization is None or not 0 <= utilization <= 1:
        problems.append(f"dtrain_gpu_utilization_ratio is {utilization}")
    return problems


def out_of_memory(code, output):
    problems = [] if code == 69 else [f"exit code {code}, not 69"]
    for pattern in (r"out of memory on cuda:0( for a tensor of [\d.]+ [KMGT]?i?B)? with a micro-batch of", r"--batch-size \d+",
                    r"Predicted savings:"):
        if not re.search(pattern, output):
            problems.append(f"{pattern!r} is not in the output: {output[-500:]}")
    return problems


def slices_of(content):
    """{thread: [slices]} of the one rank of a trace, in the format of trace viewers."""
    threads = {e["tid"]: e["args"]["name"] for e in content["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"}
    slices = {name: [] for name in threads.values()}
    for event in content["traceEvents"]:
        if event["ph"] == "X":
            slices[threads[event["tid"]]].append(event)
    return slices


def end_of(event):
    return event["ts"] + event["dur"]


def kernels_of_a_trace(slices, phases):
    kernels = [e for events in slices.values() for e in events if e["cat"] == "kernel"]
    if len(kernels) < 30:
        return [f"{len(kernels)} kernels in 3 steps"]
    inside = sum(max(0, min(end_of(k), end_of(p)) - max(k["ts"], p["ts"])) for k in kernels for p in phases)
    everything = sum(k["dur"] for k in kernels)
    return [] if inside >= 0.9 * everything else [f"{inside:.0f} of {everything:.0f} us of the kernels are in the phases of the device"]


def peaks_of_a_trace(content, peaks):
    problems = []
    if [peak["pass"] for peak in peaks] != ["forward", "backward"]:
        return [f"peaks of {[peak['pass'] for peak in peaks]}, not of forward and backward"]
    for peak in peaks:
        held = sum(one["bytes"] for one in peak["held"]) + peak["others_bytes"]
        if not peak["bytes"] > 0 or held != peak["bytes"]:
            problems.append(f"{held} of {peak['bytes']} bytes are held at the peak of {peak['pass']}")
        if not any(one["operator"] for one in peak["held"]):
            problems.append(f"no operator holds memory at the peak of {peak['pass']}")
    if not any(e["ph"] == "C" and e["name"] == "tensor memory" for e in content["traceEvents"]):
        problems.append("there is no counter of tensor memory")
    return problems


def trace(content, summary, flag):
    """The file and the JSON of `dtrain trace --steps 3 FLAG` on one GPU, where FLAG is --operators or --memory."""
    slices = slices_of(content)
    steps = [e for events in slices.values() for e in events if e["cat"] == "step"]
    if len(steps) != 3:
        return [f"{len(steps)} steps, not 3"]
    problems = []
    begin, end = min(e["ts"] for e in steps), max(end_of(e) for e in steps)
    phases = slices.get("cuda:0 phases", [])
    missing = {"forward", "backward", "optimizer"} - {e["name"] for e in phases}
    if missing:
        problems.append(f"the device has no phase {', '.join(sorted(missing))}")
    # The device runs behind the host; where its clock is placed is known to less than a millisecond.
    outside = [e for e in phases if e["ts"] < begin - 1000 or end_of(e) > end + (end - begin) + 1000]
    if outside:
        problems.append(f"a phase of the device is at {outside[0]['ts']} us, the steps are from {begin} to {end}: {outside[0]['name']}")
    left_out = sum(rank["left_out"] for rank in summary["ranks"])
    if left_out:
        problems.append(f"{left_out} events were left out")
    if flag == "--operators":
        if not any("CUPTI" in part for part in summary["not_measured"]):
            problems += kernels_of_a_trace(slices, phases)
        if not any(e["cat"] == "backward operator" and e["args"].get("module") for events in slices.values() for e in events):
            problems.append("no operator of the backward pass has a module")
    else:
        problems += peaks_of_a_trace(content, summary["ranks"][0].get("peaks", []))
    return problems
