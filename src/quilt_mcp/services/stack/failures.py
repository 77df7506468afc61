"""The failures that only Quilt and AWS have, and the rows that map exceptions of their libraries to them.

A row uses the class, the HTTP status or a structured code of the exception, never its text. Of AWS's sentence about a
refusal, only two parts with a closed set of words are read: the action, and the kind of policy.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from quilt_mcp.core.errors import (
    MakeFailure,
    NotFound,
    NotSignedIn,
    ResourceExecutionError,
    ResourceFailure,
    Unauthorized,
    Unavailable,
    find_failure,
)
from quilt_mcp.services.stack.aws_statements import ACTIONS, WHO_CHANGES, read_statement

if TYPE_CHECKING:
    import requests
    from botocore.exceptions import ClientError


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


def _name_class(error: Exception) -> str:
    return type(error).__name__


def _name_endpoint(error: Exception) -> str:
    host = _find_host(str(getattr(error, "kwargs", {}).get("endpoint_url", "")))
    return f"{type(error).__name__}: {host}" if host else type(error).__name__


@dataclass(frozen=True)
class _Reason:
    """What an exception means to the caller. Called with the exception, it makes the failure."""

    failure: type[ResourceFailure]
    message: str
    actions: tuple[str, ...] = ()
    describe: Callable[[Exception], str | None] = _name_class
    lasts: bool = False

    def __call__(self, error: Exception) -> ResourceFailure:
        options = {"transient": False} if self.lasts else {}
        return self.failure(self.message, details=self.describe(error), suggested_actions=self.actions, **options)


NEW_CREDENTIALS = (
    "Repeat the call. With a login to Quilt, this server then fetches new AWS credentials from the stack.",
    "If auth://status shows aws_source aws_default_chain, renew the AWS credentials of this machine instead.",
)
CLOCK = _Reason(
    ResourceExecutionError,
    "The clock of this machine is wrong, so AWS rejects its signatures.",
    ("Set the clock of this machine, then repeat the call.",),
)
OWN_KEY = _Reason(
    ResourceExecutionError,
    "The object is encrypted with a key that AWS does not keep (SSE-C).",
    ("Ask the owner of the object for a copy: only who has its key can read it.",),
)
BROKEN = _Reason(Unavailable, "AWS could not process the request.")
BY_CODE: Sequence[tuple[Sequence[str], _Reason]] = [
    (
        (
            "AccessDenied",
            "AccessDeniedException",
            "NotAuthorized",
            "UnauthorizedOperation",
            "UnauthorizedAccess",
            "Forbidden",
        ),
        _Reason(RefusedByAWS, "Your AWS identity is not allowed to do this."),
    ),
    (
        ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"),
        _Reason(AWSKeysExpired, "The AWS credentials have expired.", NEW_CREDENTIALS),
    ),
    (
        (
            "InvalidClientTokenId",
            "InvalidAccessKeyId",
            "InvalidToken",
            "IncompleteSignature",
            "UnrecognizedClientException",
            "MissingAuthenticationToken",
            "AuthFailure",
        ),
        _Reason(NotSignedInToQuilt, "AWS rejected the credentials.", NEW_CREDENTIALS),
    ),
    (
        ("SignatureDoesNotMatch", "InvalidSignatureException"),
        _Reason(
            NotSignedInToQuilt,
            "AWS rejected the signature of the request.",
            (*NEW_CREDENTIALS, "If it fails again, check the clock of this machine: a signature is valid for minutes."),
        ),
    ),
    (
        (
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestThrottled",
            "RequestThrottledException",
            "RequestLimitExceeded",
            "TooManyRequestsException",
            "SlowDown",
            "PriorRequestNotComplete",
        ),
        _Reason(Throttled, "AWS is throttling requests."),
    ),
    (
        (
            "ConditionalRequestConflict",
            "InternalError",
            "InternalErrorException",
            "InternalFailure",
            "InternalServerException",
            "InternalServerError",
            "InternalServiceException",
            "OperationAborted",
            "OperationTimeoutException",
            "RequestAbortedException",
            "RequestTimeout",
            "RequestTimeoutException",
            "ResourceNotReadyException",
            "ServiceUnavailable",
            "ServiceUnavailableException",
            "TemporaryRedirect",
        ),
        BROKEN,
    ),
    (
        ("FederationSourceRetryableException",),
        _Reason(Unavailable, "The external source of a Glue database could not process the request."),
    ),
    (
        ("FederationSourceException",),
        _Reason(
            ResourceExecutionError,
            "The external source of a Glue database failed.",
            ("Ask the owner of the database to check its connection in AWS Glue.",),
        ),
    ),
    (
        ("MetadataException",),
        _Reason(
            ResourceExecutionError,
            "Athena could not read the data catalog.",
            ("Ask a Quilt administrator to grant your role the Glue permissions, such as glue:GetDatabases.",),
        ),
    ),
    (
        (
            "GlueEncryptionException",
            "KMS.DisabledException",
            "KMS.InvalidKeyUsageException",
            "KMS.InvalidStateException",
            "KMS.KMSInvalidStateException",
            "KMS.NotFoundException",
        ),
        _Reason(
            ResourceExecutionError,
            "AWS could not decrypt or encrypt the data with its KMS key.",
            ("Ask a Quilt administrator whether the KMS key is enabled, and whether your role may use it.",),
        ),
    ),
    (
        ("InvalidObjectState",),
        _Reason(
            ResourceExecutionError,
            "The object is archived, so it cannot be read.",
            ("Restore the object in S3, or ask the owner of the bucket to do it.",),
        ),
    ),
    (("PreconditionFailed",), _Reason(ConditionNotMet, "The object does not meet the condition of the request.")),
    (
        (
            "InvalidArgument",
            "InvalidBucketName",
            "InvalidInputException",
            "InvalidNextToken",
            "InvalidParameterException",
            "InvalidRequest",
            "InvalidRequestException",
            "ValidationError",
            "ValidationException",
        ),
        _Reason(
            ResourceExecutionError,
            "AWS does not accept the request in this form.",
            ("Check the names in the URI. If they are right, report the error with `details`.",),
        ),
    ),
    (
        ("NoSuchBucket", "NoSuchKey", "NoSuchVersion", "EntityNotFoundException"),
        _Reason(NotFound, "Not found in AWS."),
    ),
    (("RequestExpired", "RequestInTheFuture", "RequestTimeTooSkewed"), CLOCK),
    (
        ("AccountProblem", "AllAccessDisabled", "NotSignedUp", "OptInRequired"),
        _Reason(
            ResourceExecutionError,
            "AWS has closed this resource, or the account that owns it, for everyone.",
            ("Ask the owner of the AWS account, who can see the reason in the AWS console.",),
        ),
    ),
]
"""What the error codes of AWS mean to the caller. Each code is in one row."""
OTHER = _Reason(ResourceExecutionError, "AWS rejected the request.")
TOKEN_OF_S3 = _Reason(TokenRefusedByS3, "S3 rejected the session token.", NEW_CREDENTIALS)
UNEXPLAINED = _Reason(UnexplainedByS3, "S3 rejected the request and gave no reason.")


def _find(code: str) -> _Reason:
    return next((reason for codes, reason in BY_CODE if code in codes), OTHER)


# S3 sends no body with the response to a HEAD request. The code is then the status. A 400 has different meanings.
BY_STATUS = {
    "400": UNEXPLAINED,
    "401": _find("AuthFailure"),
    "403": _find("Forbidden"),
    "404": _find("NoSuchKey"),
    "412": _find("PreconditionFailed"),
    "429": _find("SlowDown"),
    "503": _find("SlowDown"),
}
LAKE_FORMATION = (
    "Ask a Quilt administrator to grant your role the AWS permission named in `details`.",
    "If it has, AWS Lake Formation refuses you: ask for its grants on the database and its tables.",
    "For Quilt's own tables, the stack's CloudFormation parameter EnableLakeFormationGrants makes these grants.",
)


STATED_CAUSES = [
    (re.compile(r"Signature (?:expired|not yet current):"), CLOCK),
    (re.compile(r"The object was stored using a form of Server Side Encryption\."), OWN_KEY),
]
"""How AWS begins a sentence that names another cause than the code, which several causes share."""


def find_code(failure: ResourceFailure) -> str | None:
    """Return the error code of AWS that a failure was made from; None if it has another cause."""
    response = getattr(failure.__cause__, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, Mapping) else None


def map_client_error(error: "ClientError") -> ResourceFailure:
    """Return the failure for a ClientError of botocore, by its code, else by its HTTP status.

    AWS always sends a code, except in response to HEAD. So a response without one comes from something else.
    """
    code, operation = str(error.response.get("Error", {}).get("Code", "")), error.operation_name
    action, status = ACTIONS.get(operation, operation), _find_status(error)
    if operation.startswith("Head"):
        row = BY_STATUS.get(code) or _find(code)
    else:
        row = TOKEN_OF_S3 if code == "InvalidToken" and action.startswith("s3:") else _find(code)
        if row is OTHER and (code.isdigit() or not code) and status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return make_not_from_aws(f"{action}: HTTP status {code or status}", transient=False)
    if row is OTHER and status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED:
        row = BROKEN
    message = str(error.response.get("Error", {}).get("Message", ""))
    row = next((cause for pattern, cause in STATED_CAUSES if pattern.match(message)), row)
    stated, actions = read_statement(error), row.actions
    if row.failure is not RefusedByAWS:
        return row.failure(row.message, details=f"{action} ({code})", suggested_actions=actions)
    if stated.policy and (stated.is_denied or stated.policy != "identity-based policy"):
        actions = (WHO_CHANGES[stated.policy], *RefusedByAWS.default_actions[1:])
    elif (stated.action or action).startswith("glue:"):
        actions = LAKE_FORMATION
    return RefusedByAWS(row.message, details=stated.describe(action, code), suggested_actions=actions)


def _find_status(error: "ClientError") -> int:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status if isinstance(status, int) else 0


REPLACED = "whether a proxy, a web filter or AWS_ENDPOINT_URL replaces AWS."


def make_not_from_aws(details: str, *, transient: bool = True) -> Unavailable:
    return Unavailable(
        "AWS did not return a valid response.",
        details=details,
        suggested_actions=[
            *(["Repeat the call."] if transient else []),
            f"{'If it fails again, ask' if transient else 'Ask'} the operator of this server {REPLACED}",
        ],
        transient=transient,
    )


def explain(failure: ResourceFailure) -> str:
    """Return the reason for a missing part of an answer: the message of a failure, with its details."""
    return f"{failure.message} ({failure.details})" if failure.details else failure.message


NAMED_PATHS = 5
NOT_VALID = "The Quilt stack did not return a valid response."
REPORT_PATH = ("Repeat the call. If it fails again, report `details` to a Quilt administrator.",)
MAX_PATH = 200
TEMPORARY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
WHOLE_QUERY, NO_PLACE = "query", "stack"
"""Where an error of GraphQL is that has no path: one about the text of the query names a line of it, and one of the
stack itself names nothing."""


def _not_trusted(what: str, describe: Callable[[Exception], str], variables: str) -> _Reason:
    return _Reason(
        Unavailable,
        f"No encrypted connection to {what} could be made, because its certificate is not trusted here.",
        (
            f"If a proxy of your network replaces certificates, set {variables} to a file with its authority.",
            "If one of these variables is set, check that its file has the right authority. Then restart the server.",
        ),
        describe,
        lasts=True,
    )


def _behind_proxy(what: str) -> _Reason:
    return _Reason(
        Unavailable,
        f"The proxy of this machine did not connect to {what}.",
        (
            "Check HTTPS_PROXY, with the user and the password if the proxy wants them. Then restart the server.",
            "Ask the operator of your network whether the proxy works and allows this host.",
        ),
        lasts=True,
    )


NO_CREDENTIALS = _Reason(
    NotSignedInToQuilt,
    "No usable AWS credentials were found.",
    (
        "Run `quilt-mcp login` in a terminal. The Quilt stack then issues AWS credentials.",
        "Or configure AWS credentials on this machine.",
    ),
)
SESSION_ENDED = _Reason(
    NotSignedInToQuilt,
    "The AWS session of this machine has ended.",
    (
        "Run `aws sso login`, or `aws login`, on the machine of this server, with `--profile` if AWS_PROFILE is set.",
        "Or run `quilt-mcp login`. The Quilt stack then issues AWS credentials.",
    ),
)
NO_PROFILE = _Reason(
    ResourceExecutionError,
    "The AWS profile of this machine does not exist.",
    (
        "Remove AWS_PROFILE from the server's environment, or add the profile to the AWS config file.",
        "Then restart the server.",
    ),
    lambda _: "AWS_PROFILE or AWS_DEFAULT_PROFILE names no profile in the AWS config and credentials files",
)
NO_REGION = _Reason(
    ResourceExecutionError,
    "No AWS region is configured.",
    (
        "Run `quilt-mcp login https://<your catalog>`. It stores the region of the stack.",
        "Or set AWS_DEFAULT_REGION in the server's environment.",
    ),
    lambda _: None,
)
AWS_UNREACHABLE = _Reason(Unavailable, "AWS cannot be reached.", describe=_name_endpoint)
AWS_TOO_SLOW = _Reason(TooSlow, "AWS did not respond in time.", describe=_name_endpoint)
STACK_UNREACHABLE = _Reason(Unavailable, "The Quilt stack cannot be reached.")
STACK_TOO_SLOW = _Reason(TooSlow, "The Quilt stack did not respond in time.")
FAILED = _Reason(ResourceExecutionError, "A request to Quilt or AWS failed.")


def _aws_behind_proxy(error: Exception) -> ResourceFailure:
    is_down = _is_connection_failure(getattr(error, "kwargs", {}).get("error"))
    return (AWS_UNREACHABLE if is_down else _behind_proxy("AWS"))(error)


def _stack_behind_proxy(error: Exception) -> ResourceFailure:
    is_down = _is_connection_failure(getattr(error.args[0], "reason", None) if error.args else None)
    return (STACK_UNREACHABLE if is_down else _behind_proxy("the Quilt stack"))(error)


def _is_connection_failure(cause: object) -> bool:
    """Return whether a ProxyError of urllib3 says that the proxy itself was not reached."""
    return type(getattr(cause, "original_error", None)).__name__ in ("NewConnectionError", "ConnectTimeoutError")


def _http_status(error: "requests.HTTPError") -> ResourceFailure:
    status = error.response.status_code
    details = f"HTTP status {status}"
    if status == HTTPStatus.UNAUTHORIZED:
        return TokenRejected("The Quilt login has expired.", details=details)
    if status == HTTPStatus.FORBIDDEN:
        return _refusal(error.response, details)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return _redirect(error.response, details)
    if status in TEMPORARY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        wait = error.response.headers.get("Retry-After", "")
        actions = [f"Repeat the call in {int(wait)} seconds."] if re.fullmatch("[0-9]{1,6}", wait) else []
        return Unavailable("The Quilt stack could not process the request.", details=details, suggested_actions=actions)
    return RequestRejected("The Quilt stack rejected the request.", details=details)


def _refusal(response: "requests.Response", details: str) -> ResourceFailure:
    """Return the failure for a 403. The stack's own has JSON; that of a firewall before it is a page."""
    if is_json(response):
        return RefusedByStack("The Quilt stack does not allow this.", details=details)
    return ResourceExecutionError(
        "Something between this server and the Quilt stack refused the request.",
        details=f"{details}, without JSON, so it is not known whether the stack accepts the login",
        suggested_actions=[
            "Ask a Quilt administrator whether a firewall (WAF) or a list of allowed addresses protects the stack.",
            "If the stack can be reached through a VPN only, connect to it, then repeat the call.",
        ],
    )


