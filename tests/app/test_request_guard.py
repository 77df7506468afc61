"""Every request of a client takes one path: limits, one log line, one metric, one span."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types.methods import SPEC_CLIENT_METHODS

from quilt_mcp.app.request_guard import HANDSHAKE
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.core.registry import path_variables
from quilt_mcp.core.tracing import Read
from quilt_mcp.http.admission import Admission
from quilt_mcp.http.metrics import Metrics
from quilt_mcp.server import QuiltServer, create_server
from quilt_mcp.workflows.service import Workflows
from tests.http.test_admission import signed_in
from tests.http.test_metrics import numbers
from tests.support.low_level import low_level
from tests.support.settings import Settings
from tests.support.waiting import SECONDS

pytestmark = pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
Connected = Client[Any]
Send = Callable[[], Awaitable[object]]
SPANS = """
import asyncio, json, sys
from fastmcp import Client
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from quilt_mcp.server import create_server

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

async def main():
    async with Client(create_server()) as client:
        await client.list_prompts()
        await client.list_resource_templates()
        await client.get_prompt("symbolic_check_template", {"code": "x", "function_name": "f"})
        await client.call_tool("health_check", {})
        await client.call_tool("health_check", {"surprise": 1}, raise_on_error=False)
        await client.read_resource("metadata://examples")

