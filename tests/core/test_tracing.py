"""OpenTelemetry spans as an SDK receives them, in a process of its own, because a process has one provider."""

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from tests.support.waiting import SECONDS

SECRET = "top-secret-value"
SCRIPT = """
import asyncio, json, sys
from contextlib import nullcontext
from fastmcp import Client
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from quilt_mcp.server import create_server
from tests.worlds.table import WORLDS
from tests.support.worlds import demo_world

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

async def read(uris):
    async with Client(create_server()) as client:
        for uri in uris:
            await client.call_tool("get_resource", {"uri": uri}, raise_on_error=False)

for world, uris in json.loads(sys.argv[1]).items():
    with demo_world(world, plans=WORLDS) if world else nullcontext():
        asyncio.run(read(uris))
print(json.dumps([json.loads(span.to_json()) for span in exporter.get_finished_spans()]))
"""

Span = dict[str, Any]


def spans_of(asked: dict[str, list[str]], mode: str = "native") -> list[Span]:
    """Return the spans of reading these URIs through the tool in each world."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=True,
        env=os.environ | {"FASTMCP_TELEMETRY_MODE": mode},
    )
    found: list[Span] = json.loads(done.stdout)
    return found


@cache
def spans() -> list[Span]:
    return spans_of(
        {
            "admin": ["athena://workgroups", "admin://users", "requirements://epics/EP-001"],
            "aws_denied": [f"metadata://templates/{SECRET}", f"made-up://{SECRET}", "athena://databases"],
        }
    )


def by_name(name: str) -> list[Span]:
    return [span for span in spans() if span["name"] == name]


def reads_of_the_tool() -> list[Span]:
    return [read for read in by_name("read") if read["attributes"]["mcp.read.surface"] == "tool"]


@pytest.mark.soak
def test_a_read_is_a_child_span_of_fastmcp_s_and_each_call_a_child_of_the_read() -> None:
    reads = reads_of_the_tool()[:3]
    assert [read["attributes"]["mcp.read.uri"] for read in reads] == [
        "athena://workgroups",
        "admin://users",
        "requirements://epics/{id}",
    ]
    for read in reads:
        attributes = read["attributes"]
        assert (attributes["mcp.read.surface"], attributes["mcp.read.outcome"]) == ("tool", "ok")
        assert len(attributes["mcp.read.correlation_id"]) == 12
        above = next(span for span in spans() if span["context"]["span_id"] == read["parent_id"])
        assert above["name"].startswith("tools/call")
    ids = [read["context"]["span_id"] for read in reads]
    assert ids[0] in {span["parent_id"] for span in by_name("aws athena.list_work_groups")}
    assert ids[1] in {span["parent_id"] for span in by_name("stack POST")}
    assert {span["parent_id"] for span in by_name("sql select")} == {ids[2]}


@pytest.mark.soak
def test_a_failed_read_is_an_error_span_without_client_text() -> None:
    reads = reads_of_the_tool()[3:]
    assert [read["attributes"]["mcp.read.uri"] for read in reads] == [
        "metadata://templates/{template}",
        "unknown",
        "athena://databases",
    ]
    assert {read["status"]["status_code"] for read in reads} == {"ERROR"}
    own = [span for span in spans() if any(key.startswith(("mcp.read.", "mcp.call.")) for key in span["attributes"])]
    assert SECRET not in json.dumps(own)
    assert not any(span["events"] or "description" in span["status"] for span in own)
    trace_id = reads[2]["context"]["trace_id"]
    refused = [span for span in own if span["context"]["trace_id"] == trace_id and span["name"].startswith("aws ")]
    assert refused
    assert all(span["attributes"]["error.type"] for span in refused)


@pytest.mark.soak
def test_fastmcps_switch_turns_the_spans_off() -> None:
    found = spans_of({"": ["metadata://examples"]}, mode="off")
    assert found  # from the client library, which has its own switch
    assert not [span for span in found if span["name"] == "read" or "mcp.call.system" in span["attributes"]]
