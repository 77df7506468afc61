"""`quilt-mcp serve` over stdio, and what it shares with HTTP. It needs no parser, so that it answers sooner."""

import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from quilt_mcp.commands.process import configure_logging, enter_world
from quilt_mcp.commands.startup import open_server
from quilt_mcp.commands.stdio import audit_stdio, run_stdio, take_client
from quilt_mcp.http.audit import open_audit_log
from quilt_mcp.server import QuiltServer
from quilt_mcp.settings import Settings

FAILED = 1


def serve_stdio(demo: str | None = None) -> int:
    """Serve until the client disconnects, or Ctrl-C or SIGTERM. Return the exit status."""
    settings = Settings()
    client = take_client()
    with start_server(settings, demo) as mcp:
        if mcp is None:
            return FAILED
        with audit_stdio(mcp) as requests:
            run_stdio(mcp, client, requests, seconds_to_finish=settings.deadline_seconds)
        return 0


@contextmanager
def start_server(settings: Settings, demo: str | None) -> Iterator[QuiltServer | None]:
    """Create the server of this process, in a demo world if one is named; None if it cannot write its audit log.

    Raises:
        Misuse: the server cannot start. The message names the cause.
    """
    signal.signal(signal.SIGTERM, _exit_on_signal)
    with configure_logging(settings.log_level, settings.log_format), enter_world(demo):
        mcp = open_server()
        if not gc.isenabled():  # as the console script starts
            gc.freeze()  # what exists now stays until the end
            gc.enable()
        try:
            mcp.app.part(open_audit_log).check()
        except OSError as error:
            sys.stderr.write(f"quilt-mcp: cannot write QUILT_MCP_AUDIT_LOG {settings.audit_log}: {error.strerror}.\n")
            yield None
        else:
            yield mcp


def _exit_on_signal(number: int, _: FrameType | None) -> None:
    """Exit through the context managers, so that a demo world is removed."""
    sys.exit(128 + number)
