"""config://server and info://capabilities tell the truth about the server that answers."""

import json
import subprocess
import sys
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.server.auth import StaticTokenVerifier
from fastmcp.server.dependencies import get_context
from fastmcp.server.middleware import Middleware
from pydantic import TypeAdapter

from quilt_mcp import runtime_context
from quilt_mcp.analysis import server_resources
from quilt_mcp.analysis.server_resources import Capabilities, ServerConfig
from quilt_mcp.errors import ResourceExecutionError
from quilt_mcp.manager import ResourceManager
from quilt_mcp.registry import define, registry_of
from quilt_mcp.settings import Settings
from quilt_mcp.surfaces import add_surfaces
from quilt_mcp.tools.analysis_prompts import register_analysis_prompts
from quilt_mcp.tools.analysis_tools import register_analysis_tools

SERVER, CAPABILITIES = "config://server", "info://capabilities"


def example(name: str) -> dict[str, Any]:
    """An example resource of this test's server."""
    return {"name": name}


def server(**options: Any) -> FastMCP:
    mcp: FastMCP = FastMCP("test", version="1.2.3", **options)
    registry = registry_of(
        [
            define(SERVER, server_resources.server_config, name="Server Config"),
            define(CAPABILITIES, server_resources.capabilities, name="Capabilities"),
            define("test://things/{name}", example, name="Thing"),
        ]
    )
    add_surfaces(mcp, ResourceManager(registry))
    register_analysis_tools(mcp)
    register_analysis_prompts(mcp)
    return mcp


async def read(mcp: FastMCP, uri: str) -> dict[str, Any]:
    """The resource, read on both surfaces; they must agree."""
    async with Client(mcp) as client:
        (content,) = await client.read_resource(uri)
        data: dict[str, Any] = json.loads(content.text)
        tool = await client.call_tool("get_resource", {"uri": uri})
    assert tool.structured_content is not None
    assert tool.structured_content["data"] == data
    return data


def first_line(text: str | None) -> str:
    return (text or "").strip().split("\n")[0]


async def lists_of(mcp: FastMCP) -> dict[str, Any]:
    """What a client is told by the protocol's own lists."""
    async with Client(mcp) as client:
        return {
            "tools": {one.name: first_line(one.description) for one in await client.list_tools()},
            "resources": {str(one.uri): first_line(one.description) for one in await client.list_resources()},
            "templates": {
                one.uri_template: first_line(one.description) for one in await client.list_resource_templates()
            },
            "prompts": {one.name: first_line(one.description) for one in await client.list_prompts()},
        }


async def agree(mcp: FastMCP) -> dict[str, Any]:
    told, listed = await read(mcp, CAPABILITIES), await lists_of(mcp)
    TypeAdapter(Capabilities).validate_python(told, strict=True)
    assert set(told) == set(listed)
    for kind, rows in told.items():
        (key,) = {"name", "uri", "uri_template"} & set(rows[0]) if rows else ("name",)
        assert {row[key]: row["description"] for row in rows} == listed[kind]
        names = [row[key] for row in rows]
        assert names == sorted(set(names))
        assert all("\n" not in row["description"] and row["description"] for row in rows)
    return told


def names_of(told: dict[str, Any], kind: str) -> set[str]:
    return {next(iter(row.values())) for row in told[kind]}


async def test_capabilities_are_the_lists_of_the_live_server() -> None:
    told = await agree(server())
    assert {"get_resource", "symbolic_check", "health_check"} <= names_of(told, "tools")
    assert names_of(told, "resources") == {SERVER, CAPABILITIES}
    assert names_of(told, "templates") == {"test://things/{name}"}
    assert "symbolic_check_template" in names_of(told, "prompts")


async def test_what_is_added_removed_or_disabled_shows_at_once() -> None:
    mcp = server()

    @mcp.tool
    def extra_tool() -> str:
        """A further tool.

        With more to say of it.
        """
        return ""

    @mcp.resource("test://added")
    def extra_resource() -> str:
        """A further resource."""
        return ""

    @mcp.prompt
    def extra_prompt() -> str:
        """A further prompt."""
        return ""

    told = await agree(mcp)
    assert {"name": "extra_tool", "description": "A further tool."} in told["tools"]
    assert "test://added" in names_of(told, "resources")
    assert "extra_prompt" in names_of(told, "prompts")
    mcp.local_provider.remove_tool("extra_tool")
    mcp.disable(names={"symbolic_check", "extra_prompt"})
    mcp.disable(tags={"config"})
    told = await agree(mcp)
    assert not {"extra_tool", "symbolic_check"} & names_of(told, "tools")
    assert "extra_prompt" not in names_of(told, "prompts")
    assert SERVER not in names_of(told, "resources")
    mcp.enable(names={"symbolic_check"})
    assert "symbolic_check" in names_of(await agree(mcp), "tools")


