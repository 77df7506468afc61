"""The HTTP server: in this process, or in several worker processes."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from ctypes import c_bool, c_int
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from typing import cast

from pydantic_core import ValidationError
from starlette.applications import Starlette

from quilt_mcp.app import App
from quilt_mcp.app.build import find_commit
from quilt_mcp.app.domain import Domain, merge
from quilt_mcp.app.pools import Pools
from quilt_mcp.console.logs import flush_log, log_to_stderr
from quilt_mcp.console.process import run_stoppable
from quilt_mcp.http.admission import Admission
from quilt_mcp.http.app import Check, Transport, create_application
from quilt_mcp.http.audit import AUDIT_LOG, audit_requests, auditing, note_event, open_audit_log
from quilt_mcp.http.auth import RESOURCES
from quilt_mcp.http.layers import Flag
from quilt_mcp.http.metrics import MULTIPROCESS, Metrics
from quilt_mcp.http.reload import Count, WorkerSettings
from quilt_mcp.http.server import (
    Connection,
    Shutdown,
    WebServer,
    Workers,
    configure_uvicorn,
    exit_with_parent,
)
from quilt_mcp.server import STARTUP_ERRORS, QuiltServer, create_server, find_domains, read_settings, settings_class
from quilt_mcp.settings import ServerSettings, describe_setting

NO_RELOAD = "SIGHUP is ignored: start the server with --workers 1 or more to replace it without a pause"

logger = logging.getLogger(__name__)


def run_alone(
    mcp: QuiltServer, settings: ServerSettings, transport: Transport, host: str, listener: socket.socket
) -> int:
    """Serve in this process until a signal ends it; return 0. Another exit status is that of an exception.

    SIGTERM lets requests in progress finish. A second SIGTERM and SIGINT do not.
    """
    leaving = c_bool()
    announce = partial(_announce, transport, host, listener.getsockname()[1])
    web = create_web_server(mcp, settings, transport=transport, host=host, when_ready=announce, leaving=leaving)
    shutdown = Shutdown(web, leaving, settings.drain_seconds)
    signal.signal(signal.SIGTERM, shutdown.handle_signal)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda *_: logger.warning(NO_RELOAD))
    # in another thread, where uvicorn leaves these handlers in place
    run_stoppable(lambda: web.run([listener]), check=shutdown.check)
    return 0


def run_workers(settings: ServerSettings, host: str, listener: socket.socket, count: int) -> int:
    """Serve streamable HTTP in several processes until a signal ends them; return the exit status."""
    spawn = get_context("spawn")
    leaving, outdated = spawn.RawValue(c_bool), spawn.RawValue(c_int)  # a worker that is killed could hold a lock
    config = configure_uvicorn(
        partial(create_worker_application, host, leaving, outdated),
        settings,
        seconds_to_finish=settings.deadline_seconds,
        workers=count,
        is_factory=True,
    )
    with tempfile.TemporaryDirectory(prefix="quilt-mcp-metrics-") as directory:
        # The workers inherit both. With the second, modules in the current directory cannot replace installed ones.
        os.environ |= {MULTIPROCESS: directory, "PYTHONSAFEPATH": "1"}
        announce = partial(_announce, "http", host, listener.getsockname()[1])
        pause = settings.drain_seconds
        workers = Workers(config, listener, leaving=leaving, outdated=outdated, pause=pause, when_ready=announce)
        return workers.run_until_signal()


def create_worker_application(host: str, leaving: Flag, outdated: Count) -> Starlette:
    """Create the application of a worker process, from the settings of its environment."""
    exit_with_parent()
    read_at = time.time()
    try:
        domains = find_domains()
        settings = read_settings(domains)
        log_to_stderr(settings.log_level, settings.log_format)
        mcp = create_server(settings, domains=domains)
        for name in [name for domain in domains for name in domain.modules]:
            import_module(name)
    except ValidationError as error:  # a file has changed since the parent started
        logger.error("this worker cannot start: %s", describe_setting(error, lambda: settings_class(domains)))  # noqa: TRY400 - the message is the whole reason
        sys.exit(1)
    except STARTUP_ERRORS as error:  # another system has changed
        reason = str(error)
        logger.error("this worker cannot start: %s", reason)  # noqa: TRY400 - the message is the whole reason
        sys.exit(1)
    worker = WorkerSettings(read_at, outdated)
    return create_http_application(mcp, settings, transport="http", host=host, leaving=leaving, worker=worker)


def create_web_server(
    mcp: QuiltServer,
    settings: ServerSettings,
    *,
    transport: Transport,
    host: str,
    when_ready: Callable[[], None],
    leaving: Flag | None = None,
    protocol: type[asyncio.Protocol] = Connection,
) -> WebServer:
    """Create the web server of this process. It can run once, and calls `when_ready` when it accepts connections."""
    app = create_http_application(mcp, settings, transport=transport, host=host, leaving=leaving)
    config = configure_uvicorn(app, settings, seconds_to_finish=settings.deadline_seconds, protocol=protocol)
    return WebServer(config, when_ready=when_ready)


def create_http_application(
    mcp: QuiltServer,
    settings: ServerSettings,
    *,
    transport: Transport,
    host: str,
    leaving: Flag | None = None,
    worker: WorkerSettings | None = None,
    is_direct: bool = True,
) -> Starlette:
    """Create the HTTP application of a server, with its readiness checks, metrics and rate limits.

    `worker` says which settings this one of several workers has. `is_direct` says whether reads take the direct path.
    It must be false if components or middleware were added.
    """
    manager, admission = mcp.manager, mcp.app.part(Admission)
    pools = mcp.app.part(Pools)
    uris = [*manager.registry, *mcp.guard.names]
    metrics = Metrics(uris, waiting=lambda: pools.waiting, settings=worker, commit=find_commit())
    log = mcp.app.part(open_audit_log)
    log.failed = partial(admission.note, "audit_failure")

    @contextmanager
    def watch() -> Iterator[Mapping[str, object]]:
        _prepare_process()
        with ExitStack() as watching:
            watching.callback(flush_log)  # uvicorn ends a worker by a signal afterwards
            watching.enter_context(metrics.watching(manager.reads, admission))
            if log.is_on:
                watching.enter_context(admission.observe(note_event))
                watching.enter_context(auditing(log, mcp, manager, transport))
            yield {AUDIT_LOG: log} if log.is_on else {}

    app = create_application(
        mcp,
        settings,
        transport=transport,
        host=host,
        checks=readiness_checks(mcp.app, mcp.domains),
        metrics=metrics,
        watching=watch,
        count=admission.count,
        leaving=leaving,
        direct=manager if is_direct else None,
    )
    if log.is_on:
        audit_requests(app, log, transport=transport, has_sign_in=mcp.auth is not None)
    return app


def readiness_checks(app: App, domains: Iterable[Domain]) -> dict[str, Check]:
    """Return the checks of these domains, by name.

    Raises:
        InvalidDomain: two domains have a check of the same name.
    """
    return {name: app.bind(cast("Check", check)) for name, check in merge(domains, "checks").items()}


def tune_garbage_collection() -> None:
    """Exclude the objects of the startup from garbage collection, and look for young garbage less often.

    Full collections stay about as frequent as by default: the clients of AWS are cycles, and each caller has some.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 5, 5)


def _prepare_process() -> None:
    import_module("key_value.aio.stores.memory")  # FastMCP imports it in the first request otherwise
    tune_garbage_collection()


def _announce(transport: Transport, host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    place = f"http://{shown}:{port}/{RESOURCES[transport]}"
    logger.info("Starting MCP server 'quilt-mcp' with transport '%s' on %s", transport, place)
