"""A sign-in to a Quilt stack in use: HTTP in its name, and the AWS credentials that come with it.

Imported by `runtime_context.py` and what it imports only, because it imports requests and boto3.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

import boto3
import requests
from pydantic import ValidationError

# quilt3 names its GraphQL errors nowhere else; tests/unit/test_boundary.py fails when they move.
from quilt3._graphql_client.exceptions import GraphQLClientError

from quilt_mcp.boundary import translate
from quilt_mcp.errors import NotSignedIn, ResourceExecutionError
from quilt_mcp.login import AWSKeys, Login
from quilt_mcp.stack_credentials import renewing_session
from quilt_mcp.stack_session import Timeout, TokenRefused

KEY_NAMES = {
    "AccessKeyId": "access_key",
    "SecretAccessKey": "secret_key",
    "SessionToken": "token",
    "Expiration": "expiry_time",
}

T = TypeVar("T")


class SignIn(ABC):
    """One identity at one stack; may be used from many threads.

    Attributes:
        login: the stack and the tokens.
        advice: what the caller can do where it is not signed in; empty where the failure itself says it.
    """

    advice: Sequence[str] = ()

    def __init__(self, login: Login, timeout: Timeout) -> None:
        self.login = login
        self.timeout = timeout

    @abstractmethod
    def session(self) -> requests.Session:
        """The HTTP session in the caller's name.

        Raises:
            NotSignedIn: there is no sign-in.
        """

    @abstractmethod
    def renew(self, refused: requests.Session) -> None:
        """Replace the session whose token the registry has refused.

        Raises:
            NotSignedIn: there is no other.
        """

    @abstractmethod
    def is_stale(self) -> bool:
        """Whether what it was made of has changed or ended since."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections; it is not used any more."""

    @abstractmethod
    def refused(self, failure: NotSignedIn) -> None:
        """Take note that the stack or AWS did not accept it, before the caller gets the failure."""

    def ask(self, call: Callable[[requests.Session], T]) -> T:
        """The result of a call to the registry. A 401 renews the access token once and repeats the call once.

        Raises:
            ResourceFailure: as `LimitedAdapter` and `boundary.translate`.
        """
        try:
            session = checked(self.session)
            try:
                return checked(lambda: call(session))
            except TokenRefused:
                checked(lambda: self.renew(session))
                return checked(lambda: call(self.session()))
        except NotSignedIn as failure:
            self.refused(failure)
            raise

    def boto3_session(self) -> boto3.Session:
        """A session with the stack's AWS credentials for this caller, which renew themselves.

        Raises:
            ResourceFailure: as `ask`.
        """
        return renewing_session(self.login.aws_keys or self._fetch_aws_keys(), self._fetch_aws_keys)

    def _fetch_aws_keys(self) -> AWSKeys:
        def get(session: requests.Session) -> AWSKeys:
            given = session.get(f"{self.login.stack.registry_url}/api/auth/get_credentials").json()
            return AWSKeys.model_validate({KEY_NAMES.get(name, name): value for name, value in dict(given).items()})

        return self.ask(get)


def checked(call: Callable[[], T]) -> T:
    """Run a call to the stack and turn its failures into ours.

    An answer of another form than is expected is the stack's fault, not a bug of ours.
    """
    try:
        return call()
    except (requests.RequestException, GraphQLClientError) as error:
        failure = translate(error)
        raise error if failure is None else failure from error
    except ValidationError as error:
        # Its text would hold the answer, which may be one with credentials.
        raise ResourceExecutionError(
            "The Quilt stack answered in a form that this version does not know.",
            details=f"{error.error_count()} fields of {error.title}",
            suggested_actions=["Upgrade quilt3 and this server, or ask the stack's administrator for its version."],
        ) from None
