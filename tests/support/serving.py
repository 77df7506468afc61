"""Serving over every HTTP transport, in the event loop of the test."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from fastmcp import FastMCP

from tests.support.waiting import SECONDS

HANDSHAKE, SESSIONLESS = "2025-11-25", "2026-07-28"
PROTOCOLS = {"legacy": HANDSHAKE, SESSIONLESS: SESSIONLESS}
"""The modes of FastMCP's client, and the protocol version that each results in."""


@dataclass(frozen=True)
class Transport:
    """A way to connect over HTTP.

    Attributes:
        options: arguments of `FastMCP.http_app`.
        auto: the protocol version that a client uses if it sets no mode.
    """

    options: dict[str, Any]
    auto: str = SESSIONLESS


TRANSPORTS = {
    "streamable HTTP": Transport({}),
    "streamable HTTP, stateless": Transport({"stateless_http": True}),
    "streamable HTTP, JSON responses": Transport({"json_response": True}),
    # FastMCP's client expects SSE servers to be older than the sessionless protocol. A client that sets it gets it.
    "SSE": Transport({"transport": "sse"}, auto=HANDSHAKE),
}


@asynccontextmanager
async def serving(server: FastMCP, transport: Transport) -> AsyncIterator[str]:
    """Serve on a free port of 127.0.0.1, in this event loop. Return the URL for clients."""
    app = server.http_app(host_origin_protection="auto", **transport.options)
    config = uvicorn.Config(
        app,
        log_config=None,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=int(SECONDS),  # on a busy machine, clients send on connections that were just closed
    )
    # With an explicit protocol number asyncio disables Nagle's algorithm. Otherwise each answer waits for an ACK.
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
