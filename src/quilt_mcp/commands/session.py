"""A client of the server within this process, so that a command reads by the same path as every other client."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from fastmcp import Client

from quilt_mcp.commands.process import enter_world, logging_from, run_stoppable
from quilt_mcp.server import create_server
from quilt_mcp.surfaces import TOOL_NAME

T = TypeVar("T")


def ask(call: Callable[[Client[Any]], Awaitable[T]], *, demo: str | None = None) -> T:
    """What `call` makes of a client of the server, in a demo world or else in the user's own."""
    with logging_from("WARNING"), enter_world(demo):
        server = create_server()

        async def talk() -> T:
            async with Client(server) as client:
                return await call(client)

        return run_stoppable(lambda: anyio.run(talk))


async def call_tool(client: Client[Any], uri: str | None = None) -> dict[str, Any]:
    """The body that the tool get_resource answers, a success or an error."""
    result = await client.call_tool(TOOL_NAME, {"uri": uri}, raise_on_error=False)
    if result.structured_content is None:
        raise RuntimeError(f"The tool {TOOL_NAME} answered no body: the server is broken.")
    return result.structured_content
