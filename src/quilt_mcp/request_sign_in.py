"""The sign-in that a request over HTTP brings along: a Quilt token in a header.

The token is an access token or an API key; the registry takes both alike, so any process of this server can use them,
again and again. A refresh token is no sign-in here: the registry takes it once, for a pair that only one process would
then have.
"""

import requests

from quilt_mcp.errors import NotSignedIn
from quilt_mcp.login import Login, Stack
from quilt_mcp.sign_in import SignIn
from quilt_mcp.stack_session import Timeout, open_session

NO_STACK = "This server has no Quilt stack."
ASK_OPERATOR = "Ask who runs this server to set QUILT_MCP_CATALOG_URL to the Quilt catalog."


class RequestSignIn(SignIn):
    """The caller's own token at the server's stack. Nothing of this machine's login or AWS credentials is used."""

    def __init__(self, stack: Stack, token: str | None, header: str, timeout: Timeout) -> None:
        super().__init__(Login(stack, token, source="request"), timeout)
        self.advice = (
            f"Send a Quilt API key of yours, or an access token that has not expired, in the HTTP header {header}.",
            "Read auth://status to see which catalog this server is for and who you are signed in as.",
        )
        if stack.registry_url is None:
            self.advice = (ASK_OPERATOR,)
        self._session = open_session(timeout, token) if token else None
        self._has_ended = False

    def session(self) -> requests.Session:
        """The session, with the token."""
        if self.login.stack.registry_url is None:
            raise NotSignedIn(NO_STACK)
        if self._session is None:
            raise NotSignedIn("The request brings no Quilt token.")
        return self._session

    def renew(self, refused: requests.Session) -> None:
        """Refuse: another token comes with another request."""
        del refused
        raise NotSignedIn("The Quilt stack does not accept the token of the request.")

    def refused(self, failure: NotSignedIn) -> None:
        """Advise the client; and from now on nothing that was got with this sign-in is used again."""
        failure.suggested_actions = list(self.advice)
        self._has_ended = True

    def is_stale(self) -> bool:
        """Whether the stack or AWS has refused it."""
        return self._has_ended

    def close(self) -> None:
        """Close the connections to the registry."""
        if self._session:
            self._session.close()
