"""What is known of the current HTTP request, for the layers and for what they call."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from fastmcp.server.dependencies import get_http_request

COUNTED = "quilt_mcp.counted"
"""The key in the ASGI scope of a request that has been counted."""

_sign_in_failed: ContextVar[bool] = ContextVar("sign_in_failed", default=False)


class SignInStoreError(Exception):
    """The shared state with the sign-ins does not respond. It has no cause: a cause could name the address."""


def note_sign_in_failure(*, failed: bool = True) -> None:
    """Note that the token of the current request cannot be verified now, or that its data cannot be stored."""
    _sign_in_failed.set(failed)


def has_sign_in_failed() -> bool:
    """Return whether a failure was noted for the current request."""
    return _sign_in_failed.get()


def current_scope() -> Mapping[str, Any]:
    """Return the ASGI scope of the current request; nothing outside of HTTP."""
    try:
        return get_http_request().scope
    except RuntimeError:
        return {}
