"""The failures that only Quilt and AWS have."""

from quilt_mcp.core.errors import NotSignedIn, ResourceExecutionError, Unauthorized, Unavailable


class NotSignedInToQuilt(NotSignedIn):
    """The caller has no valid login to the Quilt stack."""

    default_actions = (
        "Run `quilt3 login` in a terminal and sign in. This server uses the new login without a restart.",
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
