"""`quilt-mcp login` and `quilt-mcp logout`: quilt3's configuration and sign-in in one command, in quilt3's files."""

import getpass
import json
import os
import sys
import webbrowser
from contextlib import suppress
from typing import Annotated, cast

import quilt3.session
import quilt3.util
import requests
from cyclopts import Parameter
from quilt3.util import QuiltException

from quilt_mcp.app.home import find_data_directory
from quilt_mcp.console.output import complain, show, waiting
from quilt_mcp.console.process import Misuse, Unable
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.auth_metadata import auth_status
from quilt_mcp.services.settings import SCHEME, Timeout
from quilt_mcp.services.stack import quilt_files
from quilt_mcp.services.stack.addresses import parse_address
from quilt_mcp.services.stack.catalog import check_fit, fetch_catalog_config
from quilt_mcp.services.stack.login import Stack

TIMEOUT: Timeout = (10.0, 30.0)
NEXT = "Next: quilt-mcp install"
WITH_DISPLAY = ("DISPLAY", "WAYLAND_DISPLAY")
"""Without one of these variables, a browser on Linux would take the terminal, or wait for a display."""
REPLACEMENTS = ("QUILT_API_KEY", "QUILT_CATALOG_URL", "QUILT_REGISTRY_URL")
"""Variables that a server uses instead of what this command stores."""

Catalog = Annotated[
    str | None,
    Parameter(help="The address of your catalog, such as https://quilt.example.com. Default: the configured one."),
]


def login(catalog: Catalog = None, /) -> int:
    """Configure quilt3 for a catalog, and sign in with the code that its web page shows.

    The page opens in a browser if this machine has one. Otherwise open its address on another machine. The code is read
    from the terminal, or from stdin: `quilt-mcp login < code.txt`.
    """
    find_data_directory()
    stack = _find_stack(catalog)
    page = f"{stack.registry_url}/login"
    if sys.stdin.isatty():
        opened = _open_browser(page)
        show(f"{'Your browser opens' if opened else 'Open this address in a browser, on any machine:'} {page}")
    code = _read_code()
    if catalog:
        _configure(cast("str", stack.catalog_url))
    _exchange(stack, code)
    with waiting("Checking"):
        status = auth_status()
    user = status["user_info"]
    who = f" as {user['username']}, role {user['role'] or 'none'}" if user else ""
    show(f"Signed in to {stack.catalog_url or stack.registry_url}{who}.")
    used = [name for name in REPLACEMENTS if os.environ.get(name)]
    if used:
        complain(f"Servers that have the variable {' or '.join(used)} use it instead of this login.")
    show(NEXT)
    return 0


def logout() -> int:
    """Remove the logins to all stacks from quilt3's files. The catalog stays configured."""
    find_data_directory()
    try:
        if not _read_logins() and not quilt3.session.CREDENTIALS_PATH.exists():
            show("There is no login.")
            return 0
        quilt3.session.logout()
    except OSError as error:
        raise _explain(error) from error
    show("Signed out of all stacks.")
    return 0


def _find_stack(catalog: str | None) -> Stack:
    """Return the stack to sign in to.

    Raises:
        Misuse: there is none, or no login may be sent to it. The message says what to do.
    """
    try:
        if catalog is None:
            stack = quilt_files.read_stack()
            if stack.registry_url is None:
                raise Misuse("No catalog is configured. Run `quilt-mcp login https://<your catalog>`.")
        else:
            url = _parse_catalog(catalog)
            with waiting(f"Reading {url}"):
                config = fetch_catalog_config(url, TIMEOUT)
            stack = Stack(url, (config.get("registryUrl") or "").rstrip("/") or None, config.get("region"))
            if stack.registry_url is None:
                raise Unable(f"{url} is not a Quilt catalog: its config.json names no registry.")
        check_fit(stack, ["Check the address of the catalog."])
    except ResourceFailure as failure:
        details = f" ({failure.details})" if failure.details else ""
        subject = f"Cannot sign in to {catalog}: " if catalog and "@" not in catalog else ""
        raise Unable(f"{subject}{failure.message}{details} {' '.join(failure.suggested_actions[:1])}") from failure
    return stack


def _parse_catalog(text: str) -> str:
    """Return the address of a catalog. People also paste the address of a page of it."""
    url = text.strip()
    address = parse_address(url if SCHEME.match(url) else f"https://{url}")
    if address is None:  # it can contain a password, so it is not repeated
        raise Misuse("The catalog must be an address like https://quilt.example.com, without a user name.")
    return f"{address.scheme}://{address.netloc}"


def _open_browser(page: str) -> bool:
    if sys.platform.startswith("linux") and not any(map(os.environ.get, WITH_DISPLAY)):
        return False
    with suppress(webbrowser.Error, OSError):
        return webbrowser.open(page)
    return False


def _read_code() -> str:
    try:
        code = getpass.getpass("Code from the page: ") if sys.stdin.isatty() else sys.stdin.readline()
    except EOFError:
        code = ""
    if not code.strip():
        raise Misuse("No code was given. Paste the code from the page, or pass it on stdin.")
    return code.strip()


def _configure(url: str) -> None:
    """Write config.yml as `quilt3 config` does. Unlike it, keep the choice to send no usage metrics."""
    sends_nothing = False
    with suppress(QuiltException, TypeError, ValueError, OSError):  # a damaged file is replaced
        sends_nothing = bool(quilt3.util.get_from_config("telemetry_disabled"))
    try:
        quilt3.util.configure_from_url(url)
        if sends_nothing:
            quilt3.util.set_config_value("telemetry_disabled", True)  # noqa: FBT003 - its interface
    except requests.RequestException as error:
        raise Unable(f"The catalog {url} cannot be reached: {type(error).__name__}.") from error
    except (QuiltException, ValueError) as error:
        raise Unable(f"quilt3 cannot be configured for {url}: {error}") from error
    except OSError as error:
        raise _explain(error) from error


def _exchange(stack: Stack, code: str) -> None:
    """Exchange the code for a login, and store it beside the logins to other stacks.

    Raises:
        Unable: the stack does not accept the code, or the login cannot be stored.
    """
    registry = cast("str", stack.registry_url)
    try:
        before = _read_logins().get(registry)
        with waiting("Signing in"):
            quilt3.session.login_with_token(code)
    except (QuiltException, requests.RequestException, ValueError, KeyError) as error:
        if _read_logins().get(registry) in (None, before):
            raise Unable(
                f"The sign-in failed: {_describe(error)}. A code is valid once and for a short time: get a new one "
                f"from {registry}/login and run `quilt-mcp login` again."
            ) from error
        complain(f"The stack issues no AWS credentials: {_describe(error)}. Ask a Quilt administrator for a role.")
    except OSError as error:
        raise _explain(error) from error


def _describe(error: Exception) -> str:
    """Return the text of quilt3's own errors. Others can contain what the stack has sent."""
    return str(error).rstrip(".") if isinstance(error, QuiltException) else type(error).__name__


def _read_logins() -> dict[str, object]:
    """Return the logins by registry. A damaged file is set aside: quilt3 cannot add a login to it."""
    path = quilt3.session.AUTH_PATH
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        content = None
    if isinstance(content, dict):
        return content
    copy = path.with_name(f"{path.name}.damaged")
    path.replace(copy)
    complain(f"{path} was damaged. It is now {copy}.")
    return {}


def _explain(error: OSError) -> Unable:
    return Unable(f"{error.filename or 'A file of quilt3'} cannot be written: {error.strerror}.")
