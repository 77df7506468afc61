"""The servers of openai-agents."""

import asyncio
from importlib import import_module
from typing import Any

from tests.clients.drivers.answers import GIVEN, answer, describe

mcp = import_module("agents.mcp")


def make_server() -> Any:
    command, *args = GIVEN["command"]
    match GIVEN["transport"]:
        case "stdio":
            params, kind = {"command": command, "args": args}, mcp.MCPServerStdio
        case "sse":
            params, kind = {"url": GIVEN["url"]}, mcp.MCPServerSse
        case _:
            params, kind = {"url": GIVEN["url"]}, mcp.MCPServerStreamableHttp
    return kind(params=params, client_session_timeout_seconds=120)


async def main() -> None:
    async with make_server() as server:
        await server.list_tools()
        for uri in GIVEN["uris"]:

            async def read(uri: str = uri) -> dict[str, Any]:
                return {"text": (await server.read_resource(uri)).contents[0].text}

            async def call(uri: str = uri) -> dict[str, Any]:
                return describe(await server.call_tool("get_resource", {"uri": uri}))

            await answer(uri, resource=read, tool=call)


asyncio.run(main())
