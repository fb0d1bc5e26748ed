"""The expressions of the shipped dashboard and rules, in a form that can be evaluated without Grafana."""

import json
import pathlib
import re

import yaml

MONITORING = pathlib.Path(__file__).resolve().parents[2] / "monitoring"
BOARD = MONITORING / "grafana" / "dashboards" / "dtrain.json"
RULES = MONITORING / "prometheus" / "rules" / "dtrain.yml"


def load_board():
    return json.loads(BOARD.read_text())


def panels(board):
    """All panels, those inside collapsed rows too."""
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", [])


def plain(expr, window="1m"):
    """The expression with Grafana's variables as they are when 'All' is chosen."""
    expr = expr.replace("$__rate_interval", window).replace("$job_id", ".*").replace("$rank", ".*")
    assert "$" not in expr, f"an unknown variable: {expr}"
    return expr


def dashboard_expressions(board, window="1m"):
    """(where, expression) of every panel and annotation."""
    found = [(f"annotation {a['name']!r}", plain(a["expr"], window)) for a in board["annotations"]["list"]]
    for panel in panels(board):
        for target in panel.get("targets", []):
            found.append((f"panel {panel['title']!r}", plain(target["expr"], window)))
    return found


def rule_expressions():
    """(where, expression) of every rule. The comparison of an alert filters everything out while nothing is wrong. Here it
    has PromQL's `bool`, which keeps each series with 0 or 1, so that data come back if the series of the alert exist."""
    found = []
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            expr = rule["expr"]
            if "alert" in rule:
                expr = re.sub(r'"[^"]*"|(?<=\s)(==|!=|>=|<=|>|<)(?=\s)',
                              lambda m: m.group(0) if m.group(1) is None else m.group(1) + " bool", expr)
            found.append((f"rule {rule.get('alert', rule.get('record'))!r}", expr))
    return found


def recorded_names():
    return {rule["record"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
            if "record" in rule}


def metric_names(expr):
    """The names of series in an expression."""
    expr = re.sub(r'"[^"]*"', '""', expr)
    return set(re.findall(r"\bdtrain_\w+", expr))
