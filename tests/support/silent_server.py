"""A server that accepts connections and never answers, or answers some requests only."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from quilt_mcp.demo.http_server import Answer, LoopbackServer, Request

HOURS = 10_000.0  # in seconds: more than any time limit


class SilentServer:
    """Reads every request and keeps it waiting for as long as the context lasts.

    Attributes:
        asked: every request, in the order of arrival, as its method and path, or as the operation of AWS's JSON
            protocol, such as `AmazonAthena.GetWorkGroup`.
    """

    def __init__(self, answer: Callable[[Request], Answer | None] = lambda _: None) -> None:
        """`answer` gives the answers to those requests that get one, and None for the others."""
        self.asked: list[str] = []
        self._answer = answer
        self._end = threading.Event()
        self._server = LoopbackServer(self._receive, 0)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end.set()
        self._server.stop()

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self._server.port}"

    def _receive(self, request: Request) -> Answer:
        self.asked.append(request.target or f"{request.method} {request.path}")
        answer = self._answer(request)
        if answer is None:
            self._end.wait(HOURS)
            raise ConnectionError("the end, without an answer")
        return answer
