"""The HTTP application: FastMCP's, with authentication of all paths, limits, and routes for operators."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from ctypes import c_bool
from typing import Any, Literal
from urllib.parse import urlsplit

from fastmcp import FastMCP
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import Lifespan

from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.http.auth import find_checks
from quilt_mcp.http.direct import Direct
from quilt_mcp.http.layers import BODY_SECONDS, CountRequest, Flag, add_layers
from quilt_mcp.http.metrics import Metrics
from quilt_mcp.http.operators import Check, Readiness, add_routes
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

    Streamable HTTP has no sessions and returns JSON, so any process can answer any request.

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
    add_layers(
        app,
        settings,
        is_sse=transport == "sse",
        has_sign_in=mcp.auth is not None,
        leaving=leaving,
        count=count,
        body_seconds=body_seconds,
    )
    if direct is not None and transport == "http":
        count_message, path = metrics.count_message, app.state.path
        app.user_middleware.append(Middleware(Direct, mcp=mcp, manager=direct, path=path, count=count_message))
    app.router.lifespan_context = _watch(app.router.lifespan_context, watching)
    return app


def _watch(lifespan: Lifespan[Any], watching: Callable[[], AbstractContextManager[None]]) -> Lifespan[Any]:
    @asynccontextmanager
    async def watched(app: Starlette) -> AsyncIterator[Any]:
        with watching():
            async with lifespan(app) as state:
                yield state

    return watched
