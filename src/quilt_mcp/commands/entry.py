"""The console script `quilt-mcp`. A client over stdio gets its first answers before the server is imported."""

import re
import sys
from importlib import import_module
from typing import cast

from quilt_mcp.commands.stdio_front import open_front
from quilt_mcp.commands.streams import choose_encoding, open_closed_streams

INTERRUPTED = 130  # 128 plus the signal
STDIO = re.compile(r"serve( --demo([ =][a-z0-9_]+)?)?")
"""The command lines that surely serve over stdio."""


def main() -> int:
    """Run the command line of this process, and return its exit status."""
    arguments = sys.argv[1:]
    try:
        open_closed_streams()
        if STDIO.fullmatch(" ".join(arguments)):
            open_front(arguments)
        elif arguments[:1] != ["serve"]:  # its stdout can be the connection to a client
            choose_encoding()
        return cast("int", import_module("quilt_mcp.commands.cli").main())
    except KeyboardInterrupt:  # during the imports
        return INTERRUPTED
