"""The HTTP application: FastMCP's, with what guards it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal
from urllib.parse import urlsplit

from fastmcp import FastMCP
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import Lifespan

from quilt_mcp.http.gate import add_gate
from quilt_mcp.http.lost_sign_ins import LostSignIns
from quilt_mcp.http.rate_limit import Admit, RateLimit
from quilt_mcp.http.readiness import Check, Readiness
from quilt_mcp.http.request_limits import BodyInTime, CancelOnDisconnect
from quilt_mcp.http.routes import add_routes
from quilt_mcp.http.settings import HTTPSettings
from quilt_mcp.metrics import Metrics

Transport = Literal["http", "sse"]


def create_application(  # noqa: PLR0913 - all but two are keyword-only
    mcp: FastMCP[Any],
    settings: HTTPSettings,
    *,
    transport: Transport,
    host: str,
    checks: dict[str, Check],
    metrics: Metrics | None = None,
    admit: Admit | None = None,
) -> Starlette:
    """The application that serves this server, to be run once.

    Streamable HTTP keeps no sessions and answers in JSON, so that any process can answer any request; what needs a
    session, such as to be notified, is for the sessionless era's `subscriptions/listen`, or for SSE.

    Args:
        mcp: the server; it gets the routes beside MCP's.
        settings: of HTTP.
        transport: streamable HTTP, or SSE.
        host: the address that is listened on.
        checks: of readiness.
        metrics: the numbers at /metrics; they are counted while the application runs.
        admit: counts each request of a signed-in caller, and may refuse it; None lets all pass.
    """
    numbers = metrics or Metrics()
    add_routes(mcp, Readiness(checks), numbers, settings.metrics_token)
    public = [urlsplit(str(settings.public_url)).hostname] if settings.public_url else []
    app = mcp.http_app(
        transport=transport,
        json_response=True,
        stateless_http=transport == "http",
        host_origin_protection=True,
        allowed_hosts=[host, *filter(None, public), *settings.allowed_hosts],
        allowed_origins=list(settings.allowed_origins) or None,
    )
    if mcp.auth is not None:
        app.user_middleware.insert(0, Middleware(LostSignIns))
        add_gate(app)  # before the rest: who has no token may not even send a body
        app.user_middleware += [Middleware(RateLimit, admit=admit)] if admit else []
    app.user_middleware += [
        Middleware(BodyInTime),
        Middleware(RequestBodyLimitMiddleware, max_body_size=settings.max_request_bytes),
        Middleware(CancelOnDisconnect),
    ]
    app.router.lifespan_context = _counting(app.router.lifespan_context, numbers)
    return app


def _counting(lifespan: Lifespan[Any], numbers: Metrics) -> Lifespan[Any]:
    @asynccontextmanager
    async def counting(app: Starlette) -> AsyncIterator[Any]:
        with numbers.watching():
            async with lifespan(app) as state:
                yield state

    return counting