asyncio.run(main())
print(json.dumps([json.loads(span.to_json()) for span in exporter.get_finished_spans()]))
"""


class Observed:
    """The requests that a server has answered, as each observer sees them."""

    def __init__(self, mcp: QuiltServer, caplog: pytest.LogCaptureFixture) -> None:
        self.mcp = mcp
        self.metrics = Metrics([*mcp.manager.registry, *mcp.guard.names])
        self.ended: list[Read] = []
        self._caplog = caplog

    @contextmanager
    def watching(self) -> Iterator[None]:
        with (
            self.mcp.manager.reads.observe(self.ended.append),
            self.metrics.watching(self.mcp.manager.reads, self.mcp.app.part(Admission)),
        ):
            yield

    def take(self) -> tuple[list[Read], list[dict[str, Any]], dict[tuple[str, ...], float]]:
        """Return the reads and the log lines since the last call, and all counters of reads."""
        lines = [one.__dict__["fields"] for one in self._caplog.records if one.name == "quilt_mcp.core.tracing"]
        ended = list(self.ended)
        self.ended.clear()
        self._caplog.clear()
        counters = numbers(self.metrics.exposition())
        return ended, lines, {key: value for key, value in counters.items() if key[0] == "quilt_mcp_reads_total"}


@asynccontextmanager
async def serving(directory: Path, **settings: Any) -> AsyncIterator[tuple[QuiltServer, Connected]]:
    mcp = create_server(Settings(data_dir=directory, **settings))
    async with Client(mcp, mode="legacy") as client:  # which also has logging/setLevel
        yield mcp, client


def arguments_of(prompt: mcp_types.Prompt) -> dict[str, str]:
    return {argument.name: "x" for argument in prompt.arguments or []}


async def list_requests(client: Connected) -> dict[tuple[str, str], Send]:
    """Return one request for each thing that the server lists, by its method and name."""
    tools, prompts = await client.list_tools(), await client.list_prompts()
    resources, templates = await client.list_resources(), await client.list_resource_templates()
    found: dict[tuple[str, str], Send] = {
        ("tools/list", ""): client.list_tools_mcp,
        ("prompts/list", ""): client.list_prompts_mcp,
        ("resources/list", ""): client.list_resources_mcp,
        ("resources/templates/list", ""): client.list_resource_templates_mcp,
        ("logging/setLevel", ""): partial(client.set_logging_level, "info"),
        ("ping", ""): client.ping,
    }
    for tool in tools:
        found["tools/call", tool.name] = partial(client.call_tool_mcp, tool.name, {"surprise": 1})
    for prompt in prompts:
        found["prompts/get", prompt.name] = partial(client.get_prompt_mcp, prompt.name, arguments_of(prompt))
    for resource in resources:
        found["resources/read", str(resource.uri)] = partial(client.read_resource_mcp, str(resource.uri))
    for template in templates:
        variables = path_variables(template.uri_template)
        uri = template.uri_template.partition("{?")[0]
        for variable in variables:
            uri = uri.replace(f"{{{variable}}}", "x")
        found["resources/read", template.uri_template] = partial(client.read_resource_mcp, uri)
        reference = mcp_types.ResourceTemplateReference(uri=template.uri_template)
        argument = {"name": variables[0] if variables else "limit", "value": ""}
        found["completion/complete", template.uri_template] = partial(client.complete_mcp, reference, argument)
    return found


async def send(request: Send) -> object:
    """Return the answer to a request, or the error."""
    try:
        return await request()
    except MCPError as error:
        return error


@pytest.mark.soak
async def test_each_request_leaves_one_log_line_and_one_metric(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "quilt_mcp")
    async with serving(tmp_path) as (mcp, client):
        requests, observed = await list_requests(client), Observed(mcp, caplog)
        methods = {method for method, _ in requests}
        known = {method for method in SPEC_CLIENT_METHODS if low_level(mcp).get_request_handler(method)}
        assert known == methods | HANDSHAKE - {"initialize"}
        with observed.watching():
            for (method, name), request in requests.items():
                _, _, before = observed.take()
                answer = await send(request)
                ended, lines, after = observed.take()
                if method in HANDSHAKE:
                    assert (ended, lines, after) == ([], [], before)
                    continue
                assert len(ended) == len(lines) == sum(after.values()) - sum(before.values()) == 1, (method, name)
                (line,) = lines
                expected = name or method
                unknown = {"get_resource", "logging/setLevel"}  # a call without a valid URI; a method of no list
                found = line["uri"] if "{" in expected else line["uri"].partition("{?")[0]
                assert found == ("unknown" if expected in unknown else expected), answer
                assert line["outcome"] not in {"cancelled", ""}
                assert "other" not in {key[1] for key in after.keys() - before.keys()} - {line["outcome"]}, after


async def test_each_request_is_refused_at_the_rate_limit(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, unlimited):
        names = list(await list_requests(unlimited))
    with signed_in("ann"):
        async with serving(tmp_path, rate_limit="4/day") as (mcp, client):
            requests = await list_requests(client)
            assert list(requests) == names
            ended: list[Read] = []
            with mcp.manager.reads.observe(ended.append):
                for (method, name), request in requests.items():
                    if method in HANDSHAKE:
                        continue
                    answer = await send(request)
                    if isinstance(answer, mcp_types.CallToolResult):
                        assert answer.is_error
                        (content,) = answer.content
                        body = json.loads(getattr(content, "text", ""))
                        assert answer.structured_content == (body if name == "get_resource" else None)
                    else:
                        assert isinstance(answer, MCPError), (method, name)
                        body = answer.error.data
                    assert (body["message"], body["retry_after_seconds"] > 0) == ("Rate limit exceeded.", True)
            assert {(one.outcome, one.caller is None) for one in ended} == {("ResourceExecutionError", False)}
            assert len(ended) == len(names) - 1


async def test_each_request_holds_one_of_its_callers_concurrent_requests(tmp_path: Path) -> None:
    with signed_in("ann"):
        async with serving(tmp_path, rate_limit="none", concurrent_reads=1) as (mcp, client):
            requests = await list_requests(client)
            held = mcp.app.part(Admission)
            async with held.admit(Read("tool")):
                answers = {key: await send(request) for key, request in requests.items() if key[0] not in HANDSHAKE}
            for key, answer in answers.items():
                is_refused = getattr(answer, "is_error", isinstance(answer, MCPError))
                assert is_refused, key
                assert "Too many concurrent" in repr(answer) + str(getattr(answer, "content", "")), key
            assert not isinstance(await send(requests["prompts/list", ""]), MCPError)


async def test_requests_that_the_server_sends_to_itself_are_part_of_the_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "quilt_mcp")
    with signed_in("ann"):
        async with serving(tmp_path, rate_limit="1/day") as (mcp, client):
            observed = Observed(mcp, caplog)
            with observed.watching():
                await client.read_resource("info://capabilities")  # which lists tools, prompts and resources
            (read,), _, _ = observed.take()
    assert (read.uri, read.outcome) == ("info://capabilities", "ok")


@pytest.mark.parametrize(
    ("name", "arguments", "outcome"),
    [
        ("workflow_create", {"workflow_id": "w", "name": "n"}, "ok"),
        ("workflow_create", {"workflow_id": "w"}, "InvalidArguments"),
        ("workflow_add_step", {"workflow_id": "none", "step_id": "s", "description": "d"}, "NotFound"),
        (
            "workflow_add_step",
            {"workflow_id": "w", "step_id": "s", "description": "d", "dependencies": ["s"]},
            "InvalidArguments",
        ),
        ("made up by a client", {}, "NotFound"),
    ],
)
async def test_the_outcome_of_a_tool_has_a_name(
    name: str, arguments: dict[str, Any], outcome: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "quilt_mcp")
    async with serving(tmp_path) as (mcp, client):
        await client.call_tool("workflow_create", {"workflow_id": "w", "name": "n"})  # and lists tools, for the schema
        observed = Observed(mcp, caplog)
        observed.take()
        with observed.watching(), suppress(ToolError):
            await client.call_tool_mcp(name, arguments)
        (read,), (line,), counters = observed.take()
    assert (read.surface, read.outcome) == ("tool", outcome)
    assert line["uri"] == ("unknown" if " " in name else name)
    assert counters == {("quilt_mcp_reads_total", outcome, "tool", line["uri"]): 1.0}


async def test_a_failure_of_the_database_is_the_outcome_of_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise Unavailable("The workflow database does not respond.")

    monkeypatch.setattr(Workflows, "writing", fail)
    async with serving(tmp_path) as (mcp, client):
        ended: list[Read] = []
        with mcp.manager.reads.observe(ended.append):
            await client.call_tool_mcp("workflow_create", {"workflow_id": "w", "name": "n"})
    assert [one.outcome for one in ended] == ["ResourceExecutionError"]


async def test_a_bug_of_the_limits_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Read) -> Any:
        raise KeyError("secret")

    async with serving(tmp_path) as (mcp, client):
        monkeypatch.setattr(mcp.manager, "admit", fail)
        with pytest.raises(MCPError, match=r"^Internal server error\.$"):
            await client.list_tools_mcp()


async def test_an_invalid_prompt_is_an_invalid_argument(tmp_path: Path) -> None:
    async with serving(tmp_path) as (mcp, client):
        ended: list[Read] = []
        with mcp.manager.reads.observe(ended.append):
            for name in ("symbolic_check_template", "none"):
                with pytest.raises(MCPError):
                    await client.get_prompt(name, {})
    assert [(one.surface, one.uri) for one in ended] == [("prompt", "symbolic_check_template"), ("prompt", "unknown")]
    assert ended[1].outcome == "NotFound"


@pytest.mark.soak
def test_each_request_has_one_span_that_describes_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SPANS],
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=True,
        env=os.environ | {"FASTMCP_TELEMETRY_MODE": "native"},
    )
    spans = [one["attributes"] for one in json.loads(done.stdout) if "mcp.read.outcome" in one["attributes"]]
    found = [(one["mcp.read.surface"], one["mcp.read.uri"], one["mcp.read.outcome"]) for one in spans]
    assert [one for one in found if one[1] != "tools/list"] == [
        ("list", "prompts/list", "ok"),
        ("list", "resources/templates/list", "ok"),
        ("prompt", "symbolic_check_template", "ok"),
        ("tool", "health_check", "ok"),
        ("tool", "health_check", "InvalidArguments"),
        ("resource", "metadata://examples", "ok"),
    ]
