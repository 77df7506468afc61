"""Answers of a server that has too many connections, or that shuts down."""

import asyncio
from http import HTTPStatus
from typing import Protocol

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quilt_mcp.http.audit import audit_refusal

VERSIONS = {"1.0", "1.1"}
FOR_OPERATORS = {"/health", "/ready"}
RETRY_SECONDS = 1


class Flag(Protocol):
    """Whether this server shuts down. Several processes can share it."""

    value: bool


class RefuseConnection:
    """The application for connections above the limit: it lets requests of load balancers through, one for each.

    Otherwise a load balancer or a container platform would end a server that is only busy. It is outside of the
    application, so it writes the audit log itself.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and close the connection."""
        if scope["path"] in FOR_OPERATORS:
            await self._app(scope, receive, _closing(send))
            return
        await _unavailable(scope, receive, _closing(send))
        audit_refusal(scope, HTTPStatus.SERVICE_UNAVAILABLE)


class FinishRequests:
    """Closes each connection after its request while the server shuts down, so that clients move to another server.

    A request of another version of HTTP, which h11 reads as HTTP/1.1, gets 505. One that is cancelled because it takes
    too long gets 503. A request of a client that has left gets no answer.

    Args:
        app: the application.
        leaving: whether the server shuts down.
    """

    def __init__(self, app: ASGIApp, leaving: Flag) -> None:
        self._app = app
        self._leaving = leaving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application."""
        is_started = False

        async def send_closing(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await (_closing(send) if self._leaving.value else send)(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope.get("http_version", "1.1") not in VERSIONS:
            await _unsupported(scope, receive, _closing(send))
            return
        try:
            await self._app(scope, receive, send_closing)
        except ClientDisconnect:  # in the middle of the body: no client is left to receive an answer
            return
        except asyncio.CancelledError:  # by uvicorn, at the end of its time
            if is_started:
                raise
            await _unavailable(scope, receive, _closing(send))


def _closing(send: Send) -> Send:
    """Return a function that sends an answer after which the connection is closed."""

    async def send_closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["connection"] = "close"
        await send(message)

    return send_closing


_unsupported = PlainTextResponse("This server speaks HTTP/1.1.\n", HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
_unavailable = PlainTextResponse(
    "The server has too many connections, or shuts down. Try again.\n",
    HTTPStatus.SERVICE_UNAVAILABLE,
    headers={"Retry-After": str(RETRY_SECONDS), "Cache-Control": "no-store"},
)
