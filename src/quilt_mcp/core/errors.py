"""Every failure that a client can receive, by its name on the wire.

    ResourceFailure
      InvalidURI                 the URI matches no resource, or is not a URI
      MissingTemplateVariable    a template's variable has no value
      InvalidTemplateVariable    a variable's value has the wrong form
      Unauthorized               the caller may not read the resource
        NotSignedIn                the request has no valid identity
      NotFound                   the URI matches a template, but what it names does not exist
      ResourceExecutionError     the service could not answer
        Unavailable                a system behind the resource cannot be reached, is slow, overloaded or broken
          TooManyRequests            the caller exceeds a limit of this server
      InvalidArguments           arguments of another tool than get_resource break its schema or its rules

Services raise these. Domains contribute functions that make them from foreign exceptions; `find_failure` looks those
up. The surfaces put failures on the wire.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

# JSON-RPC codes. INVALID_PARAMS and INTERNAL_ERROR are JSON-RPC's own, the others are from its range for servers.
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_FOUND = -32003
UNAUTHORIZED = -32002
UNAVAILABLE = -32001
SESSIONLESS_CODES = {NOT_FOUND: INVALID_PARAMS, UNAUTHORIZED: -31002, UNAVAILABLE: -31001}
"""What stands for a code since protocol 2026-07-28.

It requires -32602 for a resource that does not exist, forbids -32002, and leaves -32000 to -32099 to itself. Codes of
applications are outside of JSON-RPC's reserved range, -32768 to -32000.
"""

DISCOVER = "Call get_resource() without arguments to list all available resources."


class ResourceFailure(Exception):
    """A failure that is part of the contract.

    Attributes:
        error: the name on the wire, one of those at the second level of the module's tree.
        code: the JSON-RPC error code on the resource surface, in protocols before 2026-07-28.
        message: what happened, for a person.
        details: technical detail, or None. Never a credential.
        suggested_actions: what to do next; never empty.
        transient: whether the same call can succeed later without anyone changing anything.
    """

    error: ClassVar[str]
    code: ClassVar[int]
    default_actions: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        message: str,
        *,
        details: str | None = None,
        suggested_actions: Sequence[str] = (),
        transient: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.suggested_actions = list(suggested_actions or self.default_actions)
        self.transient = transient

    def __str__(self) -> str:
        return self.message

    @property
    def has_default_actions(self) -> bool:
        """Whether nothing more specific than the default actions is suggested."""
        return self.suggested_actions == list(self.default_actions)


class InvalidURI(ResourceFailure, KeyError, ValueError):
    """The URI matches no resource. Also a KeyError and a ValueError, for Python callers of the manager."""

    error = "InvalidURI"
    code = INVALID_PARAMS
    default_actions = (DISCOVER, "Check the URI for typos. URIs are case-sensitive.")


class MissingTemplateVariable(ResourceFailure, ValueError):
    """A template's variable has no value."""

    error = "MissingTemplateVariable"
    code = INVALID_PARAMS
    default_actions = (DISCOVER,)


class InvalidTemplateVariable(ResourceFailure, ValueError):
    """A template's variable has a value of the wrong form."""

    error = "InvalidTemplateVariable"
    code = INVALID_PARAMS
    default_actions = (DISCOVER,)


class InvalidArguments(ResourceFailure, ValueError):
    """Arguments of a tool break its schema, or a rule of what it changes."""

    error = "InvalidArguments"
    code = INVALID_PARAMS
    default_actions = ("Correct the arguments, then repeat the call.",)


class Unauthorized(ResourceFailure):
    """The caller may not read this resource. Each subclass states its `reason`, with which `details` begin."""

    error = "Unauthorized"
    code = UNAUTHORIZED
    reason: ClassVar[str] = "not allowed"
    default_actions: ClassVar[tuple[str, ...]] = (DISCOVER,)

    def __init__(self, message: str, *, details: str | None = None, suggested_actions: Sequence[str] = ()) -> None:
        reason = f"{self.reason}: {details}" if details else self.reason
        super().__init__(message, details=reason, suggested_actions=suggested_actions)


class NotSignedIn(Unauthorized):
    """The request has no valid identity."""

    reason = "not signed in"
    default_actions: ClassVar[tuple[str, ...]] = ("Sign in, then repeat the call.",)


class NotFound(ResourceFailure, LookupError):
    """What the URI names does not exist."""

    error = "NotFound"
    code = NOT_FOUND
    default_actions = (DISCOVER,)


class ResourceExecutionError(ResourceFailure, RuntimeError):
    """The resource exists and the caller may read it, but its service could not answer."""

    error = "ResourceExecutionError"
    code = INTERNAL_ERROR
    default_actions: ClassVar[tuple[str, ...]] = ("If the error persists, report it with `details`.",)


class Unavailable(ResourceExecutionError):
    """A system behind the resource cannot be reached, is slow, overloaded or broken."""

    code = UNAVAILABLE
    default_actions = ("Repeat the call in a minute.",)

    def __init__(
        self, message: str, *, details: str | None = None, suggested_actions: Sequence[str] = (), transient: bool = True
    ) -> None:
        super().__init__(message, details=details, suggested_actions=suggested_actions, transient=transient)


class TooManyRequests(Unavailable):
    """The caller exceeds a rate limit or a limit of concurrent reads.

    Attributes:
        retry_after_seconds: when the next request can be answered; at least 1.
    """

    def __init__(self, message: str, *, retry_after_seconds: int, details: str | None = None) -> None:
        when = "1 second" if retry_after_seconds == 1 else f"{retry_after_seconds} seconds"
        super().__init__(
            message,
            details=details,
            suggested_actions=[f"Repeat the call in {when}.", "Send fewer requests at the same time."],
        )
        self.retry_after_seconds = retry_after_seconds


MakeFailure = Callable[[Any], ResourceFailure | None]
"""Makes our failure from a foreign exception; None if the exception is a bug."""


def find_failure(error: Exception, rows: Mapping[str, MakeFailure]) -> ResourceFailure | None:
    """Make our failure from a foreign exception, by the row of its class or of the nearest base class.

    Rows name classes as `module.qualname`, so that a row imports nothing: an exception of a library that was never
    imported cannot have been raised.

    Returns:
        None if no row describes it. The exception is then a bug of ours.
    """
    for cls in type(error).__mro__:
        if make := rows.get(f"{cls.__module__}.{cls.__qualname__}"):
            return make(error)
    return None
