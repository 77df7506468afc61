"""The routes for operators: /health, /ready and /metrics. They need no access token; each limits what it shows."""

from hmac import compare_digest
from http import HTTPStatus
from ipaddress import ip_address

from fastmcp import FastMCP
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from quilt_mcp import __version__
from quilt_mcp.http.metrics import Metrics
from quilt_mcp.http.readiness import Readiness

NO_STORE = {"Cache-Control": "no-store"}


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
