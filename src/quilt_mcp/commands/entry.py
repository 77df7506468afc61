"""The console script `quilt-mcp`. It prepares the process before it imports the libraries of a command."""

import gc
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import cast

from quilt_mcp.commands.streams import choose_encoding, open_closed_streams

MISUSED = 2
INTERRUPTED = 130  # 128 plus the signal


def main() -> int:
    """Run the command line of this process, and return its exit status."""
    arguments = sys.argv[1:]
    try:
        open_closed_streams()
        if sys.flags.optimize > 1:
            sys.stderr.write("quilt-mcp: Python runs without docstrings, which describe the resources: unset -OO or ")
            sys.stderr.write("PYTHONOPTIMIZE=2.\n")
            return MISUSED
        _ignore_early_reload(arguments)
        if arguments[:1] == ["serve"]:
            gc.disable()  # until the server is created: hardly anything that the imports create is garbage
        else:  # the stdout of `serve` can be the connection to a client
            choose_encoding()
        return cast("int", import_module("quilt_mcp.commands.cli").main())
    except KeyboardInterrupt:  # during the imports
        return INTERRUPTED


def _ignore_early_reload(arguments: Sequence[str]) -> None:
    """Ignore SIGHUP until the server over HTTP handles it. `systemctl reload` during the start would end it."""
    is_http = arguments[:1] == ["serve"] and any(one.endswith(("http", "sse")) for one in arguments)
    if is_http and sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
