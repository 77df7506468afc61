"""HTTP to the Quilt stack: with time limits, and with failures known by their status.

Imported by `caller.py` only, because it imports requests.
"""

from http import HTTPStatus
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from quilt_mcp.errors import NotSignedIn, ResourceExecutionError, Unavailable
from quilt_mcp.login import Tokens
from quilt_mcp.trace import count_call

MAX_WAIT_DIGITS = 6

Timeout = tuple[float, float]
"""The time limits for connecting and for each read, in seconds."""


class TokenRefused(NotSignedIn):
    """The registry does not accept the access token."""


class LimitedAdapter(HTTPAdapter):
    """Puts a time limit on each request, and recognises a failure by its status, which quilt3's exceptions hide."""

    def __init__(self, timeout: Timeout) -> None:
        super().__init__()
        self._timeout = timeout

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Send the request.

        Raises:
            TokenRefused: on 401.
            NotSignedIn: on 403.
            Unavailable: on 429 and from 500 on.
            ResourceExecutionError: on any other status from 400 on.
        """
        count_call("stack")
        kwargs["timeout"] = kwargs.get("timeout") or self._timeout
        response = super().send(request, *args, **kwargs)
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            response.close()  # its body is not read: without this its connection would be lost
            raise _failure(response)
        return response


def open_session(timeout: Timeout, tokens: Tokens | None = None) -> requests.Session:
    """A session with the stack; without tokens it is nobody's, for what is open to all."""
    session = requests.Session()
    session.headers["Accept"] = "application/json"
    if tokens:
        session.headers["Authorization"] = f"Bearer {tokens.access_token}"
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
