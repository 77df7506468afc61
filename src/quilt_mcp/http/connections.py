"""One HTTP connection: uvicorn's protocol over h11, with what a server without a proxy needs in addition.

h11 limits heads and trailers, refuses contradicting headers, and reads one request at a time. This module limits the
time for a head and for reading an answer, and makes room for new callers when all places are taken. Behind nginx these
limits do not apply, because nginx reads whole requests and buffers answers.
"""

import asyncio
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from quilt_mcp.http.audit import AuditLog, AuditRecord
from quilt_mcp.http.audit_requests import AUDIT_LOG, find_address
from quilt_mcp.http.layers import IS_STREAM, RefuseConnection

if sys.platform != "win32":
    import resource

HEAD_BYTES = 65_536
"""The maximum size of a head, and of the trailers."""
PIECE_BYTES = 16_384
RESERVED_CONNECTIONS = 32
"""Connections above the limit. They get /health and /ready; other requests get 503. Further connections are closed."""
OTHER_DESCRIPTORS = 256
"""For log, databases, analyses, and connections to the stack, to AWS and to the shared state."""
ENOUGH_DESCRIPTORS = 1_048_576
"""Some systems have no limit, or one that no process can reach."""


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits of one connection.

    Attributes:
        head_seconds: how long a client may take to send a request's head.
        unread_seconds: how long an answer may wait while the client reads none of it. A client that reads slowly may
            take longer.
        idle_seconds: a connection without a request for longer makes room for a new one, if there are too many.
        linger_seconds: how long it stays open when the server shuts down, for requests that are on their way.
    """

    head_seconds: float = 15.0
    unread_seconds: float = 30.0
    idle_seconds: float = 1.0
    linger_seconds: float = 0.2


class JoinedWrites:
    """A transport that sends what is written in one turn of the event loop with one system call.

    uvicorn writes the head of an answer and its body separately, which costs an eighth of a small read. And if the
    process is killed between the two, a proxy has already forwarded the head and cannot repeat the read elsewhere.

    Args:
        transport: of the connection. It does everything else.
    """

    LONG_BYTES = 65_536
    """More data than that are sent at once, which limits what is collected."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._parts: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._parts:
            asyncio.get_running_loop().call_soon(self.flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size > self.LONG_BYTES:
            self.flush()

    def flush(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._parts, self._size = [], 0
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        return self._size + self._transport.get_write_buffer_size()


class Connection(H11Protocol):
    """One connection. uvicorn creates it.

    Attributes:
        limits: of each connection.
        idle_since: when the connection was accepted or its last answer ended, as the time of the event loop.
    """

    limits = ConnectionLimits()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._max_connections, self.limit_concurrency = self.limit_concurrency, None  # uvicorn would refuse /health
        self.idle_since = 0.0
        self._is_ending = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", JoinedWrites(cast("asyncio.Transport", transport))))
        # Call pause_writing at the first byte that has to wait: fewer than the default 64 KB also hold a connection.
        self.transport.set_write_buffer_limits(high=0)
        self.idle_since = self.loop.time()
        self._start_head_timer()
        if self._max_connections is not None and len(self.connections) > self._max_connections:
            self._make_room(self._max_connections)

    def data_received(self, data: bytes) -> None:
        """Stop the timer when the head is complete. It starts again with the first bytes of the next request."""
        for start in range(0, len(data), PIECE_BYTES):  # h11 limits only heads that arrive in several pieces
            super().data_received(data[start : start + PIECE_BYTES])
            if self.transport.is_closing():
                return
        if self.is_answering:
            if self._is_ending:
                super().shutdown()
            self._stop_head_timer()
        elif self._head_timer is None:
            self._start_head_timer()

    def on_response_complete(self) -> None:
        self.idle_since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP. After the beginning of an answer, only close the connection."""
        is_answering = self.is_answering
        if is_answering:
            self.cycle.disconnected = True  # the application can still be about to answer, which h11 refuses now
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.abort()
            return
        super().send_400_response(msg)
        if not is_answering:  # the line of the request says that it was cut
            self._audit(HTTPStatus.BAD_REQUEST, "error")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_read_timer()

    def resume_writing(self) -> None:
        self._stop_read_timer()
        super().resume_writing()

    def shutdown(self) -> None:
        """End the connection after the request in progress, if any. uvicorn calls this when the server shuts down."""
        self._is_ending = True
        if not self.is_answering:
            self.loop.call_later(self.limits.linger_seconds, self._close_if_idle)
        elif IS_STREAM in self.cycle.scope:
            self.transport.close()
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_read_timer()
        super().connection_lost(exc)

    def _make_room(self, max_connections: int) -> None:
        """Close the connection that is idle for longest. Without an idle one, this connection uses the reserve."""
        before = self.loop.time() - self.limits.idle_seconds
        others = [one for one in self._find_others() if not one.transport.is_closing()]
        idle = [one for one in others if not one.is_answering and one.idle_since < before]
        if len(others) < max_connections:
            return
        if idle:
            # First those that never sent a request: no client expects an answer on them.
            min(idle, key=lambda one: (one.cycle is not None, one.idle_since)).transport.abort()
        elif len(others) < max_connections + RESERVED_CONNECTIONS:
            self.app = RefuseConnection(self.app)
        else:
            self.transport.abort()

    def _find_others(self) -> Iterable["Connection"]:
        return (one for one in self.connections if isinstance(one, Connection) and one is not self)

    @property
    def is_answering(self) -> bool:
        """Whether a request is in progress."""
        # uvicorn declares the first as always set
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]  # as above

    def _close_if_idle(self) -> None:
        if not self.is_answering:
            self.transport.close()

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.limits.head_seconds, self._end_head)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_head(self) -> None:
        """Close the connection: the head of a request, or the rest of a refused one, is not complete in time."""
        if self.transport.is_closing() or self.is_answering:
            return
        if self.conn.our_state is h11.IDLE:
            status = HTTPStatus.REQUEST_TIMEOUT
            self.transport.write(f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\n\r\n".encode())
            if self.conn.trailing_data[0]:
                self._audit(status, "limit")
        self.transport.close()

    def _start_read_timer(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._read_timer = self.loop.call_later(self.limits.unread_seconds, self._abort_unless_read, unread)

    def _abort_unless_read(self, unread: int) -> None:
        if self.transport.get_write_buffer_size() < unread:
            self._start_read_timer()
        else:
            self.transport.abort()  # close() would wait until everything is sent

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _audit(self, status: HTTPStatus, outcome: str) -> None:
        """Audit a request that never reaches the application."""
        log = cast("Mapping[str, object]", self.app_state).get(AUDIT_LOG)
        if isinstance(log, AuditLog):
            record = AuditRecord("http", find_address(self.client), status=status.value)
            record.note_failure(outcome, f"HTTP {status.value}")
            log.write(record)


class TooFewDescriptors(Exception):
    """The process cannot open enough files for its connections. The message says what to change."""


def raise_descriptor_limit(max_connections: int) -> None:
    """Raise the soft limit of file descriptors to the hard limit. Does nothing on Windows, which has no such limit.

    Raises:
        TooFewDescriptors: the hard limit is too small for this number of connections.
    """
    if sys.platform == "win32":
        return
    soft, hard = (_limit_to_possible(one) for one in resource.getrlimit(resource.RLIMIT_NOFILE))
    needed = max_connections + RESERVED_CONNECTIONS + OTHER_DESCRIPTORS
    for limit in (hard, needed):  # macOS refuses a limit above the one of the kernel
        try:
            if soft < limit:
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            break
        except (ValueError, OSError):
            continue
    available = _limit_to_possible(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    if available < needed:
        possible = available - RESERVED_CONNECTIONS - OTHER_DESCRIPTORS
        advice = f", or set QUILT_MCP_MAX_CONNECTIONS to at most {possible}" if possible > 0 else ""
        raise TooFewDescriptors(
            f"QUILT_MCP_MAX_CONNECTIONS={max_connections} needs {needed} file descriptors, but this process can have "
            f"only {available}: raise the limit (`ulimit -Hn`, or LimitNOFILE= in a systemd unit){advice}."
        )


def _limit_to_possible(limit: int) -> int:
    is_unlimited = sys.platform != "win32" and limit == resource.RLIM_INFINITY
    return ENOUGH_DESCRIPTORS if is_unlimited else min(limit, ENOUGH_DESCRIPTORS)
