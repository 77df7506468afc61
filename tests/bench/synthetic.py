"""Resources that cost nothing to answer, on servers of our core and of FastMCP's own parts."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.transforms import ResourcesAsTools

from quilt_mcp.http.tool_schemas import declare_input_schemas
from quilt_mcp.manager import ResourceManager
from quilt_mcp.registry import ResourceDefinition, define
from quilt_mcp.surfaces import ResourceSurface, add_surfaces

PAYLOADS = {"1 KB": 1_000, "10 KB": 10_000, "1 MB": 1_000_000}
"""The sizes of answers, in bytes of JSON."""


def payload_uri(size: int) -> str:
    """The URI of the resource with an answer of this size."""
    return f"payload://bytes/{size}"


def payloads() -> ResourceManager:
    """A resource for each size: rows such as a database answers."""
    return ResourceManager({(uri := payload_uri(size)): _payload(uri, size) for size in PAYLOADS.values()})


def server_of(manager: ResourceManager) -> FastMCP:
    """A server with both surfaces over a manager."""
    mcp = FastMCP("ours", lifespan=_lifespan)
    add_surfaces(mcp, manager)
    return mcp


def server_with_resources_as_tools(manager: ResourceManager) -> FastMCP:
    """The same resources; FastMCP's own transform makes tools of them."""
    mcp = FastMCP("ResourcesAsTools", lifespan=_lifespan)
    mcp.add_provider(ResourceSurface(manager))
    mcp.add_transform(ResourcesAsTools(mcp))
    return mcp


def numbered(count: int) -> ResourceManager:
    """Half of them static, n://static/<number>, half templates, n://template/<number>/{key}."""
    definitions = [define(uri, _async_answer, name=uri) for uri in static_uris(count)]
    definitions += [define(uri, _async_keyed, name=uri) for uri in template_uris(count)]
    return ResourceManager({definition["uri"]: definition for definition in definitions})


def numbered_fastmcp(count: int) -> FastMCP:
    """The same resources in FastMCP's local provider, and its ResourcesAsTools."""
    mcp = FastMCP("local", lifespan=_lifespan)
    for uri in static_uris(count):
        mcp.resource(uri, name=uri, mime_type="application/json")(_text)
    for uri in template_uris(count):
        mcp.resource(uri, name=uri, mime_type="application/json")(_keyed_text)
    mcp.add_transform(ResourcesAsTools(mcp))
    return mcp


def static_uris(count: int) -> list[str]:
    """The URIs of the static half."""
    return [f"n://static/{number}" for number in range(count - count // 2)]


def template_uris(count: int) -> list[str]:
    """The patterns of the templates."""
    return [f"n://template/{number}/{{key}}" for number in range(count // 2)]


@asynccontextmanager
async def _lifespan(mcp: FastMCP[Any]) -> AsyncIterator[None]:
    """As in our server: without it each call of a tool over HTTP would list all tools first."""
    await declare_input_schemas(mcp)
    yield


def _payload(uri: str, size: int) -> ResourceDefinition:
    rows: list[dict[str, Any]] = []
    length = len('{"rows":[]}')
    while length < size:
        number = len(rows)
        rows.append({"id": number, "name": f"row {number}", "ratio": number / 7, "tags": ["a", "b"], "active": True})
        length += len(json.dumps(rows[-1], separators=(",", ":"))) + 1
    return define(uri, _constant({"rows": rows}), name=f"{size} bytes")


def _constant(data: dict[str, Any]) -> Callable[[], Any]:
    async def answer() -> dict[str, Any]:
        """Rows."""
        return data

    return answer


async def _async_answer() -> dict[str, Any]:
    """A small object."""
    return {"answer": 42, "text": "x" * 150}


async def _async_keyed(key: str) -> dict[str, Any]:
    """A small object with a key."""
    return {"key": key, "text": "x" * 150}


async def _text() -> str:
    """A small object."""
    return json.dumps(await _async_answer())


async def _keyed_text(key: str) -> str:
    """A small object with a key."""
    return json.dumps(await _async_keyed(key))
