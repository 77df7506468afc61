"""`quilt-mcp demo`: read a demo world on both surfaces."""

import os
import shutil
import sys
from typing import Annotated

from cyclopts import Parameter
from rich.progress import Progress, TaskID
from rich.table import Table

from quilt_mcp.commands.client_config import COMMAND
from quilt_mcp.commands.comparison import Case, compare, list_uris
from quilt_mcp.commands.get import ServerClient, run_session
from quilt_mcp.commands.install import executable
from quilt_mcp.commands.options import AsJSON, World
from quilt_mcp.commands.output import console_on, show, show_json
from quilt_mcp.commands.tables import table_of

PEOPLE: dict[World, str] = {
    "admin": "an administrator of a Quilt stack with data",
    "member": "a user of the same stack without access to admin://",
    "signed_out": "the same stack without a sign-in",
    "empty": "an administrator of a new stack without data",
}
NEXT = """\
Read one resource:   {command} get auth://status --demo
Connect this world:  {command} install claude-desktop --demo
Connect your own:    quilt3 login, then {command} install claude-desktop
                     (or claude-code, or cursor)\
"""

Which = Annotated[World, Parameter(help="The demo world.")]


def demo(world: Which = "admin", *, as_json: AsJSON = False) -> int:
    """Read every resource of a demo world with resources/read and get_resource, and compare the answers."""
    console = console_on(sys.stderr)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"World {world}", total=None)
        cases = run_session(lambda client: _read_all(client, progress, task), demo=world)
    same = sum(case["parity"] for case in cases)
    if as_json:
        show_json({"world": world, "cases": cases, "ok": same == len(cases)})
    else:
        show(
            f"World {world}: {PEOPLE[world]}.",
            "",
            _table(cases),
            "",
            _verdict(same, len(cases)),
            "",
            NEXT.format(command=_command()),
        )
    return 0 if same == len(cases) else 1


async def _read_all(client: ServerClient, progress: Progress, task: TaskID) -> list[Case]:
    uris = await list_uris(client)
    return [await compare(client, uri) for uri in progress.track(uris, task_id=task)]


def _table(cases: list[Case]) -> Table:
    table = table_of("URI", "resource", "tool", "parity", "bytes", numbers=("resource", "tool", "parity", "bytes"))
    table.padding = (0, 0)  # so that the longest URI fits in 80 columns
    for case in cases:
        resource = f"{case['resource_ms']:.0f} ms" if case["resource"] else "refused"
        tool = f"{case['tool_ms']:.0f} ms" if case["tool"] else "refused"
        table.add_row(case["uri"], resource, tool, "yes" if case["parity"] else "NO", f"{case['bytes']}")
    return table


def _command() -> str:
    """Return how to call this command: by its path if it is not on PATH."""
    return COMMAND if shutil.which(COMMAND) else os.path.relpath(executable())


def _verdict(same: int, total: int) -> str:
    if same == total:
        return f"All {total} URIs give the same answer with resources/read and with the tool get_resource."
    return f"{total - same} of {total} URIs give different answers."
