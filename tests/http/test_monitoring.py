"""The alert rules in deploy/ and the dashboard in .github/ are valid, and name what /metrics has.

A parser of PromQL that is not ours reads the queries.
"""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from quilt_mcp.core.tracing import Reads, count_call
from quilt_mcp.http.admission import Admission, Event
from quilt_mcp.http.metrics import OUTCOMES, Metrics
from quilt_mcp.settings import HTTPSettings
from tests.support.promql import read_query

ROOT = Path(__file__).parents[2]
OURS = re.compile(r"quilt_mcp|mcp_resources")
PART = re.compile(r"_(total|bucket|sum|count)$")
PROMETHEUS_OWN = {"up": {"job", "instance"}}
"""What Prometheus itself adds to the metrics of a server."""
KNOWN_VALUES = {"event": set(get_args(Event)), "outcome": set(OUTCOMES)}
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
BOARD: dict[str, Any] = json.loads((ROOT / ".github" / "grafana-dashboard.json").read_text())
TARGETS: list[dict[str, Any]] = [target for panel in BOARD["panels"] for target in panel["targets"]]


def known_metrics() -> dict[str, set[str]]:
    """Return the labels of each sample of a server after some traffic."""
    numbers, reads = Metrics(["a://b"]), Reads()
    with numbers.watching(reads, Admission(HTTPSettings())), reads.reading("list") as read:
        read.uri, read.providers, read.failed = "a://b", {"x": 0.1}, ["x"]
        count_call("sql")
    found: defaultdict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(numbers.exposition().decode()):
        for sample in family.samples:
            if OURS.match(sample.name) and not sample.name.endswith("_created"):
                found[sample.name] |= set(sample.labels)
    return found


def read_target(target: dict[str, Any]) -> Any:
    return read_query(target["expr"].replace("$__rate_interval", "5m").replace("$surface", "tool"))


def find_unknown(query: Any) -> list[str]:
    known = known_metrics() | PROMETHEUS_OWN
    assert query.selectors
    found = [one.metric for one in query.selectors if one.metric not in known]
    for one in query.selectors:
        labels = known.get(one.metric, set()) | PROMETHEUS_OWN["up"]
        found += sorted((query.grouped | {matcher.name for matcher in one.matchers}) - labels)
        found += [value for label, value in one.find_values() if value not in KNOWN_VALUES.get(label, {value})]
    return found


def test_queries_use_existing_metrics_labels_and_values() -> None:
    queries = {rule["alert"]: read_query(rule["expr"]) for rule in RULES}
    assert len(queries) == len(RULES) >= 8
    queries |= {target["expr"]: read_target(target) for target in TARGETS}
    assert {name: unknown for name, query in queries.items() if (unknown := find_unknown(query))} == {}


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_alerts_are_complete(rule: dict[str, Any]) -> None:
    assert rule.keys() - {"for"} == {"alert", "expr", "labels", "annotations"}
    assert rule["labels"].keys() == {"severity"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert re.fullmatch(r"\d+[smhd]", rule.get("for", "1m"))
    assert rule["annotations"].keys() == {"summary", "description"}
    used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["description"]))
    assert used <= read_query(rule["expr"]).grouped | ({"instance"} if rule["expr"].startswith("up") else set())


@pytest.mark.parametrize(
    ("expression", "unknown"),
    [
        ("rate(quilt_mcp_read_total[5m])", ["quilt_mcp_read_total"]),
        ('sum by (caller) (quilt_mcp_reads_total{uri="x"})', ["caller"]),
        ('quilt_mcp_events_total{event=~"rate_limit|rate_limits"}', ["rate_limits"]),
    ],
)
def test_a_mistake_is_found(expression: str, unknown: list[str]) -> None:
    assert find_unknown(read_query(expression)) == unknown


def test_every_metric_is_on_the_dashboard_and_legends_use_the_labels_of_their_queries() -> None:
    shown = {PART.sub("", one.metric) for target in TARGETS for one in read_target(target).selectors}
    assert {PART.sub("", name) for name in known_metrics()} == {name for name in shown if OURS.match(name)}
    for target in TARGETS:
        named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert named == read_target(target).grouped - {"le"}, target["expr"]


def test_panels_are_distinct_and_complete_and_used_variables_are_defined() -> None:
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    assert all(panel["description"] and panel["fieldConfig"]["defaults"]["unit"] for panel in panels)
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(BOARD))) - {"__rate_interval", "__all"}
    assert used == {variable["name"] for variable in BOARD["templating"]["list"]}
