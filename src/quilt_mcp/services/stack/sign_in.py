"""The login of a caller: that of quilt3 on this machine, which is renewed, or one token, which cannot be."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Self, TypeVar

import requests
from pydantic import AwareDatetime, BaseModel, Field

from quilt_mcp.core.errors import NotSignedIn, ResourceFailure, Unavailable
from quilt_mcp.services.settings import Timeout
from quilt_mcp.services.stack import quilt_files
from quilt_mcp.services.stack.failures import NotSignedInToQuilt, TokenRejected
from quilt_mcp.services.stack.login import Login, Stack
from quilt_mcp.services.stack.renewal_lock import hold_lock
from quilt_mcp.services.stack.session import StackSession, call_stack, fetch_tokens
from quilt_mcp.services.stack.shared_attempts import copy_failure

T = TypeVar("T")


HeaderText = Annotated[str, Field(repr=False, pattern=r"^[!-~]+$")]
"""A secret that can be sent in an HTTP header."""


class AWSKeys(BaseModel):
    """Temporary AWS credentials, with the names that botocore takes. Those of AWS, which stacks use, are aliases."""

    access_key: HeaderText = Field(validation_alias="AccessKeyId")
    secret_key: HeaderText = Field(validation_alias="SecretAccessKey")
    token: HeaderText = Field(validation_alias="SessionToken")
    expiry_time: AwareDatetime = Field(validation_alias="Expiration")

    @classmethod
    def from_response(cls, response: object) -> Self:
        """Return the credentials in a stack's response.

        Raises:
            ValidationError: the response does not contain credentials.
            Unavailable: they have expired.
        """
        keys = cls.model_validate(response)
        if keys.expiry_time <= datetime.now(UTC):
            raise Unavailable(
                "The Quilt stack issued AWS credentials that have expired already.",
                suggested_actions=["Check the clock of this machine, then repeat the call."],
                transient=False,
            )
        return keys


class SignIn(ABC):
    """One identity at one stack. It is thread-safe.

    Attributes:
        login: the stack and the tokens.
        advice: what the caller can do if the login is not valid; empty if the failure itself says it.
        timeout: the time limits for each request.
        problem: why the stack cannot be used; None if it can. Nothing is then sent to it.
    """

    advice: Sequence[str] = ()
    _session: requests.Session | None = None

    def __init__(self, login: Login, timeout: Timeout, problem: ResourceFailure | None = None) -> None:
        self.login = login
        self.timeout = timeout
        self.problem = problem

    @property
    def uses_machine_credentials(self) -> bool:
        """Whether AWS is called with the AWS configuration of this machine, because there is no login to a stack."""
        return False

    @abstractmethod
    def open(self) -> requests.Session:
        """Return the HTTP session with the caller's token."""

    @abstractmethod
    def renew(self, rejected: requests.Session) -> None:
        """Replace a session after the stack rejected its token."""

    def is_stale(self) -> bool:
        """Return whether the login has changed or ended since this object was created, or may be usable now."""
        return self.problem is not None

    def close(self) -> None:
        if self._session:
            self._session.close()

    @abstractmethod
    def note_rejection(self, failure: NotSignedIn) -> None:
        """Record that the stack or AWS rejected the login, before the caller gets the failure."""

    def send(self, call: Callable[[requests.Session], T]) -> T:
        """Run a function with the session. After a 401, renew the access token and repeat the function once.

        Raises:
            ResourceFailure: as `call_stack`, or `problem`.
        """
        if self.problem:
            raise copy_failure(self.problem)
        try:
            session = call_stack(self.open)
            try:
                return call_stack(lambda: call(session))
            except TokenRejected:
                call_stack(lambda: self.renew(session))
                return call_stack(lambda: call(self.open()))
        except NotSignedIn as failure:
            self.note_rejection(failure)
            raise

    def fetch_aws_keys(self) -> AWSKeys:
        url = f"{self.login.stack.registry_url}/api/auth/get_credentials"
        return self.send(lambda session: AWSKeys.from_response(session.get(url).json()))


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
        self._session = StackSession(timeout, token) if token and token.isascii() and token.isprintable() else None
        self._has_ended = False

    def open(self) -> requests.Session:
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


CONFIGURE_FIRST = "Run `quilt-mcp login https://<your catalog>` in a terminal."
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
                self._session = StackSession(self.timeout, self.login.access_token)
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

    @property
    def uses_machine_credentials(self) -> bool:
        """Whether there is no login to a stack. Without the address of the registry this is unknown if it exists."""
        is_unknown = self.problem is not None and self.login.stack.registry_url is None
        return not self.login.signed_in and not is_unknown

    @contextmanager
    def _renewing_alone(self) -> Iterator[None]:
        """Wait until no other thread and no other process renews a token, and keep them from it."""
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
