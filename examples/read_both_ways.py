"""Read one resource of the demo in both ways."""

import asyncio
import json
import sys
from pathlib import Path

from fastmcp import Client

COMMAND = str(Path(sys.executable).with_name("quilt-mcp"))
DEMO = {"mcpServers": {"quilt": {"command": COMMAND, "args": ["serve", "--demo"]}}}


async def main() -> None:
    async with Client(DEMO) as client:
        [contents] = await client.read_resource("tabulator://buckets")
        answer = await client.call_tool("get_resource", {"uri": "tabulator://buckets"})
    assert json.loads(contents.text) == answer.structured_content["data"]
    print(contents.text)


asyncio.run(main())
