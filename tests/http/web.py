"""A server on loopback in the test's own event loop, created as `quilt-mcp serve --transport http` creates it."""

import asyncio
from asyncio import Protocol
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider

from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.http.app import Transport, create_application
from quilt_mcp.http.auth import SharedStore, create_auth
from quilt_mcp.http.connections import Connection
from quilt_mcp.http.layers import BODY_SECONDS
from quilt_mcp.http.operators import Check
from quilt_mcp.http.server import WebServer, configure_uvicorn, listen
from quilt_mcp.settings import HTTPSettings
from tests.support.toys import QUICK, SLOW, Shop
from tests.support.waiting import SECONDS

SESSIONLESS = "2026-07-28"
TOKENS = '{"the-token-of-ann": {"client_id": "ann", "scopes": ["read"]}}'
ANN = {"Authorization": "Bearer the-token-of-ann"}


@asynccontextmanager
async def serving(create: Callable[[Callable[[], None]], WebServer]) -> AsyncIterator[str]:
    """Run a web server until the block ends; the value is its URL.

    Args:
        create: creates the web server, given the function that it calls when it is ready.
    """
    is_ready = asyncio.Event()
    web = create(is_ready.set)
    with listen("127.0.0.1", 0) as listener:
        running = asyncio.create_task(web.serve([listener]))
        await asyncio.wait([running, asyncio.create_task(is_ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            web.should_exit = True
            await running


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
) -> AsyncIterator[str]:
    """Serve until the block ends; the value is the URL without a path."""
    app = create_application(
        server,
        settings,
        transport=transport,
        host="127.0.0.1",
        checks=dict(checks or {}),
        body_seconds=body_seconds,
        direct=direct,
    )
    config = configure_uvicorn(app, settings, seconds_to_finish=1, protocol=protocol)
    async with serving(lambda when_ready: WebServer(config, when_ready=when_ready)) as url:
        yield url


@asynccontextmanager
async def shop(
    settings: HTTPSettings | None = None,
    *,
    shared_store: SharedStore = lambda _: None,
    auth: AuthProvider | None = None,
    **options: Any,
) -> AsyncIterator[tuple[httpx2.AsyncClient, Shop]]:
    """A client of a running shop."""
    found = Shop(auth or create_auth(settings or HTTPSettings(), shared_store=shared_store))
    async with (
        running(found.server, settings or HTTPSettings(), **{"direct": found.manager} | options) as url,
        httpx2.AsyncClient(base_url=url, timeout=SECONDS, trust_env=False) as client,
    ):
        yield client, found
        found.gate.set()


def request(method: str, **parameters: Any) -> dict[str, Any]:
    """Return the arguments of httpx for a request of the sessionless protocol."""
    name = parameters.get("uri") or parameters.get("name")
    meta = {
        "io.modelcontextprotocol/protocolVersion": SESSIONLESS,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": SESSIONLESS,
        "Mcp-Method": method,
    } | ({"Mcp-Name": name} if name else {})
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters | {"_meta": meta}}
    return {"url": "/mcp", "json": body, "headers": headers}


READ_QUICK, READ_SLOW = request("resources/read", uri=QUICK), request("resources/read", uri=SLOW)
CALL_QUICK = request("tools/call", name="get_resource", arguments={"uri": QUICK})
