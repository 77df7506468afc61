"""Middleware that requires a valid token for every path, known or not."""

from collections.abc import Sequence

from fastmcp.server.auth.middleware import RequireAuthMiddleware
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from quilt_mcp.http.request_limits import BodyTimeout

UNAUTHENTICATED_BODY_BYTES = 16_384
"""The maximum body of a request that needs no token. It is enough to register a client, and the server stores that."""


class RequireToken:
    """Returns 401 to requests without a valid token, except for the public routes.

    FastMCP protects its MCP endpoint only. Unknown paths, wrong methods and redirects would get their usual answers.

    Args:
        app: the application.
        public_routes: the routes that need no token.
        challenge: FastMCP's middleware for the MCP endpoint, which defines the `WWW-Authenticate` header.
    """

    def __init__(self, app: ASGIApp, *, public_routes: Sequence[BaseRoute], challenge: RequireAuthMiddleware) -> None:
        self._public = BodyTimeout(RequestBodyLimitMiddleware(app, UNAUTHENTICATED_BODY_BYTES))
        self._public_routes = public_routes
        self._protected = RequireAuthMiddleware(
            app, challenge.required_scopes, challenge.resource_metadata_url, challenge.challenge_scopes
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, or return 401, or 403 if the token lacks a required scope."""
        is_public = scope["type"] != "http" or any(
            route.matches(scope)[0] is Match.FULL for route in self._public_routes
        )
        await (self._public if is_public else self._protected)(scope, receive, send)


def require_token(app: Starlette) -> None:
    """Require a token for the whole application, except for its routes that FastMCP does not protect.

    Those are the routes of the sign-in provider, and our own, which check their callers themselves.
    """
    protected = {id(route): found for route in app.routes if (found := _find_protection(route))}
    public = [route for route in app.routes if id(route) not in protected]
    challenge = next(iter(protected.values()))
    # The last middleware is the innermost: FastMCP has verified the token by then.
    app.user_middleware.append(Middleware(RequireToken, public_routes=public, challenge=challenge))


def _find_protection(route: BaseRoute) -> RequireAuthMiddleware | None:
    found = route.endpoint if isinstance(route, Route) else route.app if isinstance(route, Mount) else None
    return found if isinstance(found, RequireAuthMiddleware) else None
