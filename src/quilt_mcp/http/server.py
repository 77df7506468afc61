"""uvicorn: its configuration, its server in this process, and its supervisor of several worker processes.

All workers accept connections from the same listening socket, so connections that wait in it are not lost when a worker
dies. uvicorn starts the workers, replaces those that die or hang, and on SIGHUP replaces all of them one by one, each
after its successor serves.
"""

import errno
import logging
import math
import os
import signal
import socket
import time
from asyncio import Protocol
from collections.abc import Callable
from ipaddress import ip_address
from multiprocessing import parent_process
from threading import Thread
from types import FrameType
from typing import NamedTuple

import uvicorn
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from quilt_mcp.http.connections import HEAD_BYTES, Connection
from quilt_mcp.http.layers import Flag
from quilt_mcp.settings import HTTPSettings

BACKLOG = 256
"""How many connections can wait until they are accepted. Those that wait longer than their client are useless."""
KEEP_ALIVE_SECONDS = 75
"""Longer than nginx keeps idle connections (60 s), so that nginx does not use a connection that is being closed."""
HEALTH_CHECK_SECONDS = 30
"""How long a worker may take to answer a health check. A worker that starts answers as soon as it has its imports."""
START_SECONDS = 60.0
STABLE_SECONDS = 60.0
"""A worker that dies sooner after the previous replacement makes the next pause longer."""
MAX_PAUSE_SECONDS = 30.0
SPARE_SECONDS = 5.0
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
    """Return uvicorn's configuration.

    Args:
        app: the application, or a factory for worker processes.
        settings: of HTTP.
        seconds_to_finish: how long requests may take to finish when the server shuts down.
        workers: the number of processes.
        is_factory: whether `app` is a factory.
        protocol: handles one connection.
    """
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
        timeout_graceful_shutdown=int(seconds_to_finish),
        timeout_worker_healthcheck=HEALTH_CHECK_SECONDS,
        limit_concurrency=settings.max_connections,  # Connection applies it
        backlog=BACKLOG,
        forwarded_allow_ips=[str(network) for network in settings.trusted_proxies],
    )


class WebServer(uvicorn.Server):
    """Serves an application until `should_exit` is set.

    Args:
        config: as `configure_uvicorn` returns it.
        when_ready: called once, when the server accepts connections.
    """

    def __init__(self, config: uvicorn.Config, *, when_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._when_ready = when_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, accept connections, and report that."""
        await super().startup(sockets)
        self._when_ready()


class Shutdown:
    """Ends a web server that runs in another thread: first `/ready` returns 503, then it finishes its requests.

    Args:
        web: the server.
        leaving: set at once, so that /ready returns 503.
        pause: how long the server still accepts requests, in seconds.
    """

    def __init__(self, web: uvicorn.Server, leaving: Flag, pause: float) -> None:
        self._web = web
        self._leaving = leaving
        self._pause = pause
        self._end: float | None = None

    @property
    def is_begun(self) -> bool:
        """Whether the shutdown has begun."""
        return self._leaving.value

    @property
    def is_overdue(self) -> bool:
        """Whether the server has not ended in its time, because a thread does not end."""
        return self._end is not None and time.monotonic() > self._end

    def begin(self) -> None:
        """Begin the shutdown, and return."""
        self._leaving.value = True
        self._end = time.monotonic() + self._pause + (self._web.config.timeout_graceful_shutdown or 0) + SPARE_SECONDS
        Thread(target=self._stop_later, daemon=True, name="shutdown").start()

    def _stop_later(self) -> None:
        logger.info("shutting down: /ready returns 503; in %g s, new connections are refused", self._pause)
        time.sleep(self._pause)
        self._web.should_exit = True


class Workers(Multiprocess):
    """uvicorn's supervisor, with an exit status, a start message and a bounded shutdown.

    It takes over the signal handlers of the process.

    Args:
        config: of each worker; its application must be a factory that can be pickled.
        listener: the socket that all workers accept connections from.
        leaving: set on SIGTERM; the workers return 503 for /ready then.
        pause: how long they still accept requests after SIGTERM, in seconds.
        when_ready: called once, when all workers serve.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        *,
        leaving: Flag,
        pause: float,
        when_ready: Callable[[], None],
    ) -> None:
        super().__init__(config, [listener])
        self._leaving = leaving
        self._pause = pause
        self._when_ready = when_ready
        self._status = FAILED
        self._respawn_pause = 1.0
        self._last_respawn = self._next_respawn = -math.inf
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
        """Replace dead workers, at most once in a growing number of seconds while they keep dying and others serve."""
        pauses = time.monotonic() < self._next_respawn and any(one.process.is_alive() for one in self.processes)
        if self._leaving.value or self.should_exit.is_set() or pauses:
            return
        before = [process.pid for process in self.processes]
        super().keep_subprocess_alive()
        if before == [process.pid for process in self.processes]:
            return
        recently = time.monotonic() - self._last_respawn < STABLE_SECONDS
        self._respawn_pause = min(2 * self._respawn_pause, MAX_PAUSE_SECONDS) if recently else 1.0
        self._last_respawn = time.monotonic()
        self._next_respawn = self._last_respawn + self._respawn_pause

    def terminate_all(self) -> None:
        """Close our listening sockets and ask the workers to end. When they end, new connections are refused."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()

    def join_all(self) -> None:
        """Wait for the workers to end; kill those that exceed the time for their requests."""
        end = time.monotonic() + (self.config.timeout_graceful_shutdown or 0) + SPARE_SECONDS
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
        # In a thread of its own: the interrupted main thread can hold the lock of the event.
        Thread(target=self._exit_after, args=(pause,), daemon=True).start()

    def _exit_after(self, pause: float) -> None:
        logger.info("shutting down: /ready returns 503; in %g s, new connections are refused", pause)
        time.sleep(pause)
        self.should_exit.set()


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
    found = _resolve(host, port)
    # With the protocol number, asyncio turns off Nagle's algorithm. With 0 it does not, and answers wait for 40 ms.
    listener = socket.socket(found.family, found.kind, found.protocol)
    try:
        if os.name == "posix":  # on Windows this option lets two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # on Linux, connections inherit it
        listener.bind(found.address)
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
    return ip_address(str(_resolve(host, 0).address[0])).is_loopback


class _Address(NamedTuple):
    family: int
    kind: int
    protocol: int
    address: tuple[str | int, ...] | tuple[int, bytes]


def _resolve(host: str, port: int) -> _Address:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except UnicodeError as error:  # an empty or too long label, which is never looked up
        raise OSError(errno.EINVAL, "not a valid host name") from error
    family, kind, protocol, _, address = found[0]
    return _Address(family, kind, protocol, address)
