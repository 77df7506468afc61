"""Whether the token of the current request cannot be verified now, because the store of sign-ins or the issuer failed.

The layer ReportSignInFailure answers such a request.
"""

from contextvars import ContextVar

_sign_in_failed: ContextVar[bool] = ContextVar("sign_in_failed", default=False)


class SignInStoreError(Exception):
    """The shared state with the sign-ins does not respond. It has no cause: a cause could name the address."""


def note_sign_in_failure() -> None:
    """Note that the token of the current request cannot be verified now, or that its data cannot be stored."""
    _sign_in_failed.set(True)


def has_sign_in_failed() -> bool:
    """Return whether that was noted for the current request."""
    return _sign_in_failed.get()


def clear_sign_in_failure() -> None:
    """Forget what was noted: it could be that of an earlier request on the same connection."""
    _sign_in_failed.set(False)
