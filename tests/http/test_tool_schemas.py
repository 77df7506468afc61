"""The MCP library has the schemas of the tools, so that `tools/call` does not run `tools/list`."""

from collections.abc import Sequence

import httpx2
from fastmcp import Client
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import Tool
from mcp_types import ListToolsRequest

from quilt_mcp.server import create_server
from quilt_mcp.settings import HTTPSettings
from tests.http.web import CALL_QUICK, request, running
from tests.support.low_level import low_level
from tests.support.toys import Shop


class Listings(Middleware):
    """Counts the calls of `tools/list`, including internal ones."""

    def __init__(self) -> None:
        self.count = 0

    async def on_list_tools(
        self, context: MiddlewareContext[ListToolsRequest], call_next: CallNext[ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        self.count += 1
        return await call_next(context)


async def test_a_call_over_http_lists_no_tools() -> None:
    server, listings = Shop().server, Listings()
    server.add_middleware(listings)
    async with running(server, HTTPSettings()) as url, httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        for _ in range(3):
            answer = (await client.post(**CALL_QUICK)).json()
            assert answer["result"]["structuredContent"]["success"]
        assert listings.count == 0
        await client.post(**request("tools/list"))
        assert listings.count == 1  # the counter works


async def test_the_declared_schemas_are_the_listed_ones() -> None:
    server = create_server()
    async with Client(server) as client:
        listed = {tool.name: tool.input_schema for tool in await client.list_tools()}
        schema_of = low_level(server).get_tool_input_schema  # FastMCP has no public way
        assert schema_of is not None
        known = {name: schema_of(name) for name in listed}
    assert known == listed
    assert {"get_resource", "workflow_create"} <= known.keys()


async def test_a_call_of_an_unknown_tool_is_refused() -> None:
    server = Shop().server
    async with running(server, HTTPSettings()) as url, httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        answer = (await client.post(**request("tools/call", name="none", arguments={"uri": "x"}))).json()
    assert "none" in str(answer)
    assert "result" not in answer or answer["result"]["isError"]
