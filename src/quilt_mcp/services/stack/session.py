"""HTTP sessions with a Quilt stack: with time limits, and with the caller's token.

Imported on first use by `callers.py`, because it imports requests.
"""

import io
import json
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
import urllib3
from pydantic import ValidationError
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection

from quilt_mcp.app.json_depth import is_nested_too_deeply
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.core.tracing import calling
from quilt_mcp.services.settings import Timeout
from quilt_mcp.services.stack.catalog_failures import is_json, make_page
from quilt_mcp.services.stack.exceptions import map_failure
from quilt_mcp.services.stack.failures import NOT_VALID, NestedTooDeeply, NotSignedInToQuilt
from quilt_mcp.services.stack.login import Tokens

CHUNK_BYTES = 65_536
MAX_BODY_BYTES = 16 * 1024 * 1024
INVALID_QUERY = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
"""The statuses with which GraphQL servers respond to a query that does not fit their schema."""
REJECTED_TOKEN = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
"""The statuses for a refresh token that is not valid. quilt3 also expects 200 with an error."""

HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.", re.DOTALL
)
"""A pair of surrogates, half of one, or another escape of JSON, of which the first two bytes are matched."""
HALF = len(rb"\ud800")

T = TypeVar("T")


class StackAdapter(HTTPAdapter):
    """Sends each request at once, also through a proxy."""

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> urllib3.ProxyManager:
        """Return the connections through a proxy, without Nagle's algorithm.

        urllib3 disables it only without a proxy. Then the body of each POST waits until the stack has acknowledged the
        headers, which many systems delay by 40 ms.
        """
        proxy_kwargs.setdefault("socket_options", HTTPConnection.default_socket_options)
        manager: urllib3.ProxyManager = super().proxy_manager_for(proxy, **proxy_kwargs)
        return manager


class StackSession(requests.Session):
    """A session with a stack. Without a token it can read public data only.

    It limits the size of a body and the time in which it arrives, and follows no redirect.

    The timeout of a socket starts again with each byte, so it does not limit a body that arrives slowly.
    """

    def __init__(self, timeout: Timeout, token: str | None = None, *, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        super().__init__()
        self.stream = True
        self.headers["Accept"] = "application/json"
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self.auth = lambda request: request  # without one, requests sends another login, from ~/.netrc
        for scheme in ("https://", "http://"):
            self.mount(scheme, StackAdapter())
        self._timeout, self._max_body_bytes = timeout, max_body_bytes

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send the request and read the whole response.

        Raises:
            HTTPError: the status is 300 or more.
            ReadTimeout: the body did not arrive within the time limit.
            Unavailable: the body is too large, or JSON that Python cannot parse.
        """
        kwargs["timeout"] = kwargs.get("timeout") or self._timeout
        kwargs["allow_redirects"] = False  # the token would go to an address that is not configured
        with calling("stack", str(request.method)):
            response = super().send(request, **kwargs)
            with ExitStack() as on_failure:
                on_failure.callback(response.close)  # so that the next request does not read the rest of the body
                is_success = response.status_code < HTTPStatus.MULTIPLE_CHOICES
                if not (is_success or _can_contain_graphql(request, response)):
                    raise requests.HTTPError(response=response)
                self._read_body(response)
                _check_json(response, is_success=is_success)
                if not (is_success or _has_graphql_errors(response)):
                    raise requests.HTTPError(response=response)
                on_failure.pop_all()
        return response

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Find no redirect. The base class would parse its address, and fail on one that is not valid."""
        del resp
        return None

    def _read_body(self, response: requests.Response) -> None:
        until, body = time.monotonic() + self._timeout[1], bytearray()
        while chunk := response.raw.read1(CHUNK_BYTES, decode_content=True):
            body += chunk
            if len(body) > self._max_body_bytes:
                raise Unavailable(
                    "The Quilt stack sent a response that is too large.",
                    details=f"more than {self._max_body_bytes} bytes",
                    suggested_actions=[
                        "If it is a folder with very many files, read it with quilt3: `quilt3.Package.browse(...)`.",
                        "Otherwise, ask a Quilt administrator whether something else responds at this address.",
                    ],
                    transient=False,
                )
            if time.monotonic() > until:
                raise requests.ReadTimeout("the body did not arrive in time")
        response.raw = io.BytesIO(ESCAPE.sub(_replace_half_pair, body) if HALF_PAIR.search(body) else body)


def _replace_half_pair(escape: re.Match[bytes]) -> bytes:
    """Return an escape of JSON as it is; U+FFFD for half of a surrogate pair, which no UTF-8 can contain."""
    return b"\\ufffd" if len(escape[0]) == HALF else escape[0]


def _check_json(response: requests.Response, *, is_success: bool) -> None:
    """Check that the body can be parsed. What is not JSON has a meaning of its own, or is a page of something else.

    Raises:
        Unavailable: it is nested too deeply, or contains a number with too many digits.
        ResourceExecutionError: it is not JSON and does not claim to be.
    """
    if is_nested_too_deeply(response.content):
        raise NestedTooDeeply
    try:
        payload = response.json()
        if b"\\u" in response.content:
            json.dumps(payload, ensure_ascii=False).encode()
    except requests.JSONDecodeError:
        if is_success and not is_json(response):
            raise make_page(response) from None
    except (ValueError, RecursionError) as error:  # the response can name an encoding that nothing detects
        raise Unavailable(NOT_VALID, details=type(error).__name__, transient=False) from None


def _can_contain_graphql(request: requests.PreparedRequest, response: requests.Response) -> bool:
    """Return whether the body can be GraphQL. Other statuses have their meaning without the body."""
    return urlsplit(request.url or "").path.endswith("/graphql") and response.status_code in INVALID_QUERY


def _has_graphql_errors(response: requests.Response) -> bool:
    try:
        payload = response.json()
    except requests.JSONDecodeError:
        return False
    return isinstance(payload, dict) and isinstance(payload.get("errors"), list)


def fetch_tokens(registry_url: str, refresh_token: str, timeout: Timeout) -> Tokens:
    """Fetch new tokens. The refresh token cannot be used again.

    Raises:
        NotSignedIn: the stack rejected the refresh token.
        HTTPError, RequestException, ValidationError: the request failed.
    """
    with StackSession(timeout) as session:
        try:
            answer = session.post(f"{registry_url}/api/token", data={"refresh_token": refresh_token}).json()
        except requests.HTTPError as error:
            status = error.response.status_code
            if status not in REJECTED_TOKEN or (status == HTTPStatus.FORBIDDEN and not is_json(error.response)):
                raise
            answer = None
    if not isinstance(answer, dict) or "error" in answer:
        raise NotSignedInToQuilt("The Quilt login is no longer valid.", details="the refresh token was rejected")
    return Tokens.model_validate(answer)


def call_stack(call: Callable[[], T]) -> T:
    """Run a function that sends requests to the stack, and return its result.

    Raises:
        ResourceFailure: the rows of `failures.py` describe the exception that the function raised.
    """
    try:
        return call()
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValidationError) as error:
        # Without its cause: the text of a ValidationError contains the response, which can contain credentials.
        raise map_failure(error) from None
