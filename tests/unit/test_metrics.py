"""The numbers for Prometheus: what they count, and that their labels have few values."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Resource
from prometheus_client.parser import text_string_to_metric_families

from quilt_mcp import trace
from quilt_mcp.errors import NotFound, Unavailable
from quilt_mcp.listing import Listing
from quilt_mcp.manager import ResourceManager
from quilt_mcp.metrics import MULTIPROCESS, Metrics
from quilt_mcp.page_cache import PageCache
from quilt_mcp.paged_server import PagedFastMCP
from quilt_mcp.registry import define, registry_of
from tests.waiting import SECONDS

WORKER = """
import sys
from quilt_mcp import trace
from quilt_mcp.metrics import Metrics

metrics = Metrics(["a://b"], waiting=lambda: 2)
with metrics.watching():
    with trace.reading("tool") as read:
        read.uri = "a://b"
        trace.count_call("aws")
    under_way = trace.reading("tool")
    under_way.__enter__()
    trace.note("rate_limit")
    if sys.argv[1:]:
        print(metrics.exposition().decode())
    else:
        sys.stdout.write("ready\\n")
        sys.stdout.flush()
        sys.stdin.readline()
"""


def numbers(text: bytes | str) -> dict[tuple[str, ...], float]:
    """From name and label values to value."""
    families = text_string_to_metric_families(text.decode() if isinstance(text, bytes) else text)
    samples = (sample for family in families for sample in family.samples)
    return {(one.name, *(one.labels[name] for name in sorted(one.labels))): one.value for one in samples}


def found() -> dict[str, Any]:
    """Something."""
    trace.count_call("aws")
    trace.count_call("aws")
    trace.count_call("made up")
    return {}


def missing(name: str) -> dict[str, Any]:
    """Nothing."""
    raise NotFound(name)


REGISTRY = registry_of([define("a://found", found, name="x"), define("a://missing/{name}", missing, name="x")])


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    made = Metrics(REGISTRY)
    with made.watching():
        yield made


async def test_reads_are_counted_by_pattern_surface_and_outcome(metrics: Metrics) -> None:
    manager = ResourceManager(REGISTRY)
    for uri in ("a://found", "a://found", "a://missing/one", "a://missing/two", "b://made/up", "%%%", None, 7):
        await manager.respond(uri, surface="tool")
    await manager.respond("a://found", surface="resource")
    await manager.respond("a://found", surface="a made up one")
    told = numbers(metrics.exposition())
    reads = {key[1:]: value for key, value in told.items() if key[0] == "quilt_mcp_reads_total"}
    assert reads == {
        ("ok", "tool", "a://found"): 2,
        ("NotFound", "tool", "a://missing/{name}"): 2,
        ("InvalidURI", "tool", "unknown"): 3,
        ("ok", "tool", "discovery"): 1,
        ("ok", "resource", "a://found"): 1,
        ("ok", "other", "a://found"): 1,
    }
    assert told["quilt_mcp_read_duration_seconds_count", "tool", "a://found"] == 2
    assert told["quilt_mcp_read_duration_seconds_bucket", "+Inf", "tool", "a://found"] == 2
    assert (told["quilt_mcp_calls_total", "aws"], told["quilt_mcp_calls_total", "other"]) == (8, 4)
    assert told["quilt_mcp_reads_in_progress", "tool"] == 0


def test_a_read_under_way_is_seen(metrics: Metrics) -> None:
    with trace.reading("tool"), trace.reading("tool"), trace.reading("list"):
        told = numbers(metrics.exposition())
    assert (told["quilt_mcp_reads_in_progress", "tool"], told["quilt_mcp_reads_in_progress", "list"]) == (2, 1)
    assert numbers(metrics.exposition())["quilt_mcp_reads_in_progress", "tool"] == 0


def test_a_uri_that_is_no_pattern_makes_no_label(metrics: Metrics) -> None:
    with trace.reading("tool") as read:
        read.uri, read.outcome = "a://made/up", "made up too"
    told = numbers(metrics.exposition())
    assert told["quilt_mcp_reads_total", "other", "tool", "unknown"] == 1
    assert "made" not in metrics.exposition().decode()


def test_what_should_not_happen_is_there_at_zero(metrics: Metrics) -> None:
    told = numbers(metrics.exposition())
    assert {key for key in told if key[0] == "quilt_mcp_events_total"} == {
        ("quilt_mcp_events_total", event) for event in ("rate_limit", "concurrency_limit", "shared_state_failure")
    }
    trace.note("shared_state_failure")
    assert numbers(metrics.exposition())["quilt_mcp_events_total", "shared_state_failure"] == 1


def test_nothing_is_counted_that_nobody_watches() -> None:
    metrics = Metrics(REGISTRY)
    with trace.reading("tool"):
        pass
    assert ("quilt_mcp_reads_in_progress", "tool") not in numbers(metrics.exposition())


class Shelf:
    """A provider with one row, which may fail."""

    def __init__(self, name: str, *, fails: bool = False) -> None:
        self.name, self.prefix, self.fails = name, f"a://{name}/", fails

    async def page(self, after: str, limit: int, scope: Any) -> list[Resource]:
        if self.fails:
            raise Unavailable("down")
        return [] if after else [Resource(uri=f"{self.prefix}1", name="x")]


async def one_list(*shelves: Shelf, times: int = 1) -> None:
    """Ask for the first page of the list so often."""

    async def everyone() -> str:
        return "everyone"

    listing = Listing(
        shelves,
        scope=everyone,
        page_size=lambda: 10,
        seconds=lambda: SECONDS,
        translate=lambda _: None,
        cache=PageCache(lambda: SECONDS),
        is_cached=lambda: True,
    )
    async with Client(PagedFastMCP("x", listing=listing, manager=ResourceManager(REGISTRY))) as client:
        for _ in range(times):
            with suppress(MCPError):
                await client.list_resources()


async def test_lists_are_counted_by_status_and_provider(metrics: Metrics) -> None:
    await one_list(Shelf("hats"), Shelf("shoes"), times=3)
    await one_list(Shelf("hats"), Shelf("shoes", fails=True))
    await one_list(Shelf("shoes", fails=True), times=2)
    told = numbers(metrics.exposition())
    statuses = {key[1]: value for key, value in told.items() if key[0] == "mcp_resources_list_requests_total"}
    assert statuses == {"success": 3, "partial": 1, "error": 2, "cancelled": 0}
    assert told["mcp_resources_list_duration_seconds_count", "hats"] == 2
    assert told["mcp_resources_list_duration_seconds_count", "shoes"] == 4
    assert told["mcp_resources_list_provider_errors_total", "shoes"] == 3
    assert (told["mcp_resources_list_cache_total", "hit"], told["mcp_resources_list_cache_total", "miss"]) == (2, 4)
    assert told["quilt_mcp_reads_total", "partial", "list", "resources/list"] == 1


def test_of_several_processes_any_tells_the_sum(tmp_path: Path) -> None:
    environment = os.environ | {MULTIPROCESS: str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        told = numbers(
            subprocess.run(
                [sys.executable, "-c", WORKER, "tell"],
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
                timeout=SECONDS,
                check=True,
            ).stdout
        )
        other.communicate("\n", timeout=SECONDS)
    assert told["quilt_mcp_reads_total", "ok", "tool", "a://b"] == 2
    assert told["quilt_mcp_calls_total", "aws"] == 2
    assert told["quilt_mcp_reads_in_progress", "tool"] == 2
    assert told[("quilt_mcp_reads_waiting",)] == 4
    assert told["quilt_mcp_events_total", "rate_limit"] == 2
