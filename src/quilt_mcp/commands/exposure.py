"""What a server on a network must have before it listens: the refusals of `quilt-mcp serve`."""

from cyclopts import CycloptsError

from quilt_mcp.http.listening import HAS_WORKERS, is_loopback
from quilt_mcp.http.settings import HTTPSettings

ALLOW_ANYONE = "--allow-anyone-who-reaches-this-address"
ALLOW_STATIC_TOKENS = "--allow-static-tokens-beyond-this-machine"


def check_exposure(settings: HTTPSettings, host: str, *, allow_anyone: bool, allow_static_tokens: bool) -> None:
    """Refuse an address that others reach, unless callers sign in or it is allowed in as many words.

    Raises:
        CycloptsError: it is refused; the message tells what to do.
        OSError: the host's name is not known.
    """
    if is_loopback(host):
        return
    if settings.static_tokens and not allow_static_tokens:
        raise CycloptsError(
            msg=f"Others reach {host}, and QUILT_MCP_STATIC_TOKENS are for development: they never change. "
            f"Let callers sign in otherwise; or add {ALLOW_STATIC_TOKENS}."
        )
    if not (settings.has_sign_in or allow_anyone):
        raise CycloptsError(
            msg=f"Others reach {host}, and nobody would have to sign in: set QUILT_MCP_JWT_JWKS_URL, "
            f"QUILT_MCP_JWT_PUBLIC_KEY or QUILT_MCP_OIDC_CONFIG_URL; or, if whoever reaches it may read with this "
            f"login, add {ALLOW_ANYONE}."
        )


def check_workers(transport: str, *, has_demo: bool) -> None:
    """Refuse several processes where they would not answer alike.

    Raises:
        CycloptsError: they are refused; the message tells what to do.
    """
    if transport != "http":
        raise CycloptsError(msg=f"--workers needs --transport http: {transport} keeps each client at one process.")
    if has_demo:
        raise CycloptsError(msg="--demo is a world within one process: leave out --workers.")
    if not HAS_WORKERS:
        raise CycloptsError(msg="--workers needs Linux or macOS: leave it out, and run one process for each port.")
