"""The configuration of uvicorn, and uvicorn's server in this process."""

import asyncio
import logging
import socket
import time
from asyncio import Protocol
from collections.abc import Callable, Collection, Coroutine
from threading import Thread

import uvicorn
from starlette.types import ASGIApp

from quilt_mcp.http.connections import HEAD_BYTES, Connection
from quilt_mcp.http.overload import Flag
from quilt_mcp.http.sockets import BACKLOG
from quilt_mcp.http.workers import HEALTH_CHECK_SECONDS, SPARE_SECONDS
from quilt_mcp.settings import HTTPSettings

KEEP_ALIVE_SECONDS = 75
"""Longer than nginx keeps idle connections (60 s), so that nginx does not use a connection that is being closed."""

logger = logging.getLogger(__name__)


def configure_uvicorn(
    app: ASGIApp | Callable[[], ASGIApp],
    settings: HTTPSettings,
    *,
    seconds_to_finish: float,
    workers: int = 1,
    protocol: type[Protocol] = Connection,
) -> uvicorn.Config:
    """Return uvicorn's configuration.

    Args:
        app: the application, or a factory for several workers.
        settings: of HTTP.
        seconds_to_finish: how long requests may take to finish when the server shuts down.
        workers: the number of processes.
        protocol: handles one connection.
    """
    return uvicorn.Config(
        app,
        factory=workers > 1,
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
        renew: renews the application, and returns whether it did; None if it cannot be renewed.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        when_ready: Callable[[], None],
        renew: Callable[[], Coroutine[object, object, bool]] | None = None,
    ) -> None:
        super().__init__(config)
        self._when_ready = when_ready
        self._renew = renew
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, accept connections, and report that."""
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self._when_ready()

    def renew(self) -> None:
        """Renew the application soon. Can be called in another thread. Does nothing before the server is ready."""
        if self._loop is not None and self._renew is not None:
            self._loop.call_soon_threadsafe(self._start, self._renew)

    def _start(self, renew: Callable[[], Coroutine[object, object, bool]]) -> None:
        task = asyncio.get_running_loop().create_task(self._renew_and_end_streams(renew))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _renew_and_end_streams(self, renew: Callable[[], Coroutine[object, object, bool]]) -> None:
        """Renew the application, and end the streams of the last one: the new one does not know their sessions."""
        open_now: Collection[object] = self.server_state.connections
        before = [one for one in open_now if isinstance(one, Connection)]
        if await renew():
            for connection in before:
                connection.end_stream()


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
