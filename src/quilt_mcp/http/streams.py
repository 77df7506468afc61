"""A limit for answers that have no end: the streams of sessions over SSE."""

from collections import Counter

from fastmcp.server.dependencies import get_access_token
from starlette.types import ASGIApp, Receive, Scope, Send

from quilt_mcp.core.errors import TooManyRequests
from quilt_mcp.http.connections import IS_STREAM
from quilt_mcp.http.request_limits import find_counted, too_many_requests

SHARE = 10
"""A caller can have one of so many connections as a stream."""
RETRY_SECONDS = 30


class StreamLimit:
    """Returns 429 if a caller has too many streams, so that one caller cannot take all connections.

    Callers without sign-in are counted by address. Must run after authentication.

    Args:
        app: the application.
        path: of the streams.
        max_connections: of the process.
    """

    def __init__(self, app: ASGIApp, *, path: str, max_connections: int) -> None:
        self._app = app
        self._path = path
        self._limit = max(1, max_connections // SHARE)
        self._open: Counter[str] = Counter()  # only callers with a stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the stream while it is open."""
        if scope["type"] != "http" or scope["path"] != self._path:
            await self._app(scope, receive, send)
            return
        caller = _find_caller(scope)
        if self._open[caller] >= self._limit:
            refusal = TooManyRequests(
                "Too many streams.", retry_after_seconds=RETRY_SECONDS, details=f"at most {self._limit} streams"
            )
            await too_many_requests(refusal)(scope, receive, send)
            return
        scope[IS_STREAM] = True
        self._open[caller] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]


def _find_caller(scope: Scope) -> str:
    if (token := get_access_token()) is not None:
        return find_counted(token).key
    return scope["client"][0] if scope.get("client") else ""