KIND = re.compile(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,80}")
"""A content type without its parameters."""


def make_page(response: "requests.Response") -> ResourceExecutionError:
    """Return the failure for a success that is not JSON. The API of a stack sends JSON, so something else answered."""
    kind = KIND.match(response.headers.get("Content-Type", "").lower())
    return ResourceExecutionError(
        "Something else than the API of the Quilt stack answered, such as the sign-in page of a proxy.",
        details=f"HTTP status {response.status_code}, {kind[0] if kind else 'no content type'} instead of JSON",
        suggested_actions=[
            "If a VPN or a sign-in proxy protects the stack, connect or sign in there on the machine of this server.",
            "Check the address of the catalog: `quilt-mcp login https://<your catalog>` stores the right one.",
        ],
    )


def is_json(response: "requests.Response") -> bool:
    return "json" in response.headers.get("Content-Type", "").lower()


def _redirect(response: "requests.Response", details: str) -> ResourceFailure:
    host = _find_host(response.headers.get("Location", ""))
    return ResourceExecutionError(
        "The Quilt stack redirected the request. This server follows no redirects with your login.",
        details=f"{details} to {host}" if host else details,
        suggested_actions=[
            "Run `quilt-mcp login https://<your catalog>` with the address that your browser shows for the catalog.",
            "If that is the configured address, ask a Quilt administrator what redirects requests to the stack's API.",
        ],
    )


