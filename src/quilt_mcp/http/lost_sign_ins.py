"""What is answered while the shared state with the sign-ins does not: that it is down, not that a token is bad."""

from collections.abc import MutableMapping
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

RETRY_SECONDS = 5

_is_lost: ContextVar[bool] = ContextVar("sign_ins_are_lost", default=False)


class SignInsLostError(Exception):
    """The shared state does not answer. Without a cause: that one's text may hold the address."""


def note_lost() -> None:
    """Note for the request under way that its token could not be looked up, or what it brings not be kept."""
    _is_lost.set(True)


class LostSignIns:
    """Answers 503 with `Retry-After` in place of 401, or of a failure, where the sign-ins could not be had.

    FastMCP takes a store that fails for one that does not know the token; its 401 would have clients throw away a token
    that is good, and register anew.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and look at what it is answered."""
        replaced = False

        async def watch(message: Message) -> None:
            nonlocal replaced
            if message["type"] == "http.response.start" and _is_lost.get() and _is_refusal(message):
                replaced = True
                await _unavailable(scope, receive, send)
            elif not replaced:
                await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            await self._app(scope, receive, watch)
        except SignInsLostError:
            if not replaced:
                await _unavailable(scope, receive, send)


def _is_refusal(start: MutableMapping[str, Any]) -> bool:
    status = start["status"]
    return bool(status == HTTPStatus.UNAUTHORIZED or status >= HTTPStatus.INTERNAL_SERVER_ERROR)


_unavailable = JSONResponse(
    {"error": "temporarily_unavailable", "error_description": "Sign-ins cannot be looked up now. Try again soon."},
    HTTPStatus.SERVICE_UNAVAILABLE,
    headers={"Retry-After": str(RETRY_SECONDS)},
)
