"""HTTP to the Quilt stack: with time limits, in one caller's name, and with failures known by their status.

Imported by `sign_in.py` and what imports that only, because it imports requests.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase

from quilt_mcp.errors import NotSignedIn, ResourceExecutionError, Unavailable
from quilt_mcp.limited_connections import POOLS
from quilt_mcp.login import Tokens
from quilt_mcp.trace import calling

MAX_WAIT_DIGITS = 6

Timeout = tuple[float, float]
"""The time limits for connecting and for each read, in seconds."""


class TokenRefused(NotSignedIn):
    """The registry does not accept the access token."""


class LimitedAdapter(HTTPAdapter):
    """Puts a time limit on each request, and recognises a failure by its status, which quilt3's exceptions hide."""

    def __init__(self, timeout: Timeout) -> None:
        self._timeout = timeout
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make connections on which the time limit holds for an answer as a whole."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """The same, by way of a proxy."""
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = POOLS
        return manager

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Send the request.

        Raises:
            TokenRefused: on 401.
            NotSignedIn: on 403.
            Unavailable: on 429 and from 500 on.
            ResourceExecutionError: on any other status from 400 on.
        """
        kwargs["timeout"] = kwargs.get("timeout") or self._timeout
        with calling("stack", str(request.method)):
            response = super().send(request, *args, **kwargs)
            if response.status_code >= HTTPStatus.BAD_REQUEST:
                response.close()  # its body is not read: without this its connection would be lost
                raise _failure(response)
        return response


class _Bearer(AuthBase):
    """Sends the token, or nothing.

    With an `auth` of its own, requests does not look into ~/.netrc, whose login would take the place of the token.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class _StackSession(requests.Session):
    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Keep the token from another host that a redirect leads to, and send it no login from ~/.netrc either."""
        origin, target = response.request.url, prepared_request.url
        strip: Callable[[Any, Any], bool] = self.should_strip_auth  # in the stubs it has no types
        if strip(origin, target):
            prepared_request.headers.pop("Authorization", None)


def open_session(timeout: Timeout, token: str | None = None) -> requests.Session:
    """A session with the stack; without a token it is nobody's, for what is open to all."""
    session = _StackSession()
    session.headers["Accept"] = "application/json"
    session.auth = _Bearer(token)
    for scheme in ("https://", "http://"):
        session.mount(scheme, LimitedAdapter(timeout))
    return session


def fetch_tokens(registry_url: str, refresh_token: str, timeout: Timeout) -> Tokens:
    """A new pair of tokens for a refresh token, which is thereby spent.

    Raises:
        NotSignedIn: the registry does not accept it.
        Unavailable, requests.RequestException: it could not be asked.
    """
    with open_session(timeout) as session:
        answer = session.post(f"{registry_url}/api/token", data={"refresh_token": refresh_token}).json()
    if not isinstance(answer, dict) or "error" in answer:
        raise NotSignedIn("The sign-in to Quilt has ended.", details="the refresh token was refused")
    return Tokens.model_validate(answer)


def _failure(response: requests.Response) -> Exception:
    status = response.status_code
    details = f"HTTP status {status}"
    if status == HTTPStatus.UNAUTHORIZED:
        return TokenRefused("The sign-in to Quilt has expired.", details=details)
    if status == HTTPStatus.FORBIDDEN:
        return NotSignedIn("The Quilt stack does not accept this sign-in.", details=details)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable("The Quilt stack failed to answer.", details=details, suggested_actions=_when(response))
    return ResourceExecutionError("The Quilt stack refused the request.", details=details)


def _when(response: requests.Response) -> list[str]:
    """After how long to try again, where the stack says it in seconds; empty where it does not."""
    wait = response.headers.get("Retry-After", "")
    if not wait.isascii() or not wait.isdigit() or len(wait) > MAX_WAIT_DIGITS:
        return []
    return [f"Try the same call again in {int(wait)} seconds."]
