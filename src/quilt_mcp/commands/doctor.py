"""`quilt-mcp doctor`: check the configuration, the sign-in and the network, and suggest fixes; show the settings.

Each check evaluates what get_resource returned for a resource.
"""

import os
import platform
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Literal, TypedDict
from urllib.parse import urlsplit

from cyclopts import Parameter
from pydantic import SecretStr
from rich.table import Table
from rich.text import Text

from quilt_mcp.app.build import advise_extra, find_version
from quilt_mcp.app.secret_files import Variables, find_file, list_variables, name_variables
from quilt_mcp.commands.get import Body, ServerClient, call_tool, run_session
from quilt_mcp.commands.startup import read_own_settings
from quilt_mcp.console.output import show, show_json, waiting
from quilt_mcp.console.parser import AsJSON, Demo
from quilt_mcp.settings import ServerSettings

State = Literal["ok", "failed", "skipped", "info"]


class Check(TypedDict):
    """One line of the checklist."""

    name: str
    state: State
    detail: str
    fix: str | None
    """How to fix a failure; None otherwise."""


def describe_installation() -> list[Check]:
    missing = f"not installed; {advise_extra('demo')}"
    return [
        _check("quilt-mcp", "info", find_version()),
        _check("Python", "info", f"{platform.python_version()} on {platform.system()}"),
        _check("demo world", "info", "installed" if all(map(find_spec, ("graphql", "moto", "trustme"))) else missing),
    ]


def check_directories(body: Body) -> Check:
    """Check that Quilt and the workflows can write their directories. They do not use the current directory."""
    name = "directories"
    if not body["success"]:
        return _fail(name, body)
    needed = {key: one for key, one in body["data"]["directories"].items() if key != "current"}
    read_only = [f"{key} at {one['path']}" for key, one in needed.items() if not one["writable"]]
    if read_only:
        fix = "Make them writable for your user. QUILT_MCP_DATA_DIR sets the directory of the workflows."
        return _check(name, "failed", f"not writable: {', '.join(read_only)}", fix)
    return _check(name, "ok", f"{len(needed)} writable")


def check_catalog(catalog: Body) -> Check:
    name = "catalog"
    if not catalog["success"]:
        return _fail(name, catalog)
    url = catalog["data"]["navigator_url"] or catalog["data"]["registry_url"]
    if url is None:
        return _check(name, "failed", "not configured", "Run `quilt3 config https://<your catalog>` in a terminal.")
    return _check(name, "ok", url)


def check_network(catalog: Body) -> Check:
    name = "network"
    if not catalog["success"]:
        return _fail(name, catalog)
    data = catalog["data"]
    if data["config_json"] == "not_configured":
        return _check(name, "skipped", "no catalog is configured")
    if data["config_json"] != "read":
        fix = f"Check that {data['navigator_url']} opens in a browser, and the network, VPN and proxy of this machine."
        return _check(name, "failed", f"the catalog's config.json is {data['config_json']}", fix)
    return _check(name, "ok", f"the catalog responds; stack version {data['stack_version'] or 'not published'}")


def check_sign_in(status: Body, network: Check) -> Check:
    name = "sign-in"
    if not status["success"]:
        return _fail(name, status)
    data, user = status["data"], status["data"]["user_info"]
    if data["status"] == "not_configured":
        return _check(name, "skipped", "no catalog is configured")
    if data["status"] == "unreachable" and network["state"] == "failed":
        return _check(name, "skipped", "needs the network")
    if user is None and data["authenticated"]:
        return _check(name, "ok", f"{data['message']} {data['details']}")
    if user is None:
        return _check(name, "failed", data["message"], " ".join(data["suggested_actions"]))
    rank = "administrator" if user["is_admin"] else "not an administrator"
    return _check(name, "ok", f"{user['username']}, role {user['role'] or 'none'}, {rank}")


