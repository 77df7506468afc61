"""The login of the local user, which quilt3 keeps in its files."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import requests

from quilt_mcp.core.errors import NotSignedIn, ResourceFailure
from quilt_mcp.services.settings import Timeout
from quilt_mcp.services.stack import quilt_files
from quilt_mcp.services.stack.errors import NotSignedInToQuilt
from quilt_mcp.services.stack.login import Stack
from quilt_mcp.services.stack.renewal_lock import hold_lock
from quilt_mcp.services.stack.session import fetch_tokens, open_session
from quilt_mcp.services.stack.sign_in import SignIn

CONFIGURE_FIRST = "Run `quilt3 config https://<your catalog>`, then `quilt3 login`, in a terminal."
PAUSES_SECONDS = (0.0, 0.1, 0.2)

_renewing = threading.Lock()  # one for the process: among threads it is fair, which the lock of a file is not


class LocalSignIn(SignIn):
    """The login in quilt3's files to one stack. It renews the access token, as quilt3 does.

    Only readers that need the renewed token wait for it: those of this object. One process at a time renews a token,
    and the others then find it in the file, because the stack accepts each refresh token once.

    Args:
        stack: the stack.
        fingerprint: of quilt3's files, taken before they were read.
        timeout: the time limits for each request.
        problem: why the stack cannot be used.
        spare_seconds: how much longer than its request another process can need to renew a token.
    """

    def __init__(
        self,
        stack: Stack,
        fingerprint: quilt_files.Fingerprint,
        timeout: Timeout,
        problem: ResourceFailure | None = None,
        spare_seconds: float = 2.0,
    ) -> None:
        self._renewal_seconds = sum(timeout) + spare_seconds
        self._fingerprint = fingerprint
        self._session: requests.Session | None = None  # None while its token is renewed
        self._changing = threading.Lock()  # held while the session is created or replaced
        super().__init__(quilt_files.read_login(stack), timeout, problem)

    def is_stale(self) -> bool:
        """Return whether quilt3's files have changed: another login, or another catalog."""
        return super().is_stale() or self._fingerprint != quilt_files.take_fingerprint()

    def open(self) -> requests.Session:
        """Return the session, with an access token that has not expired."""
        if (session := self._session) is not None:
            return session
        with self._changing:
            if self._session is None:
                self._require_login()
                if self.login.is_expired():
                    with self._renewing_alone():
                        self._reread()
                        if self.login.is_expired():  # otherwise another app or process has renewed it
                            self._renew_tokens()
                self._session = open_session(self.timeout, self.login.access_token)
            return self._session

    def renew(self, rejected: requests.Session) -> None:
        """Replace the session, unless another thread has replaced it."""
        with self._changing:
            if self._session is rejected:
                self._session = None
                before = self.login.access_token
                with self._renewing_alone():
                    self._reread()
                    if self.login.access_token == before:  # otherwise another app or process has renewed it
                        self._renew_tokens()

    def note_rejection(self, failure: NotSignedIn) -> None:
        """Do nothing. The failure suggests a command, and that command changes quilt3's files."""

    def close(self) -> None:
        """Close the connections to the stack."""
        if self._session:
            self._session.close()

    @property
    def uses_machine_credentials(self) -> bool:
        """Whether there is no login to a stack. Without the address of the registry this is unknown if it exists."""
        is_unknown = self.problem is not None and self.login.stack.registry_url is None
        return not self.login.signed_in and not is_unknown

    @contextmanager
    def _renewing_alone(self) -> Iterator[None]:
        """Wait until no other thread and no other process renews a token, and keep them from it.

        Raises:
            Unavailable: another process takes longer than its request to the stack can take.
        """
        with _renewing, hold_lock(quilt_files.find_paths().data, self._renewal_seconds):
            yield

    def _renew_tokens(self) -> None:
        registry_url, refresh_token = self.login.stack.registry_url, self.login.refresh_token
        if registry_url and refresh_token:
            try:
                quilt_files.store_tokens(
                    registry_url, refresh_token, lambda: fetch_tokens(registry_url, refresh_token, self.timeout)
                )
            except NotSignedInToQuilt:
                self._await_other_tokens()
                return
        self._reread()

    def _await_other_tokens(self) -> None:
        """Use the tokens that quilt3 has stored. It does not take the lock of this server.

        It can have them without having stored them yet, so this looks several times.

        Raises:
            NotSignedIn: there are no other tokens.
        """
        before = self.login.refresh_token
        for pause in PAUSES_SECONDS:
            time.sleep(pause)
            self._reread()
            if self.login.refresh_token != before:
                return
        raise NotSignedInToQuilt("The Quilt login is no longer valid.", details="the refresh token was rejected")

    def _reread(self) -> None:
        self._fingerprint = self._fingerprint._replace(logins=quilt_files.take_fingerprint().logins)
        self.login = quilt_files.read_login(self.login.stack)
        self._require_login()

    def _require_login(self) -> None:
        stack = self.login.stack
        if stack.registry_url is None:
            raise NotSignedInToQuilt("No Quilt catalog is configured.", suggested_actions=[CONFIGURE_FIRST])
        if not self.login.signed_in:
            raise NotSignedInToQuilt(f"There is no login to {stack.catalog_url or stack.registry_url}.")
