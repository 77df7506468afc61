"""Calls to AWS in the name of the caller, with time limits, and failures that are ours.

Imported by `caller.py` only, because it imports boto3.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from quilt_mcp.boundary import translate
from quilt_mcp.settings import Settings

MAX_CONNECTIONS = 32  # as many as fan_out has threads
DEFAULT_REGION = "us-east-1"


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
        return self._stack_region or self._boto3_session().region_name or DEFAULT_REGION

    def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """The answer of one operation, such as `call("athena", "get_work_group", WorkGroup="primary")`.

        Raises:
            ResourceFailure: as `boundary.translate` maps what AWS or botocore said.
        """
        try:
            answer: dict[str, Any] = getattr(self._client(service), operation)(**parameters)
        except (ClientError, BotoCoreError) as error:
            failure = translate(error)
            raise error if failure is None else failure from error
        return answer

    def pages(self, service: str, operation: str, key: str, **parameters: Any) -> Iterator[Any]:
        """Every item under `key` over all pages of an operation; one call a page."""
        token: dict[str, str] = {}
        while True:
            page = self.call(service, operation, **parameters, **token)
            yield from page.get(key, ())
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}

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
