"""Connections whose clients are slow to ask, send headers without end, or do not read: they are closed."""

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 15.0
HEAD_BYTES = 65_536
PIPELINED = 100
"""How many requests may wait behind one that is answered. uvicorn keeps them in memory, without a limit of its own."""
UNREAD_SECONDS = 30.0
"""How long an answer may wait without the client's reading any of it. One that reads slowly may take longer."""


class Impatient(asyncio.Protocol):
    """Limits for what comes before a request's body and for taking the answer, to mix into a protocol of uvicorn's.

    Without them, whoever opens a connection and is silent, never ends its headers, or never reads, holds it for ever.
    """

    transport: asyncio.Transport
    cycle: Any
    """The request that was begun last; None before the first."""
    pipeline: Any = ()
    """Those that wait behind one that is answered; the parser in Python keeps none."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._clock: asyncio.TimerHandle | None = None
        self._unread = 0
        self._answer_clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock for the first request."""
        super().connection_made(transport)
        # pause_writing at the first byte that has to wait: less than the usual 64 KB would hold a connection as well
        self.transport.set_write_buffer_limits(high=0)
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        """Stop the clock once a request's headers are whole; it starts with the first bytes of the next."""
        super().data_received(data)
        if len(self.pipeline) > PIPELINED:
            self.transport.abort()
        if self._is_answering():
            self._stop_clock()
            return
        if not self._is_discarding():
            self._unread += len(data)
        if self._unread > HEAD_BYTES:
            self._close(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._clock is None:
            self._start_clock()

    def pause_writing(self) -> None:
        """Start the clock for reading the answer."""
        super().pause_writing()
        self._start_answer_clock()

    def resume_writing(self) -> None:
        """Stop it: all of the answer that there is was taken."""
        self._stop_answer_clock()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clocks."""
        self._stop_clock()
        self._stop_answer_clock()
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

    def _start_answer_clock(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._answer_clock = asyncio.get_running_loop().call_later(UNREAD_SECONDS, self._abort_unless_read, waiting)

    def _abort_unless_read(self, waiting: int) -> None:
        if self.transport.get_write_buffer_size() < waiting:
            self._start_answer_clock()
        else:
            self.transport.abort()  # to close would be to wait until all is sent

    def _stop_answer_clock(self) -> None:
        if self._answer_clock is not None:
            self._answer_clock.cancel()
            self._answer_clock = None

    def _close(self, status: HTTPStatus) -> None:
        if self.transport.is_closing() or self._is_answering():
            return
        if not self._is_discarding():
            self.transport.write(f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\n\r\n".encode())
        self.transport.close()


class ImpatientProtocol(Impatient, AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # a variable holds the class
    """uvicorn's protocol with the parser in C where it is installed, else with that in Python."""
