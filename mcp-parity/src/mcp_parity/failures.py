"""Typed failures. Raise them in a resource function; every other exception is translated into one of them."""

from collections.abc import Sequence
from typing import Any, ClassVar

INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
DISCOVER = "Call the tool without arguments to list all resources."


class Failure(Exception):
    """A refused read. Both ways to read a resource refuse with the same body.

    Attributes:
        error: the kind of failure; clients rely on it.
        code: the JSON-RPC code of the refusal of `resources/read`.
        transient: whether the same read can succeed later.
        actions: what to do next, if `suggested_actions` is empty.
    """

    error: ClassVar[str] = "ResourceExecutionError"
    code: int = INTERNAL_ERROR
    transient: bool = False
    actions: ClassVar[tuple[str, ...]] = ("If the failure persists, report it with this message.",)

    def __init__(
        self,
        message: str,
        *,
        details: str | None = None,
        suggested_actions: Sequence[str] = (),
        transient: bool | None = None,
    ) -> None:
        """Describe the failure.

        Args:
            message: what happened.
            details: technical detail.
            suggested_actions: what to do next.
            transient: whether the same read can succeed later; by default it depends on the class.
        """
        super().__init__(message)
        self.message = message
        self.details = details
        self.suggested_actions = list(suggested_actions or self.actions)
        if transient is not None:
            self.transient = transient

    def body(self, uri: str) -> dict[str, Any]:
        """Return the JSON object that clients receive."""
        fields = {"error": self.error, "message": self.message, "details": self.details, "transient": self.transient}
        return {"success": False, "uri": uri, **fields, "suggested_actions": self.suggested_actions}


class InvalidURI(Failure):
    """No resource has this URI."""

    error, code = "InvalidURI", INVALID_PARAMS
    actions = (DISCOVER, "Check the URI for typing errors. URIs are case-sensitive.")


class InvalidVariable(Failure):
    """A template's variable has a value that it does not accept."""

    error, code, actions = "InvalidTemplateVariable", INVALID_PARAMS, (DISCOVER,)


class MissingVariable(Failure):
    """The URI is a template, and its variables have no values."""

    error, code, actions = "MissingTemplateVariable", INVALID_PARAMS, (DISCOVER,)


class NotFound(Failure):
    """The URI is valid, but there is no such item."""

    error, code, actions = "NotFound", -32003, (DISCOVER,)


class Unauthorized(Failure):
    """The caller may not read it."""

    error, code, actions = "Unauthorized", -32002, ("Ask the operator of this server for access.",)


class Unavailable(Failure):
    """Something that the server needs does not answer now."""

    code, transient, actions = -32001, True, ("Repeat the call in a minute.",)


class TooLarge(Failure):
    """The answer exceeds the tool's `max_bytes`. `resources/read` still returns it."""

    error, code = "TooLarge", INTERNAL_ERROR
    actions = ("Read it with resources/read.", "Use a template that returns a part of it, if there is one.")
