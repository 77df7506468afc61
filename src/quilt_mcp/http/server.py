"""uvicorn: its configuration, one HTTP connection, its server in this process, and its supervisor of several workers.

h11 limits heads and trailers, refuses contradicting headers, and reads one request at a time. `Connection` limits the
time for a head and for reading an answer, and makes room for new callers when all places are taken. Behind nginx these
limits do not apply, because nginx reads whole requests and buffers answers.

All workers accept connections from the same listening socket, so connections that wait in it are not lost when a worker
dies. uvicorn starts the workers, and replaces those that die or hang. On SIGHUP, reload.py replaces all of them.
"""

import asyncio
import errno
import logging
import math
import os
import signal
import socket
import sys
import time
from asyncio import Protocol
from collections.abc import Callable
from ctypes import c_bool
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from multiprocessing import get_context, parent_process
from threading import Thread
from types import FrameType
from typing import Any, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess, multiprocess
from uvicorn.supervisors.multiprocess import Process

from quilt_mcp.http.audit import AuditRecord, audit_refusal, find_address
from quilt_mcp.http.layers import IS_STREAM, Flag, RefuseConnection
from quilt_mcp.http.rate_limiter import MAPPED
from quilt_mcp.http.reload import HEALTH_CHECK_SECONDS, MAX_PAUSE_SECONDS, START_SECONDS, Count, Reload
from quilt_mcp.settings import HTTPSettings

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
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._parts:
            asyncio.get_running_loop().call_soon(self.flush)
        self._parts.append(data)

    def flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))

    def close(self) -> None:
        self.flush()
        self._transport.close()


class Connection(H11Protocol):
    """One connection. uvicorn creates it.

    Attributes:
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
        self._linger_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", JoinedWrites(cast("asyncio.Transport", transport))))
        self.client = self.client and (self.client[0].removeprefix(MAPPED), self.client[1])  # IPv4 to an IPv6 socket
        # Call pause_writing at the first byte that has to wait: fewer than the default 64 KB also hold a connection.
        self.transport.set_write_buffer_limits(high=0)
        self.idle_since = self.loop.time()
        self._start_head_timer()
        if self._max_connections is not None and len(self.connections) > self._max_connections:
            self._make_room(self._max_connections)

    def data_received(self, data: bytes) -> None:
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

    def _should_upgrade(self) -> bool:
        """Ignore that a client prefers HTTP/2 or WebSocket. uvicorn would log advice to install a library."""
        return False

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
            self._linger_timer = self.loop.call_later(self.limits.linger_seconds, self._close_if_idle)
        elif IS_STREAM in self.cycle.scope:
            self.transport.close()
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """End every timer. A timer holds the connection, with the head of its last request, until its time is over."""
        self._stop_head_timer()
        self._stop_read_timer()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn does this only for a connection without an error

    def _make_room(self, max_connections: int) -> None:
        """Close the connection that is idle for longest. Without an idle one, this connection uses the reserve."""
        before = self.loop.time() - self.limits.idle_seconds
        known = (one for one in self.connections if isinstance(one, Connection) and one is not self)
        others = [one for one in known if not one.transport.is_closing()]
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

    @property
    def is_answering(self) -> bool:
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
        if self.transport.is_closing():
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
        audit_refusal(self.app_state, AuditRecord("http", find_address(self.client)), status, outcome)


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


BACKLOG = 256
"""How many connections can wait until they are accepted. Those that wait longer than their client are useless."""
KEEP_ALIVE_SECONDS = 75
"""Longer than nginx keeps idle connections (60 s), so that nginx does not use a connection that is being closed."""
STABLE_SECONDS = 60.0
"""A worker that dies sooner after the previous replacement makes the next pause longer."""
SPARE_SECONDS = 5.0
ACCEPTING_TURNS = 3
"""The turns of the event loop between the acceptance of a connection and the call of `connection_made`."""
FAILED = 1

logger = logging.getLogger(__name__)


def configure_uvicorn(
    app: ASGIApp | Callable[[], ASGIApp],
    settings: HTTPSettings,
    *,
    seconds_to_finish: float,
    workers: int = 1,
    is_factory: bool = False,
    protocol: type[Protocol] = Connection,
) -> uvicorn.Config:
    """Return uvicorn's configuration for an application, or for a factory of worker processes."""
    return uvicorn.Config(
        app,
        factory=is_factory,
        http=protocol,
        ws="none",
        h11_max_incomplete_event_size=HEAD_BYTES,
        # asyncio would pass the identity of one request on to later ones on the connection (python/cpython#140947)
        reset_contextvars=True,
        lifespan="on",
        log_config=None,  # uvicorn's own configuration writes the access log to stdout
        access_log=False,
        server_header=False,
        workers=workers,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(seconds_to_finish),
        timeout_worker_healthcheck=HEALTH_CHECK_SECONDS,
        limit_concurrency=settings.max_connections,  # Connection applies it
        backlog=BACKLOG,
        forwarded_allow_ips=[str(network) for network in settings.trusted_proxies],
    )


