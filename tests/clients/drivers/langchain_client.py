"""The adapters of LangChain. They give a model the content of a result."""

import asyncio
from importlib import import_module
from typing import Any

from tests.clients.drivers.answers import GIVEN, answer

resources = import_module("langchain_mcp_adapters.resources")


def make_connection() -> dict[str, Any]:
    command, *args = GIVEN["command"]
    if GIVEN["transport"] == "stdio":
        return {"transport": "stdio", "command": command, "args": args}
    return {"transport": "sse" if GIVEN["transport"] == "sse" else "streamable_http", "url": GIVEN["url"]}


async def main() -> None:
    client = import_module("langchain_mcp_adapters.client").MultiServerMCPClient({"quilt": make_connection()})
    async with client.session("quilt") as session:
        tools = await import_module("langchain_mcp_adapters.tools").load_mcp_tools(session)
        [tool] = [one for one in tools if one.name == "get_resource"]
        for uri in GIVEN["uris"]:

            async def read(uri: str = uri) -> dict[str, Any]:
                [blob] = await resources.load_mcp_resources(session, uris=uri)
                return {"text": blob.as_string()}

            async def call(uri: str = uri) -> dict[str, Any]:
                content = await tool.ainvoke({"uri": uri})
                return {"text": content if isinstance(content, str) else content[0]["text"]}

            await answer(uri, resource=read, tool=call)


asyncio.run(main())
