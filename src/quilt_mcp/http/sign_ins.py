"""The store of sign-ins through an OpenID provider."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from quilt_mcp.settings import HTTPSettings

if TYPE_CHECKING:
    from quilt_mcp.http.shared_state import SharedSignIns
    from quilt_mcp.http.sign_in_store import SignInKeys


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
