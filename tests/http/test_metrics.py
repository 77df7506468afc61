"""Metrics for Prometheus: what they count, and that their labels have few values."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Resource
from prometheus_client.parser import text_string_to_metric_families

from quilt_mcp.core.errors import NotFound, Unavailable
from quilt_mcp.core.listing import ListedRow, Listing, ListSource, PagedFastMCP
from quilt_mcp.core.tracing import count_call
from quilt_mcp.http.admission import Admission, Event
from quilt_mcp.http.metrics import MULTIPROCESS, Metrics
from quilt_mcp.settings import HTTPSettings
from tests.support.toys import toy, toy_manager
from tests.support.waiting import SECONDS

WORKER = """
import sys
from quilt_mcp.core.tracing import Reads, count_call
from quilt_mcp.http.admission import Admission
from quilt_mcp.http.metrics import Metrics
from quilt_mcp.settings import HTTPSettings

metrics, reads, admission = Metrics(["a://b"], waiting=lambda: 2), Reads(), Admission(HTTPSettings())
with metrics.watching(reads, admission):
    with reads.reading("tool") as read:
        read.uri = "a://b"
        count_call("aws")
    in_progress = reads.reading("tool")
    in_progress.__enter__()
    admission.note("rate_limit")
    if sys.argv[1:] == ["print"]:
        print(metrics.exposition().decode())
    else:
        sys.stdout.write("ready\\n")
        sys.stdout.flush()
        sys.stdin.readline()
