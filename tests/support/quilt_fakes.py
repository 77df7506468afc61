"""Responses of Athena and of a Quilt stack that the demo worlds do not have."""

import io
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import botocore.session
import pytest
import requests
import urllib3
from botocore.awsrequest import AWSResponse
from requests.adapters import HTTPAdapter

Refuse = Callable[[str, dict[str, Any]], str | None]
"""Returns the error code for a call of an operation with a body; None if the demo's account responds."""


class Athena:
    """Sees every call to Athena, and lets some fail. The demo's account responds to the others.

    Attributes:
        calls: the number of calls of each operation, with those that failed.
        most_at_once: the highest number of calls that ran at the same time.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refuse: Refuse) -> None:
        self.calls: Counter[str] = Counter()
        self.most_at_once = 0
        self._at_once = 0
        self._refuse = refuse
        self._lock = threading.Lock()
        create = botocore.session.Session.create_client

        def create_client(session: Any, *arguments: Any, **named: Any) -> Any:
            client = create(session, *arguments, **named)
            client.meta.events.register_first("before-send.athena", self._receive)
            return client

        monkeypatch.setattr(botocore.session.Session, "create_client", create_client)

    def _receive(self, request: Any, event_name: str, **_: Any) -> AWSResponse | None:
        operation = event_name.rpartition(".")[2]
        with self._lock:
            self.calls[operation] += 1
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        time.sleep(0.002)  # lets other calls begin
        with self._lock:
            self._at_once -= 1
        code = self._refuse(operation, json.loads(request.body))
        if code is None:
            return None
        body = json.dumps({"__type": code, "message": "Not now"}).encode()
        return AWSResponse(request.url, 400, {"content-type": "application/x-amz-json-1.1"}, Raw(body))


class Raw(io.BytesIO):
    """A body, as urllib3 gives it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


class Clock:
    """A monotonic clock that stands still until somebody sleeps. It replaces the module `time`, and is thread-safe."""

    def __init__(self) -> None:
        self._now = 0.0
        self._lock = threading.Lock()

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Let this time pass, without waiting."""
        with self._lock:
            self._now += seconds


class Quota:
    """Limits the calls of each operation like Athena limits those of an account."""

    def __init__(self, per_second: float, burst: int, *operations: str) -> None:
        self._per_second, self._burst, self._operations = per_second, burst, operations
        self._levels = dict.fromkeys(operations, (float(burst), time.monotonic()))
        self._lock = threading.Lock()

    def __call__(self, operation: str, _: dict[str, Any]) -> str | None:
        """Return the error of a call above the quota."""
        if operation not in self._operations:
            return None
        now = time.monotonic()
        with self._lock:
            level, since = self._levels[operation]
            level = min(self._burst, level + (now - since) * self._per_second)
            is_allowed = level >= 1
            self._levels[operation] = level - is_allowed, now
        return None if is_allowed else "ThrottlingException"


def answer_queries(monkeypatch: pytest.MonkeyPatch, payloads: Mapping[str, object], status: int = 200) -> list[str]:
    """Let the stack respond to these GraphQL operations with these payloads. The world responds to all others.

    Returns:
        the names of the operations that the stack has received, which grows.
    """
    received: list[str] = []
    send = HTTPAdapter.send

    def intercept(adapter: HTTPAdapter, request: requests.PreparedRequest, *arguments: Any, **named: Any) -> Any:
        body = json.loads(request.body or b"{}") if str(request.url).endswith("/graphql") else {}
        operation = body.get("operationName", "")
        if operation:
            received.append(operation)
        if operation not in payloads:
            return send(adapter, request, *arguments, **named)
        payload = io.BytesIO(json.dumps(payloads[operation]).encode())
        headers = {"Content-Type": "application/json"}
        raw = urllib3.HTTPResponse(payload, headers, status, preload_content=False)
        return adapter.build_response(request, raw)

    monkeypatch.setattr(HTTPAdapter, "send", intercept)
    return received


NOT_UNDERSTOOD = {"errors": [{"message": "Cannot query field", "locations": [{"line": 1, "column": 1}]}]}
"""The response of a stack with a schema that does not have all fields of a query."""


def refuse(*paths: list[str | int]) -> dict[str, object]:
    """Return a payload without data, and with errors at these paths."""
    return {"data": None, "errors": [{"message": "Not allowed", "path": path} for path in paths]}
