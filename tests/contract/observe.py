"""Prints what every case answers, one JSON object a world: `python -m tests.contract.observe WORLD... [--log]`."""

import asyncio
import json
import sys

import time_machine
from fastmcp import Client

from quilt_mcp.demo.world import World, demo_world
from quilt_mcp.logs import log_to_stderr
from quilt_mcp.server import create_server
from quilt_mcp.settings import Settings
from tests.conftest import NOW
from tests.contract.cases import RESOURCES
from tests.contract.scrub import scrubbed
from tests.contract.surfaces import ask


async def _observe(world: World) -> str:
    async with Client(create_server()) as client:
        answers = {row.example_uri: (await ask(client, row.example_uri)).observed() for row in reversed(RESOURCES)}
    return json.dumps({uri: scrubbed(answer, world) for uri, answer in answers.items()}, indent=1)


if __name__ == "__main__":
    worlds = [argument for argument in sys.argv[1:] if argument != "--log"]
    if "--log" in sys.argv:
        log_to_stderr(Settings().log_level)
    for name in worlds:
        with time_machine.travel(NOW, tick=False), demo_world(name) as entered:
            sys.stdout.write(asyncio.run(_observe(entered)))
