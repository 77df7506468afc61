"""The alert rules in deploy/ and the dashboard in .github/ are valid, and name what /metrics has.

A parser of PromQL that is not ours reads the queries.
"""

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from quilt_mcp.http.admission import Event
from quilt_mcp.http.metrics import OUTCOMES
from tests.http.test_metrics_dashboard import dashboard, expressions, metrics
from tests.support.promql import read_query

ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yml"
DURATION = re.compile(r"\d+[smhd]")
PROMETHEUS_OWN = {"up": {"job", "instance"}}
"""What Prometheus itself adds to the metrics of a server."""
KNOWN_VALUES = {"event": set(get_args(Event)), "outcome": set(OUTCOMES)}


def rules() -> list[dict[str, Any]]:
    found = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    assert list(found) == ["groups"]
    return [rule for group in found["groups"] for rule in group["rules"]]


def by_name(rule: dict[str, Any]) -> str:
    return str(rule["alert"])


def find_unknown(expression: str) -> list[str]:
    """Return the metrics, labels and values of an expression that do not exist."""
    known = metrics() | PROMETHEUS_OWN
    query = read_query(expression)
    found = [one.metric for one in query.selectors if one.metric not in known]
    for one in query.selectors:
        labels = known.get(one.metric, set()) | PROMETHEUS_OWN["up"]
        found += sorted((query.grouped | {matcher.name for matcher in one.matchers}) - labels)
        found += [value for label, value in one.find_values() if value not in KNOWN_VALUES.get(label, {value})]
    return found


@pytest.mark.parametrize("rule", rules(), ids=by_name)
def test_alerts_use_existing_metrics_labels_and_values(rule: dict[str, Any]) -> None:
    assert read_query(rule["expr"]).selectors
    assert find_unknown(rule["expr"]) == []


@pytest.mark.parametrize("rule", rules(), ids=by_name)
def test_alerts_are_complete(rule: dict[str, Any]) -> None:
    assert rule.keys() - {"for"} == {"alert", "expr", "labels", "annotations"}
    assert rule["labels"].keys() == {"severity"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert DURATION.fullmatch(rule.get("for", "1m"))
    assert rule["annotations"].keys() == {"summary", "description"}
    used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["description"]))
    assert used <= read_query(rule["expr"]).grouped | ({"instance"} if rule["expr"].startswith("up") else set())


def test_alerts_have_distinct_names() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names) >= 8


def test_the_queries_of_the_dashboard_are_valid_and_use_existing_values() -> None:
    asked = [one.replace("$__rate_interval", "5m").replace("$surface", "tool") for one in expressions(dashboard())]
    assert {one: found for one in asked if (found := find_unknown(one))} == {}


@pytest.mark.parametrize(
    ("expression", "unknown"),
    [
        ("rate(quilt_mcp_read_total[5m])", ["quilt_mcp_read_total"]),
        ('sum by (caller) (quilt_mcp_reads_total{uri="x"})', ["caller"]),
        ('quilt_mcp_events_total{event=~"rate_limit|rate_limits"}', ["rate_limits"]),
    ],
)
def test_a_mistake_is_found(expression: str, unknown: list[str]) -> None:
    assert find_unknown(expression) == unknown


def test_a_syntax_error_is_found() -> None:
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        read_query("rate(quilt_mcp_reads_total")
