"""The client of the Python SDK, 1.x and 2.x."""

import asyncio
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any

from tests.clients.drivers.answers import GIVEN, answer, describe

mcp = import_module("mcp")


def open_transport() -> Any:
    command, *args = GIVEN["command"]
    match GIVEN["transport"]:
        case "stdio":
            return import_module("mcp.client.stdio").stdio_client(mcp.StdioServerParameters(command=command, args=args))
        case "sse":
            return import_module("mcp.client.sse").sse_client(GIVEN["url"])
    http = import_module("mcp.client.streamable_http")
    connect = getattr(http, "streamable_http_client", None) or http.streamablehttp_client
    return connect(GIVEN["url"])


async def main() -> None:
    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(open_transport())
        client = await stack.enter_async_context(mcp.ClientSession(streams[0], streams[1]))
        await client.initialize()
        await client.list_tools()
        for uri in GIVEN["uris"]:

            async def read(uri: str = uri) -> dict[str, Any]:
                return {"text": (await client.read_resource(uri)).contents[0].text}

            async def call(uri: str = uri) -> dict[str, Any]:
                return describe(await client.call_tool("get_resource", {"uri": uri}))

            await answer(uri, resource=read, tool=call)


asyncio.run(main())
