"""The rows that map exceptions of botocore, requests and quilt3 to our failures.

A row uses the class, the HTTP status or a structured code of the exception, never its text.
"""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

from quilt_mcp.core.errors import MakeFailure, ResourceExecutionError, ResourceFailure, Unavailable, find_failure
from quilt_mcp.services.stack.aws_errors import NO_CREDENTIALS, map_client_error
from quilt_mcp.services.stack.errors import (
    NotSignedInToQuilt,
    QueryRefused,
    RefusedByStack,
    RequestRejected,
    TokenRejected,
)

MAX_WAIT_DIGITS = 6
NAMED_PATHS = 5
REPORT_PATH = ("Repeat the call. If it fails again, report `details` to a Quilt administrator.",)
MAX_PATH = 200
TEMPORARY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
WHOLE_QUERY = "query"
"""Where an error of GraphQL is that has no path."""


class _Response(Protocol):
    """What the rows read of a response of requests."""

    status_code: int
    headers: Mapping[str, str]


class _HTTPError(Protocol):
    """What the rows read of an HTTPError of requests."""

    response: _Response


class _GraphQLError(Protocol):
    """One error in a GraphQL response."""

    path: Sequence[str | int] | None


class _GraphQLErrors(Protocol):
    """What the rows read of a GraphQLClientGraphQLMultiError."""

    errors: Sequence[_GraphQLError]


class _ValidationError(Protocol):
    """What the rows read of a ValidationError of pydantic."""

    title: str

    def error_count(self) -> int:
        """Return the number of invalid fields."""


def _no_credentials(error: Exception) -> ResourceFailure:
    return NotSignedInToQuilt(
        "No usable AWS credentials were found.", details=type(error).__name__, suggested_actions=NO_CREDENTIALS
    )


def _no_profile(_: Exception) -> ResourceFailure:
    return ResourceExecutionError(
        "The AWS profile of this machine does not exist.",
        details="AWS_PROFILE or AWS_DEFAULT_PROFILE names no profile in the AWS config and credentials files",
        suggested_actions=[
            "Remove AWS_PROFILE from the server's environment, or add the profile to the AWS config file.",
            "Then restart the server.",
        ],
    )


def _no_region(_: Exception) -> ResourceFailure:
    return ResourceExecutionError(
        "No AWS region is configured.",
        suggested_actions=[
            "Run `quilt3 config https://<your catalog>`. It stores the region of the stack.",
            "Or set AWS_DEFAULT_REGION in the server's environment.",
        ],
    )


def _aws_unreachable(error: Exception) -> ResourceFailure:
    return Unavailable("AWS cannot be reached.", details=type(error).__name__)


def _aws_too_slow(error: Exception) -> ResourceFailure:
    return Unavailable("AWS did not respond in time.", details=type(error).__name__)


def _not_from_aws(error: Exception) -> ResourceFailure:
    return make_not_from_aws(type(error).__name__)


def make_not_from_aws(details: str) -> Unavailable:
    """Return the failure for a response with status 200 that AWS does not send."""
    return Unavailable(
        "AWS did not return a valid response.",
        details=details,
        suggested_actions=[
            "Repeat the call.",
            "If it fails again, ask the operator of this server whether a proxy or AWS_ENDPOINT_URL replaces AWS.",
        ],
    )


def _stack_unreachable(error: Exception) -> ResourceFailure:
    return Unavailable("The Quilt stack cannot be reached.", details=type(error).__name__)


def _stack_too_slow(error: Exception) -> ResourceFailure:
    return Unavailable("The Quilt stack did not respond in time.", details=type(error).__name__)


def _not_an_answer(error: Exception) -> ResourceFailure:
    return Unavailable("The Quilt stack did not return a valid response.", details=type(error).__name__)


def _failed(error: Exception) -> ResourceFailure:
    return ResourceExecutionError("A request to Quilt or AWS failed.", details=type(error).__name__)


def _http_status(error: _HTTPError) -> ResourceFailure:
    status = error.response.status_code
    details = f"HTTP status {status}"
    if status == HTTPStatus.UNAUTHORIZED:
        return TokenRejected("The Quilt login has expired.", details=details)
    if status == HTTPStatus.FORBIDDEN:
        return RefusedByStack("The Quilt stack does not allow this.", details=details)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return _redirect(error.response, details)
    if status in TEMPORARY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        actions = _suggest_wait(error.response.headers.get("Retry-After", ""))
        return Unavailable("The Quilt stack could not process the request.", details=details, suggested_actions=actions)
    return RequestRejected("The Quilt stack rejected the request.", details=details)


