"""The console script `quilt-mcp`: the standard streams of its process."""

import gc
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import cast

from quilt_mcp.console.process import INTERRUPTED, Misuse


def open_closed_streams() -> None:
    """Replace streams that the caller has closed by the null device. For Python they do not exist."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - until the process ends


def choose_encoding() -> None:
    """Write UTF-8 to files and pipes, which have an older encoding on Windows. A terminal keeps its encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")


def main() -> int:
    """Run the command line of this process, and return its exit status."""
    arguments = sys.argv[1:]
    try:
        open_closed_streams()
        if sys.flags.optimize > 1:
            sys.stderr.write("quilt-mcp: Python runs without docstrings, which describe the resources: unset -OO or ")
            sys.stderr.write("PYTHONOPTIMIZE=2.\n")
            return Misuse.status
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
