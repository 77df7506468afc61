# /// script
# requires-python = ">=3.11"
# dependencies = ["fastmcp>=4.1.2"]
# ///
"""Starts an MCP server over stdio, lists its tools, and reads a resource on both surfaces.

    python .github/scripts/ask_over_stdio.py quilt-mcp serve --demo

Exit status: 0 if both answers have the same data.
"""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

URI = "metadata://templates"


async def ask(command: str, *arguments: str) -> bool:
    """Return whether both surfaces of a server give the same data."""
    async with Client(StdioTransport(command, list(arguments), keep_alive=False)) as client:
        tools = [tool.name for tool in await client.list_tools()]
        [contents] = await client.read_resource(URI)
        answer = await client.call_tool("get_resource", {"uri": URI})
    sys.stdout.write(f"{len(tools)} tools: {', '.join(tools)}\n")
    return bool(json.loads(contents.text) == (answer.structured_content or {})["data"])


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(ask(*sys.argv[1:])) else 1)
