"""`quilt-mcp doctor`: check the configuration, the sign-in and the network, and suggest fixes."""

import os
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from quilt_mcp.commands import checks
from quilt_mcp.commands.checks import Check
from quilt_mcp.commands.effective_settings import EffectiveSetting, describe_settings
from quilt_mcp.commands.options import AsJSON, Demo
from quilt_mcp.commands.output import show, show_json, waiting
from quilt_mcp.commands.session import ServerClient, call_tool, run_session
from quilt_mcp.settings import Settings

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
    effective = describe_settings(Settings(), os.environ)
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
    network = checks.check_network(catalog)
    sign_in = checks.check_sign_in(status, network)
    return [
        *checks.describe_installation(),
        checks.check_directories(directories),
        checks.check_catalog(catalog),
        network,
        sign_in,
        checks.check_aws_identity(access, sign_in),
        checks.check_buckets(access),
        checks.check_athena(workgroups, access),
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
        grid.add_row(one["variable"], _shorten(one["value"]), Text(source, "dim"))
    return grid


def _shorten(value: str | None) -> str:
    return "-" if value is None else " ".join(value.split())
