"""The answer to a request with a token that cannot be verified now: the store of sign-ins or the issuer failed."""

from contextvars import ContextVar
from http import HTTPStatus

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

RETRY_SECONDS = 5

_sign_in_failed: ContextVar[bool] = ContextVar("sign_in_failed", default=False)


class SignInStoreError(Exception):
    """The shared state with the sign-ins does not respond. It has no cause: a cause could name the address."""


def note_sign_in_failure() -> None:
    """Note that the token of the current request cannot be verified now, or that its data cannot be stored."""
    _sign_in_failed.set(True)


class ReportSignInFailure:
    """Returns 503 with `Retry-After` instead of 401 or a server error if the store of sign-ins or the issuer failed.

    FastMCP treats a store that fails like one that does not contain the token, and a token without a known key like an
    invalid one. After its 401, clients would discard a valid token and register again.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application and replace its answer if necessary."""
        is_replaced = False

        async def send_or_replace(message: Message) -> None:
            nonlocal is_replaced
            if message["type"] == "http.response.start" and _sign_in_failed.get() and _is_refusal(message["status"]):
                is_replaced = True
                await _unavailable(scope, receive, send)
            elif not is_replaced:
                await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        _sign_in_failed.set(False)  # it could be that of an earlier request on the same connection
        try:
            await self._app(scope, receive, send_or_replace)
        except SignInStoreError:
            if not is_replaced:
                await _unavailable(scope, receive, send)


def _is_refusal(status: int) -> bool:
    return status == HTTPStatus.UNAUTHORIZED or status >= HTTPStatus.INTERNAL_SERVER_ERROR


_unavailable = JSONResponse(
    {"error": "temporarily_unavailable", "error_description": "The sign-in cannot be checked now. Try again later."},
    HTTPStatus.SERVICE_UNAVAILABLE,
    headers={"Retry-After": str(RETRY_SECONDS)},
)
