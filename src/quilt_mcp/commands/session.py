"""A client of the server in the process of a command."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from fastmcp import Client
from fastmcp.client.transports import FastMCPTransport

from quilt_mcp.app.checks import Body
from quilt_mcp.commands.startup import enter_world, open_server
from quilt_mcp.console.logs import configure_logging
from quilt_mcp.console.process import run_stoppable
from quilt_mcp.core.surfaces import TOOL_NAME

ServerClient = Client[FastMCPTransport]

T = TypeVar("T")


def run_session(call: Callable[[ServerClient], Awaitable[T]], *, demo: str | None = None) -> T:
    """Call a function with a client of the server, in a demo world or with the user's own login."""
    with configure_logging("WARNING"), enter_world(demo):
        server = open_server()

        async def connect() -> T:
            async with Client(server) as client:
                return await call(client)

        return run_stoppable(lambda: anyio.run(connect))


async def call_tool(client: ServerClient, uri: str | None = None) -> Body:
    """Return the body that the tool get_resource returns, for a success or an error."""
    result = await client.call_tool(TOOL_NAME, {"uri": uri}, raise_on_error=False)
    if result.structured_content is None:
        raise RuntimeError(f"The tool {TOOL_NAME} returned no structured content")
    return result.structured_content
