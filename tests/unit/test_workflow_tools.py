"""The workflow tools, as a client meets them."""

import json
import logging
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult
from fastmcp.client.transports import FastMCPTransport

from quilt_mcp.services import workflow_file, workflow_service
from quilt_mcp.tools.workflow_tools import register_workflow_tools

Connected = Client[FastMCPTransport]


pytestmark = pytest.mark.usefixtures("data_dir")


@pytest.fixture
async def client() -> AsyncIterator[Connected]:
    mcp: FastMCP = FastMCP("bare")
    register_workflow_tools(mcp)
    async with Client(mcp) as connected:
        yield connected


async def call(client: Connected, tool: str, **arguments: Any) -> CallToolResult:
    return await client.call_tool(tool, arguments, raise_on_error=False)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


async def test_a_workflow_from_creation_to_completion(client: Connected) -> None:
    await call(client, "workflow_create", workflow_id="w", name="Title", description="Why", metadata={"a": [1]})
    await call(client, "workflow_add_step", workflow_id="w", step_id="a", description="Do a")
    await call(
        client,
        "workflow_add_step",
        workflow_id="w",
        step_id="b",
        description="Do b",
        step_type="script",
        dependencies=["a"],
        metadata={"b": None},
    )
    await call(client, "workflow_update_step", workflow_id="w", step_id="a", status="skipped", message="no need")
    result = await call(
        client, "workflow_update_step", workflow_id="w", step_id="b", status="completed", result={"rows": 5}
    )
    assert not result.is_error
    assert result.structured_content == json.loads(text_of(result)) == workflow_service.workflow_get_status("w")
    workflow = result.structured_content["workflow"]
    assert (workflow["name"], workflow["description"], workflow["metadata"]) == ("Title", "Why", {"a": [1]})
    assert workflow["status"] == "completed"
    assert workflow["execution_log"][0]["message"] == "no need"
    step = workflow["steps"][1]
    assert (step["step_type"], step["dependencies"], step["metadata"]) == ("script", ["a"], {"b": None})
    assert step["result"] == {"rows": 5}


async def test_null_is_taken_for_nothing_where_nothing_need_be_given(client: Connected) -> None:
    await call(client, "workflow_create", workflow_id="w", name="Title", description=None, metadata=None)
    step = {"workflow_id": "w", "step_id": "a"}
    nothing: dict[str, None] = {"step_type": None, "dependencies": None, "metadata": None}
    await call(client, "workflow_add_step", **step, description="Do a", **nothing)
    nothing = {"message": None, "result": None, "error_message": None}
    result = await call(client, "workflow_update_step", **step, status="completed", **nothing)
    assert result.structured_content is not None
    workflow = result.structured_content["workflow"]
    assert (workflow["description"], workflow["steps"][0]["step_type"]) == ("", "manual")
    assert workflow["metadata"] == workflow["steps"][0]["metadata"] == {}
    assert (workflow["steps"][0]["dependencies"], workflow["steps"][0]["status"]) == ([], "completed")


async def test_no_parameter_is_declared_with_a_default_that_its_type_forbids(client: Connected) -> None:
    for tool in await client.list_tools():
        for parameter in tool.input_schema["properties"].values():
            assert "type" in parameter
            assert parameter.get("default", "") is not None


async def test_a_failed_step_keeps_its_error_message(client: Connected) -> None:
    await call(client, "workflow_create", workflow_id="w", name="Title")
    await call(client, "workflow_add_step", workflow_id="w", step_id="a", description="Do a")
    result = await call(
        client, "workflow_update_step", workflow_id="w", step_id="a", status="failed", error_message="no disk"
    )
    assert result.structured_content is not None
    assert result.structured_content["workflow"]["steps"][0]["error_message"] == "no disk"


REFUSALS = [
    (
        "workflow_create",
        {"workflow_id": "w", "name": "Other"},
        "w exists already",
        "workflow://workflows/w/status",
    ),
    ("workflow_create", {"workflow_id": "..", "name": "Title"}, "workflow_id is not valid", "such as rna-seq-2026"),
    (
        "workflow_add_step",
        {"workflow_id": "w", "step_id": "a", "description": "A", "dependencies": ["x"]},
        "no step 'x'",
        "workflow_add_step",
    ),
    (
        "workflow_update_step",
        {"workflow_id": "x", "step_id": "a", "status": "failed"},
        "There is no workflow 'x'",
        "such as w;",
    ),
]


