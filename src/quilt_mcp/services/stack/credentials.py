"""The AWS credentials that a Quilt stack issues, in the form that boto3 takes."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Self

import boto3
import botocore.session
from botocore.credentials import CredentialProvider, CredentialResolver, RefreshableCredentials
from botocore.loaders import Loader
from pydantic import AwareDatetime, BaseModel, Field

from quilt_mcp.core.errors import Unavailable

_AWS_NAMES = {
    "AccessKeyId": "access_key",
    "SecretAccessKey": "secret_key",
    "SessionToken": "token",
    "Expiration": "expiry_time",
}
NO_PROFILE = (None, None, None, None)
"""In the form of botocore: no name in a file, no environment variable, no default, no conversion."""

HeaderText = Annotated[str, Field(repr=False, pattern=r"^[!-~]+$")]
"""A secret that can be sent in an HTTP header."""


class AWSKeys(BaseModel):
    """Temporary AWS credentials, with the names that botocore takes."""

    access_key: HeaderText
    secret_key: HeaderText
    token: HeaderText
    expiry_time: AwareDatetime

    @classmethod
    def from_response(cls, response: object) -> Self:
        """Return the credentials in a stack's response, which uses the names of AWS.

        Raises:
            ValidationError: the response does not contain credentials.
            Unavailable: they have expired.
        """
        if isinstance(response, Mapping):
            response = {_AWS_NAMES.get(name, name): value for name, value in response.items()}
        keys = cls.model_validate(response)
        if keys.expiry_time <= datetime.now(UTC):
            raise Unavailable(
                "The Quilt stack issued AWS credentials that have expired already.",
                suggested_actions=["Check the clock of this machine, then repeat the call."],
                transient=False,
            )
        return keys


class IssuedCredentials:
    """The AWS credentials of one identity, which botocore renews before they expire.

    Attributes:
        expires_at: when those in use expire.
    """

    def __init__(self, keys: AWSKeys, fetch: Callable[[], AWSKeys]) -> None:
        self.expires_at = keys.expiry_time
        self._keys, self._fetch = keys, fetch

    def create_session(self) -> boto3.Session:
        """Create a boto3 session with only these credentials.

        quilt3's own session is not used: it can renew with an old token, and writes each renewal to disk.
        """
        session = _create_session()
        session.register_component("credential_provider", CredentialResolver([_StackProvider(self._create)]))
        session.register_component("data_loader", _load_service_descriptions())
        return boto3.Session(botocore_session=session)

    def renew_session(self) -> boto3.Session:
        """Fetch new credentials before the old ones should expire, and create a session with them.

        Raises:
            ResourceFailure: as the function that fetches them.
        """
        self._keys = self._fetch()
        self.expires_at = self._keys.expiry_time
        return self.create_session()

    def _create(self) -> RefreshableCredentials:
        return RefreshableCredentials.create_from_metadata(
            metadata=self._keys.model_dump(mode="json"), refresh_using=self._renew, method=_StackProvider.METHOD
        )

    def _renew(self) -> dict[str, str]:
        keys = self._fetch()
        self.expires_at = keys.expiry_time
        return keys.model_dump(mode="json")


class _StackProvider(CredentialProvider):  # type: ignore[misc]  # botocore has no types
    METHOD = "quilt-registry"
    CANONICAL_NAME = "QuiltRegistry"

    def __init__(self, create: Callable[[], RefreshableCredentials]) -> None:
        super().__init__()
        self._create = create

    def load(self) -> RefreshableCredentials:
        return self._create()


@cache
def _load_service_descriptions() -> Loader:
    """Return botocore's descriptions of the AWS services. All callers share them, because each copy takes 20 MB."""
    return _create_session().get_component("data_loader")


def _create_session() -> botocore.session.Session:
    """Create a botocore session with the settings of the user's AWS profile, or without them if it does not exist.

    The credentials of the profile are not used, so a missing one does no harm.
    """
    session = botocore.session.get_session()
    if session.profile is None or session.profile in session.available_profiles:
        return session
    return botocore.session.get_session({"profile": NO_PROFILE})
