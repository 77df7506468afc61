"""Limits of one request: its body comes in time, and nothing goes on for a client that is gone."""

import asyncio
from http import HTTPStatus

import anyio
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_SECONDS = 30.0


class SlowBodyError(Exception):
    """The client does not send the body that it announced."""


class BodyInTime:
    """Answers 408 to a client whose body has not arrived after BODY_SECONDS."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, with a time limit on all of its body."""
        until = asyncio.get_running_loop().time() + BODY_SECONDS
        is_whole = False

        async def receive_in_time() -> Message:
            nonlocal is_whole
            if is_whole:  # what comes now is that the client is gone, at any time
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError as error:
                raise SlowBodyError from error
            is_whole = not message.get("more_body", False)
            return message

        try:
            await self._app(scope, receive_in_time if scope["type"] == "http" else receive, send)
        except SlowBodyError:
            refusal = PlainTextResponse("", HTTPStatus.REQUEST_TIMEOUT, headers={"Connection": "close"})
            await refusal(scope, receive, send)


class CancelOnDisconnect:
    """Gives a request up when its client closes the connection: that is how a client of the sessionless era cancels.

    It takes requests whose whole body is one message, as `RequestBodyLimitMiddleware` passes them on.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a POST on, and cancel it when the client is gone; what answers a GET watches for that itself."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        request = _Watched(await receive(), receive, send)
        with anyio.CancelScope() as cancellable:
            watching = asyncio.create_task(request.watch(cancellable))
            try:
                await self._app(scope, request.receive, request.send)
            finally:
                watching.cancel()


class _Watched:
    """The two ends of a request, whose client may go at any time."""

    def __init__(self, body: Message, receive: Receive, send: Send) -> None:
        self._body: Message | None = body
        self._receive = receive
        self._send = send
        self._gone = asyncio.Event()
        self._answered = False

    async def watch(self, cancellable: anyio.CancelScope) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()
        if not self._answered:  # else it is the server that tells the end
            cancellable.cancel()

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return body
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self._answered = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)
