"""AWS, failing: every request gets one error, in the form of its service's protocol."""

from types import TracebackType
from typing import Self
from xml.sax.saxutils import escape

from quilt_mcp.demo.http_server import Answer, LoopbackServer, Request


class FailingAWS:
    """An endpoint that answers every request with an error of this code and status."""

    def __init__(self, code: str, status: int) -> None:
        self._code, self._status = code, status
        self._server = LoopbackServer(self._refuse, 0)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.stop()

    @property
    def url(self) -> str:
        """The address of the endpoint."""
        return f"http://127.0.0.1:{self._server.port}"

    def _refuse(self, request: Request) -> Answer:
        if request.target:  # Athena and Glue: JSON, and the code has a suffix
            return Answer(self._status, {"__type": f"{self._code}Exception", "message": "Refused."})
        error = f"<Error><Code>{escape(self._code)}</Code><Message>Refused.</Message></Error>"
        if request.path == "/" and request.method == "POST":  # STS: the query protocol
            return Answer(self._status, f"<ErrorResponse>{error}<RequestId>1</RequestId></ErrorResponse>".encode())
        return Answer(self._status, error.encode())
