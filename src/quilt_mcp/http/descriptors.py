"""File descriptors: how many connections the operating system lets this process have."""

import asyncio
import errno
import logging
import sys
import time
from collections.abc import Callable

from quilt_mcp.http.connection_limits import RESERVED_CONNECTIONS

if sys.platform != "win32":
    import resource

OTHER_DESCRIPTORS = 256
"""For log, databases, analyses, and connections to the stack, to AWS and to the shared state."""
ENOUGH = 1_048_576
"""Some systems have no limit, or one that no process can reach."""
OUT_OF_DESCRIPTORS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
REPORT_SECONDS = 60.0

logger = logging.getLogger(__name__)


class TooFewDescriptors(Exception):
    """The process cannot open enough files for its connections. The message says what to change."""


def raise_descriptor_limit(max_connections: int) -> None:
    """Raise the soft limit of file descriptors to the hard limit. Does nothing on Windows, which has no such limit.

    Raises:
        TooFewDescriptors: the hard limit is too small for this number of connections.
    """
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = max_connections + RESERVED_CONNECTIONS + OTHER_DESCRIPTORS
    for limit in (_at_most(hard), needed):  # macOS refuses a limit above the one of the kernel
        try:
            if _at_most(soft) < limit:
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            break
        except (ValueError, OSError):
            continue
    available = _at_most(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    if available < needed:
        possible = available - RESERVED_CONNECTIONS - OTHER_DESCRIPTORS
        advice = f", or set QUILT_MCP_MAX_CONNECTIONS to at most {possible}" if possible > 0 else ""
        raise TooFewDescriptors(
            f"QUILT_MCP_MAX_CONNECTIONS={max_connections} needs {needed} file descriptors, but this process can have "
            f"only {available}: raise the limit (`ulimit -Hn`, or LimitNOFILE= in a systemd unit){advice}."
        )


def _at_most(limit: int) -> int:
    return ENOUGH if sys.platform != "win32" and limit == resource.RLIM_INFINITY else min(limit, ENOUGH)


class AcceptErrors:
    """An exception handler of an event loop that logs failures to accept connections at most once a minute.

    asyncio tries again every second, and reports one failure for each connection that waits.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._reported_at: float | None = None

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Log what asyncio reports."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS and "socket" in context):
            loop.default_exception_handler(context)
        elif self._reported_at is None or self._clock() >= self._reported_at + REPORT_SECONDS:
            self._reported_at = self._clock()
            logger.error("cannot accept connections: %s. Further failures are reported once a minute.", error.strerror)
