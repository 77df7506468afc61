"""The gate: where callers must sign in, nobody else learns anything, not even which paths there are."""

from collections.abc import Sequence

from fastmcp.server.auth.middleware import RequireAuthMiddleware
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from quilt_mcp.http.request_limits import BodyInTime

OPEN_BODY_BYTES = 16_384
"""The longest body that anyone may send: enough to register a client, which is kept."""


class AuthenticationGate:
    """Answers 401 to whatever has no valid token, except on the open routes.

    FastMCP guards its MCP endpoint alone: unknown paths, wrong methods and redirects would be answered as to anyone.
    """

    def __init__(self, app: ASGIApp, *, open_routes: Sequence[BaseRoute], challenge: RequireAuthMiddleware) -> None:
        self._open = BodyInTime(RequestBodyLimitMiddleware(app, OPEN_BODY_BYTES))
        self._open_routes = open_routes
        self._guarded = RequireAuthMiddleware(
            app, challenge.required_scopes, challenge.resource_metadata_url, challenge.challenge_scopes
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401, or 403 where a required scope is missing."""
        is_open = scope["type"] != "http" or any(route.matches(scope)[0] is Match.FULL for route in self._open_routes)
        await (self._open if is_open else self._guarded)(scope, receive, send)


def add_gate(app: Starlette) -> None:
    """Put the gate before all that the application answers; its own routes beside MCP's are open.

    These are the sign-in provider's, and those that guard themselves.
    """
    guards = {id(route): guard for route in app.routes if (guard := _guard(route))}
    is_open = [route for route in app.routes if id(route) not in guards]
    challenge = next(iter(guards.values()))
    # The last is the innermost: by then FastMCP has looked at the token.
    app.user_middleware.append(Middleware(AuthenticationGate, open_routes=is_open, challenge=challenge))


def _guard(route: BaseRoute) -> RequireAuthMiddleware | None:
    found = route.endpoint if isinstance(route, Route) else route.app if isinstance(route, Mount) else None
    return found if isinstance(found, RequireAuthMiddleware) else None