def _redirect(response: _Response, details: str) -> ResourceFailure:
    return ResourceExecutionError(
        "The Quilt stack redirected the request. This server follows no redirects with your login.",
        details=f"{details}{_name_host(response.headers.get('Location', ''))}",
        suggested_actions=[
            "Run `quilt3 config https://<your catalog>` with the address that your browser shows for the catalog.",
            "If that is the configured address, ask a Quilt administrator what redirects requests to the stack's API.",
        ],
    )


def _name_host(location: str) -> str:
    """Return the host of a redirect for the details. The rest of the address can contain secrets."""
    try:
        host = urlsplit(location).hostname
    except ValueError:
        host = None
    return f" to {host}" if host else ""


def _suggest_wait(seconds: str) -> list[str]:
    """Return the action for a Retry-After header in seconds; nothing for other values."""
    if not seconds.isascii() or not seconds.isdigit() or len(seconds) > MAX_WAIT_DIGITS:
        return []
    return [f"Repeat the call in {int(seconds)} seconds."]


def _graphql_errors(error: _GraphQLErrors) -> ResourceFailure:
    return make_refusal(list_paths(one.path for one in error.errors))


def make_refusal(paths: Sequence[str]) -> QueryRefused:
    """Return the failure for GraphQL errors at these paths. Of many, the first are named; long ones are cut.

    An error without a path is about the query: the stack does not know a field of it. Other errors happen while the
    stack reads the data.
    """
    more = f" and {len(paths) - NAMED_PATHS} more" if len(paths) > NAMED_PATHS else ""
    named = [path if path.isprintable() else ascii(path) for path in paths[:NAMED_PATHS]]
    details = f"GraphQL error at {', '.join(path[:MAX_PATH] for path in named)}{more}"
    if WHOLE_QUERY in paths:
        return QueryRefused("The Quilt stack rejected the query.", details=details)
    return QueryRefused("The Quilt stack could not read the data.", details=details, suggested_actions=REPORT_PATH)


def list_paths(paths: Iterable[Sequence[str | int] | None]) -> list[str]:
    """Return the paths of GraphQL errors as text, each once, sorted. An error without a path is about the query."""
    return sorted({".".join(map(str, path)) if path else WHOLE_QUERY for path in paths})


def _unexpected_format(error: _ValidationError) -> ResourceFailure:
    return ResourceExecutionError(
        "The Quilt stack sent a response in an unexpected format.",
        details=f"{error.error_count()} invalid fields in {error.title}",
        suggested_actions=["Upgrade quilt3 and this server, or ask a Quilt administrator to upgrade the stack."],
    )


FAILURES: dict[str, MakeFailure] = {
    "botocore.exceptions.ClientError": map_client_error,
    "botocore.exceptions.NoCredentialsError": _no_credentials,
    "botocore.exceptions.PartialCredentialsError": _no_credentials,
    "botocore.exceptions.CredentialRetrievalError": _no_credentials,
    "botocore.exceptions.TokenRetrievalError": _no_credentials,
    "botocore.exceptions.SSOError": _no_credentials,
    "botocore.exceptions.ProfileNotFound": _no_profile,
    "botocore.exceptions.NoRegionError": _no_region,
    "botocore.exceptions.ConnectTimeoutError": _aws_too_slow,
    "botocore.exceptions.ReadTimeoutError": _aws_too_slow,
    "botocore.exceptions.ConnectionError": _aws_unreachable,
    "botocore.exceptions.HTTPClientError": _aws_unreachable,
    "botocore.exceptions.BotoCoreError": _failed,
    "botocore.parsers.ResponseParserError": _not_from_aws,
    "requests.exceptions.HTTPError": _http_status,
    "requests.exceptions.JSONDecodeError": _not_an_answer,
    "requests.exceptions.Timeout": _stack_too_slow,
    "requests.exceptions.ConnectionError": _stack_unreachable,
    "requests.exceptions.RequestException": _failed,
    "urllib3.exceptions.ReadTimeoutError": _stack_too_slow,
    "urllib3.exceptions.HTTPError": _stack_unreachable,
    "quilt3._graphql_client.exceptions.GraphQLClientGraphQLMultiError": _graphql_errors,
    "quilt3._graphql_client.exceptions.GraphQLClientInvalidResponseError": _not_an_answer,
}
"""For any exception that reaches the dispatcher."""

_STACK_FAILURES = FAILURES | {"pydantic_core._pydantic_core.ValidationError": _unexpected_format}


def map_failure(error: Exception) -> Exception:
    """Return our failure for an exception that a call to Quilt or AWS raised; the exception itself for a bug.

    During such a call, a ValidationError means that the stack sent an unexpected response. Elsewhere it is a bug.
    """
    return find_failure(error, _STACK_FAILURES) or error
