"""The workflow tools, as a client uses them."""

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

from quilt_mcp.app import App, default_app
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.workflows import service as workflow_service
from quilt_mcp.workflows.tools import add_workflow_tools
from tests.support.settings import Settings

Connected = Client[FastMCPTransport]


pytestmark = pytest.mark.usefixtures("no_workflows")


@pytest.fixture
async def client() -> AsyncIterator[Connected]:
    mcp: FastMCP = FastMCP("bare")
    add_workflow_tools(mcp, default_app.get())
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
    answer = workflow_service.workflow_get_status("w")
    assert result.structured_content == json.loads(text_of(result))
    assert result.structured_content == workflow_service.describe_change(answer, "b")
    assert result.structured_content["step"] == answer["workflow"]["steps"][1]
    assert result.structured_content["uri"] == "workflow://workflows/w/status"
    workflow = answer["workflow"]
    assert (workflow["name"], workflow["description"], workflow["metadata"]) == ("Title", "Why", {"a": [1]})
    assert workflow["status"] == "completed"
    assert workflow["execution_log"][0]["message"] == "no need"
    step = workflow["steps"][1]
    assert (step["step_type"], step["dependencies"], step["metadata"]) == ("script", ["a"], {"b": None})
    assert step["result"] == {"rows": 5}


async def test_null_is_valid_for_optional_arguments(client: Connected) -> None:
    await call(client, "workflow_create", workflow_id="w", name="Title", description=None, metadata=None)
    step = {"workflow_id": "w", "step_id": "a"}
    nothing: dict[str, None] = {"step_type": None, "dependencies": None, "metadata": None}
    await call(client, "workflow_add_step", **step, description="Do a", **nothing)
    nothing = {"message": None, "result": None, "error_message": None}
    result = await call(client, "workflow_update_step", **step, status="completed", **nothing)
    assert result.structured_content is not None
    workflow = workflow_service.workflow_get_status("w")["workflow"]
    assert (workflow["description"], workflow["steps"][0]["step_type"]) == ("", "manual")
    assert workflow["metadata"] == workflow["steps"][0]["metadata"] == {}
    assert (workflow["steps"][0]["dependencies"], workflow["steps"][0]["status"]) == ([], "completed")


async def test_a_list_of_steps_is_one_call_and_an_answer_stays_small(client: Connected) -> None:
    steps: list[dict[str, Any]] = [
        {"step_id": "s0", "description": "Start", "step_type": "script", "metadata": {"a": 1}}
    ]
    steps += [
        {"step_id": f"s{at}", "description": f"Step {at}", "dependencies": [f"s{at - 1}"]} for at in range(1, 100)
    ]
    created = await call(client, "workflow_create", workflow_id="w", name="Title", steps=steps)
    again = await call(client, "workflow_create", workflow_id="w", name="Title", steps=steps)
    assert created.structured_content == again.structured_content
    assert created.structured_content is not None
    assert created.structured_content["step"] is None
    assert created.structured_content["next_available_steps"] == ["s0"]
    found = workflow_service.workflow_get_status("w")["workflow"]["steps"]
    assert [(one["id"], one["dependencies"]) for one in found[1:]] == [
        (f"s{at}", [f"s{at - 1}"]) for at in range(1, 100)
    ]
    assert (found[0]["step_type"], found[0]["metadata"], found[1]["step_type"]) == ("script", {"a": 1}, "manual")
    updated = await call(client, "workflow_update_step", workflow_id="w", step_id="s0", status="completed")
    assert len(text_of(updated)) < 1_500
    other = await call(client, "workflow_create", workflow_id="w", name="Title", steps=[steps[1]])
    assert "or other steps" not in text_of(other) or other.is_error
    for wrong in (
        [steps[1]],
        [steps[0], {**steps[0], "description": "Other"}],
        [*steps, {"step_id": "s100", "description": "One too many"}],
        [{"step_id": "a b", "description": "A"}],
        [{"description": "A"}],
        [{"step_id": "a", "description": "A", "status": "failed"}],
    ):
        refused = await call(client, "workflow_create", workflow_id="new", name="Title", steps=wrong)
        assert refused.is_error, wrong
        assert "new" not in workflow_service.workflow_ids()


async def test_a_workflow_that_can_go_on_beside_a_failed_step_says_so(client: Connected) -> None:
    steps = [{"step_id": name, "description": name} for name in ("a", "b")]
    await call(client, "workflow_create", workflow_id="w", name="Title", steps=steps)
    found = []
    for step, status in (("a", "failed"), ("b", "in_progress"), ("b", "failed"), ("a", "in_progress")):
        answer = await call(client, "workflow_update_step", workflow_id="w", step_id=step, status=status)
        assert answer.structured_content is not None
        found.append(answer.structured_content["workflow"]["status"])
    assert found == ["failing", "failing", "failed", "failing"]
    assert [one["status"] for one in workflow_service.workflow_list_all(status="failing")["workflows"]] == ["failing"]


