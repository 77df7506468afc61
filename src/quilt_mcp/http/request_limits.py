"""Middleware that limits one request: the rate of its caller, the time for its body, and its client's presence."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import anyio
from fastmcp.server.auth import AccessToken
from fastmcp.server.dependencies import get_access_token
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quilt_mcp.app import identity
from quilt_mcp.app.identity import Identity
from quilt_mcp.core.answers import GetResourceError
from quilt_mcp.core.errors import NotSignedIn, TooManyRequests
from quilt_mcp.core.surfaces import ResourceRefused
from quilt_mcp.http.admission import COUNTED

BODY_SECONDS = 30.0

CountRequest = Callable[[Identity], Awaitable[None]]
"""Counts a request of an identity; raises TooManyRequests if the identity exceeds its rate limit."""


class RateLimit:
    """Returns 429 with `Retry-After` if a caller exceeds its rate limit. Must run after authentication.

    The body is a JSON-RPC error without an id. MCP clients treat it as the answer to their request.
    """

    def __init__(self, app: ASGIApp, *, count: CountRequest) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the request of an authenticated caller, before its body is read."""
        if scope["type"] == "http" and (token := get_access_token()) is not None:
            try:
                await self._count(find_counted(token))
                scope[COUNTED] = True
            except TooManyRequests as refusal:
                await too_many_requests(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def find_counted(token: AccessToken) -> Identity:
    """Return the caller. All tokens of a client that do not name their owner count together; each read refuses them."""
    try:
        return identity.current()
    except NotSignedIn:
        return Identity(token.client_id, issuer=f"client of {(token.claims or {}).get('iss')}")


def too_many_requests(refusal: TooManyRequests) -> JSONResponse:
    """Return the answer to a request that exceeds a limit."""
    body = GetResourceError(
        error=refusal.error,
        message=refusal.message,
        details=refusal.details,
        suggested_actions=refusal.suggested_actions,
        transient=refusal.transient,
        retry_after_seconds=refusal.retry_after_seconds,
        code=refusal.code,
    )
    error = ResourceRefused(body).error.model_dump(mode="json", exclude_none=True)
    return JSONResponse(
        {"jsonrpc": "2.0", "id": None, "error": error},
        HTTPStatus.TOO_MANY_REQUESTS,
        headers={"Retry-After": str(refusal.retry_after_seconds), "Cache-Control": "no-store"},
    )


class _BodyTimeout(Exception):
    """The client did not send the whole body in time."""


class BodyTimeout:
    """Returns 408 if the whole body of a request has not arrived in time.

    Args:
        app: the application.
        seconds: the time for all of the body.
    """

    def __init__(self, app: ASGIApp, seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application with a deadline for the body."""
        until = asyncio.get_running_loop().time() + self._seconds
        is_complete = False

        async def receive_in_time() -> Message:
            nonlocal is_complete
            if is_complete:  # the next message is the disconnect, which can come at any time
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError as error:
                raise _BodyTimeout from error
            is_complete = not message.get("more_body", False)
            return message

        try:
            await self._app(scope, receive_in_time if scope["type"] == "http" else receive, send)
        except _BodyTimeout:
            refusal = PlainTextResponse("", HTTPStatus.REQUEST_TIMEOUT, headers={"Connection": "close"})
            await refusal(scope, receive, send)


class CancelOnDisconnect:
    """Cancels a request when its client closes the connection, as the sessionless protocol requires.

    The whole body must be one message, as `RequestBodyLimitMiddleware` passes it on.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a POST and cancel it if the client disconnects. The handlers of GET detect that themselves."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        request = _WatchedRequest(await receive(), receive, send)
        with anyio.CancelScope() as cancel_scope:
            watching = asyncio.create_task(request.watch(cancel_scope))
            try:
                await self._app(scope, request.receive, request.send)
            finally:
                watching.cancel()


class _WatchedRequest:
    """The ASGI channels of a request. Its client can disconnect at any time."""

    def __init__(self, body: Message, receive: Receive, send: Send) -> None:
        self._body: Message | None = body
        self._receive = receive
        self._send = send
        self._disconnected = asyncio.Event()
        self._is_answered = False

    async def watch(self, cancel_scope: anyio.CancelScope) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._disconnected.set()
        if not self._is_answered:  # after the answer, uvicorn reports a disconnect too
            cancel_scope.cancel()

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return body
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self._is_answered = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)