"""


def numbers(text: bytes | str) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(text.decode() if isinstance(text, bytes) else text)
    samples = (sample for family in families for sample in family.samples)
    return {(one.name, *(one.labels[name] for name in sorted(one.labels))): one.value for one in samples}


def found() -> dict[str, Any]:
    """Something."""
    count_call("aws")
    count_call("aws")
    count_call("made up")
    return {}


def missing(name: str) -> dict[str, Any]:
    """Nothing."""
    raise NotFound(name)


class Watched:
    def __init__(self) -> None:
        self.manager = toy_manager(toy("a://found", found), toy("a://missing/{name}", missing))
        self.metrics = Metrics(self.manager.registry)
        self.reads = self.manager.reads
        self.admission = Admission(HTTPSettings())

    def numbers(self) -> dict[tuple[str, ...], float]:
        return numbers(self.metrics.exposition())


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    with made.metrics.watching(made.reads, made.admission):
        yield made


async def test_reads_are_counted_by_pattern_surface_and_outcome(watched: Watched) -> None:
    manager = watched.manager
    for uri in ("a://found", "a://found", "a://missing/one", "a://missing/two", "b://made/up", "%%%", None, 7):
        await manager.respond(uri, surface="tool")
    await manager.respond("a://found", surface="resource")
    await manager.respond("a://found", surface="a made up one")
    shown = watched.numbers()
    reads = {key[1:]: value for key, value in shown.items() if key[0] == "quilt_mcp_reads_total"}
    assert reads == {
        ("ok", "tool", "a://found"): 2,
        ("NotFound", "tool", "a://missing/{name}"): 2,
        ("InvalidURI", "tool", "unknown"): 3,
        ("ok", "tool", "discovery"): 1,
        ("ok", "resource", "a://found"): 1,
        ("ok", "other", "a://found"): 1,
    }
    assert shown["quilt_mcp_read_duration_seconds_count", "tool", "a://found"] == 2
    assert shown["quilt_mcp_read_duration_seconds_bucket", "+Inf", "tool", "a://found"] == 2
    assert (shown["quilt_mcp_calls_total", "aws"], shown["quilt_mcp_calls_total", "other"]) == (8, 4)
    assert shown["quilt_mcp_reads_in_progress", "tool"] == 0
    assert {value for key, value in shown.items() if key[0] == "mcp_resources_list_requests_total"} == {0}


def test_reads_in_progress_are_counted_and_no_text_of_a_client_becomes_a_label(watched: Watched) -> None:
    with watched.reads.reading("tool") as read, watched.reads.reading("tool"), watched.reads.reading("list"):
        read.uri, read.outcome = "a://made/up", "made up too"
        shown = watched.numbers()
    assert (shown["quilt_mcp_reads_in_progress", "tool"], shown["quilt_mcp_reads_in_progress", "list"]) == (2, 1)
    shown = watched.numbers()
    assert shown["quilt_mcp_reads_in_progress", "tool"] == 0
    assert shown["quilt_mcp_reads_total", "other", "tool", "unknown"] == 1
    assert "made" not in watched.metrics.exposition().decode()
    unwatched = Watched()
    with unwatched.reads.reading("tool"):
        pass
    assert ("quilt_mcp_reads_in_progress", "tool") not in unwatched.numbers()


def test_counters_of_problems_start_at_zero(watched: Watched) -> None:
    events = {key[1] for key in watched.numbers() if key[0] == "quilt_mcp_events_total"}
    assert events == set(get_args(Event))
    watched.admission.note("shared_state_failure")
    assert watched.numbers()["quilt_mcp_events_total", "shared_state_failure"] == 1


class Shelf:
    def __init__(self, name: str, *, fails: bool = False) -> None:
        self.name, self.prefix, self.fails = name, f"a://{name}/", fails

    async def page(self, after: str, limit: int, scope: Any) -> list[ListedRow]:
        if self.fails:
            raise Unavailable("down")
        return [] if after else [ListedRow("1", Resource(uri=f"{self.prefix}1", name="x"))]


async def list_often(watched: Watched, *shelves: Shelf, times: int = 1) -> None:
    async def everyone() -> str:
        return "everyone"

    options: dict[str, Any] = {"page_size": 10, "seconds": SECONDS, "find_failure": watched.manager.find_failure}
    listing = Listing([ListSource(everyone, shelves)], **options)
    async with Client(PagedFastMCP("x", listing=listing, manager=watched.manager)) as client:
        for _ in range(times):
            with suppress(MCPError):
                await client.list_resources()


async def test_lists_are_counted_by_status_and_provider(watched: Watched) -> None:
    await list_often(watched, Shelf("hats"), Shelf("shoes"), times=3)
    await list_often(watched, Shelf("hats"), Shelf("shoes", fails=True))
    await list_often(watched, Shelf("shoes", fails=True), times=2)
    shown = watched.numbers()
    statuses = {key[1]: value for key, value in shown.items() if key[0] == "mcp_resources_list_requests_total"}
    assert statuses == {"success": 3, "partial": 1, "error": 2, "cancelled": 0}
    assert shown["mcp_resources_list_duration_seconds_count", "hats"] == 4
    assert shown["mcp_resources_list_duration_seconds_count", "shoes"] == 6
    assert shown["mcp_resources_list_provider_errors_total", "shoes"] == 3
    assert shown["quilt_mcp_reads_total", "partial", "list", "resources/list"] == 1


@pytest.mark.soak
def test_every_process_reports_the_sum_over_all_without_the_gauges_of_dead_ones(tmp_path: Path) -> None:
    command, environment = [sys.executable, "-c", WORKER], os.environ | {MULTIPROCESS: str(tmp_path)}

    def run(*arguments: str) -> dict[tuple[str, ...], float]:
        return numbers(subprocess.check_output([*command, *arguments], text=True, env=environment, timeout=SECONDS))

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        shown = run("print")
        other.communicate("\n", timeout=SECONDS)
    later = run("print")
    assert [one["quilt_mcp_reads_total", "ok", "tool", "a://b"] for one in (shown, later)] == [2, 3]
    assert [one["quilt_mcp_reads_in_progress", "tool"] for one in (shown, later)] == [2, 1]
    assert (shown["quilt_mcp_calls_total", "aws"], shown["quilt_mcp_events_total", "rate_limit"]) == (2, 2)
    assert shown[("quilt_mcp_reads_waiting",)] == 4
