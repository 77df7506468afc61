"""Limits on what strangers can make the server store, or ask the OpenID provider.

A sign-in through an OpenID provider begins before the caller is known. Registrations, sign-ins in progress and forms of
consent are stored, and a callback is a request to the provider. FastMCP's /token and /revoke store nothing for
strangers.
"""

from http import HTTPStatus
from ipaddress import ip_address, ip_network

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from quilt_mcp.http.rate_limiter import BoundedMemory, RateLimiter

RATES = {
    "/register": "20/minute",
    "/authorize": "60/minute",
    "/consent": "120/minute",  # each sign-in reads the form and sends it
    "/auth/callback": "60/minute",
}
"""The maximum rate of requests per address, by path. Many people can share an address."""
QUERY_BYTES = 8192
"""The maximum length of a query. The server stores the parameters of a sign-in, such as `state`."""
IPV6_PREFIX = 64
"""One user of IPv6 usually has so many bits of the address."""


class LimitSignIns:
    """Returns 429 with `Retry-After` to addresses that begin too many sign-ins, and 400 if a query is too long.

    Each process counts by itself.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        memory = BoundedMemory()
        self._limiters = {path: RateLimiter(rate, memory=memory) for path, rate in RATES.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, or refuse."""
        path = scope["path"].rstrip("/") if scope["type"] == "http" and scope["method"] != "OPTIONS" else ""
        app = await self._find_refusal(path, scope) if path in RATES else None
        await (app or self._app)(scope, receive, send)

    async def _find_refusal(self, path: str, scope: Scope) -> JSONResponse | None:
        if len(scope["query_string"]) > QUERY_BYTES:
            reason = f"The query is longer than {QUERY_BYTES} bytes."
            return JSONResponse({"error": "invalid_request", "error_description": reason}, HTTPStatus.BAD_REQUEST)
        wait = await self._limiters[path].hit(f"{path} {find_network(Request(scope))}")
        if not wait:
            return None
        reason = f"At most {RATES[path].replace('/', ' requests per ')} to {path} from one address."
        return JSONResponse(
            {"error": "temporarily_unavailable", "error_description": reason},
            HTTPStatus.TOO_MANY_REQUESTS,
            headers={"Retry-After": str(wait)},
        )


def find_network(request: Request) -> str:
    """Return the address that a request comes from; for IPv6 its network."""
    host = request.client.host if request.client else ""
    try:
        address = ip_address(host)
    except ValueError:  # a trusted proxy can forward something that is not an address
        return host
    return host if address.version == 4 else str(ip_network((address.packed, IPV6_PREFIX), strict=False))  # noqa: PLR2004 - the version of IP