def _find_host(address: str) -> str | None:
    """Return the host of an address. The rest of it can contain secrets."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def make_refusal(paths: Sequence[str]) -> QueryRefused:
    """Return the failure for GraphQL errors at these paths. Of many, the first are named; long ones are cut.

    An error that names a line of the query is about the query: the stack does not know a field of it. Errors with paths
    happen while the stack reads the data. One that names neither is a failure of the stack.
    """
    more = f" and {len(paths) - NAMED_PATHS} more" if len(paths) > NAMED_PATHS else ""
    named = [path if path.isprintable() else ascii(path) for path in paths[:NAMED_PATHS]]
    details = f"GraphQL error at {', '.join(path[:MAX_PATH] for path in named)}{more}"
    if WHOLE_QUERY in paths:
        return QueryNotUnderstood("The Quilt stack rejected the query.", details=details)
    if NO_PLACE in paths:
        return QueryFailed("The Quilt stack failed while it processed the query.", details=details)
    return QueryRefused("The Quilt stack could not read the data.", details=details, suggested_actions=REPORT_PATH)


def make_unexpected(details: str) -> ResourceExecutionError:
    return ResourceExecutionError(
        "The Quilt stack sent a response in an unexpected format.",
        details=details,
        suggested_actions=["Upgrade this server, or ask a Quilt administrator to upgrade the stack."],
    )


FAILURES: dict[str, MakeFailure] = {
    "botocore.exceptions.ClientError": map_client_error,
    "botocore.exceptions.NoCredentialsError": NO_CREDENTIALS,
    "botocore.exceptions.PartialCredentialsError": NO_CREDENTIALS,
    "botocore.exceptions.CredentialRetrievalError": NO_CREDENTIALS,
    "botocore.exceptions.TokenRetrievalError": SESSION_ENDED,
    "botocore.exceptions.SSOError": SESSION_ENDED,
    "botocore.exceptions.LoginError": SESSION_ENDED,
    "botocore.exceptions.InvalidRegionError": _Reason(
        ResourceExecutionError,
        "The AWS region has a form that no region has.",
        ("Correct the region: in quilt3's config.yml, with `quilt-mcp login`, or AWS_DEFAULT_REGION.",),
    ),
    "botocore.exceptions.ProfileNotFound": NO_PROFILE,
    "botocore.exceptions.NoRegionError": NO_REGION,
    "botocore.exceptions.SSLError": _not_trusted("AWS", _name_endpoint, "AWS_CA_BUNDLE or REQUESTS_CA_BUNDLE"),
    "botocore.exceptions.ProxyConnectionError": _aws_behind_proxy,
    "botocore.exceptions.ConnectTimeoutError": AWS_TOO_SLOW,
    "botocore.exceptions.ReadTimeoutError": AWS_TOO_SLOW,
    "botocore.exceptions.ConnectionError": AWS_UNREACHABLE,
    "botocore.exceptions.HTTPClientError": AWS_UNREACHABLE,
    "botocore.exceptions.BotoCoreError": FAILED,
    "botocore.parsers.ResponseParserError": lambda error: make_not_from_aws(_name_class(error)),
    "requests.exceptions.HTTPError": _http_status,
    "requests.exceptions.JSONDecodeError": _Reason(Unavailable, NOT_VALID),
    "requests.exceptions.Timeout": STACK_TOO_SLOW,
    "requests.exceptions.SSLError": _not_trusted("the Quilt stack", _name_class, "REQUESTS_CA_BUNDLE"),
    "requests.exceptions.ProxyError": _stack_behind_proxy,
    "requests.exceptions.ConnectionError": STACK_UNREACHABLE,
    "requests.exceptions.RequestException": FAILED,
    "urllib3.exceptions.ReadTimeoutError": STACK_TOO_SLOW,
    "urllib3.exceptions.HTTPError": STACK_UNREACHABLE,
}
"""For any exception that reaches the dispatcher."""

_STACK_FAILURES: dict[str, MakeFailure] = FAILURES | {
    "pydantic_core._pydantic_core.ValidationError": lambda error: make_unexpected(
        f"{error.error_count()} invalid fields in {error.title}"
    )
}


def map_failure(error: Exception) -> Exception:
    """Return our failure for an exception that a call to Quilt or AWS raised; the exception itself for a bug.

    During such a call, a ValidationError means that the stack sent an unexpected response. Elsewhere it is a bug.
    """
    return find_failure(error, _STACK_FAILURES) or error
