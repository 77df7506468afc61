"""`quilt-mcp serve`."""

import logging
import signal
import sys
from contextlib import closing
from importlib import import_module
from threading import Thread
from types import FrameType
from typing import Annotated, Any, Literal, cast

from cyclopts import Parameter
from cyclopts.validators import Number
from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

from quilt_mcp.commands.exposure import ALLOW_ANYONE, ALLOW_STATIC_TOKENS, check_exposure, check_workers
from quilt_mcp.commands.last_answers import InFlight, hold_stdin_open
from quilt_mcp.commands.options import Demo
from quilt_mcp.commands.process import enter_world, logging_from, run_stoppable
from quilt_mcp.http.auth import MisconfiguredSignIn
from quilt_mcp.http.listening import SharedPort, listen
from quilt_mcp.server import create_server
from quilt_mcp.settings import Settings

Transport = Annotated[Literal["stdio", "http", "sse"], Parameter(help="How the client connects.")]
Host = Annotated[str, Parameter(help="For http and sse: the address to listen on.")]
Port = Annotated[
    int, Parameter(help="For http and sse: the port; 0 is any free one.", validator=Number(gte=0, lte=65535))
]
Workers = Annotated[int, Parameter(help="For http: how many processes serve.", validator=Number(gte=1, lte=256))]
AllowAnyone = Annotated[
    bool, Parameter(name=ALLOW_ANYONE, negative="", help="Let others in without a sign-in: they read with your login.")
]
AllowStaticTokens = Annotated[
    bool, Parameter(name=ALLOW_STATIC_TOKENS, negative="", help="Let others in with tokens that never change.")
]

FAILED, MISUSED = 1, 2

logger = logging.getLogger(__name__)


def serve(  # noqa: PLR0913 - each is an option of the command line
    *,
    transport: Transport = "stdio",
    host: Host = "127.0.0.1",
    port: Port = 8000,
    workers: Workers = 1,
    demo: Demo = None,
    allow_anyone: AllowAnyone = False,
    allow_static_tokens: AllowStaticTokens = False,
) -> int:
    """Run the server until the client leaves, or Ctrl-C or SIGTERM ends it. The log goes to stderr."""
    signal.signal(signal.SIGTERM, _terminate)
    settings = Settings()
    if workers > 1:
        check_workers(transport, has_demo=demo is not None)
    with logging_from(settings.log_level, settings.log_format), enter_world(demo):
        try:
            mcp = create_server()
        except MisconfiguredSignIn as error:
            return _failed(str(error), MISUSED)
        if transport == "stdio":
            return _serve_stdio(mcp)
        try:
            check_exposure(settings, host, allow_anyone=allow_anyone, allow_static_tokens=allow_static_tokens)
            place = SharedPort(host, port) if workers > 1 else listen(host, port)
        except OSError as error:
            return _failed(f"cannot listen on {host} port {port}: {error.strerror}", FAILED)
        http_server = import_module("quilt_mcp.commands.http_server")  # here: stdio starts faster without it
        with closing(place):
            if isinstance(place, SharedPort):
                return cast("int", http_server.run_workers(settings, host, place, workers))
            http_server.run_alone(mcp, settings, transport, host, place)
    return 0


class ImportAfterHandshake(Middleware):
    """Imports what FastMCP's first request would wait for, while the client looks at the answer to its handshake."""

    async def on_initialize(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Answer, and begin."""
        answer = await call_next(context)
        Thread(target=import_module, args=("key_value.aio.stores.memory",), daemon=True, name="import").start()
        return answer


def _serve_stdio(mcp: FastMCP) -> int:
    in_flight = InFlight()
    mcp.add_middleware(in_flight)
    hold_stdin_open(in_flight, at_most=Settings().deadline_seconds)
    mcp.add_middleware(ImportAfterHandshake())
    try:
        run_stoppable(lambda: mcp.run(transport="stdio", show_banner=False))
    except* BrokenPipeError:
        logger.info("the client closed its end before it had all answers")
    return 0


def _failed(message: str, status: int) -> int:
    sys.stderr.write(f"quilt-mcp: {message}.\n")
    return status


def _terminate(number: int, _: FrameType | None) -> None:
    """Unwind and leave, so that a demo world is cleared away."""
    sys.exit(128 + number)
