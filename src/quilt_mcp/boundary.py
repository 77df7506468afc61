"""Turns the exceptions of botocore, requests and quilt3 into our error tree.

They are recognised by class, HTTP status or structured code, never by their text. Classes stand here by name, so that
naming them imports nothing: an exception of a library that was never imported cannot have been raised.
"""

from collections.abc import Callable, Iterator
from typing import Any

from quilt_mcp.errors import (
    NotFound,
    NotSignedIn,
    QueryRefused,
    RefusedByAWS,
    ResourceExecutionError,
    ResourceFailure,
    Unavailable,
)

# Error codes of AWS, by what they mean to the caller. S3 answers a HEAD without a body: its code is then the status.
DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedAccess", "Forbidden", "403"}
EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
UNKNOWN_KEYS = {
    "InvalidClientTokenId",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "InvalidSignatureException",
    "IncompleteSignature",
    "UnrecognizedClientException",
    "MissingAuthenticationToken",
    "AuthFailure",
    "401",
}
THROTTLED = {
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "RequestLimitExceeded",
    "TooManyRequestsException",
    "SlowDown",
    "PriorRequestNotComplete",
    "429",
    "503",
}
BROKEN = {
    "InternalError",
    "InternalFailure",
    "InternalServerException",
    "InternalServerError",
    "InternalServiceException",
    "OperationTimeoutException",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "500",
    "502",
    "504",
}
MISSING = {"NoSuchBucket", "NoSuchKey", "EntityNotFoundException", "404"}
SKEWED_CLOCK = {"RequestTimeTooSkewed"}
SERVER_ERROR = 500  # HTTP: from here on the fault is the server's

# The IAM action that each operation of the services needs, for the person who has to grant it.
ACTIONS = {
    "BatchGetQueryExecution": "athena:BatchGetQueryExecution",
    "GetCallerIdentity": "sts:GetCallerIdentity",
    "GetDatabases": "glue:GetDatabases",
    "GetWorkGroup": "athena:GetWorkGroup",
    "HeadBucket": "s3:ListBucket",
    "HeadObject": "s3:GetObject",
    "ListBuckets": "s3:ListAllMyBuckets",
    "ListDatabases": "athena:ListDatabases",
    "ListQueryExecutions": "athena:ListQueryExecutions",
    "ListWorkGroups": "athena:ListWorkGroups",
    "PutObject": "s3:PutObject",
}

SIGN_IN_AGAIN = ("Run `quilt3 login` in a terminal: it fetches new AWS credentials.",)


def translate(error: Exception) -> ResourceFailure | None:
    """Our failure for a foreign exception; None for one that no row describes: it is then a bug of ours."""
    for cls in type(error).__mro__:
        if make := BY_CLASS.get(f"{cls.__module__}.{cls.__qualname__}"):
            return make(error)
    return None


def _client_error(error: Any) -> ResourceFailure:
    code, operation = _code(error), str(error.operation_name)
    details = f"{ACTIONS.get(operation, operation)} ({code})"
    make = next((make for codes, make in BY_CODE if code in codes), None)
    if make is None:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        make = _aws_broken if status >= SERVER_ERROR else _aws_failed
    return make(details)


def _aws_denied(details: str) -> ResourceFailure:
    return RefusedByAWS("AWS refuses this to your identity.", details=details)


def _aws_expired(details: str) -> ResourceFailure:
    return NotSignedIn("The AWS credentials have expired.", details=details, suggested_actions=SIGN_IN_AGAIN)


def _aws_unknown_keys(details: str) -> ResourceFailure:
    return NotSignedIn("AWS does not accept the credentials.", details=details, suggested_actions=SIGN_IN_AGAIN)


def _aws_throttled(details: str) -> ResourceFailure:
    return Unavailable("AWS is limiting the rate of calls.", details=details)


def _aws_broken(details: str) -> ResourceFailure:
    return Unavailable("AWS failed to answer.", details=details)


def _aws_missing(details: str) -> ResourceFailure:
    return NotFound("AWS knows no such thing.", details=details)


