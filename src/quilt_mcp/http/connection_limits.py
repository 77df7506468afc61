"""Limits for one connection: slow requests, endless headers, pipelined requests, and answers that are not read.

It also limits the number of connections, and ends them when the server shuts down.

uvicorn has none of these limits with the parser of httptools. A server without a proxy needs them: otherwise a client
that sends nothing, or never reads, holds a connection forever. Behind nginx they do not apply, because nginx reads
whole requests and buffers answers.
"""

import asyncio
from collections.abc import Collection, Sized
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol, Self, cast

from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from quilt_mcp.http.overload import RefuseConnection
from quilt_mcp.http.whole_answers import WholeAnswers

RESERVED_CONNECTIONS = 32
"""Connections above the limit. They get /health and /ready; other requests get 503. Further connections are closed."""
IS_STREAM = "quilt_mcp.is_stream"
"""The key in the ASGI scope of a request with an answer that has no end."""


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits of one connection.

    Attributes:
        head_seconds: how long a client may take to send a request's headers.
        head_bytes: the maximum size of the headers.
        unread_seconds: how long an answer may wait while the client reads none of it. A client that reads slowly may
            take longer.
        pipelined: the maximum number of requests that wait behind the current one. uvicorn keeps them in memory.
        silent_seconds: a connection without a request for longer makes room for a new one, if there are too many.
        linger_seconds: how long it stays open when the server shuts down, for requests that are on their way.
    """

    head_seconds: float = 15.0
    head_bytes: int = 65_536
    unread_seconds: float = 30.0
    pipelined: int = 100
    silent_seconds: float = 1.0
    linger_seconds: float = 0.2


class RequestCycle(Protocol):
    """The part of uvicorn's request that this module uses."""

    response_complete: bool
    more_body: bool
    scope: Scope


class Limited(asyncio.Protocol):
    """Adds the limits to one of uvicorn's protocols, as a mixin.

    Attributes:
        limits: the limits of each connection.
        transport: set by uvicorn.
        cycle: the latest request; None before the first. Set by uvicorn.
        pipeline: the requests that wait behind the current one. Set by uvicorn; the parser in Python has none.
        app: answers the requests. Set by uvicorn.
        connections: all connections of this process. Set by uvicorn.
        limit_concurrency: the maximum number of connections. Set by uvicorn, which does not use it then.
        opened_at: when the connection was accepted, as the time of the event loop.
    """

    limits = ConnectionLimits()
    transport: asyncio.Transport
    cycle: RequestCycle | None
    pipeline: Sized = ()
    app: ASGIApp
    connections: Collection[Self] = ()
    limit_concurrency: int | None = None

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self._max_connections, self.limit_concurrency = self.limit_concurrency, None
        self.opened_at = 0.0
        self._is_ending = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_size = 0
        self._read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer for the first request."""
        super().connection_made(WholeAnswers(cast(asyncio.Transport, transport)))
        # Call pause_writing at the first byte that has to wait: fewer than the default 64 KB also hold a connection.
        self.transport.set_write_buffer_limits(high=0)
        self.opened_at = asyncio.get_running_loop().time()
        self._start_head_timer()
        if self._max_connections is not None and len(self.connections) > self._max_connections:
            self._make_room(self._max_connections)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Receive a header from httptools, which leaves the whitespace after a value. RFC 9110 excludes it."""
        super().on_header(name, value.strip(b" \t"))  # type: ignore[misc]  # uvicorn's protocol for httptools

    def data_received(self, data: bytes) -> None:
        """Stop the timer when the headers are complete. It starts again with the first bytes of the next request."""
        super().data_received(data)
        if self._is_ending and self._is_answering():
            super().shutdown()  # type: ignore[misc]  # uvicorn's protocols have it
        if len(self.pipeline) > self.limits.pipelined:
            self.transport.abort()
        if self._is_answering():
            self._stop_head_timer()
            return
        if not self._is_discarding():
            self._head_size += len(data)
        if self._head_size > self.limits.head_bytes:
            self._close(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._head_timer is None:
            self._start_head_timer()

    def pause_writing(self) -> None:
        """Start the timer for reading the answer."""
        super().pause_writing()
        self._start_read_timer()

    def resume_writing(self) -> None:
        """Stop that timer: the client has read everything so far."""
        self._stop_read_timer()
        super().resume_writing()

    def shutdown(self) -> None:
        """End the connection after the request in progress, if any. uvicorn calls this when the server shuts down."""
        self._is_ending = True
        if self.cycle is not None and self._is_answering():
            if self.cycle.scope.get(IS_STREAM):
                self.transport.close()
            else:
                super().shutdown()  # type: ignore[misc]  # uvicorn's protocols have it
        else:
            asyncio.get_running_loop().call_later(self.limits.linger_seconds, self._close_if_idle)

    def end_stream(self) -> None:
        """Close the connection if it answers without end. The client can open another one."""
        if self.cycle is not None and self._is_answering() and self.cycle.scope.get(IS_STREAM):
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop_head_timer()
        self._stop_read_timer()
        super().connection_lost(exc)

    def _make_room(self, max_connections: int) -> None:
        """Close the oldest connection without a request. Without such a connection, this one uses the reserve."""
        before = self.opened_at - self.limits.silent_seconds
        others = [one for one in self.connections if one is not self and not one.transport.is_closing()]
        silent = [one for one in others if one.cycle is None and one.opened_at < before]
        if len(others) < max_connections:
            return
        if silent:
            min(silent, key=lambda one: one.opened_at).transport.abort()
        elif len(others) < max_connections + RESERVED_CONNECTIONS:
            self.app = RefuseConnection(self.app)
        else:
            self.transport.abort()

    def _close_if_idle(self) -> None:
        if not self._is_answering():
            self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_discarding(self) -> bool:
        """Return whether the data is the body of a refused request. Some clients read only after sending it."""
        return self.cycle is not None and self.cycle.more_body

    def _start_head_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._head_timer = loop.call_later(self.limits.head_seconds, self._close, HTTPStatus.REQUEST_TIMEOUT)

    def _stop_head_timer(self) -> None:
        self._head_size = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _start_read_timer(self) -> None:
        unread, loop = self.transport.get_write_buffer_size(), asyncio.get_running_loop()
        self._read_timer = loop.call_later(self.limits.unread_seconds, self._abort_unless_read, unread)

    def _abort_unless_read(self, unread: int) -> None:
        if self.transport.get_write_buffer_size() < unread:
            self._start_read_timer()
        else:
            self.transport.abort()  # close() would wait until everything is sent

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _close(self, status: HTTPStatus) -> None:
        if self.transport.is_closing() or self._is_answering():
            return
        if not self._is_discarding():
            self.transport.write(f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\n\r\n".encode())
        self.transport.close()


class LimitedProtocol(Limited, AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # the class is in a variable
    """uvicorn's protocol: with the parser of httptools if it is installed, else with the parser in Python."""
