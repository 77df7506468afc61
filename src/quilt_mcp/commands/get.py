"""`quilt-mcp get` and `quilt-mcp list`: show resources as tables, or as JSON."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import anyio
from cyclopts import Parameter
from fastmcp import Client
from fastmcp.client.transports import FastMCPTransport

from quilt_mcp.app.checks import Body
from quilt_mcp.commands.startup import enter_world, open_server
from quilt_mcp.console.logs import configure_logging
from quilt_mcp.console.output import complain, document, is_trace, show, show_json, trace_tree, waiting
from quilt_mcp.console.parser import AsJSON, Demo
from quilt_mcp.console.process import run_stoppable
from quilt_mcp.core.registry import path_variables
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


URI = Annotated[str | None, Parameter(help="The URI, with values instead of {variables}. By default, list all.")]


def get(uri: URI = None, /, *, demo: Demo = None, as_json: AsJSON = False) -> int:
    """Read a resource like the tool get_resource. Without a URI, list all resources."""
    with waiting("Reading"):
        body = run_session(lambda client: call_tool(client, uri), demo=demo)
    if as_json:
        show_json(body)
    elif not body["success"]:
        complain(*_explain(body))
    elif uri:
        data = body["data"]
        show(trace_tree(data) if is_trace(data) else document(data))
    else:
        show(document({category: [_describe(row) for row in rows] for category, rows in body["data"].items()}))
    return 0 if body["success"] else 1


def list_resources(*, as_json: AsJSON = False) -> int:
    """List all resources by category."""
    return get(as_json=as_json)


def _describe(row: Body) -> Body:
    needs = [*path_variables(row["uri"]), *(["admin"] if row["requires_admin"] else [])]
    return {"URI": row["uri"], "name": row["name"], "needs": ", ".join(needs)}


def _explain(body: Body) -> list[str]:
    details = [f"  {body['details']}"] if body["details"] else []
    actions = (f"  - {_say_in_shell(action)}" for action in body["suggested_actions"])
    return [f"{body['error']}: {body['message']}", *details, *actions]


def _say_in_shell(action: str) -> str:
    words = action.replace("Call get_resource() without arguments", "Run `quilt-mcp list`")
    return words.replace("with requires_admin=false", "without admin")
