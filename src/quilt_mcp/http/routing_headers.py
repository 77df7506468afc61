"""Middleware that refuses requests of the older protocol with routing headers that contradict their body.

In the sessionless protocol, the headers Mcp-Method and Mcp-Name describe the request, and the MCP library compares them
with it. It ignores them in requests of the older protocol. A proxy could then treat a write as a read.
"""

import json
from http import HTTPStatus

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    decode_header_value,
)
from mcp_types import HEADER_MISMATCH
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class CheckRoutingHeaders:
    """Returns 400 and a JSON-RPC error if a header contradicts the body.

    The whole body must be one message, as `RequestBodyLimitMiddleware` and `CheckMessage` pass it on.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a POST of the older protocol that has one of the headers."""
        headers = Headers(scope=scope) if scope["type"] == "http" and scope["method"] == "POST" else Headers()
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
        is_older = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
        if not (is_older and (MCP_METHOD_HEADER in headers or MCP_NAME_HEADER in headers)):
            await self._app(scope, receive, send)
            return
        first: Message | None = await receive()
        body = _read(first)
        if (contradiction := _find_contradiction(body, headers)) is not None:
            await _refuse(body, contradiction)(scope, receive, send)
            return

        async def receive_again() -> Message:
            nonlocal first
            message, first = first, None
            return message or await receive()

        await self._app(scope, receive_again, send)


def _read(message: Message | None) -> dict[str, object]:
    """Return the body if it is an object. The MCP library refuses all else."""
    try:
        found = json.loads((message or {}).get("body", b""))
    except (ValueError, RecursionError):  # UTF-16 can still be nested too deeply
        return {}
    return found if isinstance(found, dict) else {}


def _find_contradiction(body: dict[str, object], headers: Headers) -> str | None:
    """Return the name of the header; None if there is none."""
    method, parameters = body.get("method"), body.get("params")
    if not isinstance(method, str):
        return None
    if headers.get(MCP_METHOD_HEADER, method) != method:
        return MCP_METHOD_HEADER
    key, name = NAME_BEARING_METHODS.get(method), headers.get(MCP_NAME_HEADER)
    if key is None or name is None or not isinstance(parameters, dict):
        return None
    return None if decode_header_value(name) == parameters.get(key) else MCP_NAME_HEADER


def _refuse(body: dict[str, object], header: str) -> JSONResponse:
    request_id = body.get("id") if isinstance(body.get("id"), str | int) else None
    error = {"code": HEADER_MISMATCH, "message": f"The header {header} contradicts the body of the request."}
    return JSONResponse(
        {"jsonrpc": "2.0", "id": request_id, "error": error},
        HTTPStatus.BAD_REQUEST,
        headers={"Cache-Control": "no-store"},
    )
