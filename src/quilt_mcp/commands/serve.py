"""`quilt-mcp serve`."""

import gc
import logging
import os
import signal
import socket
import sys
from types import FrameType
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number
from fastmcp import FastMCP

from quilt_mcp.commands.last_answers import InFlight, hold_stdin_open
from quilt_mcp.commands.options import Demo
from quilt_mcp.commands.process import enter_world, logging_from, run_stoppable
from quilt_mcp.server import create_server
from quilt_mcp.settings import Settings

LOOPBACK = ("127.0.0.1", "::1", "localhost")

Transport = Annotated[Literal["stdio", "http", "sse"], Parameter(help="How the client connects.")]
Host = Annotated[str, Parameter(help="For http and sse: the address to listen on.")]
Port = Annotated[
    int, Parameter(help="For http and sse: the port; 0 is any free one.", validator=Number(gte=0, lte=65535))
]

logger = logging.getLogger(__name__)


def serve(*, transport: Transport = "stdio", host: Host = "127.0.0.1", port: Port = 8000, demo: Demo = None) -> int:
    """Run the server until the client leaves, or Ctrl-C or SIGTERM ends it. The log goes to stderr."""
    signal.signal(signal.SIGTERM, _terminate)
    settings = Settings()
    with logging_from(settings.log_level, settings.log_format), enter_world(demo):
        mcp = create_server()
        if transport == "stdio":
            _serve_stdio(mcp)
            return 0
        try:
            listener = _listen(host, port)
        except OSError as error:
            sys.stderr.write(f"quilt-mcp: cannot listen on {host} port {port}: {error.strerror}.\n")
            return 1
        with listener:
            _serve_http(mcp, transport, host, listener)
    return 0


def _serve_stdio(mcp: FastMCP) -> None:
    in_flight = InFlight()
    mcp.add_middleware(in_flight)
    hold_stdin_open(in_flight, at_most=Settings().deadline_seconds)
    try:
        run_stoppable(lambda: mcp.run(transport="stdio", show_banner=False))
    except* BrokenPipeError:
        logger.info("the client closed its end before it had all answers")


def _serve_http(mcp: FastMCP, transport: Literal["http", "sse"], host: str, listener: socket.socket) -> None:
    if host not in LOOPBACK:
        logger.warning("there is no authentication: whoever reaches %s reads with this login", host)
    gc.collect()
    gc.freeze()  # what start-up made stays: under load, collections would walk through it again and again
    run_stoppable(
        lambda: mcp.run(
            transport=transport,
            show_banner=False,
            host=host,
            port=listener.getsockname()[1],
            sockets=[listener],
            host_origin_protection="auto",
            uvicorn_config={"log_config": None},  # its own would write the access log to stdout
        )
    )


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket, of the protocol TCP by number: without it asyncio leaves Nagle's algorithm on."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # from here on clients may connect; they wait until the server has started
    except OSError:
        listener.close()
        raise
    return listener


def _terminate(number: int, _: FrameType | None) -> None:
    """Unwind and leave, so that a demo world is cleared away."""
    sys.exit(128 + number)
