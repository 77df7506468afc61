"""Sign-ins through an OpenID provider: where they are stored, and the answer while the store is unavailable."""

from collections.abc import Callable
from contextvars import ContextVar
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, cast

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quilt_mcp.settings import HTTPSettings

if TYPE_CHECKING:
    from quilt_mcp.http.shared_state import SharedSignIns
    from quilt_mcp.http.sign_in_store import SignInKeys

RETRY_SECONDS = 5

_sign_in_failed: ContextVar[bool] = ContextVar("sign_in_sign_in_failed", default=False)


class SignInStoreError(Exception):
    """The shared state with the sign-ins does not respond. It has no cause: a cause could name the address."""


class SignIns:
    """The store of one app.

    Args:
        settings: of HTTP.
    """

    def __init__(self, settings: HTTPSettings) -> None:
        self._url = settings.state_url
        self._store: SharedSignIns | None = None

    def open(self, keys: "SignInKeys", failed: Callable[[], None]) -> "SharedSignIns | None":
        """Open the shared store; None if sign-ins are stored on this machine.

        Args:
            keys: encrypt the values.
            failed: called when the store does not respond.
        """
        if self._url is None:
            return None
        module = import_module("quilt_mcp.http.shared_state")  # it imports redis
        self._store = cast("SharedSignIns", module.SharedSignIns(self._url.get_secret_value(), keys, failed))
        return self._store

    async def check(self) -> None:
        """Check that the shared store responds. Does nothing if there is none.

        Raises:
            Unavailable: it does not respond.
        """
        if self._store is not None:
            await self._store.check()

    async def close(self) -> None:
        """Close the connections. The next use opens new ones."""
        if self._store is not None:
            await self._store.close()


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
