"""What operators ask: /health, /ready and /metrics. They need no access token; each limits what it shows."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from ctypes import c_bool
from hmac import compare_digest
from http import HTTPStatus
from ipaddress import ip_address

from fastmcp import FastMCP
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from quilt_mcp import __version__
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.http.layers import Flag
from quilt_mcp.http.metrics import Metrics

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
        check_seconds: the time limit of each check.
        clock: returns seconds.
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
        self._leaving = c_bool() if leaving is None else leaving
        self._check_seconds = check_seconds
        self._clock = clock
        self._lock = asyncio.Lock()
        self._checked_at: float | None = None
        self._failing: list[str] = []

    @property
    def is_leaving(self) -> bool:
        """Whether this server shuts down."""
        return self._leaving.value

    async def find_failing(self) -> list[str]:
        """Return the names of the systems that do not work, sorted. The log has the reasons, whenever they change."""
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


def add_routes(mcp: FastMCP, readiness: Readiness, numbers: Metrics, metrics_token: SecretStr | None) -> None:
    """Add the routes to the HTTP application of a server. Each line of the metrics token is a valid token."""

    @mcp.custom_route("/health", ["GET"])
    async def health(request: Request) -> Response:
        """Return 200 as long as the process runs; with `?verbose` also the version, as /ready returns names."""
        is_known = mcp.auth is None or request.user.is_authenticated or _is_from_here(request)
        shows_build = "verbose" in request.query_params and is_known
        build = {"version": __version__, "commit": numbers.commit} if shows_build else {}
        return JSONResponse({"status": "alive"} | build, headers=NO_STORE)

    @mcp.custom_route("/ready", ["GET"])
    async def ready(request: Request) -> Response:
        """Return 200 if all systems respond, else 503. If the server authenticates, the names need a token.

        Return 503 also while the server shuts down.
        """
        if readiness.is_leaving:
            return JSONResponse({"status": "shutting down"}, HTTPStatus.SERVICE_UNAVAILABLE, headers=NO_STORE)
        failing = await readiness.find_failing()
        may_see_names = mcp.auth is None or request.user.is_authenticated
        names = {"failing": failing} if failing and may_see_names else {}
        status = HTTPStatus.SERVICE_UNAVAILABLE if failing else HTTPStatus.OK
        return JSONResponse({"status": "not ready" if failing else "ready"} | names, status, headers=NO_STORE)

    @mcp.custom_route("/metrics", ["GET"])
    async def metrics(request: Request) -> Response:
        """Return the metrics of all worker processes in Prometheus' text format."""
        if not _may_read_metrics(request, metrics_token):
            return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"WWW-Authenticate": "Bearer"})
        return Response(numbers.exposition(), media_type=CONTENT_TYPE_LATEST, headers=NO_STORE)


def _may_read_metrics(request: Request, token: SecretStr | None) -> bool:
    if token is not None:
        sent = request.headers.get("authorization", "")
        valid = [one.strip() for one in token.get_secret_value().splitlines()]
        return any(compare_digest(sent.encode(), f"Bearer {one}".encode()) for one in valid if one)
    return _is_from_here(request)


def _is_from_here(request: Request) -> bool:
    """Return whether the client is on this machine."""
    try:
        return request.client is not None and ip_address(request.client.host).is_loopback
    except ValueError:  # a trusted proxy can forward something that is not an address
        return False
