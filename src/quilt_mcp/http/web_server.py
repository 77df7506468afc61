"""The web server: uvicorn, with limits."""

import socket
from collections.abc import Callable
from importlib import import_module

import uvicorn
from starlette.applications import Starlette

from quilt_mcp.http.connections import ImpatientProtocol
from quilt_mcp.http.settings import HTTPSettings

KEEP_ALIVE_SECONDS = 75  # longer than nginx keeps its side (60): it must not use a connection that is being closed


class WebServer(uvicorn.Server):
    """Serves an application until `should_exit` is set; what is being answered then gets some time to end.

    Args:
        app: the application.
        settings: of HTTP.
        seconds_to_finish: how long requests may take to end, when the server ends.
        when_ready: called once, when it serves.
    """

    def __init__(
        self, app: Starlette, settings: HTTPSettings, *, seconds_to_finish: float, when_ready: Callable[[], None]
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=ImpatientProtocol,
                ws="none",
                lifespan="on",
                log_config=None,  # its own would write the access log to stdout
                access_log=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=int(seconds_to_finish),
                limit_concurrency=settings.max_connections,
                forwarded_allow_ips=[str(network) for network in settings.trusted_proxies],
            )
        )
        self._when_ready = when_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and tell so."""
        import_module("key_value.aio.stores.memory")  # FastMCP's first request would wait for it
        await super().startup(sockets)
        self._when_ready()
