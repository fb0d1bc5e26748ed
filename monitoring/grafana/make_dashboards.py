#!/usr/bin/env python3
"""Writes the dashboards beside it (or into the folder that is named): one function per dashboard, one call per panel.

A test compares the files with what this program writes, and evaluates every expression against a real Prometheus. For a rank without
a GPU or a host without dcgm-exporter, an expression gives a line at 0 that says so: an empty panel always means that something is wrong."""

import json
import pathlib
import sys

RUN = 'job_id=~"$job_id"'
RANKS = RUN + ',rank=~"$rank"'
RATE = "[$__rate_interval]"
# Most counters grow at logging steps alone, which may be farther apart than that.
LOGGED = "[5m]"
EACH_STEP = {"dtrain_samples_total", "dtrain_loader_bytes_total", "dtrain_reduced_bytes_total", "dtrain_gpu_throttle_seconds_total", "dtrain_gpu_energy_joules_total"}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def rate(name, selector=RANKS, by="job_id, rank"):
    return f"sum by ({by}) (rate({name}{{{selector}}}{RATE if name in EACH_STEP else LOGGED}))"


def phase(phases, by="job_id, rank"):
    return rate("dtrain_phase_seconds_total", f'{RANKS},phase=~"{phases}"', by)


def gpu(expression, label="gpu"):
    """The expression, and a line "no GPU" for each rank that has none."""
    return f'{expression} or label_replace(dtrain_gpus{{{RANKS}}} == 0, "{label}", "no GPU", "", "")'


def measured(expression, by="job_id, rank", ranks=RANKS):
    """The expression, and a line "not measured" for each rank (or host) whose kernel or card does not tell it."""
    there = f"max by ({by}) (dtrain_steps_total{{{ranks}}})"
    return f'{expression} or on ({by}) label_replace(0 * {there}, "kind", "not measured", "", "")'


def dcgm(name):
    """A series of dcgm-exporter for the GPU of each rank, and a line "no dcgm-exporter" for each rank without one. Its labels are the
    same in all its versions: UUID is one of them."""
    ours = f'max by (job_id, rank, node, UUID) (label_replace(dtrain_gpu_info{{{RANKS}}}, "UUID", "$1", "gpu_uuid", "(.+)"))'
    return (f"{ours} * on (UUID) group_left () max by (UUID) ({name})"
            f' or on (job_id, rank) label_replace(0 * dtrain_gpus{{{RANKS}}}, "UUID", "no dcgm-exporter", "", "")')


def supervised(expression):
    """The expression, and a line "no supervisor" for each run that dtrain launch did not start."""
    return f'{expression} or on (job_id) label_replace(0 * max by (job_id) (dtrain_planned_steps{{{RUN}}}), "cause", "no supervisor", "", "")'


