"""The AWS credentials that a Quilt stack gives, as boto3 takes them.

Imported by `sign_in.py` only, because it imports boto3.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import boto3
import botocore.session
from botocore.credentials import CredentialProvider, CredentialResolver, RefreshableCredentials

from quilt_mcp.login import AWSKeys


class _StackProvider(CredentialProvider):  # type: ignore[misc]  # botocore has no types
    METHOD = "quilt-registry"
    CANONICAL_NAME = "QuiltRegistry"

    def __init__(self, keys: AWSKeys, renew: Callable[[], AWSKeys]) -> None:
        super().__init__()
        self._keys, self._renew = keys, renew

    def load(self) -> RefreshableCredentials:
        return RefreshableCredentials.create_from_metadata(
            metadata=_metadata(self._keys), refresh_using=lambda: _metadata(self._renew()), method=self.METHOD
        )


def renewing_session(keys: AWSKeys, renew: Callable[[], AWSKeys]) -> boto3.Session:
    """A boto3 session with these credentials and no others, which botocore renews by `renew` before they expire.

    quilt3's own would renew with a session that may have an old token, and writes each renewal to disk.
    """
    session = botocore.session.get_session()
    session.register_component("credential_provider", CredentialResolver([_StackProvider(keys, renew)]))
    session.register_component("data_loader", _service_descriptions())
    return boto3.Session(botocore_session=session)


@cache
def _service_descriptions() -> Any:
    """What botocore ships to describe AWS's services. They are alike for every caller, and take 20 MB for each copy."""
    return botocore.session.get_session().get_component("data_loader")


def _metadata(keys: AWSKeys) -> dict[str, str]:
    return keys.model_dump(mode="json")