@pytest.mark.parametrize(("tool", "arguments", "problem", "advice"), REFUSALS)
async def test_a_refusal_says_what_and_then_what_to_do(  # noqa: PLR0913, PLR0917 - four of them are the case
    tool: str,
    arguments: dict[str, Any],
    problem: str,
    advice: str,
    client: Connected,
    caplog: pytest.LogCaptureFixture,
) -> None:
    workflow_service.workflow_create("w", "Title")
    logger = logging.getLogger("fastmcp")
    logger.addHandler(caplog.handler)  # its records do not reach the root logger
    try:
        result = await call(client, tool, **arguments)
    finally:
        logger.removeHandler(caplog.handler)
    assert result.is_error
    first, second = text_of(result).splitlines()
    assert problem in first
    assert advice in second
    (record,) = caplog.records
    assert (record.exc_info or None, record.levelno < logging.ERROR) == (None, True)
    assert "\n" not in record.getMessage()


async def test_a_storage_failure_is_told_in_the_same_way(
    client: Connected, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow_service.workflow_create("w", "Title")
    monkeypatch.setattr(workflow_file, "BUSY_SECONDS", 0.01)
    with closing(sqlite3.connect(data_dir / "workflows.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        result = await call(client, "workflow_create", workflow_id="x", name="Title")
    assert result.is_error
    first, second = text_of(result).splitlines()
    assert first == "Another process is writing workflows and did not finish in time."
    assert second.startswith("Try the same call again")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("workflow_create", {"workflow_id": "a/b", "name": "Title"}),
        ("workflow_create", {"workflow_id": "x" * 129, "name": "Title"}),
        ("workflow_create", {"workflow_id": "w\n", "name": "Title"}),
        ("workflow_create", {"workflow_id": "x", "name": ""}),
        ("workflow_create", {"workflow_id": "x", "name": "x" * 201}),
        ("workflow_create", {"workflow_id": "x", "name": "Title", "metadata": []}),
        ("workflow_create", {"workflow_id": "x", "name": "Title", "surprise": 1}),
        ("workflow_add_step", {"workflow_id": "w", "step_id": "b/c", "description": "B"}),
        ("workflow_add_step", {"workflow_id": "w", "step_id": "b", "description": ""}),
        ("workflow_add_step", {"workflow_id": "w", "step_id": "b", "description": "B", "dependencies": ["a"] * 51}),
        ("workflow_update_step", {"workflow_id": "w", "step_id": "a", "status": "done"}),
        ("workflow_update_step", {"workflow_id": "w", "step_id": "a", "status": "failed", "message": "x" * 4001}),
    ],
)
async def test_what_the_schema_excludes_is_refused(tool: str, arguments: dict[str, Any], client: Connected) -> None:
    workflow_service.workflow_create("w", "Title")
    before = workflow_service.workflow_add_step("w", "a", "Do a")
    assert (await call(client, tool, **arguments)).is_error
    assert workflow_service.workflow_ids() == ["w"]
    assert workflow_service.workflow_get_status("w") == before


async def test_the_tools_are_described_and_annotated(client: Connected) -> None:
    tools = {tool.name: tool for tool in await client.list_tools()}
    assert set(tools) == {"workflow_create", "workflow_add_step", "workflow_update_step"}
    for tool in tools.values():
        assert tool.title
        assert tool.annotations is not None
        hints = tool.annotations
        assert (hints.read_only_hint, hints.idempotent_hint, hints.open_world_hint) == (False, True, False)
        assert hints.destructive_hint == (tool.name == "workflow_update_step")
        assert tool.meta == {"fastmcp": {"tags": ["workflow"]}}
        assert tool.output_schema is None
        assert len((tool.description or "").splitlines()) <= 10
        for parameter in tool.input_schema["properties"].values():
            assert parameter["description"]
    status = tools["workflow_update_step"].input_schema["properties"]["status"]
    assert status["enum"] == ["pending", "in_progress", "completed", "failed", "skipped"]
    assert tools["workflow_create"].input_schema["required"] == ["workflow_id", "name"]
    assert tools["workflow_add_step"].input_schema["required"] == ["workflow_id", "step_id", "description"]
    assert tools["workflow_update_step"].input_schema["required"] == ["workflow_id", "step_id", "status"]


async def test_they_do_not_run_on_the_event_loop(client: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def create(*_: object) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return {}

    monkeypatch.setattr(workflow_service, "workflow_create", create)
    await call(client, "workflow_create", workflow_id="w", name="Title")
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()
