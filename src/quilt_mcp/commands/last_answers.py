"""Gives the answers that are still due when stdin ends; the MCP library stops at once then, and would drop them."""

import os
import sys
import threading
import time
from io import UnsupportedOperation
from typing import Any

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

CHUNK = 65_536
POLL_SECONDS = 0.05
QUIET_POLLS = 4  # what was just read may not have become a request yet, nor an answer have been written


class InFlight(Middleware):
    """Counts the requests that are being answered."""

    def __init__(self) -> None:
        self.count = 0

    async def on_request(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Count the request for as long as it takes."""
        self.count += 1
        try:
            return await call_next(context)
        finally:
            self.count -= 1


def hold_stdin_open(in_flight: InFlight, *, at_most: float) -> None:
    """Put a pipe in the place of stdin, whose end comes once nothing is in flight, or after so many seconds.

    A stdin that is no file, as a program that embeds this command may have, is left as it is.
    """
    try:
        stdin = sys.stdin.fileno()
    except UnsupportedOperation:
        return
    source = os.dup(stdin)
    end, relay = os.pipe()
    os.dup2(end, stdin)
    os.close(end)
    threading.Thread(target=_relay, args=(source, relay, in_flight, at_most), daemon=True, name="stdin").start()


def _relay(source: int, relay: int, in_flight: InFlight, at_most: float) -> None:
    try:
        while chunk := os.read(source, CHUNK):
            _write_all(relay, chunk)
        _wait_until_quiet(in_flight, time.monotonic() + at_most)
    except BrokenPipeError:  # the server has stopped reading
        return
    finally:
        os.close(relay)
        os.close(source)


def _write_all(relay: int, chunk: bytes) -> None:
    while chunk:
        chunk = chunk[os.write(relay, chunk) :]


def _wait_until_quiet(in_flight: InFlight, until: float) -> None:
    quiet = 0
    while quiet < QUIET_POLLS and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
        quiet = 0 if in_flight.count else quiet + 1
