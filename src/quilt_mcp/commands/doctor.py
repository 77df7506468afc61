"""`quilt-mcp doctor`: check the installation and each domain, and suggest fixes; show the settings."""

import asyncio
import os
import platform
import re
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Literal, TypedDict
from urllib.parse import urlsplit

from cyclopts import Parameter
from pydantic import SecretStr
from rich.table import Table
from rich.text import Text

from quilt_mcp.app.build import advise_extra, find_version
from quilt_mcp.app.checks import Check, make_check
from quilt_mcp.app.domain import Ask, Domain, InvalidDomain
from quilt_mcp.app.secret_files import Variables, find_file, list_variables, name_variables
from quilt_mcp.commands.client_config import ConfigText
from quilt_mcp.commands.clients import CLIENTS, Client, ConfigError
from quilt_mcp.commands.install import ClientFile, executable
from quilt_mcp.commands.session import call_tool, run_session
from quilt_mcp.commands.startup import explaining, read_own_settings
from quilt_mcp.console.output import show, show_json, waiting
from quilt_mcp.console.parser import AsJSON, Demo
from quilt_mcp.demo.place import is_installed
from quilt_mcp.server import describe_origin, find_domains, list_installed
from quilt_mcp.settings import DomainChoice, ServerSettings


def describe_installation() -> list[Check]:
    """Return the versions, and each installed domain with that of its distribution."""
    return [
        make_check("quilt-mcp", "info", find_version()),
        make_check("Python", "info", f"{platform.python_version()} on {platform.system()}"),
        make_check("demo world", "info", "installed" if is_installed() else f"not installed; {advise_extra('demo')}"),
        *map(_check_domain, list_installed()),
        *list_connected(),
    ]


def list_connected() -> list[Check]:
    """Return the clients that have this server, with the file of each.

    A client can have several files, such as Claude Desktop on Windows. A second one that lacks the server is named.
    """
    checks: list[Check] = []
    for name, client in CLIENTS.items():
        files = client.find_present_files()
        having = [path for path in files if _has_server(path, client)]
        if having:
            lacking = [str(path) for path in files if path not in having]
            detail = ", ".join(map(str, having))
            also = f"; not in {', '.join(lacking)}: run `quilt-mcp install {name} --write`" if lacking else ""
            checks.append(make_check(f"client {name}", "info", detail + also))
    return checks


def _has_server(path: Path, client: Client) -> bool:
    try:
        return ConfigText(ClientFile(path).text, client, executable()).entry is not None
    except (ConfigError, OSError):  # `quilt-mcp install` says what is wrong with it
        return False


def _check_domain(entry: EntryPoint) -> Check:
    name, origin = f"domain {entry.name}", describe_origin(entry)
    try:
        find_domains([entry.name])
    except InvalidDomain as error:
        return make_check(name, "failed", f"{error}.", f"Install another version of it, or uninstall it: {origin}.")
    chosen = DomainChoice().domains
    return make_check(name, "info", origin if entry.name in chosen or not chosen else f"{origin}, not served")


MASK = "********"
"""Replaces every secret, regardless of its length."""
LOGIN = re.compile(r"(?<=://)[^/?#]*@")


class EffectiveSetting(TypedDict):
    """One setting.

    `value` is null if it is unset, and does not contain secrets. `variable` is the environment variable that sets it,
    or could. `file` is the name of the file that contains it, if `source` is `file`.
    """

    variable: str
    value: str | None
    source: Literal["default", "environment", "file"]
    file: str | None


def describe_settings(settings: ServerSettings, environment: Mapping[str, str]) -> list[EffectiveSetting]:
    """Return all settings, sorted by their variables.

    Args:
        settings: as they were read from the environment.
        environment: the environment variables.
    """
    given = list_variables(environment)
    described = [_describe(settings, name, given) for name in type(settings).model_fields]
    return sorted(described, key=lambda setting: setting["variable"])


def _describe(settings: ServerSettings, name: str, variables: Variables) -> EffectiveSetting:
    file = find_file(type(settings), name, variables)
    known = name_variables(type(settings), name)
    given = next((one for one in known if one in variables), None)
    value = _mask(getattr(settings, name))
    if file:
        return {"variable": file[0], "value": value, "source": "file", "file": file[1]}
    source: Literal["default", "environment"] = "environment" if given else "default"
    return {"variable": given or known[0], "value": value, "source": source, "file": None}


def _mask(value: object) -> str | None:
    match value:
        case None:
            return None
        case SecretStr():
            return MASK if value.get_secret_value() else None
        case bool():
            return str(value).lower()
        case tuple():
            return ", ".join(map(str, value))
        case _:
            return LOGIN.sub(f"{MASK}@", str(value)) if urlsplit(str(value)).netloc else str(value)


