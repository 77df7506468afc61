"""Counts each request of a signed-in caller, before its body is read."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from fastmcp.server.dependencies import get_access_token
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from quilt_mcp import identity
from quilt_mcp.admission import COUNTED
from quilt_mcp.errors import NotSignedIn, TooManyRequests
from quilt_mcp.identity import Identity
from quilt_mcp.models.responses import GetResourceError
from quilt_mcp.surfaces import ResourceRefused

Admit = Callable[[Identity], Awaitable[None]]
"""Counts a request of an identity; raises TooManyRequests."""


class RateLimit:
    """Answers 429 with `Retry-After` to a caller that asks too often; it belongs behind what looks at the token.

    The body is a JSON-RPC error without an id, which MCP clients take for the answer to what they asked.
    """

    def __init__(self, app: ASGIApp, *, admit: Admit) -> None:
        self._app = app
        self._admit = admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "http" and get_access_token() is not None:
            try:
                await self._admit(identity.current())
                scope[COUNTED] = True
            except TooManyRequests as refusal:
                await _answer(refusal)(scope, receive, send)
                return
            except NotSignedIn:  # the token names nobody: each read says so
                pass
        await self._app(scope, receive, send)


def _answer(refusal: TooManyRequests) -> JSONResponse:
    body = GetResourceError(
        error=refusal.error,
        message=refusal.message,
        details=refusal.details,
        suggested_actions=refusal.suggested_actions,
        transient=refusal.transient,
        retry_after_seconds=refusal.retry_after_seconds,
        code=refusal.code,
    )
    error = ResourceRefused(body).error.model_dump(mode="json", exclude_none=True)
    return JSONResponse(
        {"jsonrpc": "2.0", "id": None, "error": error},
        HTTPStatus.TOO_MANY_REQUESTS,
        headers={"Retry-After": str(refusal.retry_after_seconds), "Cache-Control": "no-store"},
    )
