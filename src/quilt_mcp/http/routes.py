"""The routes beside MCP's: /health, /ready and /metrics. They are open without a token, so each guards itself."""

from hmac import compare_digest
from http import HTTPStatus
from ipaddress import ip_address

from fastmcp import FastMCP
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from quilt_mcp.http.readiness import Readiness
from quilt_mcp.metrics import Metrics

NEVER_STORED = {"Cache-Control": "no-store"}


def add_routes(mcp: FastMCP, readiness: Readiness, numbers: Metrics, metrics_token: SecretStr | None) -> None:
    """Add the routes to what the server's HTTP application will answer."""

    @mcp.custom_route("/health", ["GET"])
    async def health(_: Request) -> Response:
        """Whether the process is alive: always 200."""
        return JSONResponse({"status": "alive"}, headers=NEVER_STORED)

    @mcp.custom_route("/ready", ["GET"])
    async def ready(request: Request) -> Response:
        """Whether what it depends on answers: 200, else 503; who has signed in, where one must, is told the names."""
        failing = await readiness.failing()
        may_know = mcp.auth is None or request.user.is_authenticated
        names = {"failing": failing} if failing and may_know else {}
        status = HTTPStatus.SERVICE_UNAVAILABLE if failing else HTTPStatus.OK
        return JSONResponse({"status": "not ready" if failing else "ready"} | names, status, headers=NEVER_STORED)

    @mcp.custom_route("/metrics", ["GET"])
    async def metrics(request: Request) -> Response:
        """The numbers of all worker processes in Prometheus' text format."""
        if not _may_read_metrics(request, metrics_token):
            return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"WWW-Authenticate": "Bearer"})
        return Response(numbers.exposition(), media_type=CONTENT_TYPE_LATEST, headers=NEVER_STORED)


def _may_read_metrics(request: Request, token: SecretStr | None) -> bool:
    if token is not None:
        given = request.headers.get("authorization", "")
        return compare_digest(given.encode(), f"Bearer {token.get_secret_value()}".encode())
    return request.client is not None and _is_loopback(request.client.host)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:  # what a proxy says of its client may be no address
        return False