class Board:
    """Places panels from left to right, and a new line where one does not fit."""

    def __init__(self, uid, title, description, with_rank):
        self.panels, self.x, self.y, self.height = [], 0, 0, 0
        self.board = {
            "id": None, "uid": uid, "title": title, "description": description, "tags": ["dtrain"], "schemaVersion": 39, "version": 1,
            "editable": True, "graphTooltip": 1, "timezone": "browser", "refresh": "10s", "time": {"from": "now-1h", "to": "now"},
            "timepicker": {}, "fiscalYearStartMonth": 0, "weekStart": "", "links": [link("dtrain", tags=["dtrain"])],
            "annotations": {"list": [{
                "name": "Checkpoints", "enable": True, "hide": False, "iconColor": "blue", "datasource": SOURCE,
                "expr": f"dtrain_last_checkpoint_timestamp_seconds{{{RUN}}} * 1000", "useValueForTime": True,
                "titleFormat": "checkpoint of {{job_id}}", "step": "60s"}]},
            "templating": {"list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}, "hide": 0,
                 "includeAll": False, "multi": False, "options": [], "refresh": 1, "regex": ""},
                variable("job_id", "Run", "label_values(dtrain_job_info, job_id)", sort=1)]}}
        if with_rank:
            query = f"label_values(dtrain_steps_total{{{RUN}}}, rank)"
            self.board["templating"]["list"].append(variable("rank", "Rank", query, sort=3))

    def row(self, title):
        self.line()
        self.panels.append({"id": len(self.panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
                            "gridPos": {"h": 1, "w": 24, "x": 0, "y": self.y}})
        self.y += 1

    def line(self):
        self.x, self.y, self.height = 0, self.y + self.height, 0

    def panel(self, kind, title, description, width, height, targets, defaults, options, **more):
        if self.x + width > 24:
            self.line()
        queries = [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
                   for i, (expression, legend) in enumerate(targets)]
        self.panels.append({"id": len(self.panels) + 1, "type": kind, "title": title, "description": description,
                            "gridPos": {"h": height, "w": width, "x": self.x, "y": self.y}, "datasource": SOURCE, "targets": queries,
                            "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options, **more})
        self.x, self.height = self.x + width, max(self.height, height)
        return self.panels[-1]

    def stat(self, title, description, expression, legend="{{job_id}}", unit="none", width=4, steps=(), text="auto", **defaults):
        thresholds = [{"color": "green", "value": None}] + [{"color": color, "value": value} for color, value in steps]
        self.panel("stat", title, description, width, 4, [(expression, legend)],
                   {"custom": {}, "unit": unit, "thresholds": {"mode": "absolute", "steps": thresholds}, **defaults},
                   {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "textMode": text, "colorMode": "value",
                    "graphMode": "none", "justifyMode": "auto", "orientation": "auto"})

    def lines(self, title, description, *targets, unit="none", width=8, height=8, stacked=False, **defaults):
        more = {"repeat": defaults.pop("repeat"), "repeatDirection": "v"} if "repeat" in defaults else {}
        custom = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 0, "showPoints": "never", "spanNulls": False}
        if stacked:
            custom |= {"lineWidth": 0, "fillOpacity": 70, "stacking": {"mode": "normal", "group": "A"}}
        self.panel("timeseries", title, description, width, height, targets, {"custom": custom, "unit": unit, **defaults},
                   {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                    "tooltip": {"mode": "multi", "sort": "desc"}}, **more)

    def heatmap(self, title, description, expression, unit, width=8, height=8):
        made = self.panel("heatmap", title, description, width, height, [(expression, "{{le}}")], {"custom": {}},
                          {"calculate": False, "cellGap": 1, "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
                           "yAxis": {"unit": unit}, "tooltip": {"show": True, "yHistogram": False}})
        made["targets"][0]["format"] = "heatmap"

    def table(self, title, description, expression, hidden, width=24, height=6, **defaults):
        made = self.panel("table", title, description, width, height, [(expression, "")], {"custom": {}, **defaults}, {"showHeader": True},
                          transformations=[{"id": "organize", "options": {"excludeByName": dict.fromkeys(hidden, True)}}])
        made["targets"][0] |= {"format": "table", "instant": True}

    def text(self):
        return json.dumps({**self.board, "panels": self.panels}, indent=1, ensure_ascii=False) + "\n"


def link(title, **more):
    return {"title": title, "type": "dashboards", "url": "", "targetBlank": False, "icon": "external link", "asDropdown": False,
            "includeVars": True, "keepTime": True, "tags": [], "tooltip": "", **more}


def variable(name, label, query, sort):
    return {"name": name, "label": label, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": "var"},
            "definition": query, "refresh": 2, "sort": sort, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}, "hide": 0, "options": [], "regex": ""}


def training():
    b = Board("dtrain", "dtrain: training", "What a run learns, how fast, and what its time goes to.", with_rank=False)
    b.row("The run")
    b.stat("State", "The state that the ranks report.", f"max by (job_id, state) (dtrain_run_state{{{RUN}}} == 1)", "{{state}}", text="name")
    b.stat("Progress", "Optimizer steps done, as a share of the planned ones.",
           f"max by (job_id) (dtrain_steps_total{{{RUN}}}) / on (job_id) max by (job_id) (dtrain_planned_steps{{{RUN}}})", unit="percentunit")
    b.stat("Time left", "At the current rate.", f"dtrain_eta_seconds{{{RUN}}}", unit="dtdurations")
    b.stat("Samples per second", "All ranks together.", rate("dtrain_samples_total", RUN, "job_id"), decimals=1)
    b.stat("Training loss", "Mean over all ranks at the last logging step.", f'dtrain_loss{{{RUN},split="train"}}', decimals=4)
    b.stat("Skipped steps", "fp16: optimizer steps skipped because gradients overflowed. A few at the start are normal.",
           f"sum by (job_id) (dtrain_optimizer_skips_total{{{RUN}}})", steps=[("yellow", 1), ("red", 100)])

    b.row("What it learns")
    b.lines("Loss", "Training (each logging step) and evaluation.", (f"dtrain_loss{{{RUN}}}", "{{job_id}} {{split}}"), width=12)
    b.lines("Evaluation", "Metrics of the last evaluation, as the task names them.",
            (f"dtrain_eval_metric{{{RUN}}}", "{{job_id}} {{split}} {{metric}}"), width=12)
    b.lines("Learning rate", "", (f"dtrain_learning_rate{{{RUN}}}", "{{job_id}}"), height=6)
    b.lines("Gradient norm", "Unscaled, before clipping.", (f"dtrain_grad_norm{{{RUN}}}", "{{job_id}}"), height=6)
    b.lines("Loss scale", "fp16 only; no line otherwise. Below 1 gradients overflow even unscaled.",
            (f"dtrain_amp_loss_scale{{{RUN}}}", "{{job_id}}"), height=6)

    b.row("Where the time goes")
    b.lines("Samples per second", "All ranks together.", (rate("dtrain_samples_total", RUN, "job_id"), "{{job_id}}"))
    share = f"sum by (phase) (rate(dtrain_phase_seconds_total{{{RUN}}}{LOGGED}))"
    whole = f"sum(rate(dtrain_phase_seconds_total{{{RUN}}}{LOGGED}))"
    b.lines("Share of time by phase", "Mean of the ranks. For data_wait try more --data.workers; for allreduce_wait look at the board of the ranks.",
            (f"{share} / on () group_left () {whole}", "{{phase}}"), unit="percentunit", stacked=True, min=0, max=1)
    buckets = f"sum by (job_id, le) (rate(dtrain_step_duration_seconds_bucket{{{RUN}}}{RATE}))"
    b.lines("Step time, median and 95th percentile", "Of the histogram's buckets: a value between two of its limits is estimated.",
            (f"histogram_quantile(0.5, {buckets})", "{{job_id}} median"), (f"histogram_quantile(0.95, {buckets})", "{{job_id}} 95 %"), unit="s")
    verdict = (f'dtrain_verdict_gain_ratio{{{RUN}}} or on (job_id) label_replace(0 * max by (job_id) (dtrain_planned_steps{{{RUN}}}), '
               '"cause", "none", "", "")')
    b.table("Verdict", "What the run would gain in steps per second without the cause that holds it back most, and without its runners-up, "
            "with the setting to change. Judged each minute and at the end. none: not yet judged, or nothing is worth changing.", verdict,
            ["Time", "__name__", "instance", "job", "rank", "local_rank", "node"], height=5, unit="percentunit")
    b.heatmap("Step time", "Number of steps by duration.",
              f"sum by (le) (increase(dtrain_step_duration_seconds_bucket{{{RUN}}}{RATE}))", "s", width=16, height=7)
    b.lines("Evaluation time", "Duration of the last evaluation. Training waits for it.",
            (f"dtrain_eval_duration_seconds{{{RUN}}}", "{{job_id}} {{split}}"), unit="s", height=7)

    b.row("Checkpoints and disk")
    b.stat("Age of the last checkpoint", "The training time that a crash now would lose.",
           f"time() - dtrain_last_checkpoint_timestamp_seconds{{{RUN}}}", unit="dtdurations")
    b.stat("Step of the last checkpoint", "", f"dtrain_last_checkpoint_step{{{RUN}}}")
    b.stat("Time to save", "Training pauses for this time.", f"dtrain_last_checkpoint_duration_seconds{{{RUN}}}", unit="s")
    b.stat("Saved by this process", "Number of checkpoints; older ones are deleted (checkpoint.keep_last).", f"dtrain_checkpoints_total{{{RUN}}}")
    b.stat("Disk left", "Of the disk of the run folder.", f"dtrain_disk_free_bytes{{{RUN}}}", unit="bytes")
    b.stat("Disk used", "Share of the disk of the run folder.", f"1 - dtrain_disk_free_bytes{{{RUN}}} / dtrain_disk_size_bytes{{{RUN}}}",
           unit="percentunit", steps=[("yellow", 0.9), ("red", 0.95)])

    b.row("The supervisor")
    b.stat("Restarts", "By the cause for which dtrain launch started the job again.",
           supervised("sum by (job_id, cause) (dtrain_supervisor_restarts_total{%s})" % RUN), "{{job_id}} {{cause}}", width=6)
    b.stat("Effective training time", "Share of the wall time of the launch in which steps were made that are kept.",
           supervised("dtrain_supervisor_effective_training_time_ratio{%s}" % RUN), "{{job_id}} {{cause}}", unit="percentunit", width=6)
    b.stat("Lost steps", "Made again after restarts.", supervised("dtrain_supervisor_lost_steps_total{%s}" % RUN), "{{job_id}} {{cause}}", width=4)
    b.stat("Ranks", "That run now.", supervised("dtrain_supervisor_ranks{%s}" % RUN), "{{job_id}} {{cause}}", width=4)
    b.stat("Hosts lost", "That do not answer.", supervised("dtrain_supervisor_hosts_lost{%s}" % RUN), "{{job_id}} {{cause}}", width=4,
           steps=[("red", 1)])
    return b


def ranks():
    b = Board("dtrain-ranks", "dtrain: ranks and stragglers", "Which rank is slow, and in which part of its steps.", with_rank=True)
    compute = phase("forward|backward")
    # Not filtered by rank: the median is that of the run.
    all_compute = rate("dtrain_phase_seconds_total", f'{RUN},phase=~"forward|backward"')
    b.row("Who is slow")
    b.stat("Ranks that answer", "Listed endpoints that answer the scrape, as a share. Below 1 a rank has ended.",
           f'avg by (job_id) (up{{job="dtrain",rank!="",{RUN}}})', unit="percentunit", width=6)
    b.stat("Slowest against the median", "Compute time of the slowest rank, divided by the median rank's. 1: all are alike.",
           f"max by (job_id) ({all_compute}) / quantile by (job_id) (0.5, {all_compute})", width=6, decimals=2,
           steps=[("yellow", 1.1), ("red", 1.2)])
    b.stat("Since the last step", "Of the rank whose last step is the oldest.",
           f"time() - min by (job_id) (dtrain_last_step_timestamp_seconds{{{RUN}}})", unit="dtdurations", width=6)
    b.stat("Steps between ranks", "Difference of the steps done. Ranks train in step: more than a few means that one hangs.",
           f"max by (job_id) (dtrain_steps_total{{{RUN}}}) - min by (job_id) (dtrain_steps_total{{{RUN}}})", width=6, steps=[("red", 10)])
    name = "{{job_id}} rank {{rank}}"
    b.lines("Compute by rank", "Seconds of forward and backward per second. Step time is the same on all ranks, because they wait for each "
            "other; a straggler shows here.", (compute, name), unit="percentunit", width=12)
    b.lines("Compute against the median rank", "1: as long as the median rank's forward and backward. The alert DtrainStraggler fires above 1.2.",
            (f"{compute} / on (job_id) group_left () quantile by (job_id) (0.5, {all_compute})", name), width=12)
    b.lines("Waiting for data by rank", "Share of its time that a rank waited for a batch. The same rank always: its disk or cores. "
            "Another rank each time: loading is too slow everywhere.", (phase("data_wait"), name), unit="percentunit")
    b.lines("Waiting in the all-reduce by rank", "The part that does not overlap with backward. The rank that waits least is the one that "
            "the others wait for; what all of them wait is the network.", (phase("allreduce_wait"), name), unit="percentunit")
    b.lines("Other phases by rank", "Copy to the device, optimizer, checkpoint and evaluation.",
            (phase("h2d|optimizer|checkpoint|eval", "job_id, rank, phase"), name + " {{phase}}"), unit="percentunit")

    b.row("Data")
    b.lines("Batches ready", "An empty queue means that the loader is too slow.", (f"dtrain_loader_queue_depth{{{RANKS}}}", name), height=7)
    b.lines("Share of the read-ahead that is ready", "Mean of data.prefetch. Near 1 the readers wait for the network, near 0 the network waits "
            "for them.", (f"dtrain_loader_queue_ratio{{{RANKS}}}", name), unit="percentunit", height=7, min=0, max=1)
    b.lines("Read from the data set", "", (rate("dtrain_loader_bytes_total"), name), unit="Bps", height=7)
    b.lines("Reader threads by stage", "How many of them are at work in each stage, on average. The largest stage is the one to make faster.",
            (rate("dtrain_loader_seconds_total", by="job_id, rank, stage"), name + " {{stage}}"), height=7)
    b.lines("Waits between loader and training", "empty: training waits, because no batch is ready; full: reader threads wait, "
            "because all of data.prefetch is read ahead. Seconds per second.", (rate("dtrain_loader_wait_seconds_total", by="job_id, rank, side"), name + " {{side}}"), height=7)
    by = "job_id, rank, readers"
    b.lines("Time of a sample", "In a reader thread: of the batches that half of the threads read alone (few), and of the others (many). If many is "
            "longer, the readers are in each other's way.",
            (f'{rate("dtrain_loader_service_seconds_total", by=by)} / {rate("dtrain_loader_samples_total", by=by)}', name + " {{readers}}"),
            unit="s", height=7)

    b.row("Cores and disk (what a kernel does not tell is a line \"not measured\" at 0)")
    b.lines("Waiting for a core by rank", "Share of time in which the thread of the network could run, but no core was free: more threads than "
            "cores, or other processes.", (measured(rate("dtrain_run_delay_seconds_total")), name + " {{kind}}"), unit="percentunit", height=7)
    b.lines("Cores busy by rank", "CPU time of all threads per second.", (measured(rate("dtrain_cpu_seconds_total")), name + " {{kind}}"), height=7)
    b.lines("Throttled by the control group", "Seconds per second, summed over cores. Ranks in one group all show the group's.",
            (measured(rate("dtrain_cpu_throttled_seconds_total")), name + " {{kind}}"), height=7)
    b.lines("Read from disks by rank", "What does not come from the page cache.",
            (measured(rate("dtrain_disk_read_bytes_total")), name + " {{kind}}"), unit="Bps", width=12, height=7)
    b.lines("Major faults by rank", "Pages of memory per second that had to be read from a disk.",
            (measured(rate("dtrain_major_faults_total")), name + " {{kind}}"), width=12, height=7)

    b.row("Communication")
    b.lines("Gradients reduced", "Bytes that each rank passes to all-reduce.", (rate("dtrain_reduced_bytes_total"), name), unit="Bps", height=7)
    kind = "job_id, communicator, op"
    b.lines("Time in collective operations", "Share of time, mean of the ranks, with the wait for ranks that began later. Most of the "
            "gradients' overlaps with backward.",
            (f"avg by ({kind}) (rate(dtrain_collective_seconds_total{{{RANKS}}}{LOGGED}))", "{{job_id}} {{communicator}} {{op}}"),
            unit="percentunit", height=7)
    b.lines("Speed of collective operations", "Bytes by seconds of the rank that waits least: a lower bound of what the network gives.",
            (f"max by ({kind}) (rate(dtrain_collective_bytes_total{{{RANKS}}}{LOGGED}) / rate(dtrain_collective_seconds_total{{{RANKS}}}{LOGGED}))",
             "{{job_id}} {{communicator}} {{op}}"), unit="Bps", height=7)

    b.row("Each rank")
    b.lines("Phases of rank $rank", "Seconds per second.", (rate("dtrain_phase_seconds_total", by="job_id, phase"), "{{job_id}} {{phase}}"),
            unit="percentunit", width=24, height=7, stacked=True, repeat="rank")
    return b


def gpus():
    b = Board("dtrain-gpus", "dtrain: GPUs and hosts", "What the GPUs and hosts of a run do, with the series of dcgm-exporter where it runs.",
              with_rank=True)
    name, sensor = "{{job_id}} rank {{rank}}", "{{job_id}} rank {{rank}} {{gpu}}"
    b.row("GPUs (a rank without one has a line \"no GPU\" at 0)")
    b.lines("Utilization", "Share of time with a kernel running. A high value does not mean that the GPU is well used: see power and clock.",
            (gpu(f"dtrain_gpu_utilization_ratio{{{RANKS}}}"), sensor), unit="percentunit", height=7)
    b.lines("Memory traffic", "Share of time with GPU memory being read or written.",
            (gpu(f"dtrain_gpu_memory_utilization_ratio{{{RANKS}}}"), sensor), unit="percentunit", height=7)
    b.lines("GPU memory in use", "By all processes on the GPU, as a share of its memory.",
            (gpu(f"dtrain_gpu_memory_used_bytes{{{RANKS}}} / dtrain_gpu_memory_total_bytes{{{RANKS}}}"), sensor), unit="percentunit", height=7)
    b.lines("Power", "", (gpu(f"dtrain_gpu_power_watts{{{RANKS}}}"), sensor), unit="watt", width=6, height=7)
    b.lines("Temperature", "", (gpu(f"dtrain_gpu_temperature_celsius{{{RANKS}}}"), sensor), unit="celsius", width=6, height=7)
    b.lines("SM clock", "", (gpu(f"dtrain_gpu_sm_clock_hertz{{{RANKS}}}"), sensor), unit="hertz", width=6, height=7)
    b.lines("Memory clock", "", (gpu(f"dtrain_gpu_memory_clock_hertz{{{RANKS}}}"), sensor), unit="hertz", width=6, height=7)
    b.lines("Throttled", "Seconds per second with reduced clocks. sw_power_cap is normal at full load; the other reasons are heat or the power "
            "supply.", (measured(gpu(rate("dtrain_gpu_throttle_seconds_total", by="job_id, rank, reason"), "reason")),
                        "{{job_id}} rank {{rank}} {{reason}} {{kind}}"), unit="percentunit", height=7)
    energy = (f'{rate("dtrain_gpu_energy_joules_total", RUN, "job_id")} / on (job_id) {rate("dtrain_samples_total", RUN, "job_id")}'
              f' or label_replace(sum by (job_id) (dtrain_gpus{{{RUN}}}) == 0, "gpu", "no GPU", "", "")')
    b.lines("Energy per sample", "Of the GPUs, in joules.", (energy, "{{job_id}} {{gpu}}"), unit="joule", height=7)
    b.lines("PCIe lanes", "Those of the link, and the most that the card has. Fewer: a slot with fewer lanes, or a fault.",
            (measured(f"dtrain_gpu_pcie_lanes{{{RANKS}}}"), "{{job_id}} rank {{rank}} {{of}} {{kind}}"), height=7, min=0)

    b.row("dcgm-exporter (a rank without it has a line \"no dcgm-exporter\" at 0)")
    own = "{{job_id}} rank {{rank}} {{UUID}}"
    b.lines("Tensor cores", "Share of cycles with a tensor core at work: what mixed precision should raise.",
            (dcgm("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"), own), unit="percentunit", width=6, height=7)
    b.lines("Memory interface", "Share of cycles with data on their way to or from GPU memory.",
            (dcgm("DCGM_FI_PROF_DRAM_ACTIVE"), own), unit="percentunit", width=6, height=7)
    b.lines("Memory temperature", "", (dcgm("DCGM_FI_DEV_MEMORY_TEMP"), own), unit="celsius", width=6, height=7)
    b.lines("Last Xid error", "0: none. NVIDIA's documentation of Xid errors says what each number means.",
            (dcgm("DCGM_FI_DEV_XID_ERRORS"), own), width=6, height=7)

    b.row("Memory of the ranks")
    b.lines("Memory of the device", "Device memory of each rank; without a GPU its resident set.", (f"dtrain_memory_used_bytes{{{RANKS}}}", name),
            unit="bytes", height=7)
    b.lines("Memory of the allocator", "LibTorch's allocator on the GPU: to tensors, reserved, and at most.",
            (f"dtrain_device_memory_bytes{{{RANKS}}}", name + " {{kind}}"), unit="bytes", height=7)
    b.lines("Out of memory, and retries", "Allocations that needed unused memory given back, and those that failed: the batch is too large.",
            (rate("dtrain_allocator_retries_total"), name + " retries"), (rate("dtrain_out_of_memory_total"), name + " failed"), height=7)

    b.row("Hosts")
    without_gpu = f"and on (job_id, rank) (dtrain_gpus{{{RANKS}}} == 0)"
    by_host = (f"sum by (job_id, node) (dtrain_memory_used_bytes{{{RANKS}}} {without_gpu})"
               f" / max by (job_id, node) (dtrain_memory_total_bytes{{{RANKS}}} {without_gpu})"
               f' or on (job_id, node) label_replace(0 * max by (job_id, node) (dtrain_gpus{{{RANKS}}}), "kind", "GPUs", "", "")')
    b.lines("Memory of the ranks by host", "Without GPUs: the resident sets of a host's ranks, as a share of its memory. A host with GPUs has a line at 0.",
            (by_host, "{{job_id}} {{node}} {{kind}}"), unit="percentunit", width=8, height=7)
    b.lines("Read by host", "Bytes of samples, all ranks of a host.", (rate("dtrain_loader_bytes_total", by="job_id, node"), "{{job_id}} {{node}}"),
            unit="Bps", width=8, height=7)
    b.lines("Disk of the run folder", "What is left, and the size.", (f"dtrain_disk_free_bytes{{{RUN}}}", "{{job_id}} {{node}} left"),
            (f"dtrain_disk_size_bytes{{{RUN}}}", "{{job_id}} {{node}} size"), unit="bytes", width=8, height=7, min=0)
    host = "job_id, node"
    b.lines("Cores of the hosts", "Cores by what they do, for all processes: busy, idle but waiting for a disk (iowait), or taken by the "
            "hypervisor (steal).",
            (measured(rate("dtrain_host_seconds_total", RUN + ',kind!="idle"', host + ", kind"), host, RUN), "{{job_id}} {{node}} {{kind}}"),
            width=12, height=7)
    b.lines("Memory that the hosts lack", "Read back from swap, and bytes of files read again soon after the page cache dropped them: the data "
            "set does not fit into free memory.",
            (measured(rate("dtrain_host_swapped_in_bytes_total", RUN, host), host, RUN), "{{job_id}} {{node}} swap {{kind}}"),
            (measured(rate("dtrain_host_page_cache_refault_bytes_total", RUN, host), host, RUN), "{{job_id}} {{node}} page cache {{kind}}"),
            unit="Bps", width=12, height=7)
    b.table("Versions and hosts", "What each rank runs, and where.", f"dtrain_build_info{{{RANKS}}}",
            ["Time", "Value", "__name__", "instance", "job"])
    return b


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent / "dashboards"
    for name, board in {"training": training(), "ranks": ranks(), "gpus": gpus()}.items():
        (folder / f"{name}.json").write_text(board.text())


if __name__ == "__main__":
    main()
