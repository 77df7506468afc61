"""A login that is one token, which this server cannot renew: that of an HTTP request, or an API key on this machine.

The token is an access token or an API key. The stack accepts both in the same way, and any process of this server can
use them repeatedly. A refresh token is not accepted here: the stack accepts each one once and returns a new pair, which
only one process would have.
"""

from collections.abc import Callable

import requests

from quilt_mcp.core.errors import NotSignedIn, ResourceFailure
from quilt_mcp.services.settings import Timeout
from quilt_mcp.services.stack.errors import NotSignedInToQuilt
from quilt_mcp.services.stack.login import Login, Stack
from quilt_mcp.services.stack.session import open_session
from quilt_mcp.services.stack.sign_in import SignIn

NO_STACK = "No Quilt catalog is configured on this server."
ASK_OPERATOR = "Ask the operator of this server to set QUILT_MCP_CATALOG_URL to the Quilt catalog."
CONFIGURE_STACK = "Set QUILT_CATALOG_URL to your Quilt catalog in the settings of your MCP client, then restart it."
API_KEY_ADVICE = (
    "Create a new API key in the Quilt catalog, and set QUILT_API_KEY to it in the settings of your MCP client.",
    "Restart the MCP client. It passes the API key to this server.",
    "Read auth://status to see which Quilt catalog the API key must be for.",
)


class TokenSignIn(SignIn):
    """One token at one stack. The login and AWS credentials of quilt3 on this machine are not used."""

    missing: str
    rejected: str

    def __init__(self, login: Login, timeout: Timeout, problem: ResourceFailure | None = None) -> None:
        super().__init__(login, timeout, problem)
        token = login.access_token
        # A token with other characters cannot be sent in an HTTP header.
        self._session = open_session(timeout, token) if token and token.isascii() and token.isprintable() else None
        self._has_ended = False

    def open(self) -> requests.Session:
        """Return the session with the token."""
        if self.login.stack.registry_url is None:
            raise NotSignedInToQuilt(NO_STACK)
        if self._session is None:
            raise NotSignedInToQuilt(self.missing)
        return self._session

    def renew(self, rejected: requests.Session) -> None:
        """Raise NotSignedIn. There is no other token."""
        del rejected
        raise NotSignedInToQuilt(self.rejected)

    def note_rejection(self, failure: NotSignedIn) -> None:
        """Suggest what the user can do, and stop using what was fetched with this token."""
        failure.suggested_actions = list(self.advice)
        self._has_ended = True

    def is_stale(self) -> bool:
        """Return whether the stack or AWS has rejected the login."""
        return self._has_ended or super().is_stale()

    def close(self) -> None:
        """Close the connections to the stack."""
        if self._session:
            self._session.close()


class RequestSignIn(TokenSignIn):
    """The token of an HTTP request."""

    missing = "The request has no Quilt token."
    rejected = "The Quilt stack rejected the token of the request."

    def __init__(
        self, stack: Stack, token: str | None, header: str, timeout: Timeout, problem: ResourceFailure | None = None
    ) -> None:
        super().__init__(Login(stack, token, source="request"), timeout, problem)
        self.advice = (
            f"Send your Quilt API key, or an access token that has not expired, in the HTTP header {header}.",
            "Read auth://status to see the Quilt catalog of this server and your current login.",
        )
        if stack.registry_url is None:
            self.advice = (ASK_OPERATOR,)


class APIKeySignIn(TokenSignIn):
    """The API key of the local user."""

    missing = "The API key contains characters that no API key has."
    rejected = "The Quilt stack rejected the API key."

    def __init__(
        self,
        stack: Stack,
        key: str,
        timeout: Timeout,
        has_changed: Callable[[], bool],
        problem: ResourceFailure | None = None,
    ) -> None:
        super().__init__(Login(stack, key, source="api_key"), timeout, problem)
        self._has_changed = has_changed
        self.advice = API_KEY_ADVICE if stack.registry_url else (CONFIGURE_STACK,)

    def is_stale(self) -> bool:
        """Return whether the stack or AWS has rejected the key, or the user's configuration has changed."""
        return super().is_stale() or self._has_changed()
