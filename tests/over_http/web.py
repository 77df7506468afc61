"""A server on loopback, in the test's own event loop, as `quilt-mcp serve --transport http` makes it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from threading import Event
from typing import Any

import httpx2
from fastmcp import FastMCP

from quilt_mcp.http.application import Transport, create_application
from quilt_mcp.http.auth import SharedStore, auth_from
from quilt_mcp.http.listening import listen
from quilt_mcp.http.readiness import Check
from quilt_mcp.http.settings import HTTPSettings
from quilt_mcp.http.tool_schemas import declare_input_schemas
from quilt_mcp.http.web_server import WebServer
from quilt_mcp.manager import ResourceManager
from quilt_mcp.registry import define, registry_of
from quilt_mcp.surfaces import add_surfaces
from tests.waiting import SECONDS

SESSIONLESS = "2026-07-28"
QUICK, SLOW = "shop://quick", "shop://slow"
TOKENS = '{"the-token-of-ann": {"client_id": "ann", "scopes": ["read"]}}'
ANN = {"Authorization": "Bearer the-token-of-ann"}

Answer = Callable[[], dict[str, Any]]


class Shop:
    """A server with two resources, of which one is answered only when the gate is opened."""

    def __init__(self, settings: HTTPSettings, shared_store: SharedStore = lambda _: None) -> None:
        self.begun, self.gate = Event(), Event()
        quick = define(QUICK, lambda: {"open": True}, name="Quick", description="x")
        slow = define(SLOW, self._wait, name="Slow", description="x")
        self.server: FastMCP[Any] = FastMCP("shop", auth=auth_from(settings, shared_store=shared_store))
        self.manager = ResourceManager(registry_of([quick, slow]))
        add_surfaces(self.server, self.manager)

    def _wait(self) -> dict[str, Any]:
        self.begun.set()
        return {"open": self.gate.wait(SECONDS)}


@asynccontextmanager
async def running(
    server: FastMCP[Any],
    settings: HTTPSettings,
    *,
    transport: Transport = "http",
    checks: Mapping[str, Check] | None = None,
) -> AsyncIterator[str]:
    """Serve until the block ends; the URL is the server's, without a path."""
    is_ready = asyncio.Event()
    app = create_application(server, settings, transport=transport, host="127.0.0.1", checks=dict(checks or {}))
    web = WebServer(app, settings, seconds_to_finish=1, when_ready=is_ready.set)
    await declare_input_schemas(server)
    with listen("127.0.0.1", 0) as listener:
        serving = asyncio.create_task(web.serve([listener]))
        try:
            await asyncio.wait([serving, asyncio.create_task(is_ready.wait())], return_when=asyncio.FIRST_COMPLETED)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            web.should_exit = True
            await serving


@asynccontextmanager
async def shop(
    settings: HTTPSettings | None = None, *, shared_store: SharedStore = lambda _: None, **options: Any
) -> AsyncIterator[tuple[httpx2.AsyncClient, Shop]]:
    """A client of a shop that runs."""
    found = Shop(settings or HTTPSettings(), shared_store)
    async with (
        running(found.server, settings or HTTPSettings(), **options) as url,
        httpx2.AsyncClient(base_url=url, timeout=SECONDS, trust_env=False) as client,
    ):
        yield client, found
        found.gate.set()


def request(method: str, **parameters: Any) -> dict[str, Any]:
    """What httpx posts for a request of the sessionless era."""
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
