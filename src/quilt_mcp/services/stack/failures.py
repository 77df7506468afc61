"""The failures that only Quilt and AWS have."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from quilt_mcp.core.errors import NotSignedIn, ResourceExecutionError, ResourceFailure, Unauthorized, Unavailable

NOT_VALID = "The Quilt stack did not return a valid response."


class NotSignedInToQuilt(NotSignedIn):
    """The caller has no valid login to the Quilt stack."""

    default_actions = (
        "Run `quilt-mcp login` in a terminal and sign in. This server uses the new login without a restart.",
        "Read auth://status to see the configured stack and the current login.",
    )


class TokenRejected(NotSignedInToQuilt):
    """The stack rejected the access token. A new access token can work."""


class AWSKeysExpired(NotSignedInToQuilt):
    """The AWS credentials have expired. New ones can work."""


class Throttled(Unavailable):
    """AWS gets too many requests."""


class TooSlow(Unavailable):
    """AWS or the stack did not respond in time."""


class NeedsAdmin(Unauthorized):
    """The caller is signed in, but is not an administrator of the stack."""

    reason = "needs admin"
    default_actions = (
        "Ask a Quilt administrator for the data, or for administrator rights.",
        "Read auth://status to see who is signed in.",
        "Call get_resource() without arguments: resources with requires_admin=false are available to you.",
    )


class RefusedByAWS(Unauthorized):
    """The caller's AWS identity is not allowed to make the call."""

    reason = "refused by AWS"
    default_actions = (
        "Ask a Quilt administrator to grant your role the AWS permission named in `details`.",
        "Read permissions://discover to see the permissions of your identity.",
    )


class RefusedByStack(Unauthorized):
    """The stack accepts the login, but does not allow the request."""

    reason = "refused by the stack"
    default_actions = (
        "Read auth://status to see who is signed in, and with which role.",
        "Ask a Quilt administrator to give your user the right, or another role.",
    )


class RequestRejected(ResourceExecutionError):
    """The stack rejected the request with a status from 400 to 499 that has no more exact failure."""


class NoRole(RefusedByStack):
    """The stack names no role for the user, and issues no AWS credentials."""

    default_actions = (
        "Ask a Quilt administrator to give your user a role.",
        "Read auth://status to see who is signed in. Its `role` is null as long as the stack names none.",
    )

    def __init__(self, details: str | None) -> None:
        super().__init__(
            "The Quilt stack issues no AWS credentials to you, and it names no role for you.",
            details=(details or "").removeprefix(f"{self.reason}: "),
        )


class RoleChanged(Unavailable):
    """The caller's role in the stack changed while a read used the credentials of the old one."""

    default_actions = ("Repeat the call. It then uses your current role.",)

    def __init__(self) -> None:
        super().__init__("Your role in the catalog changed during this read.")


class QueryRefused(ResourceExecutionError):
    """The stack understood the query, but rejected it."""

    default_actions = (
        "Ask a Quilt administrator for the version of the stack; it can be too old for this resource.",
        "Read auth://catalog/info, which shows the version of the stack if the catalog publishes it.",
    )


class QueryNotUnderstood(QueryRefused):
    """The stack rejected the query as a whole, as it does if its schema has not all fields of the query.

    A stack that cannot process any query can return the same.
    """


class NestedTooDeeply(Unavailable):
    """The stack sent JSON with too many levels, as the metadata of a package can have."""

    def __init__(self) -> None:
        super().__init__(NOT_VALID, details="nested too deeply", transient=False)


class QueryFailed(QueryRefused):
    """The stack returned an error that concerns no part of the query and of its data."""

    default_actions = (
        "Repeat the call in a minute.",
        "If it fails again, report the time of the call to a Quilt administrator: the stack's log has the error.",
    )

    def __init__(self, message: str, *, details: str) -> None:
        super().__init__(message, details=details, transient=True)


class UnexplainedByS3(ResourceExecutionError):
    """S3 rejected a HEAD request. The response has no body, so expired credentials are one of several causes.

    No client sees this failure: it is the evidence of a probe.
    """


class ConditionNotMet(ResourceExecutionError):
    """S3 allows the request, and its condition failed. No client sees this failure."""


class TokenRefusedByS3(NotSignedInToQuilt):
    """S3 rejected the session token. A region that is not enabled by default accepts only some tokens."""


def name_class(error: Exception) -> str:
    return type(error).__name__


@dataclass(frozen=True)
class Reason:
    """What an exception means to the caller. Called with the exception, it makes the failure."""

    failure: type[ResourceFailure]
    message: str
    actions: tuple[str, ...] = ()
    describe: Callable[[Exception], str | None] = name_class
    lasts: bool = False

    def __call__(self, error: Exception) -> ResourceFailure:
        options = {"transient": False} if self.lasts else {}
        return self.failure(self.message, details=self.describe(error), suggested_actions=self.actions, **options)


def explain(failure: ResourceFailure) -> str:
    """Return the reason for a missing part of an answer: the message of a failure, with its details."""
    return f"{failure.message} ({failure.details})" if failure.details else failure.message


def not_trusted(what: str, describe: Callable[[Exception], str], variables: str) -> Reason:
    return Reason(
        Unavailable,
        f"No encrypted connection to {what} could be made, because its certificate is not trusted here.",
        (
            f"If a proxy of your network replaces certificates, set {variables} to a file with its authority.",
            "If one of these variables is set, check that its file has the right authority. Then restart the server.",
        ),
        describe,
        lasts=True,
    )


def behind_proxy(what: str) -> Reason:
    return Reason(
        Unavailable,
        f"The proxy of this machine did not connect to {what}.",
        (
            "Check HTTPS_PROXY, with the user and the password if the proxy wants them. Then restart the server.",
            "Ask the operator of your network whether the proxy works and allows this host.",
        ),
        lasts=True,
    )


FAILED = Reason(ResourceExecutionError, "A request to Quilt or AWS failed.")


def is_connection_failure(cause: object) -> bool:
    """Return whether a ProxyError of urllib3 says that the proxy itself was not reached."""
    return type(getattr(cause, "original_error", None)).__name__ in ("NewConnectionError", "ConnectTimeoutError")


def find_host(address: str) -> str | None:
    """Return the host of an address. The rest of it can contain secrets."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