def check_aws_identity(access: Body, sign_in: Check) -> Check:
    """Check that AWS accepts the caller's credentials. Without a sign-in, a failure is expected."""
    name = "AWS identity"
    if access["success"]:
        who = access["data"]["user_identity"]
        replaced = [f"{service} at {host}" for service, host in (who["aws_endpoint"] or {}).items()]
        return _check(name, "ok", " with ".join(filter(None, (who["arn"], ", ".join(replaced)))))
    return _fail(name, access) if sign_in["state"] == "ok" else _check(name, "skipped", "needs the sign-in")


def check_buckets(access: Body) -> Check:
    """Check that the names of buckets can be listed, and that some buckets can be read."""
    name = "buckets"
    if not access["success"]:
        return _check(name, "skipped", "needs an AWS identity")
    data = access["data"]
    unread = {source: state for source, state in data["sources"].items() if state != "read"}
    if len(unread) == len(data["sources"]):
        reasons = "; ".join(f"{source}: {state}" for source, state in unread.items())
        return _check(name, "failed", reasons, "Sign in with `quilt3 login`, or request s3:ListAllMyBuckets.")
    readable, total = sum(bool(one["can_read"]) for one in data["bucket_permissions"]), len(data["bucket_permissions"])
    detail = f"{readable} of {total} readable"
    if total and not readable:
        return _check(name, "failed", detail, "Ask a Quilt administrator to give your role access to a bucket.")
    return _check(name, "ok", detail)


def check_athena(workgroups: Body, access: Body) -> Check:
    name = "Athena"
    if not access["success"]:
        return _check(name, "skipped", "needs an AWS identity")
    if not workgroups["success"]:
        return _fail(name, workgroups)
    return _check(name, "ok", f"{workgroups['data']['count']} workgroups in {workgroups['data']['region']}")


def _fail(name: str, body: Body) -> Check:
    detail = body["message"] + (f" ({body['details']})" if body["details"] else "")
    actions = [action for action in body["suggested_actions"] if "quilt-mcp doctor" not in action]
    return _check(name, "failed", detail, next(iter(actions), "Report this problem with the lines above."))


def _check(name: str, state: State, detail: str, fix: str | None = None) -> Check:
    return {"name": name, "state": state, "detail": detail, "fix": fix}


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


STYLES = {"ok": "green", "failed": "bold red", "skipped": "dim", "info": "dim"}

AllSettings = Annotated[
    bool,
    Parameter(
        name="--settings", negative="", show_default=False, help="Print all settings, also those at their defaults."
    ),
]


def doctor(*, demo: Demo = None, as_json: AsJSON = False, all_settings: AllSettings = False) -> int:
    """Check the configuration, the sign-in and the network, and print the settings that are set. Secrets are masked.

    The exit status is 0 if no check fails.
    """
    with waiting("Checking"):
        found = run_session(_run_checks, demo=demo)
    ok = all(check["state"] != "failed" for check in found)
    effective = describe_settings(read_own_settings(), os.environ)
    if as_json:
        show_json({"ok": ok, "checks": found, "settings": effective})
    else:
        shown = [one for one in effective if all_settings or one["source"] != "default"]
        title = "Settings:" if all_settings else "Settings that are not at their defaults (--settings prints all):"
        show(_list_checks(found), "")
        if shown:
            show(title, _list_settings(shown), "")
        show("No problems found." if ok else "Some checks failed.")
    return 0 if ok else 1


async def _run_checks(client: ServerClient) -> list[Check]:
    status, catalog, directories, access, workgroups = [
        await call_tool(client, uri)
        for uri in (
            "auth://status",
            "auth://catalog/info",
            "auth://filesystem/status",
            "permissions://discover",
            "athena://workgroups",
        )
    ]
    network = check_network(catalog)
    sign_in = check_sign_in(status, network)
    return [
        *describe_installation(),
        check_directories(directories),
        check_catalog(catalog),
        network,
        sign_in,
        check_aws_identity(access, sign_in),
        check_buckets(access),
        check_athena(workgroups, access),
    ]


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
