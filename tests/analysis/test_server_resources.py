"""config://server and info://capabilities describe the running server."""

import json
from typing import Any

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.server.auth import StaticTokenVerifier
from fastmcp.server.dependencies import get_context
from fastmcp.server.middleware import Middleware
from pydantic import TypeAdapter

from quilt_mcp.analysis.resources import Capabilities, ServerConfig, capabilities, server_config
from quilt_mcp.analysis.tools import register_analysis_prompts, register_analysis_tools
from quilt_mcp.app import App
from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.core.surfaces import add_surfaces
from tests.support.settings import Settings
from tests.support.toys import toy, toy_manager

SERVER, CAPABILITIES = "config://server", "info://capabilities"


def example(name: str) -> dict[str, Any]:
    """An example resource."""
    return {"name": name}


def create(settings: Settings | None = None, **options: Any) -> FastMCP:
    """Create a server with the two resources, a template, and the analysis tools and prompts."""
    app = App(settings or Settings())
    mcp: FastMCP = FastMCP("test", version="1.2.3", **options)
    rows = [
        toy(SERVER, server_config),
        toy(CAPABILITIES, capabilities),
        toy("test://things/{name}", example),
    ]
    add_surfaces(mcp, toy_manager(*rows, around=app.active))
    register_analysis_tools(mcp, app)
    register_analysis_prompts(mcp)
    return mcp


async def read(mcp: FastMCP, uri: str) -> dict[str, Any]:
    """Read the resource on both surfaces, which must agree."""
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
    """Return the lists of the protocol, as a client gets them."""
    async with Client(mcp) as client:
        return {
            "tools": {one.name: first_line(one.description) for one in await client.list_tools()},
            "resources": {str(one.uri): first_line(one.description) for one in await client.list_resources()},
            "templates": {
                one.uri_template: first_line(one.description) for one in await client.list_resource_templates()
            },
            "prompts": {one.name: first_line(one.description) for one in await client.list_prompts()},
        }


async def read_capabilities(mcp: FastMCP) -> dict[str, Any]:
    """Read info://capabilities, which must agree with the lists of the protocol."""
    found, listed = await read(mcp, CAPABILITIES), await lists_of(mcp)
    TypeAdapter(Capabilities).validate_python(found, strict=True)
    assert set(found) == set(listed)
    for kind, rows in found.items():
        (key,) = {"name", "uri", "uri_template"} & set(rows[0]) if rows else ("name",)
        assert {row[key]: row["description"] for row in rows} == listed[kind]
        names = [row[key] for row in rows]
        assert names == sorted(set(names))
        assert all("\n" not in row["description"] and row["description"] for row in rows)
    return found


def names_of(found: dict[str, Any], kind: str) -> set[str]:
    return {next(iter(row.values())) for row in found[kind]}


async def test_capabilities_agree_with_the_lists_of_the_server() -> None:
    found = await read_capabilities(create())
    assert {"get_resource", "symbolic_check", "health_check"} <= names_of(found, "tools")
    assert names_of(found, "resources") == {SERVER, CAPABILITIES}
    assert names_of(found, "templates") == {"test://things/{name}"}
    assert "symbolic_check_template" in names_of(found, "prompts")


async def test_added_removed_and_disabled_components_show_at_once() -> None:
    mcp = create()

    @mcp.tool
    def extra_tool() -> str:
        """A further tool.

        It has a second paragraph.
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

    found = await read_capabilities(mcp)
    assert {"name": "extra_tool", "description": "A further tool."} in found["tools"]
    assert "test://added" in names_of(found, "resources")
    assert "extra_prompt" in names_of(found, "prompts")
    mcp.local_provider.remove_tool("extra_tool")
    mcp.disable(names={"symbolic_check", "extra_prompt"})
    mcp.disable(tags={"config"})
    found = await read_capabilities(mcp)
    assert not {"extra_tool", "symbolic_check"} & names_of(found, "tools")
    assert "extra_prompt" not in names_of(found, "prompts")
    assert SERVER not in names_of(found, "resources")
    mcp.enable(names={"symbolic_check"})
    assert "symbolic_check" in names_of(await read_capabilities(mcp), "tools")


async def test_tool_with_two_versions_is_listed_once() -> None:
    mcp = create()

    @mcp.tool(name="versioned", version="1.0")
    def old() -> str:
        """The old one."""
        return ""

    @mcp.tool(name="versioned", version="2.0")
    def new() -> str:
        """The new one."""
        return ""

    found = await read_capabilities(mcp)
    assert [row for row in found["tools"] if row["name"] == "versioned"] == [
        {"name": "versioned", "description": "The new one."}
    ]


class OnlyFor(Middleware):
    """Shows a tool to administrators only."""

    def __init__(self, name: str, roles: dict[str, str]) -> None:
        self.name = name
        self.roles = roles

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        tools = await call_next(context)
        return [tool for tool in tools if tool.name != self.name or self.roles["now"] == "admin"]


async def test_each_role_sees_the_tools_that_it_can_use() -> None:
    roles = {"now": "member"}
    mcp = create()
    mcp.add_middleware(OnlyFor("health_check", roles))
    assert "health_check" not in names_of(await read_capabilities(mcp), "tools")
    roles["now"] = "admin"
    assert "health_check" in names_of(await read_capabilities(mcp), "tools")
    roles["now"] = "member"
    assert "health_check" not in names_of(await read_capabilities(mcp), "tools")


async def test_tool_that_a_session_disables_is_not_listed() -> None:
    mcp = create()

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


async def test_each_read_returns_new_lists() -> None:
    mcp = create()
    first = await read(mcp, CAPABILITIES)
    first["tools"].clear()
    assert (await read(mcp, CAPABILITIES))["tools"]
    one, other = [await read(mcp, SERVER) for _ in range(2)]
    assert one == other


async def test_server_config_describes_the_server() -> None:
    found = await read(create(mask_error_details=True), SERVER)
    TypeAdapter(ServerConfig).validate_python(found, strict=True)
    assert found == {
        "version": "1.2.3",
        "default_timeout_seconds": 30,
        "mask_error_details": True,
        "transport": "stdio",
    }


async def test_server_config_follows_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_CLIENT_ID", "canary")  # a setting of other servers, which must have no effect
    monkeypatch.setenv("GITHUB_CLIENT_SECRET", "canary")
    mcp = create(Settings(analysis_default_timeout_seconds=11), mask_error_details=False)
    found = await read(mcp, SERVER)
    assert (found["default_timeout_seconds"], found["mask_error_details"], found["transport"]) == (11, False, "stdio")
    assert "canary" not in json.dumps(found)


async def test_server_with_sign_in_has_the_transport_oauth() -> None:
    mcp = create(auth=StaticTokenVerifier({"token": {"client_id": "one", "scopes": []}}))
    async with Client(mcp) as client:  # an in-memory client needs no token
        (content,) = await client.read_resource(SERVER)
    assert json.loads(content.text)["transport"] == "oauth"


async def test_read_without_a_server_is_a_typed_error() -> None:
    with pytest.raises(RuntimeError):
        get_context()
    for function in (server_config, capabilities):
        with pytest.raises(ResourceExecutionError, match="Only a running server"):
            await function()
