"""`quilt-mcp serve`."""

import sys
from importlib import import_module
from typing import Annotated, Literal, cast

from cyclopts import Parameter
from cyclopts.validators import Number

from quilt_mcp.commands.startup import read_own_settings, start_server
from quilt_mcp.commands.stdio import serve_stdio
from quilt_mcp.console.parser import Demo
from quilt_mcp.console.process import Misuse, Unable
from quilt_mcp.http.auth import check_audience
from quilt_mcp.http.server import TooFewDescriptors, is_loopback, listen, raise_descriptor_limit
from quilt_mcp.settings import HTTPSettings

ALLOW_ANYONE = "--allow-anyone-who-reaches-this-address"
ALLOW_STATIC_TOKENS = "--allow-static-tokens-beyond-this-machine"

Transport = Annotated[Literal["stdio", "http", "sse"], Parameter(help="How clients connect.")]
Host = Annotated[str | None, Parameter(help="For http and sse: the address to listen on. Default: 127.0.0.1.")]
Port = Annotated[
    int | None,
    Parameter(
        help="For http and sse: the port. Default: 8000; 0 selects a free one.", validator=Number(gte=0, lte=65535)
    ),
]
Workers = Annotated[
    int | None,
    Parameter(help="For http: the number of processes that SIGHUP replaces.", validator=Number(gte=1, lte=256)),
]
AllowAnyone = Annotated[
    bool, Parameter(name=ALLOW_ANYONE, negative="", help="Serve other machines without sign-in, with your login.")
]
AllowStaticTokens = Annotated[
    bool, Parameter(name=ALLOW_STATIC_TOKENS, negative="", help="Accept static tokens from other machines.")
]


def serve(
    *,
    transport: Transport = "stdio",
    host: Host = None,
    port: Port = None,
    workers: Workers = None,
    demo: Demo = None,
    allow_anyone: AllowAnyone = False,
    allow_static_tokens: AllowStaticTokens = False,
) -> int:
    """Run the server until the client disconnects, or Ctrl-C or SIGTERM. Logs go to stderr."""
    if workers is not None:
        _check_workers(transport, has_demo=demo is not None)
    if transport == "stdio":
        if host is not None or port is not None or allow_anyone or allow_static_tokens:
            raise Misuse("Over stdio, the client starts this command, and no address is used: add --transport http.")
        return serve_stdio(demo)
    settings = read_own_settings()
    host, port = "127.0.0.1" if host is None else host, 8000 if port is None else port
    with start_server(settings, demo) as (mcp, _):
        try:
            _check_exposure(settings, host, allow_anyone=allow_anyone, allow_static_tokens=allow_static_tokens)
            check_audience(settings, transport)
            raise_descriptor_limit(settings.max_connections)  # of this process and its workers
            listener = listen(host, port)
        except TooFewDescriptors as error:
            raise Misuse(str(error)) from error
        except OSError as error:
            raise Unable(f"cannot listen on {host} port {port}: {error.strerror}.") from error
        http_server = import_module("quilt_mcp.commands.http_server")  # imported here, so that stdio starts faster
        with listener:
            if workers is not None:
                return cast("int", http_server.run_workers(settings, host, listener, workers))
            return cast("int", http_server.run_alone(mcp, settings, transport, host, listener))


def _check_exposure(settings: HTTPSettings, host: str, *, allow_anyone: bool, allow_static_tokens: bool) -> None:
    """Refuse an address that other machines can reach, unless callers sign in or an option allows it.

    Raises:
        Misuse: the address is refused. The message says what to do.
        OSError: the host name cannot be resolved.
    """
    if is_loopback(host):
        return
    if settings.static_tokens and not allow_static_tokens:
        raise Misuse(
            f"Other machines can reach {host}, and QUILT_MCP_STATIC_TOKENS is for development: the tokens never "
            f"expire. Configure another sign-in, or add {ALLOW_STATIC_TOKENS}."
        )
    if not (settings.has_sign_in or allow_anyone):
        raise Misuse(
            f"Other machines can reach {host}, and no sign-in is configured. Set QUILT_MCP_JWT_JWKS_URL, "
            "QUILT_MCP_JWT_PUBLIC_KEY, QUILT_MCP_INTROSPECTION_URL or QUILT_MCP_OIDC_CONFIG_URL. To let everyone who "
            f"can reach it read with your login, add {ALLOW_ANYONE}."
        )


def _check_workers(transport: str, *, has_demo: bool) -> None:
    """Refuse several processes if they would not give the same answers.

    Raises:
        Misuse: they are refused. The message says what to do.
    """
    if transport != "http":
        raise Misuse(f"--workers needs --transport http: with {transport}, each client needs one process.")
    if has_demo:
        raise Misuse("--demo runs in one process: omit --workers.")
    if sys.platform == "win32":
        raise Misuse("--workers needs Linux or macOS: omit it, and run one server per port.")
