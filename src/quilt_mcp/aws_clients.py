"""Calls to AWS in the name of the caller, with time limits, and failures that are ours.

Imported by `caller.py` only, because it imports boto3.
"""

import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from quilt_mcp.boundary import translate
from quilt_mcp.errors import NotSignedIn, ResourceFailure
from quilt_mcp.settings import Settings
from quilt_mcp.sign_in import SignIn
from quilt_mcp.trace import calling

MAX_CONNECTIONS = 32  # as many as fan_out has threads
DEFAULT_REGION = "us-east-1"


class AWSClients:
    """boto3's clients of one identity, made once each; they may be used from many threads.

    They, and the sign-in, are closed as soon as nobody uses this object any more.
    """

    def __init__(self, sign_in: SignIn, settings: Settings) -> None:
        self._sign_in = sign_in
        self._lock = threading.RLock()
        self._session: boto3.Session | None = None
        self._clients: dict[str, Any] = {}
        weakref.finalize(self, _close, self._clients, sign_in).atexit = False
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
            self._sign_in.login.stack.region
            or self._boto3_session().region_name
            or os.environ.get("AWS_REGION")  # which boto3 does not look at
            or DEFAULT_REGION
        )

    def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """The answer of one operation, such as `call("athena", "get_work_group", WorkGroup="primary")`.

        Raises:
            ResourceFailure: as `boundary.translate` maps what AWS or botocore said.
        """
        try:
            with calling("aws", f"{service}.{operation}"):
                answer: dict[str, Any] = getattr(self._client(service), operation)(**parameters)
        except (ClientError, BotoCoreError) as error:
            failure = translate(error)
            raise error if failure is None else self._noted(failure) from error
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

    def _noted(self, failure: ResourceFailure) -> ResourceFailure:
        if isinstance(failure, NotSignedIn):
            self._sign_in.refused(failure)
        return failure

    def _client(self, service: str) -> Any:
        with self._lock:
            if service not in self._clients:
                session = self._boto3_session()
                self._clients[service] = session.client(service, region_name=self.region, config=self._config)
            return self._clients[service]

    def _boto3_session(self) -> boto3.Session:
        with self._lock:
            if self._session is None:
                self._session = self._sign_in.boto3_session()
            return self._session


def _close(clients: Mapping[str, Any], sign_in: SignIn) -> None:
    for client in clients.values():
        client.close()
    sign_in.close()
