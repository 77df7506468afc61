"""Serving over every transport, for tests.

`python -m tests.contract.serving WORLD FILE` is a server on stdio in a world, with the clock stopped. What `scrubbed`
needs to know of the world stands in FILE before the first answer.
"""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import time_machine
import uvicorn
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport

from quilt_mcp.commands.serve import serve
from quilt_mcp.demo.world import demo_world
from tests.conftest import NOW
from tests.contract.surfaces import AnyClient
from tests.waiting import SECONDS

ROOT = Path(__file__).parent.parent.parent

HANDSHAKE, SESSIONLESS = "2025-11-25", "2026-07-28"
ERAS = {"legacy": HANDSHAKE, SESSIONLESS: SESSIONLESS}
"""For each era, FastMCP's name of it as a client's `mode`, and the protocol version that the two then speak."""


@dataclass(frozen=True)
class Transport:
    """A way to connect over HTTP.

    Attributes:
        options: what `FastMCP.http_app` takes for it.
        auto: the version that a client speaks which leaves the era to FastMCP.
    """

    options: dict[str, Any]
    auto: str = SESSIONLESS


TRANSPORTS = {
    "streamable HTTP": Transport({}),
    "streamable HTTP, stateless": Transport({"stateless_http": True}),
    "streamable HTTP, JSON responses": Transport({"json_response": True}),
    # FastMCP's client holds SSE to be older than the sessionless era; one that asks for that era gets it all the same.
    "SSE": Transport({"transport": "sse"}, auto=HANDSHAKE),
}


@asynccontextmanager
async def serving(server: FastMCP, transport: Transport) -> AsyncIterator[str]:
    """Serve on a free port of 127.0.0.1, in this event loop; the URL is for clients."""
    app = server.http_app(host_origin_protection="auto", **transport.options)
    config = uvicorn.Config(
        app,
        log_config=None,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=int(SECONDS),  # on a busy machine, clients send on connections that were just closed
    )
    # The protocol by its number: without it asyncio leaves Nagle's algorithm on, and each answer waits for an ACK.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        web = uvicorn.Server(config)
        running = asyncio.create_task(web.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}{app.state.path}"
        finally:
            web.should_exit = True
            await running


@asynccontextmanager
async def on_stdio(world: str, mode: str, directory: Path) -> AsyncIterator[tuple[AnyClient, Any]]:
    """A client of a server process in a world, and what `scrubbed` needs of that world; the log is in `directory`."""
    file = directory / "world.json"
    arguments = ["-m", "tests.contract.serving", world, str(file)]
    transport = StdioTransport(
        sys.executable, arguments, dict(os.environ), str(ROOT), keep_alive=False, log_file=directory / "log"
    )
    async with Client(transport, mode=mode, timeout=SECONDS, init_timeout=SECONDS) as client:
        await client.list_resources()  # its first answer, in either era: by then the file is written
        yield client, json.loads(file.read_text(encoding="utf-8"), object_hook=lambda found: SimpleNamespace(**found))


def _serve_in(world: str, file: Path) -> int:
    with time_machine.travel(NOW, tick=False), demo_world(world) as entered:
        file.write_text(json.dumps({"url": entered.url, "directory": str(entered.directory)}), encoding="utf-8")
        return serve()


if __name__ == "__main__":
    sys.exit(_serve_in(sys.argv[1], Path(sys.argv[2])))
