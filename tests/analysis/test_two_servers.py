"""Two servers in one process: each enforces and publishes its own settings, and has its own sandbox."""

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import FastMCPTransport
from mcp_types import TextResourceContents

from quilt_mcp.server import create_server
from tests.support.processes import descendants
from tests.support.settings import Settings
from tests.support.waiting import until

Connected = Client[FastMCPTransport]

CODE = "def f(x: int) -> int:\n    'post: _ != 42'\n    return x\n" + "#" * 2000
# More paths than any limit here. Each needs little time.
PATHS = """
def f(a: int, b: int, c: int, d: int, e: int, g: int, h: int, i: int) -> int:
    'post: True'
    total = 0
    for one in (a, b, c, d, e, g, h, i):
        if one > 0:
            total += 1
    return total
"""


SMALL = Settings(analysis_code_size_bytes=1024, analysis_default_timeout_seconds=41, analysis_coverage_threshold=100)
LARGE = Settings(analysis_code_size_bytes=4096, analysis_default_timeout_seconds=42, analysis_coverage_threshold=200)


async def check(client: Connected, code: str = CODE, **arguments: float) -> dict[str, Any]:
    result = await client.call_tool("symbolic_check", {"code": code, "function_name": "f", **arguments})
    assert result.structured_content is not None
    return result.structured_content


async def read(client: Connected, uri: str) -> dict[str, Any]:
    (content,) = await client.read_resource(uri)
    assert isinstance(content, TextResourceContents)
    data: dict[str, Any] = json.loads(content.text)
    return data


async def describe(client: Connected) -> dict[str, Any]:
    """Return which settings a server publishes and enforces."""
    security, server = [await read(client, uri) for uri in ("config://security", "config://server")]
    tools = {tool.name: tool for tool in await client.list_tools()}
    return {
        "size": security["limits"]["code_size_bytes"]["value"],
        "timeout": server["default_timeout_seconds"],
        "schema": tools["symbolic_check"].input_schema["properties"]["timeout_seconds"]["default"],
        "large code": (await check(client))["status"],
        "paths": (await check(client, PATHS, timeout_seconds=40))["paths_explored"],
    }


OF_SMALL = {"size": 1024, "timeout": 41, "schema": 41, "large code": "error", "paths": 100}
OF_LARGE = {"size": 4096, "timeout": 42, "schema": 42, "large code": "counterexample", "paths": 200}


@pytest.mark.soak
async def test_two_servers_in_one_event_loop_use_their_own_settings() -> None:
    async with Client(create_server(SMALL)) as first, Client(create_server(LARGE)) as second:
        of_first, of_second = await asyncio.gather(describe(first), describe(second))
    assert (of_first, of_second) == (OF_SMALL, OF_LARGE)


@pytest.mark.soak
def test_two_servers_in_two_threads_use_their_own_settings() -> None:
    async def serve(settings: Settings) -> dict[str, Any]:
        async with Client(create_server(settings)) as client:
            return await describe(client)

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda settings: asyncio.run(serve(settings)), [SMALL, LARGE]))
    assert found == [OF_SMALL, OF_LARGE]


@pytest.mark.soak
async def test_each_server_closes_its_own_sandbox() -> None:
    before = descendants(os.getpid())
    async with Client(create_server(LARGE)) as first:
        await check(first)
        kept = descendants(os.getpid()) - before
        async with Client(create_server(LARGE)) as second:
            await check(second)
            assert len(descendants(os.getpid()) - before) == 4  # each server has two zygotes
        await until(lambda: descendants(os.getpid()) - before == kept)
        assert (await check(first))["status"] == "counterexample"
        assert descendants(os.getpid()) - before == kept
    await until(lambda: not descendants(os.getpid()) - before)
