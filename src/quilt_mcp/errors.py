"""Every failure that a client can meet, by the name it has on the wire.

    ResourceFailure
      InvalidURI                 no such resource, or not a URI at all
      MissingTemplateVariable    a template was asked for without its value
      InvalidTemplateVariable    the value is not one that the template can take
      Unauthorized               the caller may not read it:
        NotSignedIn                nobody is signed in, or the sign-in ended
        NeedsAdmin                 signed in, but only administrators may
        RefusedByAWS               signed in, but AWS IAM says no
        UnknownUser                signed in, but no user of the requirements database
      NotFound                   the template is right, what it names does not exist
      ResourceExecutionError     the service could not answer:
        QueryRefused               a backing store does not accept the question, for example because it is too old
        Unavailable                a backing store is unreachable, slow, throttled or broken:
          TooManyRequests            the caller itself asks too often, or too much at once

Services raise these; `boundary.py` turns foreign exceptions into them; the surfaces put them on the wire.
"""

from collections.abc import Sequence
from typing import ClassVar

# JSON-RPC codes. INVALID_PARAMS and INTERNAL_ERROR are JSON-RPC's own, the others are from its range for servers.
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_FOUND = -32003
UNAUTHORIZED = -32002
UNAVAILABLE = -32001

DISCOVER = "Call get_resource() without arguments to see every available resource."


class ResourceFailure(Exception):
    """A refusal or breakdown that belongs to the contract.

    Attributes:
        error: the name on the wire, one of the six that the module's tree shows at its second level.
        code: the JSON-RPC error code on the resource surface.
        message: what happened, for a person.
        details: technical detail, or None. Never a credential.
        suggested_actions: what to do next; never empty.
        transient: whether the same call may succeed later without anyone changing anything.
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


class InvalidURI(ResourceFailure, KeyError, ValueError):
    """The URI names no resource. Also a KeyError and a ValueError, for Python callers of the manager."""

    error = "InvalidURI"
    code = INVALID_PARAMS
    default_actions = (DISCOVER, "Check the URI for typos; URIs are case-sensitive.")


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


class Unauthorized(ResourceFailure):
    """The caller may not read this resource; the three subclasses say why."""

    error = "Unauthorized"
    code = UNAUTHORIZED
    reason: ClassVar[str]

    def __init__(self, message: str, *, details: str | None = None, suggested_actions: Sequence[str] = ()) -> None:
        reason = f"{self.reason}: {details}" if details else self.reason
        super().__init__(message, details=reason, suggested_actions=suggested_actions)


class NotSignedIn(Unauthorized):
    """Nobody is signed in to Quilt, or the sign-in has ended."""

    reason = "not signed in"
    default_actions = (
        "Run `quilt3 login` in a terminal and sign in in the browser; this server picks the new sign-in up by itself.",
        "Read auth://status to see what is configured and who is signed in.",
    )


class NeedsAdmin(Unauthorized):
    """The caller is signed in but is no administrator of the stack."""

    reason = "needs admin"
    default_actions = (
        "Ask a Quilt administrator for the data, or to make you an administrator.",
        "Read auth://status to see who you are signed in as.",
        "Call get_resource() without arguments: resources with requires_admin=false are open to you.",
    )


class RefusedByAWS(Unauthorized):
    """AWS refused the call to the caller's identity."""

    reason = "refused by AWS"
    default_actions = (
        "Ask a Quilt administrator to give your role the AWS permission that `details` names.",
        "Read permissions://discover to see what your identity may do.",
    )


class UnknownUser(Unauthorized):
    """The caller is signed in but is no user of the requirements database."""

    reason = "unknown user"
    default_actions = ("Ask an administrator of the requirements database to add you as a user and to a project.",)


class NotFound(ResourceFailure, LookupError):
    """What the URI names does not exist."""

    error = "NotFound"
    code = NOT_FOUND
    default_actions = (DISCOVER,)


class ResourceExecutionError(ResourceFailure, RuntimeError):
    """The resource exists and may be read, but its service could not answer."""

    error = "ResourceExecutionError"
    code = INTERNAL_ERROR
    default_actions = (
        "Run `quilt-mcp doctor` in a terminal: it checks the configuration, the sign-in and the network.",
        "If it stays, report it with the details above.",
    )


class QueryRefused(ResourceExecutionError):
    """A backing store understood us but does not answer this question."""

    default_actions = (
        "Ask a Quilt administrator which version the stack has; it may be too old for this resource.",
        "Read auth://catalog/info: it tells the stack's version where the catalog publishes it.",
    )


class Unavailable(ResourceExecutionError):
    """A system behind the resource cannot be reached, is too slow, or refuses for load."""

    code = UNAVAILABLE
    default_actions = (
        "Try the same call again in a minute.",
        "If it stays, run `quilt-mcp doctor` in a terminal to see which system cannot be reached.",
    )

    def __init__(
        self,
        message: str,
        *,
        details: str | None = None,
        suggested_actions: Sequence[str] = (),
        transient: bool = True,
    ) -> None:
        super().__init__(message, details=details, suggested_actions=suggested_actions, transient=transient)


class TooManyRequests(Unavailable):
    """The caller asks more often than it may, or has too many reads under way.

    Attributes:
        retry_after_seconds: when the next one may be answered; at least 1.
    """

    def __init__(self, message: str, *, retry_after_seconds: int, details: str | None = None) -> None:
        when = "1 second" if retry_after_seconds == 1 else f"{retry_after_seconds} seconds"
        super().__init__(
            message,
            details=details,
            suggested_actions=[f"Try the same call again in {when}.", "Ask for less at once."],
        )
        self.retry_after_seconds = retry_after_seconds
