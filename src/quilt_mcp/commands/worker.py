"""`python -m quilt_mcp.commands.worker HOST DESCRIPTOR`: one of the processes of `quilt-mcp serve --workers`.

What it agrees on with its parent stands in quilt_mcp/http/worker_process.py.
"""

import os
import signal
import socket
import sys
import threading
from functools import partial
from pathlib import Path

from quilt_mcp.commands.http_server import create_web_server
from quilt_mcp.commands.process import logging_from, run_stoppable
from quilt_mcp.http.worker_process import READY
from quilt_mcp.server import create_server
from quilt_mcp.settings import Settings

ORPHANED = 1


def work(host: str, descriptor: int) -> None:
    """Serve until SIGTERM, or until the parent is gone."""
    parent, answer = _take_over_pipes()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    settings = Settings()
    with logging_from(settings.log_level, settings.log_format), socket.socket(fileno=descriptor) as listener:
        mcp = create_server(settings)
        web = create_web_server(mcp, settings, transport="http", host=host, when_ready=partial(_tell, answer))
        signal.signal(signal.SIGTERM, lambda *_: setattr(web, "should_exit", True))
        run_stoppable(lambda: web.run([listener]))


def _take_over_pipes() -> tuple[int, int]:
    """The pipes from and to the parent. What is printed goes to stderr, and no process started here inherits them."""
    parent, answer = os.dup(0), os.dup(1)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return parent, answer


def _tell(parent: int) -> None:
    os.write(parent, READY)


def _end_with(parent: int) -> None:
    """Leave when the parent has: nobody would end this process any more."""
    os.read(parent, 1)
    os._exit(ORPHANED)


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]))
