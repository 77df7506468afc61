"""The toolset of pydantic-ai. It gives a model the structured content of a result, or its text."""

import asyncio
import json
from importlib import import_module
from typing import Any

from tests.clients.drivers.answers import GIVEN, answer

transports = import_module("fastmcp.client.transports")


def make_transport() -> Any:
    command, *args = GIVEN["command"]
    match GIVEN["transport"]:
        case "stdio":
            return transports.StdioTransport(command, args)
        case "sse":
            return transports.SSETransport(GIVEN["url"])
    return transports.StreamableHttpTransport(GIVEN["url"])


async def main() -> None:
    async with import_module("pydantic_ai.mcp").MCPToolset(make_transport(), init_timeout=120) as toolset:
        await toolset.list_tools()
        for uri in GIVEN["uris"]:

            async def read(uri: str = uri) -> dict[str, Any]:
                return {"text": await toolset.read_resource(uri)}

            async def call(uri: str = uri) -> dict[str, Any]:
                return {"text": json.dumps(await toolset.direct_call_tool("get_resource", {"uri": uri}))}

            await answer(uri, resource=read, tool=call)


asyncio.run(main())
