"""A login in use: HTTP sessions with the caller's token, and the AWS credentials that the stack issues.

Imported on first use by `callers.py`, because it imports requests.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import requests

from quilt_mcp.core.errors import NotSignedIn, ResourceFailure
from quilt_mcp.services.settings import Timeout
from quilt_mcp.services.stack.credentials import AWSKeys
from quilt_mcp.services.stack.errors import TokenRejected
from quilt_mcp.services.stack.login import Login
from quilt_mcp.services.stack.session import call_stack
from quilt_mcp.services.stack.shared_attempts import copy_failure

T = TypeVar("T")


class SignIn(ABC):
    """One identity at one stack. It is thread-safe.

    Attributes:
        login: the stack and the tokens.
        advice: what the caller can do if the login is not valid; empty if the failure itself says it.
        timeout: the time limits for each request.
        problem: why the stack cannot be used; None if it can. Nothing is then sent to it.
    """

    advice: Sequence[str] = ()

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
        """Return the HTTP session with the caller's token.

        Raises:
            NotSignedIn: there is no login.
        """

    @abstractmethod
    def renew(self, rejected: requests.Session) -> None:
        """Replace a session after the stack rejected its token.

        Raises:
            NotSignedIn: there is no other token.
        """

    def is_stale(self) -> bool:
        """Return whether the login has changed or ended since this object was created, or may be usable now."""
        return self.problem is not None

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

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
        """Fetch the AWS credentials of the caller's current role from the stack.

        Raises:
            ResourceFailure: as `send`.
        """
        url = f"{self.login.stack.registry_url}/api/auth/get_credentials"
        return self.send(lambda session: AWSKeys.from_response(session.get(url).json()))
