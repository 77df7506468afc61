"""Turns the exceptions of botocore, requests, quilt3 and SQLAlchemy into our error tree.

They are recognised by class, HTTP status or structured code, never by their text. Classes stand here by name, so that
naming them imports nothing: an exception of a library that was never imported cannot have been raised.
"""

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, NamedTuple

from quilt_mcp.errors import (
    NotFound,
    NotSignedIn,
    QueryRefused,
    RefusedByAWS,
    ResourceExecutionError,
    ResourceFailure,
    Unavailable,
)
from quilt_mcp.requirements import failures as database_failures

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

NEW_CREDENTIALS = (
    "Run `quilt3 login` in a terminal: it fetches new AWS credentials.",
    "If this machine's own AWS credentials are used, as auth://status tells, renew those.",
)


def translate(error: Exception) -> ResourceFailure | None:
    """Our failure for a foreign exception; None for one that no row describes: it is then a bug of ours."""
    for cls in type(error).__mro__:
        if make := BY_CLASS.get(f"{cls.__module__}.{cls.__qualname__}"):
            return make(error)
    return None


class _Row(NamedTuple):
    """What a group of AWS's error codes means to the caller."""

    codes: frozenset[str]
    failure: type[ResourceFailure]
    message: str
    actions: tuple[str, ...] = ()


BROKEN = _Row(
    frozenset(
        {
            "InternalError",
            "InternalErrorException",
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
    ),
    Unavailable,
    "AWS failed to answer.",
)
# S3 answers a HEAD without a body: its code is then the status.
BY_CODE = (
    _Row(
        frozenset(
            {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedAccess", "Forbidden", "403"}
        ),
        RefusedByAWS,
        "AWS refuses this to your identity.",
    ),
    _Row(
        frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}),
        NotSignedIn,
        "The AWS credentials have expired.",
        NEW_CREDENTIALS,
    ),
    _Row(
        frozenset(
            {
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
        ),
        NotSignedIn,
        "AWS does not accept the credentials.",
        NEW_CREDENTIALS,
    ),
    _Row(
        frozenset(
            {
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
        ),
        Unavailable,
        "AWS is limiting the rate of calls.",
    ),
    BROKEN,
    _Row(
        frozenset({"NoSuchBucket", "NoSuchKey", "EntityNotFoundException", "404"}), NotFound, "AWS knows no such thing."
    ),
    _Row(
        frozenset({"RequestTimeTooSkewed"}),
        ResourceExecutionError,
        "This machine's clock is wrong: AWS refuses its signatures.",
        ("Set the clock of this machine, then try again.",),
    ),
)
OTHER = _Row(frozenset(), ResourceExecutionError, "AWS did not carry out the call.")


def _client_error(error: Any) -> ResourceFailure:
    code, operation = _code(error), str(error.operation_name)
    row = next((row for row in BY_CODE if code in row.codes), None)
    if row is None:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        row = BROKEN if status >= HTTPStatus.INTERNAL_SERVER_ERROR else OTHER
    details = f"{ACTIONS.get(operation, operation)} ({code})"
    return row.failure(row.message, details=details, suggested_actions=row.actions)


def _code(error: Any) -> str:
    """The error code of a botocore ClientError; empty where AWS gave none."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _no_credentials(error: Exception) -> ResourceFailure:
    return NotSignedIn(
        "There are no usable AWS credentials.", details=type(error).__name__, suggested_actions=NEW_CREDENTIALS
    )


def _no_region(_: Exception) -> ResourceFailure:
    return ResourceExecutionError(
        "No AWS region is configured.",
        suggested_actions=[
            "Run `quilt3 config https://<your catalog>`: it stores the stack's region.",
            "Or set AWS_DEFAULT_REGION in the server's environment.",
        ],
    )


def _aws_unreachable(error: Exception) -> ResourceFailure:
    return Unavailable("AWS cannot be reached.", details=type(error).__name__)


def _aws_too_slow(error: Exception) -> ResourceFailure:
    return Unavailable("AWS did not answer in time.", details=type(error).__name__)


def _stack_unreachable(error: Exception) -> ResourceFailure:
    return Unavailable("The Quilt stack cannot be reached.", details=type(error).__name__)


def _stack_too_slow(error: Exception) -> ResourceFailure:
    return Unavailable("The Quilt stack did not answer in time.", details=type(error).__name__)


def _not_json(error: Exception) -> ResourceFailure:
    return Unavailable("The Quilt stack answered something that is not its API.", details=type(error).__name__)


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


BY_CLASS: dict[str, Callable[[Any], ResourceFailure | None]] = {
    "botocore.exceptions.ClientError": _client_error,
    "botocore.exceptions.NoCredentialsError": _no_credentials,
    "botocore.exceptions.PartialCredentialsError": _no_credentials,
    "botocore.exceptions.CredentialRetrievalError": _no_credentials,
    "botocore.exceptions.TokenRetrievalError": _no_credentials,
    "botocore.exceptions.SSOError": _no_credentials,
    "botocore.exceptions.ProfileNotFound": _no_credentials,
    "botocore.exceptions.NoRegionError": _no_region,
    "botocore.exceptions.ConnectTimeoutError": _aws_too_slow,
    "botocore.exceptions.ReadTimeoutError": _aws_too_slow,
    "botocore.exceptions.ConnectionError": _aws_unreachable,
    "botocore.exceptions.HTTPClientError": _aws_unreachable,
    "botocore.exceptions.BotoCoreError": _failed,
    "requests.exceptions.JSONDecodeError": _not_json,
    "requests.exceptions.Timeout": _stack_too_slow,
    "requests.exceptions.ChunkedEncodingError": _stack_unreachable,
    "requests.exceptions.ConnectionError": _stack_unreachable,
    "requests.exceptions.RequestException": _failed,
    "quilt3._graphql_client.exceptions.GraphQLClientGraphQLMultiError": _graphql_errors,
    "quilt3._graphql_client.exceptions.GraphQLClientInvalidResponseError": _not_json,
    "quilt3.util.QuiltException": _quilt,
    "sqlalchemy.exc.DBAPIError": database_failures.sql_failure,
    "sqlalchemy.exc.TimeoutError": database_failures.too_slow,
}