def _aws_clock(details: str) -> ResourceFailure:
    action = "Set the clock of this machine, then try again."
    return ResourceExecutionError(
        "This machine's clock is wrong: AWS refuses its signatures.", details=details, suggested_actions=[action]
    )


def _aws_failed(details: str) -> ResourceFailure:
    return ResourceExecutionError("AWS did not carry out the call.", details=details)


BY_CODE: tuple[tuple[set[str], Callable[[str], ResourceFailure]], ...] = (
    (DENIED, _aws_denied),
    (EXPIRED, _aws_expired),
    (UNKNOWN_KEYS, _aws_unknown_keys),
    (THROTTLED, _aws_throttled),
    (BROKEN, _aws_broken),
    (MISSING, _aws_missing),
    (SKEWED_CLOCK, _aws_clock),
)


def _code(error: Any) -> str:
    """The error code of a botocore ClientError; empty where AWS gave none."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _no_credentials(error: Exception) -> ResourceFailure:
    return NotSignedIn("There are no usable AWS credentials.", details=type(error).__name__)


def _no_region(_: Exception) -> ResourceFailure:
    return ResourceExecutionError(
        "No AWS region is configured.",
        suggested_actions=[
            "Run `quilt3 config https://<your catalog>`: it stores the stack's region.",
            "Or set AWS_DEFAULT_REGION in the server's environment.",
        ],
    )


def _unreachable(error: Exception) -> ResourceFailure:
    return Unavailable("A service behind this resource cannot be reached.", details=type(error).__name__)


def _too_slow(error: Exception) -> ResourceFailure:
    return Unavailable("A service behind this resource did not answer in time.", details=type(error).__name__)


def _not_json(error: Exception) -> ResourceFailure:
    return Unavailable("The Quilt registry answered something that is not its API.", details=type(error).__name__)


def _failed(error: Exception) -> ResourceFailure:
    return ResourceExecutionError("A service behind this resource failed.", details=type(error).__name__)


def _graphql_errors(error: Any) -> ResourceFailure:
    paths = sorted({".".join(map(str, one.path or ["query"])) for one in error.errors})
    return QueryRefused("The Quilt registry refused the query.", details=f"GraphQL error at {', '.join(paths)}")


def _quilt(error: Exception) -> ResourceFailure:
    """quilt3 has one exception for all: what it was raised from tells an unreachable stack from a dead sign-in."""
    for cause in _causes(error):
        if failure := translate(cause):
            return failure
    return NotSignedIn("The sign-in to Quilt has ended.")


def _causes(error: BaseException) -> Iterator[Exception]:
    cause = error.__cause__ or error.__context__
    while isinstance(cause, Exception):
        if type(cause) is not type(error):
            yield cause
        cause = cause.__cause__ or cause.__context__


BY_CLASS: dict[str, Callable[[Any], ResourceFailure]] = {
    "botocore.exceptions.ClientError": _client_error,
    "botocore.exceptions.NoCredentialsError": _no_credentials,
    "botocore.exceptions.PartialCredentialsError": _no_credentials,
    "botocore.exceptions.CredentialRetrievalError": _no_credentials,
    "botocore.exceptions.TokenRetrievalError": _no_credentials,
    "botocore.exceptions.SSOError": _no_credentials,
    "botocore.exceptions.ProfileNotFound": _no_credentials,
    "botocore.exceptions.NoRegionError": _no_region,
    "botocore.exceptions.ConnectTimeoutError": _too_slow,
    "botocore.exceptions.ReadTimeoutError": _too_slow,
    "botocore.exceptions.ConnectionError": _unreachable,
    "botocore.exceptions.HTTPClientError": _unreachable,
    "botocore.exceptions.BotoCoreError": _failed,
    "requests.exceptions.JSONDecodeError": _not_json,
    "requests.exceptions.Timeout": _too_slow,
    "requests.exceptions.ConnectionError": _unreachable,
    "requests.exceptions.RequestException": _failed,
    "quilt3._graphql_client.exceptions.GraphQLClientGraphQLMultiError": _graphql_errors,
    "quilt3._graphql_client.exceptions.GraphQLClientInvalidResponseError": _not_json,
    "quilt3.util.QuiltException": _quilt,
}
