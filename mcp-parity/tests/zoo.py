"""A server with all kinds of resources."""

import asyncio
import json
import time
import uuid
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.dependencies import Depends
from fastmcp.exceptions import NotFoundError, ResourceError
from fastmcp.resources import ResourceContent, ResourceResult
from fastmcp.server import create_proxy

from mcp_parity import NotFound, add_get_resource

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f00050001ff56c7"
    "725d0000000049454e44ae426082"
)


def make_zoo(*, masked: bool = False, **options: Any) -> FastMCP[Any]:
    """Create the server. Options are those of `add_get_resource`."""
    mcp: FastMCP[Any] = FastMCP("zoo", mask_error_details=masked)
    _add_values(mcp)
    _add_failures(mcp)
    _add_templates(mcp)
    _add_other_servers(mcp)
    mcp.disable(tags={"internal"})
    add_get_resource(mcp, **options)
    return mcp


def make_native() -> FastMCP[Any]:
    """Create a server without the tool."""
    mcp: FastMCP[Any] = FastMCP("native")
    _add_values(mcp)
    return mcp


def _add_values(mcp: FastMCP[Any]) -> None:
    resource = mcp.resource
    resource("zoo://dict")(lambda: {"a": 1, "ä": [1.0, None]})
    resource("zoo://list", mime_type="application/json")(lambda: json.dumps([1, 2]))
    resource("zoo://text")(lambda: "hello\nworld")
    resource("zoo://json-as-text")(lambda: json.dumps({"x": 1}, indent=2))
    resource("zoo://not-json")(lambda: '{"x": NaN}')
    resource("zoo://yaml", mime_type="application/yaml")(lambda: "a: 1\n")
    resource("zoo://png", mime_type="image/png")(lambda: PNG)
    resource("zoo://bin")(lambda: b"\x00\xff" * 50)
    resource("zoo://empty")(lambda: ResourceResult([]))
    resource("zoo://hidden", tags={"internal"})(lambda: "secret")
    resource("ui://renderer", mime_type="text/html")(lambda: "<p></p>")

    @resource("zoo://many")
    def many() -> ResourceResult:
        return ResourceResult(
            [
                ResourceContent({"k": 1}),
                ResourceContent(b"\x01"),
                ResourceContent("t", mime_type="text/markdown"),
                ResourceContent(PNG, mime_type="image/png"),
            ]
        )

    @resource("zoo://async")
    async def asynchronous() -> dict[str, bool]:
        await asyncio.sleep(0)
        return {"ok": True}

    @resource("zoo://now")
    def now() -> dict[str, object]:
        return {"now": time.time_ns(), "id": uuid.uuid4().hex, "fixed": 1}

    @resource("zoo://context")
    async def context(ctx: Context) -> dict[str, object]:
        return {"request": bool(ctx.request_id), "server": ctx.fastmcp.name}

    @resource("zoo://dependency")
    async def dependency(value: int = Depends(lambda: 42)) -> dict[str, int]:
        return {"value": value}


def _add_failures(mcp: FastMCP[Any]) -> None:
    @mcp.resource("zoo://boom")
    def boom() -> str:
        raise ValueError("internal secret sk-123")

    @mcp.resource("zoo://refused")
    def refused() -> str:
        raise ResourceError("no licence")

    @mcp.resource("zoo://timeout")
    def timeout() -> str:
        raise TimeoutError("upstream")


def _add_templates(mcp: FastMCP[Any]) -> None:
    @mcp.resource("zoo://user/{user_id}")
    def user(user_id: int) -> dict[str, int]:
        if user_id > 999:
            raise NotFound(f"no user {user_id}", suggested_actions=["Use a number below 1000."])
        if user_id > 99:
            raise NotFoundError(f"no user {user_id}")
        return {"id": user_id}

    @mcp.resource("zoo://file/{path*}")
    def file(path: str) -> str:
        return f"<{path}>"

    @mcp.resource("zoo://search{?q,limit}")
    def search(q: str = "x", limit: int = 10) -> dict[str, object]:
        return {"q": q, "limit": limit}

    @mcp.resource("Zoo+X.1://CamelCase/{userId}")
    def camel(userId: str) -> str:  # noqa: N803 - the template's name
        return userId


def _add_other_servers(mcp: FastMCP[Any]) -> None:
    child: FastMCP[Any] = FastMCP("child")
    child.resource("inner://data")(lambda: {"inner": True})

    @child.resource("inner://t/{x}")
    def template(x: str) -> dict[str, str]:
        return {"x": x}

    mcp.mount(child, namespace="ns")
    remote: FastMCP[Any] = FastMCP("remote")
    remote.resource("far://data", mime_type="application/json")(lambda: {"far": True})

    @remote.resource("far://boom")
    def boom() -> str:
        raise ResourceError("far away failure")

    mcp.mount(create_proxy(remote), namespace="px")
