"""The server inside of other programs: `fastmcp run`, a parent FastMCP server, a Starlette application."""

import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp_types import TextResourceContents
from starlette.applications import Starlette
from starlette.routing import Mount

import quilt_mcp.main
from quilt_mcp.server import create_server
from tests.support.settings import Settings

URI = "config://server"


async def read_both(client: Client[Any], tool: str = "get_resource", *, read_uri: str = URI) -> dict[str, Any]:
    """The data of a resource, which both surfaces must agree on."""
    answer = await client.call_tool(tool, {"uri": URI})
    [content] = await client.read_resource(read_uri)
    assert isinstance(content, TextResourceContents)
    data: dict[str, Any] = json.loads(content.text)
    assert (answer.structured_content or {})["data"] == data
    return data


@pytest.mark.soak
async def test_fastmcp_run_serves_the_module(tmp_path: Path) -> None:
    transport = StdioTransport(
        str(Path(sys.executable).with_name("fastmcp")),
        ["run", str(quilt_mcp.main.__file__), "--no-banner"],
        env={"QUILT_MCP_DATA_DIR": str(tmp_path), "QUILT_MCP_ANALYSIS_DEFAULT_TIMEOUT_SECONDS": "17"},
    )
    async with Client(transport) as client:
        assert (await read_both(client))["default_timeout_seconds"] == 17


async def test_a_parent_server_mounts_it_with_its_own_settings(tmp_path: Path) -> None:
    parent: FastMCP = FastMCP("parent")
    parent.mount(create_server(Settings(data_dir=tmp_path / "a", analysis_default_timeout_seconds=11)), namespace="one")
    parent.mount(create_server(Settings(data_dir=tmp_path / "b", analysis_default_timeout_seconds=22)), namespace="two")
    async with Client(parent) as client:
        for namespace, seconds in (("one", 11), ("two", 22)):
            await client.call_tool(f"{namespace}_workflow_create", {"workflow_id": namespace, "name": "n"})
            answer = await client.call_tool(f"{namespace}_get_resource", {"uri": "workflow://workflows"})
            assert [one["id"] for one in (answer.structured_content or {})["data"]["workflows"]] == [namespace]
            answer = await client.call_tool(f"{namespace}_get_resource", {"uri": "config://security"})
            assert (answer.structured_content or {})["success"]
            [content] = await client.read_resource(f"auth://{namespace}/filesystem/status")
            assert isinstance(content, TextResourceContents)
            assert json.loads(content.text)["directories"]["workflows"]["path"].endswith(
                f"/{'a' if seconds == 11 else 'b'}"
            )


async def test_a_starlette_application_mounts_it(tmp_path: Path) -> None:
    app = create_server(Settings(data_dir=tmp_path, analysis_default_timeout_seconds=19)).http_app(path="/mcp")
    outer = Starlette(routes=[Mount("/quilt", app)], lifespan=app.lifespan)

    def create_client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
        **options: Any,
    ) -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(outer)
        return httpx2.AsyncClient(transport=transport, headers=headers, timeout=timeout, auth=auth, **options)

    async with outer.router.lifespan_context(outer):
        transport = StreamableHttpTransport("http://localhost/quilt/mcp", httpx_client_factory=create_client)
        async with Client(transport) as client:
            assert (await read_both(client))["default_timeout_seconds"] == 19
