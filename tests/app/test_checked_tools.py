"""Arguments that are not valid get this server's own error, on every tool."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult
from fastmcp.client.transports import FastMCPTransport
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information
from pydantic import BaseModel, Field

from quilt_mcp.app.checked_tool import CheckedTool
from quilt_mcp.server import create_server

pytestmark = pytest.mark.usefixtures("data_dir")
Connected = Client[FastMCPTransport]


async def every(  # noqa: PLR0917 - a parameter of each kind
    name: Annotated[str, Field(min_length=1, max_length=5)],
    count: Annotated[int, Field(ge=1, le=9)] = 3,
    kind: Literal["a", "b"] = "a",
    rows: Annotated[list[str], Field(max_length=2)] | None = None,
    more: Annotated[dict[str, Any] | bool, Field()] = False,  # noqa: FBT002 - clients name it
    code: Annotated[str, Field(pattern="^x+$", max_length=4)] = "x",
) -> str:
    """Take arguments of every kind."""
    return f"{name}{count}{kind}{rows}{more}{code}"


class Point(BaseModel):
    """A model that a tool uses."""

    x: int


async def fails() -> str:
    """Fail in its own code."""
    return str(Point.model_validate({"x": "no"}))


@pytest.fixture
async def client() -> AsyncIterator[Connected]:
    mcp: FastMCP = FastMCP("bare", mask_error_details=True)
    mcp.add_tool(CheckedTool.create(every))
    mcp.add_tool(CheckedTool.create(fails))
    async with Client(mcp) as connected:
        yield connected


async def call(client: Connected, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    return await client.call_tool(tool, arguments, raise_on_error=False)


def body_of(result: CallToolResult) -> dict[str, Any]:
    assert result.is_error
    (content,) = result.content
    assert content.type == "text"
    body: dict[str, Any] = json.loads(content.text)
    assert result.structured_content in (None, body)
    return body


CASES: list[tuple[dict[str, Any], str, str]] = [
    ({}, "`name` is missing.", "Add it. `name` must be a string of 1 to 5 characters."),
    (
        {"name": "toolong"},
        "`name` is 'toolong', a string of 7 characters.",
        "`name` must be a string of 1 to 5 characters.",
    ),
    (
        {"name": "n", "count": 12},
        "`count` is 12.",
        "`count` must be an integer from 1 to 9. You can omit it: the default is 3.",
    ),
    ({"name": "n", "count": None}, "`count` is null.", "from 1 to 9"),
    ({"name": "n", "kind": "c"}, "`kind` is 'c'", '`kind` must be one of: a, b. You can omit it: the default is "a".'),
    (
        {"name": "n", "rows": ["a"] * 3},
        "`rows` is an array of 3 items.",
        "at most 2 items, each a string or null",
    ),
    ({"name": "n", "rows": ["a", 5]}, "`rows[1]` is 5.", "`rows` must be an array of at most 2 items"),
    ({"name": "n", "rows": {}}, "`rows` is an object.", "an array of at most 2 items"),
    ({"name": "n", "more": 3.5}, "`more` is 3.5.", "`more` must be an object or true or false"),
    ({"name": "n", "code": "yy"}, "`code` is 'yy'", "a string of at most 4 characters that matches ^x+$"),
    (
        {"name": "n", "nam": 1},
        "`every` has no argument 'nam'.",
        "Use only these arguments: name, count, kind, rows, more, code.",
    ),
    ({"name": "\ud800"}, "`name` is not valid Unicode.", "surrogate pair"),
]


@pytest.mark.parametrize(("arguments", "problem", "advice"), CASES)
async def test_body_says_what_is_wrong_what_is_allowed_and_what_to_do(
    arguments: dict[str, Any], problem: str, advice: str, client: Connected
) -> None:
    body = body_of(await call(client, "every", arguments))
    assert (body["success"], body["error"], body["transient"]) == (False, "InvalidArguments", False)
    assert problem in body["message"]
    assert any(advice in action for action in body["suggested_actions"])


async def test_several_problems_are_reported_together(client: Connected) -> None:
    body = body_of(await call(client, "every", {"count": 0, "surprise": 1}))
    assert all(part in body["message"] for part in ("`name` is missing", "`count` is 0", "'surprise'"))
    assert len(body["suggested_actions"]) == 3


async def test_log_line_has_the_names_and_no_values(client: Connected, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "quilt_mcp")
    await call(client, "every", {"name": "a secret value"})
    lines = [record.getMessage() for record in caplog.records if record.name == "quilt_mcp.app.checked_tool"]
    assert lines == ["invalid arguments for every: ('name',)"]


async def test_an_error_in_the_code_of_a_tool_is_not_an_invalid_argument(client: Connected) -> None:
    result = await call(client, "fails", {})
    assert result.is_error
    assert "InvalidArguments" not in str(result.content)


async def test_valid_arguments_reach_the_function(client: Connected) -> None:
    assert (await call(client, "every", {"name": "n", "rows": ["r"]})).data == "n3a['r']Falsex"


async def test_every_tool_of_the_server_has_such_errors() -> None:
    async with Client(create_server()) as client:
        tools = [tool for tool in await client.list_tools() if tool.name != "get_resource"]
        for tool in tools:
            for arguments in ({"surprise": 1}, dict.fromkeys(tool.input_schema["properties"], 3.5)):
                result = await call(client, tool.name, arguments)
                if not arguments:
                    continue  # health_check has no arguments
                text = json.dumps(body_of(result))
                assert "InvalidArguments" in text
                assert all(one not in text for one in ("pydantic", "Input should", "validation error", "http"))
                if result.structured_content and tool.output_schema:
                    Draft202012Validator(tool.output_schema).validate(result.structured_content)
    assert len(tools) >= 8


async def test_the_schemas_that_clients_see_have_no_references() -> None:
    async with Client(create_server()) as client:
        tools = await client.list_tools()
    assert "$ref" not in json.dumps([(one.input_schema, one.output_schema) for one in tools])
