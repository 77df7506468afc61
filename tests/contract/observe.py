"""Prints the answers of all cases, one JSON object per world: `python -m tests.contract.observe WORLD... [--log]`."""

import asyncio
import json
import sys

from fastmcp import Client

from quilt_mcp.console.logs import log_to_stderr
from quilt_mcp.demo.world import World
from quilt_mcp.server import create_server
from tests.contract.cases import RESOURCES
from tests.contract.scrub import scrub
from tests.contract.surfaces import ask
from tests.support.settings import Settings
from tests.support.worlds import enter_stopped


async def _observe(world: World) -> str:
    async with Client(create_server()) as client:
        answers = {row.example_uri: (await ask(client, row.example_uri)).to_golden() for row in reversed(RESOURCES)}
    return json.dumps({uri: scrub(answer, world) for uri, answer in answers.items()}, indent=1)


if __name__ == "__main__":
    worlds = [argument for argument in sys.argv[1:] if argument != "--log"]
    if "--log" in sys.argv:
        log_to_stderr(Settings().log_level)
    for name in worlds:
        with enter_stopped(name) as entered:
            sys.stdout.write(asyncio.run(_observe(entered)))