async def test_versions_of_one_tool_are_named_once() -> None:
    mcp = server()

    @mcp.tool(name="versioned", version="1.0")
    def old() -> str:
        """The old one."""
        return ""

    @mcp.tool(name="versioned", version="2.0")
    def new() -> str:
        """The new one."""
        return ""

    told = await agree(mcp)
    assert [row for row in told["tools"] if row["name"] == "versioned"] == [
        {"name": "versioned", "description": "The new one."}
    ]


class OnlyFor(Middleware):
    """Shows the tools of this name to the callers of this role alone."""

    def __init__(self, name: str, roles: dict[str, str]) -> None:
        self.name = name
        self.roles = roles

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        tools = await call_next(context)
        return [tool for tool in tools if tool.name != self.name or self.roles["now"] == "admin"]


async def test_each_role_sees_what_it_can_use() -> None:
    roles = {"now": "member"}
    mcp = server()
    mcp.add_middleware(OnlyFor("health_check", roles))
    assert "health_check" not in names_of(await agree(mcp), "tools")
    roles["now"] = "admin"
    assert "health_check" in names_of(await agree(mcp), "tools")
    roles["now"] = "member"
    assert "health_check" not in names_of(await agree(mcp), "tools")


async def test_what_a_session_hides_from_itself_is_gone() -> None:
    mcp = server()

    @mcp.tool
    async def hide(ctx: Context) -> None:
        """Hide a tool from this session."""
        await ctx.disable_components(names={"health_check"})

    async with Client(mcp) as client:
        await client.call_tool("hide", {})
        (content,) = await client.read_resource(CAPABILITIES)
        listed = {tool.name for tool in await client.list_tools()}
    assert names_of(json.loads(content.text), "tools") == listed
    assert "health_check" not in listed
    assert "hide" in listed


async def test_reading_changes_nothing_and_gives_new_lists() -> None:
    mcp = server()
    first = await read(mcp, CAPABILITIES)
    first["tools"].clear()
    assert (await read(mcp, CAPABILITIES))["tools"]
    one, other = [await read(mcp, SERVER) for _ in range(2)]
    assert one == other


async def test_the_server_is_told_as_it_is() -> None:
    told = await read(server(mask_error_details=True), SERVER)
    TypeAdapter(ServerConfig).validate_python(told, strict=True)
    assert told == {
        "version": "1.2.3",
        "default_timeout_seconds": 30,
        "mask_error_details": True,
        "transport": "stdio",
    }


async def test_the_server_is_told_as_it_is_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_CLIENT_ID", "canary")  # a setting of other servers, which must decide nothing here
    monkeypatch.setenv("GITHUB_CLIENT_SECRET", "canary")
    before = runtime_context.settings()
    runtime_context.use_settings(Settings(analysis_default_timeout_seconds=11))
    try:
        told = await read(server(mask_error_details=False), SERVER)
    finally:
        runtime_context.use_settings(before)
    assert (told["default_timeout_seconds"], told["mask_error_details"], told["transport"]) == (11, False, "stdio")
    assert "canary" not in json.dumps(told)


async def test_a_server_that_authenticates_says_so() -> None:
    mcp = server(auth=StaticTokenVerifier({"token": {"client_id": "one", "scopes": []}}))
    async with Client(mcp) as client:  # in memory no token is asked for
        (content,) = await client.read_resource(SERVER)
    assert json.loads(content.text)["transport"] == "oauth"


async def test_without_a_server_it_is_a_typed_error() -> None:
    with pytest.raises(RuntimeError):
        get_context()
    for function in (server_resources.server_config, server_resources.capabilities):
        with pytest.raises(ResourceExecutionError, match="no server is answering"):
            await function()


def test_two_processes_tell_the_same() -> None:
    program = """
import asyncio
from fastmcp import Client
from tests.analysis.test_server_resources import CAPABILITIES, server
async def main():
    async with Client(server()) as client:
        print((await client.read_resource(CAPABILITIES))[0].text)
asyncio.run(main())
"""
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout
    assert json.loads(runs[0].stdout)["tools"]
