"""The dashboard in .github/ uses metrics and labels that exist, and every metric."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from quilt_mcp.core.tracing import Reads, count_call
from quilt_mcp.http.admission import Admission
from quilt_mcp.http.metrics import Metrics
from quilt_mcp.settings import HTTPSettings

DASHBOARD = Path(__file__).parents[2] / ".github" / "grafana-dashboard.json"
SELECTOR = re.compile(r"\b((?:quilt_mcp|mcp_resources)_\w+)(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\bby \(([^)]*)\)")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
PART = re.compile(r"_(total|bucket|sum|count)$")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def expressions(board: dict[str, Any]) -> Iterator[str]:
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def metrics() -> dict[str, set[str]]:
    """Return the labels of each sample of a server after some traffic."""
    numbers, reads = Metrics(["a://b"]), Reads()
    with numbers.watching(reads, Admission(HTTPSettings())), reads.reading("list") as read:
        read.uri, read.providers, read.failed = "a://b", {"x": 0.1}, ["x"]
        count_call("sql")
    found: defaultdict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(numbers.exposition().decode()):
        for sample in family.samples:
            if SELECTOR.match(sample.name) and not sample.name.endswith("_created"):
                found[sample.name] |= set(sample.labels)
    return found


def test_queries_use_existing_metrics_and_labels() -> None:
    known = metrics()
    for expression in expressions(dashboard()):
        asked = SELECTOR.findall(expression)
        assert asked, expression
        grouped = {label.strip() for labels in GROUPING.findall(expression) for label in labels.split(",")}
        for name, matchers in asked:
            assert name in known, f"{name} in {expression}"
            labels = grouped | set(MATCHER.findall(matchers))
            assert labels <= known[name], f"{labels - known[name]} of {name} in {expression}"


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {PART.sub("", name) for expression in expressions(dashboard()) for name, _ in SELECTOR.findall(expression)}
    assert {PART.sub("", name) for name in metrics()} == shown


def test_legends_use_the_labels_that_their_queries_group_by() -> None:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            grouped = {one.strip() for labels in GROUPING.findall(target["expr"]) for one in labels.split(",")}
            assert named == grouped - {"le"}, target["expr"]


def test_used_variables_are_defined() -> None:
    board = dashboard()
    defined = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(board))) - {"__rate_interval", "__all"}
    assert used == defined


def test_panels_have_distinct_titles_and_positions_and_units() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    assert all(panel["description"] and panel["fieldConfig"]["defaults"]["unit"] for panel in panels)
