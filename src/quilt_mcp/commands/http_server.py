"""Running the HTTP server: in this process alone, or in several that this one supervises."""

import asyncio
import gc
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from functools import partial

from fastmcp import FastMCP
from prometheus_client.multiprocess import mark_process_dead

from quilt_mcp.admission import admit_identity
from quilt_mcp.commands.process import run_stoppable
from quilt_mcp.http.application import Transport, create_application
from quilt_mcp.http.listening import SharedPort
from quilt_mcp.http.supervisor import Supervisor
from quilt_mcp.http.web_server import WebServer
from quilt_mcp.http.worker_process import WorkerProcess
from quilt_mcp.metrics import MULTIPROCESS, Metrics
from quilt_mcp.readiness_checks import READINESS_CHECKS
from quilt_mcp.resources import MANAGER
from quilt_mcp.settings import Settings

# -P: without it, a file in the directory where the server is started could take a module's place
WORKER = (sys.executable, "-P", "-m", "quilt_mcp.commands.worker")

logger = logging.getLogger(__name__)


def create_web_server(
    mcp: FastMCP, settings: Settings, *, transport: Transport, host: str, when_ready: Callable[[], None]
) -> WebServer:
    """The web server of this process, ready to run on a socket."""

    def start_work() -> None:
        spare_garbage_collection()
        when_ready()

    app = create_application(
        mcp,
        settings,
        transport=transport,
        host=host,
        checks=READINESS_CHECKS,
        metrics=Metrics(MANAGER.registry, waiting=lambda: MANAGER.waiting),
        admit=admit_identity,
    )
    return WebServer(app, settings, seconds_to_finish=settings.deadline_seconds, when_ready=start_work)


def spare_garbage_collection() -> None:
    """Leave what start-up made out of collections, and collect seldom: under load they are what makes answers late."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)  # the last as it was: fewer full collections would let garbage grow


def run_alone(mcp: FastMCP, settings: Settings, transport: Transport, host: str, listener: socket.socket) -> None:
    """Serve in this process until a signal ends it, at once, also in the middle of a read."""
    announce = partial(_announce, transport, host, listener.getsockname()[1])
    web = create_web_server(mcp, settings, transport=transport, host=host, when_ready=announce)
    run_stoppable(lambda: web.run([listener]))


def run_workers(settings: Settings, host: str, port: SharedPort, count: int) -> int:
    """Serve streamable HTTP in several processes until a signal ends them; the exit status."""
    with tempfile.TemporaryDirectory(prefix="quilt-mcp-metrics-") as directory:
        supervisor = Supervisor(
            partial(WorkerProcess, [*WORKER, host], environment=os.environ | {MULTIPROCESS: directory}),
            port,
            count,
            seconds_to_finish=settings.deadline_seconds,
            when_ended=lambda pid: mark_process_dead(pid, directory),  # type: ignore[no-untyped-call]  # no annotation
        )
        return asyncio.run(supervisor.run(partial(_announce, "http", host, port.port)))


def _announce(transport: Transport, host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    path = {"http": "mcp", "sse": "sse"}[transport]
    logger.info("Starting MCP server 'quilt-mcp' with transport '%s' on http://%s:%d/%s", transport, shown, port, path)
