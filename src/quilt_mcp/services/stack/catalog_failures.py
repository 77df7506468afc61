"""What the stack says when it refuses: the status of a response, its content type, and the errors of GraphQL."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from quilt_mcp.core.errors import MakeFailure, ResourceExecutionError, ResourceFailure, Unavailable
from quilt_mcp.services.stack.failures import (
    FAILED,
    NOT_VALID,
    QueryFailed,
    QueryNotUnderstood,
    QueryRefused,
    Reason,
    RefusedByStack,
    RequestRejected,
    TokenRejected,
    TooSlow,
    behind_proxy,
    find_host,
    is_connection_failure,
    name_class,
    not_trusted,
)

if TYPE_CHECKING:
    import requests

NAMED_PATHS = 5

REPORT_PATH = ("Repeat the call. If it fails again, report `details` to a Quilt administrator.",)

MAX_PATH = 200

TEMPORARY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)

WHOLE_QUERY, NO_PLACE = "query", "stack"
"""Where an error of GraphQL is that has no path: one about the text of the query names a line of it, and one of the
stack itself names nothing."""

STACK_UNREACHABLE = Reason(Unavailable, "The Quilt stack cannot be reached.")

STACK_TOO_SLOW = Reason(TooSlow, "The Quilt stack did not respond in time.")


def _stack_behind_proxy(error: Exception) -> ResourceFailure:
    is_down = is_connection_failure(getattr(error.args[0], "reason", None) if error.args else None)
    return (STACK_UNREACHABLE if is_down else behind_proxy("the Quilt stack"))(error)


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
    host = find_host(response.headers.get("Location", ""))
    return ResourceExecutionError(
        "The Quilt stack redirected the request. This server follows no redirects with your login.",
        details=f"{details} to {host}" if host else details,
        suggested_actions=[
            "Run `quilt-mcp login https://<your catalog>` with the address that your browser shows for the catalog.",
            "If that is the configured address, ask a Quilt administrator what redirects requests to the stack's API.",
        ],
    )


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


CATALOG_FAILURES: dict[str, MakeFailure] = {
    "requests.exceptions.HTTPError": _http_status,
    "requests.exceptions.JSONDecodeError": Reason(Unavailable, NOT_VALID),
    "requests.exceptions.Timeout": STACK_TOO_SLOW,
    "requests.exceptions.SSLError": not_trusted("the Quilt stack", name_class, "REQUESTS_CA_BUNDLE"),
    "requests.exceptions.ProxyError": _stack_behind_proxy,
    "requests.exceptions.ConnectionError": STACK_UNREACHABLE,
    "requests.exceptions.RequestException": FAILED,
    "urllib3.exceptions.ReadTimeoutError": STACK_TOO_SLOW,
    "urllib3.exceptions.HTTPError": STACK_UNREACHABLE,
}
