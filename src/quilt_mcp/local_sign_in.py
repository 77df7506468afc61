"""The sign-in of the person at this machine, which quilt3 keeps in its files."""

import threading

import boto3
import requests

from quilt_mcp import login as quilt_login
from quilt_mcp.errors import NotSignedIn
from quilt_mcp.sign_in import SignIn
from quilt_mcp.stack_session import Timeout, fetch_tokens, open_session

CONFIGURE_FIRST = "Run `quilt3 config https://<your catalog>`, then `quilt3 login`, in a terminal."

_lock = threading.RLock()  # for all sign-ins together: they renew the same token in the same file


class LocalSignIn(SignIn):
    """What quilt3's files say when it is made; it renews the access token, as quilt3 does."""

    def __init__(self, timeout: Timeout) -> None:
        self._mark = quilt_login.fingerprint()  # before reading: a change while it is read is then seen as one
        self._session: requests.Session | None = None
        super().__init__(quilt_login.read(), timeout)

    def is_stale(self) -> bool:
        """Whether quilt3's files changed since: another login, another catalog, or fresh credentials."""
        return self._mark != quilt_login.fingerprint()

    def session(self) -> requests.Session:
        """The session, with an access token that is not at its end."""
        with _lock:
            if self._session is None:
                self._require_login()
                if self.login.is_expired():
                    self._renew_tokens()
                self._session = open_session(self.timeout, self.login.access_token)
            return self._session

    def renew(self, refused: requests.Session) -> None:
        """Replace the session, unless another thread has done so meanwhile."""
        with _lock:
            if self._session is refused:
                before = self.login.access_token
                self._reread()
                if self.login.access_token == before:  # else another process has renewed it
                    self._renew_tokens()
                self._session = None

    def refused(self, failure: NotSignedIn) -> None:
        """Do nothing: the failure says what to do in a terminal, and that changes quilt3's files."""

    def close(self) -> None:
        """Close the connections to the registry."""
        if self._session:
            self._session.close()

    def boto3_session(self) -> boto3.Session:
        """The stack's credentials for a caller that is signed in, else what boto3 finds by itself."""
        return super().boto3_session() if self.login.signed_in else boto3.Session()

    def _renew_tokens(self) -> None:
        registry_url, refresh_token = self.login.stack.registry_url, self.login.refresh_token
        if registry_url and refresh_token:
            quilt_login.renew(registry_url, lambda: fetch_tokens(registry_url, refresh_token, self.timeout))
        self._reread()

    def _reread(self) -> None:
        self._mark = quilt_login.fingerprint()
        self.login = quilt_login.read()
        self._require_login()

    def _require_login(self) -> None:
        stack = self.login.stack
        if stack.registry_url is None:
            raise NotSignedIn("No Quilt catalog is configured.", suggested_actions=[CONFIGURE_FIRST])
        if not self.login.signed_in:
            raise NotSignedIn(f"Nobody is signed in to {stack.catalog_url or stack.registry_url}.")
