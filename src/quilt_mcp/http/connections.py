"""Connections whose clients are slow to ask, or send headers without end: they are closed."""

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 15.0
HEAD_BYTES = 65_536


class Impatient(asyncio.Protocol):
    """Limits for what comes before a request's body, to mix into a protocol of uvicorn's, which has few.

    Without them, whoever opens a connection and is silent, or never ends its headers, holds it for ever.
    """

    transport: asyncio.Transport
    cycle: Any
    """The request that was begun last; None before the first."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._clock: asyncio.TimerHandle | None = None
        self._unread = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock for the first request."""
        super().connection_made(transport)
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        """Stop the clock once a request's headers are whole; it starts with the first bytes of the next."""
        super().data_received(data)
        if self._is_answering():
            self._stop_clock()
            return
        if not self._is_discarding():
            self._unread += len(data)
        if self._unread > HEAD_BYTES:
            self._close(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._clock is None:
            self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clock."""
        self._stop_clock()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_discarding(self) -> bool:
        """Whether what comes is the body of a request that was refused; a client may read only when it has sent it."""
        return self.cycle is not None and self.cycle.more_body

    def _start_clock(self) -> None:
        self._clock = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._close, HTTPStatus.REQUEST_TIMEOUT)

    def _stop_clock(self) -> None:
        self._unread = 0
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _close(self, status: HTTPStatus) -> None:
        if self.transport.is_closing() or self._is_answering():
            return
        if not self._is_discarding():
            self.transport.write(f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\n\r\n".encode())
        self.transport.close()


class ImpatientProtocol(Impatient, AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # a variable holds the class
    """uvicorn's protocol with the parser in C where it is installed, else with that in Python."""
