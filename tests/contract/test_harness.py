"""The harness itself: a server whose surfaces differ, or whose lists and files differ, must fail it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import ToolResult
from mcp_types import TextContent

from quilt_mcp.manager import ResourceManager
from quilt_mcp.models.responses import to_json
from quilt_mcp.registry import define, registry_of
from quilt_mcp.surfaces import ResourceSurface, add_surfaces
from tests.contract.scrub import goldens_on_disk
from tests.contract.surfaces import ask

Change = Callable[[dict[str, Any]], dict[str, Any]]


REGISTRY = registry_of([define("shop://status", lambda: {"open": True}, name="Status", description="x")])


def honest() -> FastMCP:
    server = FastMCP("shop")
    add_surfaces(server, ResourceManager(REGISTRY))
    return server


class Lie(Middleware):
    """Changes what the tool answers, in the text and the structured content or in one of them."""

    def __init__(
        self, change: Change, *, text: bool = True, structured: bool = True, is_error: bool | None = None
    ) -> None:
        self.change, self.text, self.structured, self.is_error = change, text, structured, is_error

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: CallNext[Any, ToolResult]) -> ToolResult:
        told = await call_next(context)
        body = told.structured_content or {}
        lie = self.change(dict(body))
        return ToolResult(
            content=[TextContent(type="text", text=to_json(lie if self.text else body))],
            structured_content=lie if self.structured else body,
            is_error=told.is_error if self.is_error is None else self.is_error,
        )


def changed_value(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"data": {"open": False}}


def additional_field(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"data": body["data"] | {"since": "today"}}


def failure(body: dict[str, Any]) -> dict[str, Any]:
    return {"success": False, "uri": body["uri"], "error": "NotFound"}


def same(body: dict[str, Any]) -> dict[str, Any]:
    return body


LIES = {
    "another value": Lie(changed_value),
    "one more field": Lie(additional_field),
    "a failure instead of data": Lie(failure, is_error=True),
    "another text": Lie(changed_value, structured=False),
    "another structured content": Lie(changed_value, text=False),
    "an error that is none": Lie(same, is_error=True),
}


async def test_an_honest_server_passes() -> None:
    async with Client(honest()) as client:
        assert (await ask(client, "shop://status")).body["data"] == {"open": True}
        assert (await ask(client, "shop://nothing")).resource_error is not None


@pytest.mark.parametrize("name", LIES)
async def test_a_server_that_lies_on_one_surface_fails(name: str) -> None:
    server = honest()
    server.add_middleware(LIES[name])
    async with Client(server) as client:
        with pytest.raises(AssertionError):
            await ask(client, "shop://status")


async def test_a_server_that_drops_a_resource_on_one_surface_fails() -> None:
    server = FastMCP("shop")
    server.add_provider(ResourceSurface(ResourceManager({})))  # asked first: it refuses every URI
    add_surfaces(server, ResourceManager(REGISTRY))
    async with Client(server) as client:
        with pytest.raises(AssertionError, match="refused as a resource, answered by the tool"):
            await ask(client, "shop://status")


async def test_a_refusal_that_is_worded_differently_on_one_surface_fails() -> None:
    server = honest()
    server.add_middleware(Lie(lambda body: body | {"message": "something else"}))
    async with Client(server) as client:
        with pytest.raises(AssertionError, match="the two refusals differ"):
            await ask(client, "shop://nothing")


def test_goldens_are_named_by_their_path_whatever_its_depth(tmp_path: Path) -> None:
    for name in ("data/auth/status.json", "errors/athena/query/history--member.json"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("{}", encoding="utf-8")
    assert goldens_on_disk(tmp_path) == {"data/auth/status", "errors/athena/query/history--member"}
