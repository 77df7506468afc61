"""A limit on the clients that one address can register. Anyone can register, and the server stores each client."""

from http import HTTPStatus
from ipaddress import ip_address, ip_network

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from quilt_mcp.http.rate_limiter import RateLimiter

REGISTRATIONS = "20/minute"
PATH = "/register"
IPV6_PREFIX = 64
"""One user of IPv6 usually has so many bits of the address."""


class LimitRegistrations:
    """Returns 429 with `Retry-After` to addresses that register too many clients. Each process counts by itself.

    Args:
        app: the application.
        rate: the maximum rate per address.
    """

    def __init__(self, app: ASGIApp, rate: str = REGISTRATIONS) -> None:
        self._app = app
        self._limiter = RateLimiter(rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, or refuse."""
        is_registration = scope["type"] == "http" and scope["method"] == "POST" and scope["path"].rstrip("/") == PATH
        wait = await self._limiter.hit(find_network(Request(scope))) if is_registration else 0
        await (_refuse(wait) if wait else self._app)(scope, receive, send)


def find_network(request: Request) -> str:
    """Return the address that a request comes from; for IPv6 its network."""
    host = request.client.host if request.client else ""
    try:
        address = ip_address(host)
    except ValueError:  # a trusted proxy can forward something that is not an address
        return host
    # 4 is the version of IP
    return host if address.version == 4 else str(ip_network((address.packed, IPV6_PREFIX), strict=False))  # noqa: PLR2004 - the version of IP


def _refuse(wait: int) -> JSONResponse:
    body = {
        "error": "temporarily_unavailable",
        "error_description": f"At most {REGISTRATIONS.replace('/', ' registrations per ')} from one address.",
    }
    return JSONResponse(body, HTTPStatus.TOO_MANY_REQUESTS, headers={"Retry-After": str(wait)})
