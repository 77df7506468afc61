"""The HTTP application: FastMCP's, with authentication of all paths, limits, and routes for operators."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from ctypes import c_bool
from typing import Any, Literal
from urllib.parse import urlsplit

from fastmcp import FastMCP
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import Lifespan

from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.http.auth import find_checks
from quilt_mcp.http.direct import Direct
from quilt_mcp.http.message_check import CheckMessage
from quilt_mcp.http.metrics import Metrics
from quilt_mcp.http.overload import FinishRequests, Flag
from quilt_mcp.http.readiness import Check, Readiness
from quilt_mcp.http.request_limits import BODY_SECONDS, BodyTimeout, CancelOnDisconnect, CountRequest, RateLimit
from quilt_mcp.http.require_token import require_token
from quilt_mcp.http.routes import add_routes
from quilt_mcp.http.routing_headers import CheckRoutingHeaders
from quilt_mcp.http.sign_in_failures import ReportSignInFailure
from quilt_mcp.http.sign_in_limits import LimitSignIns
from quilt_mcp.http.streams import StreamLimit
from quilt_mcp.settings import HTTPSettings

Transport = Literal["http", "sse"]


def create_application(
    mcp: FastMCP,
    settings: HTTPSettings,
    *,
    transport: Transport,
    host: str,
    checks: Mapping[str, Check],
    metrics: Metrics | None = None,
    watching: Callable[[], AbstractContextManager[None]] = nullcontext,
    count: CountRequest | None = None,
    body_seconds: float = BODY_SECONDS,
    leaving: Flag | None = None,
    direct: ResourceManager | None = None,
) -> Starlette:
    """Create the application that serves this server. It can run once.

    Streamable HTTP has no sessions and returns JSON, so any process can answer any request. SSE has notifications too.

    Args:
        mcp: the server; it gets the routes for operators.
        settings: of HTTP.
        transport: streamable HTTP, or SSE.
        host: the address that the server listens on.
        checks: of readiness.
        metrics: for /metrics.
        watching: a context around the lifetime of the application, in which the metrics count.
        count: counts each request of an authenticated caller and can refuse it.
        body_seconds: the time for the body of a request.
        leaving: whether the server shuts down.
        direct: answers reads without FastMCP's pipeline. Only for a server that has nothing but what `create_server`
            adds: this path knows neither other components nor other middleware.
    """
    leaving, metrics = c_bool() if leaving is None else leaving, metrics or Metrics()
    add_routes(mcp, Readiness({**checks, **find_checks(mcp.auth)}, leaving=leaving), metrics, settings.metrics_token)
    public = [urlsplit(str(settings.public_url)).hostname] if settings.public_url else []
    app = mcp.http_app(
        transport=transport,
        json_response=True,
        stateless_http=transport == "http",
        host_origin_protection=True,
        allowed_hosts=[host, *filter(None, public), *settings.allowed_hosts],
        allowed_origins=list(settings.allowed_origins) or None,
    )
    app.user_middleware.insert(0, Middleware(FinishRequests, leaving=leaving))
    if mcp.auth is not None:
        app.user_middleware.insert(0, Middleware(ReportSignInFailure))
        app.user_middleware[:0] = [Middleware(LimitSignIns)] if settings.oidc_config_url else []
        require_token(app)  # before the body is read
        app.user_middleware += [Middleware(RateLimit, count=count)] if count else []
    _limit_requests(app, settings, transport, body_seconds)
    if direct is not None and app.state.transport_type == "streamable-http":
        # the innermost layer: all checks come before it
        options: dict[str, Any] = {
            "mcp": mcp,
            "manager": direct,
            "path": app.state.path,
            "count": metrics.count_message,
        }
        app.user_middleware.append(Middleware(Direct, **options))
    app.router.lifespan_context = _watch(app.router.lifespan_context, watching)
    return app


def _limit_requests(app: Starlette, settings: HTTPSettings, transport: Transport, body_seconds: float) -> None:
    """Add the middleware that needs to know the caller."""
    if transport == "sse":
        limit = Middleware(StreamLimit, path=app.state.path, max_connections=settings.max_connections)
        app.user_middleware.append(limit)
    app.user_middleware += [
        Middleware(BodyTimeout, seconds=body_seconds),
        Middleware(RequestBodyLimitMiddleware, max_body_size=settings.max_request_bytes),
        Middleware(CheckMessage, answers_on_stream=transport == "sse"),
        Middleware(CheckRoutingHeaders),
        Middleware(CancelOnDisconnect),
    ]


def _watch(lifespan: Lifespan[Any], watching: Callable[[], AbstractContextManager[None]]) -> Lifespan[Any]:
    @asynccontextmanager
    async def watched(app: Starlette) -> AsyncIterator[Any]:
        with watching():
            async with lifespan(app) as state:
                yield state

    return watched
