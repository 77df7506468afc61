"""`quilt-mcp demo`: read each URI of a demo world on both surfaces, and compare the answers."""

import json
import os
import shutil
import sys
import time
from typing import Annotated, TypedDict

from cyclopts import Parameter
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference, TextResourceContents
from rich.progress import Progress, TaskID
from rich.table import Table

from quilt_mcp.app.checks import Body
from quilt_mcp.commands.client_config import COMMAND
from quilt_mcp.commands.install import executable
from quilt_mcp.commands.session import ServerClient, call_tool, run_session
from quilt_mcp.console.output import console_on, show, show_json, table_of
from quilt_mcp.console.parser import AsJSON
from quilt_mcp.console.worlds import World
from quilt_mcp.core.answers import to_json
from quilt_mcp.core.registry import path_of, path_variables

NO_VALUE = "none"
"""The value of a variable that has no values in this world. Both surfaces then return an error."""


class Case(TypedDict):
    """One URI on both surfaces."""

    uri: str
    resource: bool
    """Whether resources/read returned data."""
    tool: bool
    """Whether get_resource returned data."""
    parity: bool
    """Whether both returned the same data, or the same error."""
    resource_ms: float
    tool_ms: float
    bytes: int
    """The length of the data, or of the error, as UTF-8 JSON."""


async def list_uris(client: ServerClient) -> list[str]:
    """Return every static URI, and for each template its URI with the first values that completion returns.

    Rows of a database have no `_meta`. Their templates stand for them.
    """
    static = {str(resource.uri) for resource in await client.list_resources() if resource.meta}
    templates = [template.uri_template for template in await client.list_resource_templates()]
    return sorted(static | {await _make_example(client, template) for template in templates})


async def compare(client: ServerClient, uri: str) -> Case:
    """Read a URI with resources/read, then with get_resource, and compare the answers."""
    await call_tool(client, uri)  # opens the connections, so that neither of the timed reads has to
    started = time.perf_counter()
    data, error = await _read(client, uri)
    between = time.perf_counter()
    body = await call_tool(client, uri)
    ended = time.perf_counter()
    if error is None:
        parity = body["success"] and data == to_json(body["data"]) and json.loads(data) == body["data"]
    else:
        parity = error == body
    return {
        "uri": uri,
        "resource": error is None,
        "tool": body["success"],
        "parity": parity,
        "resource_ms": _milliseconds(between - started),
        "tool_ms": _milliseconds(ended - between),
        "bytes": len((data if error is None else to_json(error)).encode()),
    }


async def _make_example(client: ServerClient, template: str) -> str:
    reference, uri = ResourceTemplateReference(uri=template), path_of(template)
    for variable in path_variables(template):
        found = await client.complete(reference, {"name": variable, "value": ""})
        uri = uri.replace(f"{{{variable}}}", next(iter(found.values), NO_VALUE))
    return uri


async def _read(client: ServerClient, uri: str) -> tuple[str, Body | None]:
    """Return the text of resources/read and None, or an empty text and the body of the error."""
    try:
        contents = await client.read_resource(uri)
    except MCPError as error:
        return "", error.data or {}
    return "".join(part.text for part in contents if isinstance(part, TextResourceContents)), None


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 1)


PEOPLE: dict[World, str] = {
    "admin": "an administrator of a Quilt stack with data",
    "member": "a user of the same stack without access to admin://",
    "signed_out": "the same stack without a sign-in",
    "empty": "an administrator of a new stack without data",
}
NEXT = """\
Read one resource:   {command} get auth://status {demo}
Connect this world:  {command} install claude-desktop {demo}
Connect your own:    {command} login https://<your catalog>, then {command} install\
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
            NEXT.format(command=_command(), demo="--demo" if world == "admin" else f"--demo {world}"),
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
