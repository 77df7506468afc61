"""The rows that map exceptions of botocore, requests and quilt3 to our failures.

A row uses the class, the HTTP status or a structured code of the exception, never its text.
"""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

from quilt_mcp.core.errors import MakeFailure, ResourceExecutionError, ResourceFailure, Unavailable, find_failure
from quilt_mcp.services.stack.aws_errors import NO_CREDENTIALS, make_not_from_aws, map_client_error
from quilt_mcp.services.stack.errors import (
    NotSignedInToQuilt,
    QueryNotUnderstood,
    QueryRefused,
    RefusedByStack,
    RequestRejected,
    TokenRejected,
    TooSlow,
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
    return Unavailable("AWS cannot be reached.", details=_name_endpoint(error))


def _aws_too_slow(error: Exception) -> ResourceFailure:
    return TooSlow("AWS did not respond in time.", details=_name_endpoint(error))


def _name_endpoint(error: Exception) -> str:
    """Return the class of an exception of botocore, and the host that was called, which settings can replace."""
    host = _find_host(str(getattr(error, "kwargs", {}).get("endpoint_url", "")))
    return f"{type(error).__name__}: {host}" if host else type(error).__name__


def _aws_not_trusted(error: Exception) -> ResourceFailure:
    return _not_trusted("AWS", _name_endpoint(error), "AWS_CA_BUNDLE or REQUESTS_CA_BUNDLE")


def _stack_not_trusted(error: Exception) -> ResourceFailure:
    return _not_trusted("the Quilt stack", type(error).__name__, "REQUESTS_CA_BUNDLE")


def _not_trusted(what: str, details: str, variables: str) -> ResourceFailure:
    return Unavailable(
        f"No encrypted connection to {what} could be made, because its certificate is not trusted here.",
        details=details,
        suggested_actions=[
            f"If a proxy of your network replaces certificates, set {variables} to a file with its authority.",
            "If one of these variables is set, check that its file has the right authority. Then restart the server.",
        ],
        transient=False,
    )


def _aws_behind_proxy(error: Exception) -> ResourceFailure:
    cause = getattr(error, "kwargs", {}).get("error")
    return _aws_unreachable(error) if _is_connection_failure(cause) else _behind_proxy("AWS", error)


def _stack_behind_proxy(error: Exception) -> ResourceFailure:
    cause = getattr(error.args[0], "reason", None) if error.args else None
    return _stack_unreachable(error) if _is_connection_failure(cause) else _behind_proxy("the Quilt stack", error)


def _is_connection_failure(cause: object) -> bool:
    """Return whether a ProxyError of urllib3 says that the proxy itself was not reached."""
    return type(getattr(cause, "original_error", None)).__name__ in ("NewConnectionError", "ConnectTimeoutError")


def _behind_proxy(what: str, error: Exception) -> ResourceFailure:
    return Unavailable(
        f"The proxy of this machine did not connect to {what}.",
        details=type(error).__name__,
        suggested_actions=[
            "Check HTTPS_PROXY, with the user and the password if the proxy wants them. Then restart the server.",
            "Ask the operator of your network whether the proxy works and allows this host.",
        ],
        transient=False,
    )


def _not_from_aws(error: Exception) -> ResourceFailure:
    return make_not_from_aws(type(error).__name__)


def _stack_unreachable(error: Exception) -> ResourceFailure:
    return Unavailable("The Quilt stack cannot be reached.", details=type(error).__name__)


def _stack_too_slow(error: Exception) -> ResourceFailure:
    return TooSlow("The Quilt stack did not respond in time.", details=type(error).__name__)


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
        return _refusal(error.response, details)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return _redirect(error.response, details)
    if status in TEMPORARY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        actions = _suggest_wait(error.response.headers.get("Retry-After", ""))
        return Unavailable("The Quilt stack could not process the request.", details=details, suggested_actions=actions)
    return RequestRejected("The Quilt stack rejected the request.", details=details)


def _refusal(response: _Response, details: str) -> ResourceFailure:
    """Return the failure for a 403. The stack's own has JSON; that of a firewall before it is a page."""
    if "json" in response.headers.get("Content-Type", "").lower():
        return RefusedByStack("The Quilt stack does not allow this.", details=details)
    return ResourceExecutionError(
        "Something between this server and the Quilt stack refused the request.",
        details=f"{details}, without JSON, so it is not known whether the stack accepts the login",
        suggested_actions=[
            "Ask a Quilt administrator whether a firewall (WAF) or a list of allowed addresses protects the stack.",
            "If the stack can be reached through a VPN only, connect to it, then repeat the call.",
        ],
    )


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
    host = _find_host(location)
    return f" to {host}" if host else ""


def _find_host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


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
        return QueryNotUnderstood("The Quilt stack rejected the query.", details=details)
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
    "botocore.exceptions.SSLError": _aws_not_trusted,
    "botocore.exceptions.ProxyConnectionError": _aws_behind_proxy,
    "botocore.exceptions.ConnectTimeoutError": _aws_too_slow,
    "botocore.exceptions.ReadTimeoutError": _aws_too_slow,
    "botocore.exceptions.ConnectionError": _aws_unreachable,
    "botocore.exceptions.HTTPClientError": _aws_unreachable,
    "botocore.exceptions.BotoCoreError": _failed,
    "botocore.parsers.ResponseParserError": _not_from_aws,
    "requests.exceptions.HTTPError": _http_status,
    "requests.exceptions.JSONDecodeError": _not_an_answer,
    "requests.exceptions.Timeout": _stack_too_slow,
    "requests.exceptions.SSLError": _stack_not_trusted,
    "requests.exceptions.ProxyError": _stack_behind_proxy,
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
