"""Calls to AWS in the name of the caller, with time limits, and failures that are ours.

Imported by `caller.py` only, because it imports boto3.
"""

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import CredentialProvider, CredentialResolver, RefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError

from quilt_mcp.boundary import translate
from quilt_mcp.login import AWSKeys
from quilt_mcp.settings import Settings
from quilt_mcp.trace import count_call

MAX_CONNECTIONS = 32  # as many as fan_out has threads
DEFAULT_REGION = "us-east-1"


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


def _metadata(keys: AWSKeys) -> dict[str, str]:
    return keys.model_dump(mode="json")


def renewing_session(keys: AWSKeys, renew: Callable[[], AWSKeys]) -> boto3.Session:
    """A boto3 session with the stack's credentials, which botocore renews by `renew` before they expire.

    quilt3's own would renew with a session that may have an old token, and writes each renewal to disk.
    """
    session = botocore.session.get_session()
    session.register_component("credential_provider", CredentialResolver([_StackProvider(keys, renew)]))
    return boto3.Session(botocore_session=session)


class AWSClients:
    """boto3's clients of one identity, made once each; they may be used from many threads."""

    def __init__(self, open_session: Callable[[], boto3.Session], region: str | None, settings: Settings) -> None:
        self._open_session = open_session
        self._stack_region = region
        self._lock = threading.RLock()
        self._session: boto3.Session | None = None
        self._clients: dict[str, Any] = {}
        self._config = Config(
            connect_timeout=settings.connect_timeout_seconds,
            read_timeout=settings.read_timeout_seconds,
            retries={"mode": "standard", "total_max_attempts": 2},
            max_pool_connections=MAX_CONNECTIONS,
        )

    @property
    def region(self) -> str:
        """The region in use: the stack's, else the environment's, else us-east-1."""
        return (
            self._stack_region
            or self._boto3_session().region_name
            or os.environ.get("AWS_REGION")  # which boto3 does not look at
            or DEFAULT_REGION
        )

    def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """The answer of one operation, such as `call("athena", "get_work_group", WorkGroup="primary")`.

        Raises:
            ResourceFailure: as `boundary.translate` maps what AWS or botocore said.
        """
        count_call("aws")
        try:
            answer: dict[str, Any] = getattr(self._client(service), operation)(**parameters)
        except (ClientError, BotoCoreError) as error:
            failure = translate(error)
            raise error if failure is None else failure from error
        return answer

    def pages(self, service: str, operation: str, key: str, *, token: str = "NextToken", **given: Any) -> Iterator[Any]:  # noqa: S107 - a parameter's name, no secret
        """Every item under `key` over all pages of an operation, one call a page.

        Args:
            service: as for `call`.
            operation: as for `call`.
            key: where a page has its items.
            token: the name under which a page gives the token of the next, and takes its own.
            given: the operation's parameters.
        """
        page: dict[str, Any] = {token: None}
        while token in page:
            here = {token: page[token]} if page[token] else {}
            page = self.call(service, operation, **given, **here)
            yield from page.get(key, ())

    def _client(self, service: str) -> Any:
        with self._lock:
            if service not in self._clients:
                session = self._boto3_session()
                self._clients[service] = session.client(service, region_name=self.region, config=self._config)
            return self._clients[service]

    def _boto3_session(self) -> boto3.Session:
        with self._lock:
            if self._session is None:
                self._session = self._open_session()
            return self._session
