"""`quilt-mcp doctor`: what is configured, signed in and reachable, and what to do about what is not."""

from typing import Any

from fastmcp import Client
from rich.table import Table
from rich.text import Text

from quilt_mcp.commands import checks
from quilt_mcp.commands.checks import Check
from quilt_mcp.commands.options import AsJSON, Demo
from quilt_mcp.commands.output import show, show_json, waiting
from quilt_mcp.commands.session import ask, call_tool

STYLES = {"ok": "green", "failed": "bold red", "skipped": "dim", "info": "dim"}


def doctor(*, demo: Demo = None, as_json: AsJSON = False) -> int:
    """Check the configuration, the sign-in and the network; the status is 0 if all is well."""
    with waiting("Checking"):
        found = ask(_examine, demo=demo)
    ok = all(check["state"] != "failed" for check in found)
    if as_json:
        show_json({"ok": ok, "checks": found})
    else:
        show(_checklist(found), "", "All is well." if ok else "Something needs attention.")
    return 0 if ok else 1


async def _examine(client: Client[Any]) -> list[Check]:
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
    network = checks.reachable(catalog)
    sign_in = checks.signed_in(status, network)
    return [
        *checks.installation(),
        checks.directories(directories),
        checks.configured(catalog),
        network,
        sign_in,
        checks.aws_identity(access, sign_in),
        checks.buckets(access),
        checks.athena(workgroups, access),
    ]


def _checklist(found: list[Check]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for check in found:
        style = STYLES[check["state"]]
        grid.add_row(Text(check["state"], style), check["name"], check["detail"])
        if check["fix"]:
            grid.add_row("", "", Text(f"-> {check['fix']}", style))
    return grid