REFUSALS = [
    ("workflow_create", {"workflow_id": "w", "name": "Other"}, "w already exists", "workflow://workflows/w/status"),
    ("workflow_create", {"workflow_id": "..", "name": "Title"}, "workflow_id is not valid", "for example rna-seq-2026"),
    (
        "workflow_add_step",
        {"workflow_id": "w", "step_id": "a", "description": "A", "dependencies": ["x"]},
        "no step 'x'",
        "workflow_add_step",
    ),
    (
        "workflow_update_step",
        {"workflow_id": "x", "step_id": "a", "status": "failed"},
        "Workflow 'x' does not exist",
        "such as w.",
    ),
]


@pytest.mark.parametrize(("tool", "arguments", "problem", "advice"), REFUSALS)
async def test_a_refusal_has_the_reason_and_the_action(
    tool: str, arguments: dict[str, Any], problem: str, advice: str, client: Connected
) -> None:
    workflow_service.workflow_create("w", "Title")
    result = await call(client, tool, **arguments)
    body = json.loads(text_of(result))
    assert (result.is_error, problem in body["message"]) == (True, True)
    assert any(advice in action for action in body["suggested_actions"])


async def test_a_storage_failure_has_the_same_form(data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    workflow_service.workflow_create("w", "Title")
    mcp: FastMCP = FastMCP("bare")
    settings = Settings(data_dir=data_dir, database_timeout_seconds=0.01)  # the other writer never ends
    add_workflow_tools(mcp, App(settings))
    with closing(sqlite3.connect(data_dir / "workflows.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with Client(mcp) as client:
            result = await call(client, "workflow_create", workflow_id="x", name="Title")
    assert result.is_error
    assert json.loads(text_of(result)) == {
        "success": False,
        "error": "ResourceExecutionError",
        "message": "Another process is writing to the workflow database and did not finish in time.",
        "details": "SQLITE_BUSY",
        "suggested_actions": [
            "Repeat the call in a few seconds.",
            "If the error persists, look for a quilt-mcp process that hangs.",
        ],
        "transient": True,
    }
    assert [(one.levelname, one.getMessage()) for one in caplog.records if one.name.startswith("quilt_mcp.app")] == [
        ("WARNING", "workflow_create failed: ResourceExecutionError (SQLITE_BUSY)")
    ]


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
async def test_arguments_that_break_the_schema_are_refused(
    tool: str, arguments: dict[str, Any], client: Connected
) -> None:
    workflow_service.workflow_create("w", "Title")
    before = workflow_service.workflow_add_step("w", "a", "Do a")
    assert (await call(client, tool, **arguments)).is_error
    assert workflow_service.workflow_ids() == ["w"]
    assert workflow_service.workflow_get_status("w") == before


async def test_the_tools_run_in_threads(client: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def note(_: object) -> None:
        threads.append(threading.current_thread())
        raise Unavailable("The workflow database does not respond.")

    monkeypatch.setattr(workflow_service.Workflows, "writing", note)
    await call(client, "workflow_create", workflow_id="w", name="Title")
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


@pytest.mark.parametrize("argument", ["workflow_id", "step_id"])
async def test_half_of_a_surrogate_pair_in_an_id_is_refused(
    argument: str, client: Connected, caplog: pytest.LogCaptureFixture
) -> None:
    await call(client, "workflow_create", workflow_id="w", name="Title")
    await call(client, "workflow_add_step", workflow_id="w", step_id="s", description="d")
    server: FastMCP = FastMCP("bare")  # without the wire, on which such a text is refused
    add_workflow_tools(server, default_app.get())
    arguments = {"workflow_id": "w", "step_id": "s", argument: "\ud800"}
    for tool, more in (
        ("workflow_add_step", {"description": "d"}),
        ("workflow_update_step", {"status": "in_progress"}),
    ):
        result = await server.call_tool(tool, {**arguments, **more})
        body = result.structured_content or {}
        is_new = (argument, tool) == ("step_id", "workflow_add_step")
        assert (result.is_error, body["error"]) == (True, "InvalidArguments" if is_new else "NotFound")
        assert (f"`{argument}`" if is_new else "'\\ud800'") in body["message"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    found = await call(client, "workflow_update_step", workflow_id="é", step_id="s", status="in_progress")
    assert "é" in text_of(found)
