"""Creating the server for a command."""

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from importlib import import_module
from threading import current_thread, main_thread
from types import FrameType

from quilt_mcp.app.build import advise_extra
from quilt_mcp.app.domain import collect_resources
from quilt_mcp.app.secret_files import find_exposed_files
from quilt_mcp.console.logs import configure_logging
from quilt_mcp.console.process import Misuse, Unable
from quilt_mcp.demo.late import late_world
from quilt_mcp.demo.place import is_installed
from quilt_mcp.http.audit import open_audit_log
from quilt_mcp.server import STARTUP_ERRORS, QuiltServer, create_server, find_domains, read_settings, settings_class
from quilt_mcp.settings import ServerSettings, find_unknown_variables

logger = logging.getLogger(__name__)


@contextmanager
def explaining() -> Iterator[None]:
    """Turn what the user has to change, so that a server can start, into an error of the command.

    Raises:
        Misuse: the server cannot start; the message names the cause.
    """
    try:
        yield
    except STARTUP_ERRORS as error:
        raise Misuse(f"{str(error).rstrip('.')}.") from error


def read_own_settings() -> ServerSettings:
    """Return the settings of the environment, of the server and its domains.

    Raises:
        Misuse: a domain cannot be loaded.
    """
    with explaining():
        return read_settings()


def list_uris() -> list[str]:
    """Return the URIs and templates of the installed domains.

    Raises:
        Misuse: a domain cannot be loaded, or does not fit the others.
    """
    with explaining():
        return [*collect_resources(find_domains())]


def open_server() -> QuiltServer:
    """Create the server with the settings of the environment.

    Raises:
        Misuse: the server cannot start.
    """
    with explaining():
        server, settings = create_server(), settings_class(find_domains())
    for problem in (*find_exposed_files(settings, os.environ), *find_unknown_variables(settings, os.environ)):
        logger.warning(problem)
    return server


def enter_world(name: str | None, *, is_late: bool = False) -> AbstractContextManager[object]:
    """Return a context in which this process uses a demo world; None stands for the user's own login.

    Args:
        name: that of the world.
        is_late: whether the context gives a `LateWorld`, which must be built before it is read.

    Raises:
        Misuse: the demo world is not installed, or a domain cannot be loaded.
    """
    if name is None:
        return nullcontext()
    if not is_installed():
        raise _miss_demo()
    try:
        world: Callable[..., AbstractContextManager[object]] = (
            late_world if is_late else import_module("quilt_mcp.demo.world").demo_world
        )
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "quilt_mcp":  # else a library of the extra, which is there in part
            raise
        raise _miss_demo() from error
    for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:  # the second one if a terminal is closed
        if current_thread() is main_thread() and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit_on_signal)
    with explaining():
        domains = find_domains()
    return world(name, domains=domains, now=datetime.now(UTC))


def _miss_demo() -> Misuse:
    return Misuse(f"The demo world is not installed: {advise_extra('demo')}.")


@contextmanager
def start_server(
    settings: ServerSettings, demo: str | None, *, is_late: bool = False
) -> Iterator[tuple[QuiltServer, object]]:
    """Create the server of this process, in a demo world if one is named. The arguments are those of `enter_world`.

    Yields:
        The server, and what the context of the world gives.

    Raises:
        Misuse: the server cannot start, or cannot write its audit log. The message names the cause.
    """
    # Exit through the context managers, so that a demo world is removed.
    signal.signal(signal.SIGTERM, _exit_on_signal)
    with configure_logging(settings.log_level, settings.log_format), enter_world(demo, is_late=is_late) as world:
        mcp = open_server()
        if not gc.isenabled():  # as the console script starts
            gc.freeze()  # what exists now stays until the end
            gc.enable()
        try:
            mcp.app.part(open_audit_log).check()
        except OSError as error:
            raise Unable(f"cannot write QUILT_MCP_AUDIT_LOG {settings.audit_log}: {error.strerror}.") from error
        yield mcp, world


def _exit_on_signal(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)
