"""The expressions of the shipped dashboards and rules, in a form that can be evaluated without Grafana."""

import json
import pathlib
import re

import yaml

MONITORING = pathlib.Path(__file__).resolve().parents[2] / "monitoring"
DASHBOARDS = MONITORING / "grafana" / "dashboards"
RULES = MONITORING / "prometheus" / "rules" / "dtrain.yml"


def load_boards():
    """{name: dashboard}"""
    return {path.stem: json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))}


def panels(board):
    """All panels, those inside collapsed rows too."""
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", [])


def plain(expr, window="1m"):
    """The expression with Grafana's variables as they are when 'All' is chosen."""
    expr = expr.replace("$__rate_interval", window).replace("$job_id", ".*").replace("$rank", ".*")
    assert not re.search(r"\$(?!1\b)", expr), f"an unknown variable: {expr}"  # $1: of label_replace
    return expr


def dashboard_expressions(window="1m"):
    """(where, expression) of every panel and annotation of all dashboards."""
    found = []
    for name, board in load_boards().items():
        found += [(f"{name}, annotation {a['name']!r}", plain(a["expr"], window)) for a in board["annotations"]["list"]]
        for panel in panels(board):
            found += [(f"{name}, panel {panel['title']!r}", plain(t["expr"], window)) for t in panel.get("targets", [])]
    return found


def rule_expressions(rules=None):
    """(where, expression) of every rule. The comparison of an alert filters everything out while nothing is wrong. Here it
    has PromQL's `bool`, which keeps each series with 0 or 1, so that data come back if the series of the alert exist."""
    found = []
    for group in (rules or yaml.safe_load(RULES.read_text()))["groups"]:
        for rule in group["rules"]:
            expr = rule["expr"]
            if "alert" in rule:
                expr = re.sub(r'"[^"]*"|(?<=\s)(==|!=|>=|<=|>|<)(?=\s)',
                              lambda m: m.group(0) if m.group(1) is None else m.group(1) + " bool", expr)
            found.append((f"rule {rule.get('alert', rule.get('record'))!r}", expr))
    return found


SECONDS = {"s": 1, "m": 60, "h": 3600}


def hurried_rules(factor=60, checkpoint_age=None):
    """The shipped rules with every duration divided: windows, `for`, and the thresholds on an age. `checkpoint_age`: seconds after which
    a checkpoint is old instead, for a run that saves every second."""
    def divided(count, unit):
        return f"{round(int(count) * SECONDS[unit] * 1000 / factor)}ms"

    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            expr = re.sub(r"\[(\d+)([smh])\]", lambda m: f"[{divided(*m.groups())}]", rule["expr"])
            rule["expr"] = re.sub(r"(time\(\) - [^>]*> )(\d+)", lambda m: f"{m.group(1)}{int(m.group(2)) / factor:g}", expr)
            if checkpoint_age and rule.get("alert") == "DtrainCheckpointOld":
                rule["expr"] = re.sub(r"> \S+$", f"> {checkpoint_age}", rule["expr"])
            if "for" in rule:
                rule["for"] = divided(*re.fullmatch(r"(\d+)([smh])", rule["for"]).groups())
    left = [rule for group in rules["groups"] for rule in group["rules"]
            if re.search(r"\[\d+[smh]\]", rule["expr"]) or re.search(r"> (1800|7200)\b", rule["expr"])]
    assert not left, f"not divided: {left}"
    return rules


def alerts(rules=None):
    return {rule["alert"]: rule for group in (rules or yaml.safe_load(RULES.read_text()))["groups"] for rule in group["rules"] if "alert" in rule}


def recorded_names():
    return {rule["record"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
            if "record" in rule}


def metric_names(expr):
    """The names of dtrain's series in an expression, those of recording rules too."""
    expr = re.sub(r'"[^"]*"', '""', expr)
    return set(re.findall(r"\b(?:\w+:)?dtrain_[\w:]+", expr))
