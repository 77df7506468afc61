"""The HTTP application: FastMCP's, with authentication of all paths, limits, and what operators ask.

/health, /ready and /metrics need no access token; each limits what it shows.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from ctypes import c_bool
from datetime import UTC, datetime
from hmac import compare_digest
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider, RemoteAuthProvider
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Lifespan

from quilt_mcp.app.build import find_version
from quilt_mcp.core.answers import iso
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.http.direct import Direct
from quilt_mcp.http.layers import BODY_SECONDS, CountRequest, Flag, add_layers
from quilt_mcp.http.metrics import Metrics
from quilt_mcp.settings import HTTPSettings

Check = Callable[[], Awaitable[None]]
"""Checks one system; raises a ResourceFailure, OSError or TimeoutError if it does not work."""

CHECK_SECONDS = 5.0
FRESH_SECONDS = 1.0

NO_STORE = {"Cache-Control": "no-store"}

logger = logging.getLogger(__name__)


class Readiness:
    """Runs all checks concurrently, at most once per second.

    Args:
        checks: by the name of the system.
        leaving: whether this server shuts down. Load balancers then stop to send requests.
    """

    def __init__(
        self,
        checks: Mapping[str, Check],
        *,
        leaving: Flag | None = None,
        check_seconds: float = CHECK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checks = dict(checks)
        self.leaving = c_bool() if leaving is None else leaving
        self._check_seconds = check_seconds
        self._clock = clock
        self._lock = asyncio.Lock()
        self._checked_at: float | None = None
        self._failing: list[str] = []

    async def find_failing(self) -> list[str]:
        """Return the names of the systems that do not work, sorted. When they change, the log has the reasons."""
        async with self._lock:
            if self._checked_at is None or self._clock() >= self._checked_at + FRESH_SECONDS:
                results = await asyncio.gather(*(self._find_reason(check) for check in self._checks.values()))
                reasons = {name: reason for name, reason in zip(self._checks, results, strict=True) if reason}
                if sorted(reasons) != self._failing:
                    logger.warning("not ready: %s", reasons) if reasons else logger.info("ready again")
                self._failing, self._checked_at = sorted(reasons), self._clock()
            return self._failing

    async def _find_reason(self, check: Check) -> str:
        """Return why a check fails, for the log; empty if it does not. A bug in a check is raised and gives a 500."""
        try:
            async with asyncio.timeout(self._check_seconds):
                await check()
        except TimeoutError:
            return "no response in time"
        except ResourceFailure as failure:
            return failure.message
        except OSError as error:
            return error.strerror or type(error).__name__
        return ""


def find_checks(provider: AuthProvider | None) -> dict[str, Check]:
    """Return the readiness checks of the issuer and of the store of sign-ins, as far as tokens need them."""
    verifier = provider.token_verifier if isinstance(provider, RemoteAuthProvider) else provider
    issuer: Check | None = getattr(verifier, "check_issuer", None)
    sign_ins: Check | None = getattr(getattr(provider, "sign_ins", None), "check", None)
    return {name: check for name, check in (("token-issuer", issuer), ("sign-ins", sign_ins)) if check}


def add_routes(mcp: FastMCP, readiness: Readiness, numbers: Metrics, metrics_token: SecretStr | None) -> None:
    """Add the routes to the HTTP application of a server. Each line of the metrics token is a valid token."""

    @mcp.custom_route("/health", ["GET"])
    async def health(request: Request) -> Response:
        """Return 200 as long as the process runs; with `?verbose` also the version, as /ready returns names."""
        is_known = mcp.auth is None or request.user.is_authenticated
        shows_build = "verbose" in request.query_params and is_known
        build = {"version": find_version(), "commit": numbers.commit} if shows_build else {}
        return JSONResponse({"status": "alive"} | build, headers=NO_STORE)

    @mcp.custom_route("/ready", ["GET"])
    async def ready(request: Request) -> Response:
        """Return 200 if all systems respond, else 503. If the server authenticates, the names need a token.

        Return 503 also while the server shuts down. With `?verbose`, several workers say which settings they have.
        """
        if readiness.leaving.value:
            return JSONResponse({"status": "shutting down"}, HTTPStatus.SERVICE_UNAVAILABLE, headers=NO_STORE)
        failing = await readiness.find_failing()
        may_see_names = mcp.auth is None or request.user.is_authenticated
        names: dict[str, object] = {"failing": failing} if failing and may_see_names else {}
        if numbers.settings and may_see_names and "verbose" in request.query_params:
            read_at = iso(datetime.fromtimestamp(numbers.settings.read_at, UTC))
            names |= {"settings_read_at": read_at, "outdated_workers": numbers.settings.outdated.value}
        status = HTTPStatus.SERVICE_UNAVAILABLE if failing else HTTPStatus.OK
        return JSONResponse({"status": "not ready" if failing else "ready"} | names, status, headers=NO_STORE)

    @mcp.custom_route("/metrics", ["GET"])
    async def metrics(request: Request) -> Response:
        if not _may_read_metrics(request, metrics_token, has_sign_in=mcp.auth is not None):
            return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"WWW-Authenticate": "Bearer"})
        return Response(numbers.exposition(), media_type=CONTENT_TYPE_LATEST, headers=NO_STORE)


def _may_read_metrics(request: Request, token: SecretStr | None, *, has_sign_in: bool) -> bool:
    """Return whether a request may read the metrics.

    Without a sign-in, this machine may. With one, a proxy stands before the server, which can forward every request
    from this machine, so a token is needed.
    """
    if token:
        sent = request.headers.get("authorization", "")
        valid = [one.strip() for one in token.get_secret_value().splitlines()]
        return any(compare_digest(sent.encode(), f"Bearer {one}".encode()) for one in valid if one)
    return not has_sign_in and _is_from_here(request)


def _is_from_here(request: Request) -> bool:
    try:
        return request.client is not None and ip_address(request.client.host).is_loopback
    except ValueError:  # a trusted proxy can forward something that is not an address
        return False


Transport = Literal["http", "sse"]
Shared = Mapping[str, object] | None


def create_application(
    mcp: FastMCP,
    settings: HTTPSettings,
    *,
    transport: Transport,
    host: str,
    checks: Mapping[str, Check],
    metrics: Metrics | None = None,
    watching: Callable[[], AbstractContextManager[Shared]] = nullcontext,
    count: CountRequest | None = None,
    body_seconds: float = BODY_SECONDS,
    leaving: Flag | None = None,
    direct: ResourceManager | None = None,
) -> Starlette:
    """Create the application that serves this server, which gets the routes for operators. It can run once.

    Streamable HTTP has no sessions and returns JSON, so any process can answer any request. `watching` is a context
    around the lifetime of the application, in which the metrics count. What it yields is shared with the protocol.
    `direct` answers reads without FastMCP's pipeline. It is only for a server that has nothing but what `create_server`
    adds: it knows neither other components nor other middleware.
    """
    leaving, metrics = c_bool() if leaving is None else leaving, metrics or Metrics()
    add_routes(mcp, Readiness({**checks, **find_checks(mcp.auth)}, leaving=leaving), metrics, settings.metrics_token)
    public = [urlsplit(str(settings.public_url))] if settings.public_url else []
    app = mcp.http_app(
        transport=transport,
        json_response=True,
        stateless_http=transport == "http",
        host_origin_protection=True,
        allowed_hosts=[host, *(one.hostname for one in public if one.hostname), *settings.allowed_hosts],
        # the page that asks for consent to a sign-in; the proxy before it can speak HTTP with this server
        allowed_origins=[*settings.allowed_origins, *(f"{one.scheme}://{one.netloc}" for one in public)] or None,
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


def _watch(lifespan: Lifespan[Any], watching: Callable[[], AbstractContextManager[Shared]]) -> Lifespan[Any]:
    @asynccontextmanager
    async def watched(app: Starlette) -> AsyncIterator[Any]:
        with watching() as shared:
            async with lifespan(app) as state:
                yield {**(state or {}), **(shared or {})}

    return watched