CHECK_SECONDS = 120
"""How long the checks of one domain may take. Each read has its own deadline."""
OWN_COMMAND = re.compile("`(quilt-mcp [^`]+)`")
OPTIONAL = {"clock", "scopes"}
"""Checks that a provider need not make possible."""
STYLES = {"ok": "green", "failed": "bold red", "skipped": "dim", "info": "dim"}

AllSettings = Annotated[
    bool,
    Parameter(
        name="--settings", negative="", show_default=False, help="Print all settings, also those at their defaults."
    ),
]


SignIn = Annotated[
    bool,
    Parameter(
        name="--sign-in",
        negative="",
        show_default=False,
        help="Check the sign-in over HTTP instead: the settings against the OpenID provider, and one sign-in in the "
        "browser through the running server.",
    ),
]


def doctor(
    *, demo: Demo = None, as_json: AsJSON = False, all_settings: AllSettings = False, sign_in: SignIn = False
) -> int:
    """Check the configuration, the sign-in and the network, and print the settings that are set. Secrets are masked.

    The last line is the one command to run next. The exit status is 0 if no check fails.
    """
    if sign_in:
        return _check_sign_in(as_json=as_json)
    found, effective = describe_installation(), list[EffectiveSetting]()
    if all(check["state"] != "failed" for check in found):  # else no server can start
        with explaining():
            domains = find_domains()
        with waiting("Checking"):
            found += run_session(lambda client: run_checks(partial(call_tool, client), domains), demo=demo)
        effective = describe_settings(read_own_settings(), os.environ)
    ok = all(check["state"] != "failed" for check in found)
    if as_json:
        show_json({"ok": ok, "next": find_next(found), "checks": found, "settings": effective})
    else:
        shown = [one for one in effective if all_settings or one["source"] != "default"]
        title = "Settings:" if all_settings else "Settings that are not at their defaults (--settings prints all):"
        show(_list_checks(found), "")
        if shown:
            show(title, _list_settings(shown), "")
        show("No problems found." if ok else "Some checks failed.", f"Next: {find_next(found)}")
    return 0 if ok else 1


def _check_sign_in(*, as_json: bool) -> int:
    with explaining():
        settings = read_own_settings()
    checks = import_module("quilt_mcp.http.provider_checks")  # it imports authlib

    async def check() -> list[Check]:
        found: list[Check] = await checks.check_provider(settings)
        if all(one["state"] not in {"failed", "skipped"} or one["name"] in OPTIONAL for one in found):
            found.append(await checks.sign_in_once(settings))
        return found

    with waiting("Checking"):
        found = asyncio.run(check())
    ok = all(one["state"] != "failed" for one in found)
    if as_json:
        show_json({"ok": ok, "checks": found})
    else:
        show(_list_checks(found))
    return 0 if ok else 1


def find_next(checks: Sequence[Check]) -> str:
    """Return the command to run next: that of the first fix which has one."""
    fixes = [check["fix"] for check in checks if check["fix"]]
    commands = [found[1] for fix in fixes if (found := OWN_COMMAND.search(fix))]
    if commands:
        return commands[0]
    if fixes:
        return "quilt-mcp doctor, after the fixes above"
    is_connected = any(check["name"].startswith("client ") for check in checks)
    return "quilt-mcp get permissions://discover" if is_connected else "quilt-mcp install"


async def run_checks(ask: Ask, domains: Sequence[Domain], *, seconds: float = CHECK_SECONDS) -> list[Check]:
    """Return the checks of the domains. One that does not end within its time fails, and the others continue.

    Args:
        ask: returns the body of a resource.
        domains: what the server serves.
        seconds: how long the checks of one domain may take.
    """
    found: list[Check] = []
    for domain in domains:
        try:
            async with asyncio.timeout(seconds):
                found += await domain.diagnose(ask)
        except TimeoutError:
            text = f"no answer within {seconds:g} seconds"
            found.append(make_check(domain.name, "failed", text, "Check the network and the systems behind it."))
    return found


def _list_checks(found: list[Check]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for check in found:
        style = STYLES[check["state"]]
        grid.add_row(Text(check["state"], style), check["name"], check["detail"])
        if check["fix"]:
            grid.add_row("", "", Text(f"-> {check['fix']}", style))
    return grid


def _list_settings(settings: list[EffectiveSetting]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for one in settings:
        source = one["source"] if one["file"] is None else f"file {one['file']}"
        value = "-" if one["value"] is None else " ".join(one["value"].split())
        grid.add_row(one["variable"], value, Text(source, "dim"))
    return grid
