"""`python -m tests.bench.peer_servers NAME`: the same data on other servers over HTTP, as their users would write them.

fastmcp                a resource for each size and a tool, on FastMCP
resources-as-tools     the resources, and FastMCP's transform `ResourcesAsTools`
low-level              the low-level server of the package `mcp`
prepared               Starlette with answers that exist before the request

All answer JSON without a session, as `quilt-mcp serve` does, and log each request. They listen on a free port, which
they write to stderr.
"""

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import mcp_types as types
import uvicorn
from fastmcp import FastMCP
from fastmcp.server.transforms import ResourcesAsTools
from mcp.server.lowlevel.server import Server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.bench.payloads import PAYLOADS, payload_uri, rows
from tests.bench.wire import LEGACY

JSON = "application/json"
DATA = {payload_uri(size): rows(size) for size in PAYLOADS.values()}


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _fastmcp() -> FastMCP[Any]:
    mcp = FastMCP[Any]("bare")
    for uri, data in DATA.items():
        mcp.resource(uri, name=uri, mime_type=JSON)(_make_reader(data))
    return mcp


def _make_reader(data: dict[str, Any]) -> Callable[[], Awaitable[str]]:
    async def read() -> str:
        return _dump(data)

    return read


def run_fastmcp() -> None:
    """FastMCP with a tool."""
    mcp = _fastmcp()

    @mcp.tool
    async def get_resource(uri: str) -> dict[str, Any]:
        return DATA[uri]

    mcp.run(transport="http", port=0, stateless_http=True, json_response=True)


def run_resources_as_tools() -> None:
    """FastMCP with the tools `list_resources` and `read_resource`."""
    mcp = _fastmcp()
    mcp.add_transform(ResourcesAsTools(mcp))
    mcp.run(transport="http", port=0, stateless_http=True, json_response=True)


def run_low_level() -> None:
    """The server below FastMCP, with a function for each of the two methods."""
    server = Server[Any]("low-level")

    async def read(_: object, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        text = _dump(DATA[str(params.uri)])
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=params.uri, mime_type=JSON, text=text)]
        )

    async def call(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        data = DATA[(params.arguments or {})["uri"]]
        return types.CallToolResult(content=[types.TextContent(type="text", text=_dump(data))], structured_content=data)

    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call)
    uvicorn.run(server.streamable_http_app(json_response=True, stateless_http=True), port=0)


def run_prepared() -> None:
    """The fastest that a server in Python can be: it parses the request and sends bytes."""
    answers = {(method, uri): result for uri in DATA for method, result in _prepare(uri).items()}
    hello = _dump({"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "bytes", "version": "1"}})

    async def answer(request: Request) -> Response:
        message = json.loads(await request.body())
        if "id" not in message:
            return Response(status_code=202)
        params = message.get("params", {})
        uri = params.get("uri") or params.get("arguments", {}).get("uri")
        result = answers.get((message["method"], uri), hello.encode())
        return Response(b'{"jsonrpc":"2.0","id":%d,"result":%s}' % (message["id"], result), media_type=JSON)

    uvicorn.run(Starlette(routes=[Route("/mcp", answer, methods=["POST"])]), port=0)


def _prepare(uri: str) -> dict[str, bytes]:
    text = _dump(DATA[uri])
    results = {
        "resources/read": {"contents": [{"uri": uri, "mimeType": JSON, "text": text}], "resultType": "complete"},
        "tools/call": {
            "content": [{"type": "text", "text": text}],
            "structuredContent": DATA[uri],
            "resultType": "complete",
        },
    }
    return {method: _dump(result).encode() for method, result in results.items()}


SERVERS: dict[str, Callable[[], None]] = {
    "fastmcp": run_fastmcp,
    "resources-as-tools": run_resources_as_tools,
    "low-level": run_low_level,
    "prepared": run_prepared,
}


def main(arguments: Sequence[str]) -> int:
    """Run the named server until a signal."""
    SERVERS[arguments[0]]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