class WebServer(uvicorn.Server):
    """Serves an application until `should_exit` is set. It calls `when_ready` when it accepts connections."""

    def __init__(self, config: uvicorn.Config, *, when_ready: Callable[[], None] | None = None) -> None:
        super().__init__(config)
        self._when_ready = when_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._when_ready:
            self._when_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no connection, and let those begin that were accepted just now: a server that closes loses them."""
        if sys.platform != "win32":  # whose event loop has no readers
            for listener in (one for server in self.servers for one in server.sockets):
                asyncio.get_running_loop().remove_reader(listener.fileno())
        for _ in range(ACCEPTING_TURNS):
            await asyncio.sleep(0)
        await super().shutdown(sockets)


class Worker(Process):
    """A worker process of uvicorn, with our server."""

    def __init__(
        self, config: uvicorn.Config, sockets: list[socket.socket], *, start_seconds: float = START_SECONDS
    ) -> None:
        super().__init__(config, sockets)
        self._has_started = get_context("spawn").RawValue(c_bool)
        self._must_answer_from = time.monotonic() + start_seconds

    @property
    def has_started(self) -> bool:
        """Whether it has begun to serve."""
        return bool(self._has_started.value)

    def has_ended(self) -> bool:
        return not self.process.is_alive()

    def is_alive(self, timeout: float = HEALTH_CHECK_SECONDS) -> bool:
        """Return whether it answers a health check. While it starts, it need not: it loads its libraries."""
        if not self.has_started and time.monotonic() < self._must_answer_from:
            return self.process.is_alive()
        return super().is_alive(timeout)

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        self._server = WebServer(self.config, when_ready=lambda: setattr(self._has_started, "value", True))
        super().target(sockets)


class Shutdown:
    """Ends a web server that runs in another thread: first `/ready` returns 503, then it finishes its requests.

    Args:
        pause: how long the server still accepts requests, in seconds.
    """

    def __init__(self, web: uvicorn.Server, leaving: Flag, pause: float) -> None:
        self._web = web
        self._leaving = leaving
        self._pause = pause
        self._end: float | None = None

    def handle_signal(self, number: int, _: FrameType | None) -> None:
        """Begin. A second signal ends the process immediately."""
        if self._leaving.value:
            sys.exit(128 + number)
        self._leaving.value = True
        self._end = time.monotonic() + self._pause + (self._web.config.timeout_graceful_shutdown or 0) + SPARE_SECONDS
        _call_after(self._pause, lambda: setattr(self._web, "should_exit", True))

    def check(self) -> None:
        """End the process if the server has not ended in its time, because a thread does not end."""
        if self._end is not None and time.monotonic() > self._end:
            logger.warning("background work did not finish in time: the process exits without waiting for it")
            sys.exit(0)


def _call_after(pause: float, stop: Callable[[], object]) -> None:
    """Stop to accept requests after a pause. In a thread: the main one handles a signal, and can hold any lock."""

    def wait() -> None:
        logger.info("shutting down: /ready returns 503; in %g s, new connections are refused", pause)
        time.sleep(pause)
        stop()

    Thread(target=wait, daemon=True, name="shutdown").start()


class Workers(Multiprocess):
    """uvicorn's supervisor, with an exit status, a start message, a bounded shutdown, and reloads that are repeated.

    It takes over the signal handlers of the process.

    Args:
        config: of each worker; its application must be a factory that can be pickled.
        leaving: set on SIGTERM; the workers return 503 for /ready then.
        outdated: where to write how many workers have the settings from before a SIGHUP.
        pause: how long they still accept requests after SIGTERM, in seconds.
    """

    processes: list[Worker]  # type: ignore[assignment]  # uvicorn declares their base class

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        *,
        leaving: Flag,
        outdated: Count,
        pause: float,
        when_ready: Callable[[], None],
    ) -> None:
        super().__init__(config, [listener])
        vars(multiprocess)["Process"] = Worker  # uvicorn has no parameter for it
        self._leaving = leaving
        self._pause = pause
        self._when_ready = when_ready
        self._status = FAILED
        self._respawn_pause = 1.0
        self._last_respawn = self._next_respawn = -math.inf
        self._seconds_to_finish = (config.timeout_graceful_shutdown or 0) + SPARE_SECONDS
        self._reload = Reload(self.processes, self._start_worker, outdated, seconds_to_finish=self._seconds_to_finish)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._exit_on_signal)

    def run_until_signal(self) -> int:
        """Serve until SIGTERM or SIGINT; the workers then finish their requests.

        Returns:
            The exit status: 0 after SIGTERM, 130 after SIGINT, or 1 if a worker failed to start.
        """
        logging.getLogger("uvicorn.error").setLevel(logging.INFO)  # which worker ended, and why
        self.run()
        return self._status

    def init_processes(self) -> None:
        """Start the workers and wait until they serve. The supervisor handles those that fail."""
        super().init_processes()
        if all(process.wait_until_ready(START_SECONDS, self.should_exit) for process in self.processes):
            self._when_ready()
        elif not all(process.process.is_alive() for process in self.processes):
            self.should_exit.set()

    def keep_subprocess_alive(self) -> None:
        """Replace dead workers, at most once in a growing number of seconds while they keep dying and others serve.

        uvicorn calls it twice a second, so it also continues a reload.
        """
        if self._leaving.value or self.should_exit.is_set():
            return
        self._reload.step()
        if time.monotonic() < self._next_respawn and any(one.process.is_alive() for one in self.processes):
            return
        before = [process.pid for process in self.processes]
        super().keep_subprocess_alive()
        if before == [process.pid for process in self.processes]:
            return
        recently = time.monotonic() - self._last_respawn < STABLE_SECONDS
        self._respawn_pause = min(2 * self._respawn_pause, MAX_PAUSE_SECONDS) if recently else 1.0
        self._last_respawn = time.monotonic()
        self._next_respawn = self._last_respawn + self._respawn_pause

    def handle_hup(self) -> None:
        """Begin a reload."""
        logger.info("Received SIGHUP, replacing all workers.")
        self._reload.begin()

    def _start_worker(self) -> Worker:
        worker = Worker(self.config, self.sockets)
        worker.start()
        return worker

    def terminate_all(self) -> None:
        """Close our listening sockets and ask the workers to end. When they end, new connections are refused."""
        for listener in self.sockets:
            listener.close()
        self.processes += self._reload.stop()
        super().terminate_all()

    def join_all(self) -> None:
        """Wait for the workers to end; kill those that exceed the time for their requests."""
        end = time.monotonic() + self._seconds_to_finish
        for worker in self.processes:
            worker.process.join(max(end - time.monotonic(), 0))
            if worker.process.is_alive():
                logger.error("worker %d did not end in time and is killed", worker.pid)
                worker.kill()
        super().join_all()

    def _exit_on_signal(self, number: int, _: FrameType | None) -> None:
        """Exit also while workers are being replaced: uvicorn looks at its own queue of signals only afterwards.

        A second signal ends the workers immediately.
        """
        if self._leaving.value:
            self._status = 128 + number
            for worker in self.processes:
                worker.process.kill()
        else:
            self._status = 0 if number == signal.SIGTERM else 128 + number
        pause = self._pause if number == signal.SIGTERM and not self._leaving.value else 0
        self._leaving.value = True
        _call_after(pause, self.should_exit.set)


def exit_with_parent() -> None:
    """End this process when its parent ends, even if the parent is killed. Does nothing in the main process."""
    parent = parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(FAILED)

    Thread(target=wait, daemon=True, name="parent").start()


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket. Clients can connect from then on; they wait until a server accepts.

    Raises:
        OSError: the address cannot be used.
    """
    *kind, address = _resolve(host, port)
    # With the protocol number, asyncio turns off Nagle's algorithm. With 0 it does not, and answers wait for 40 ms.
    listener = socket.socket(*kind)
    try:
        if os.name == "posix":  # on Windows this option lets two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # on Linux, connections inherit it
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server on this host.

    Raises:
        OSError: the name cannot be resolved.
    """
    return ip_address(str(_resolve(host, 0)[-1][0])).is_loopback


def _resolve(
    host: str, port: int
) -> tuple[socket.AddressFamily, socket.SocketKind, int, tuple[str | int, ...] | tuple[int, bytes]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except UnicodeError as error:  # an empty or too long label, which is never looked up
        raise OSError(errno.EINVAL, "not a valid host name") from error
    family, kind, protocol, _, address = found[0]
    return family, kind, protocol, address
