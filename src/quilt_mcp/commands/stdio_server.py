"""The server over stdio. It answers requests with invalid text, and those that are in progress when stdin ends.

The MCP library drops the former. It cancels the latter: their answers would be errors, as with
`printf ... | quilt-mcp serve`. It uses `sys.stdin` and `sys.stdout` as they are if they are not backed by descriptors 0
and 1. tests/contract/test_invalid_unicode.py fails if that changes.
"""

import io
import logging
import sys
from importlib import import_module
from threading import Thread
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

from quilt_mcp.commands.process import run_stoppable
from quilt_mcp.commands.stdio_audit import StdioAudit
from quilt_mcp.commands.stdio_front import Front
from quilt_mcp.commands.stdio_messages import Answers, Messages

logger = logging.getLogger(__name__)


def run_stdio(mcp: FastMCP, front: Front | None, *, seconds_to_finish: float, audit: StdioAudit) -> None:
    """Serve until stdin ends and the requests in progress are answered.

    Args:
        mcp: the server.
        front: the streams; None stands for `sys.stdin` and `sys.stdout` as they are.
        seconds_to_finish: how long those requests may take.
        audit: writes the lines of messages that the server does not receive.
    """
    requests = RequestCounter()
    mcp.add_middleware(requests)
    logger.info("Starting MCP server 'quilt-mcp' with transport 'stdio'")
    try:
        if front is None:
            _run(mcp)
            return
        answers = Answers(front, audit)
        messages = Messages(front, answers, lambda: requests.in_progress > 0, audit, at_most=seconds_to_finish)
        sys.stdin, sys.stdout = io.TextIOWrapper(messages, encoding="utf-8"), _Output(answers, encoding="utf-8")
        while messages.open_session():
            _run(mcp)
    except* BrokenPipeError:
        logger.info("the client disconnected before it received all responses")


def _run(mcp: FastMCP) -> None:
    run_stoppable(lambda: mcp.run(transport="stdio", show_banner=False))


class RequestCounter(Middleware):
    """Counts the requests in progress. After the handshake, imports what the first read needs."""

    def __init__(self) -> None:
        self.in_progress = 0

    async def on_request(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Count the request while it runs."""
        self.in_progress += 1
        try:
            return await call_next(context)
        finally:
            self.in_progress -= 1
            if context.method == "initialize":  # the client processes the answer meanwhile
                Thread(target=import_module, args=("key_value.aio.stores.memory",), daemon=True, name="import").start()


class _Output(io.TextIOWrapper):
    """Text goes to stderr. Only the MCP library writes to `buffer`, which goes to the client."""

    def write(self, text: str, /) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()
