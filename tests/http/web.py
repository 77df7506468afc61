"""A server on loopback in the test's own event loop, created as `quilt-mcp serve --transport http` creates it."""

import asyncio
from asyncio import Protocol
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import httpx2
from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider

from quilt_mcp.commands.http_server import create_web_server
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.http.app import Check, Transport, create_application
from quilt_mcp.http.auth import SharedStore, create_auth
from quilt_mcp.http.layers import BODY_SECONDS
from quilt_mcp.http.server import Connection, ConnectionLimits, WebServer, configure_uvicorn, listen
from quilt_mcp.server import create_server
from quilt_mcp.settings import HTTPSettings
from tests.support.serving import HANDSHAKE
from tests.support.settings import Settings
from tests.support.toys import QUICK, SLOW, Shop
from tests.support.waiting import SECONDS

SESSIONLESS = "2026-07-28"
TOKENS = '{"the-token-of-ann": {"client_id": "ann", "scopes": ["read"]}}'
ANN = {"Authorization": "Bearer the-token-of-ann"}
ACCEPT = "application/json, text/event-stream"
HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HEALTHY = b'{"status":"alive"}'


@asynccontextmanager
async def serving(create: Callable[[Callable[[], None]], WebServer], host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Run a web server until the block ends. It is created with the function that it calls when it is ready."""
    is_ready = asyncio.Event()
    web = create(is_ready.set)
    with listen(host, 0) as listener:
        running = asyncio.create_task(web.serve([listener]))
        await asyncio.wait([running, asyncio.create_task(is_ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            web.should_exit = True
            await running


def started(issuer: Any) -> Iterator[Any]:
    """Serve the answers of an issuer of tokens until the fixture ends."""
    issuer.server.start()
    yield issuer
    issuer.server.stop()


def new_client(url: object) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=str(url), timeout=SECONDS, trust_env=False)


@asynccontextmanager
async def running(
    server: FastMCP[Any],
    settings: HTTPSettings,
    *,
    transport: Transport = "http",
    checks: Mapping[str, Check] | None = None,
    protocol: type[Protocol] = Connection,
    body_seconds: float = BODY_SECONDS,
    direct: ResourceManager | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[str]:
    given: dict[str, Any] = {"transport": transport, "host": "127.0.0.1", "checks": dict(checks or {})}
    app = create_application(server, settings, **given, body_seconds=body_seconds, direct=direct)
    config = configure_uvicorn(app, settings, seconds_to_finish=1, protocol=protocol)
    async with serving(lambda when_ready: WebServer(config, when_ready=when_ready), host) as url:
        yield url


@asynccontextmanager
async def shop(
    settings: HTTPSettings | None = None,
    *,
    shared_store: SharedStore = lambda _: None,
    auth: AuthProvider | None = None,
    **options: Any,
) -> AsyncIterator[tuple[httpx2.AsyncClient, Shop]]:
    found = Shop(auth or create_auth(settings or HTTPSettings(), shared_store=shared_store))
    async with (
        running(found.server, settings or HTTPSettings(), **{"direct": found.manager} | options) as url,
        new_client(url) as client,
    ):
        yield client, found
        found.gate.set()


@asynccontextmanager
async def whole_server(
    transport: Any = "http", protocol: Any = Connection, **options: Any
) -> AsyncIterator[httpx2.AsyncClient]:
    settings = Settings(**options)
    given = {"transport": transport, "host": "127.0.0.1", "protocol": protocol}
    create = partial(create_web_server, create_server(settings), settings, **given)
    async with serving(lambda when_ready: create(when_ready=when_ready)) as url, new_client(url) as client:
        yield client


@asynccontextmanager
async def connected(url: object) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    address = str(url).removeprefix("http://").rstrip("/").split(":")
    reader, writer = await asyncio.open_connection(*address)
    try:
        async with asyncio.timeout(SECONDS):
            yield reader, writer
    finally:
        writer.close()


def with_limits(**limits: float) -> type[Protocol]:
    return type("WithLimits", (Connection,), {"limits": replace(ConnectionLimits(), **limits)})


def watching(connections: list[Any], **attributes: Any) -> type[Protocol]:
    class Watched(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            connections.append(self)
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            connections.remove(self)
            super().connection_lost(exc)

    return type("Watching", (Watched,), attributes)


def request(method: str, **parameters: Any) -> dict[str, Any]:
    """Return the arguments of httpx for a request of the sessionless protocol."""
    name = parameters.get("uri") or parameters.get("name")
    meta = {
        "io.modelcontextprotocol/protocolVersion": SESSIONLESS,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {"Accept": ACCEPT, "Content-Type": "application/json", "MCP-Protocol-Version": SESSIONLESS}
    headers |= {"Mcp-Method": method} | ({"Mcp-Name": name} if name else {})
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters | {"_meta": meta}}
    return {"url": "/mcp", "json": body, "headers": headers}


def older(method: str, **parameters: Any) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    return {"url": "/mcp", "json": body, "headers": {"Accept": ACCEPT, "MCP-Protocol-Version": HANDSHAKE}}


def with_headers(asked: dict[str, Any], more: Mapping[str, str] | None = None, **headers: str) -> dict[str, Any]:
    return asked | {"headers": asked.get("headers", {}) | dict(more or {}) | headers}


async def statuses(client: httpx2.AsyncClient, asked: dict[str, Any], *headers: Mapping[str, str]) -> list[int]:
    return [(await client.post(**with_headers(asked, one))).status_code for one in headers]


def lines_of(asked: dict[str, Any]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in asked["headers"].items()).encode()


READ_QUICK, READ_SLOW = request("resources/read", uri=QUICK), request("resources/read", uri=SLOW)
CALL_QUICK = request("tools/call", name="get_resource", arguments={"uri": QUICK})
READ = request("resources/read", uri="metadata://examples")
"""Of the whole server, as every domain without a login answers it."""
