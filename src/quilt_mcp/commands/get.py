"""`quilt-mcp get` and `quilt-mcp list`: show resources as tables, or as JSON."""

import shlex
from functools import partial
from typing import Annotated

from cyclopts import Parameter
from rich.console import RenderableType
from rich.status import Status

from quilt_mcp.app.checks import Body
from quilt_mcp.commands.pages import CURSOR, find_next_uri, find_rows, read_all
from quilt_mcp.commands.session import ServerClient, call_tool, run_session
from quilt_mcp.commands.uri_completion import complete
from quilt_mcp.console.columns import list_keys
from quilt_mcp.console.output import (
    Layout,
    complain,
    document,
    is_trace,
    show,
    show_json,
    show_pages,
    trace_tree,
    waiting,
)
from quilt_mcp.console.parser import AsJSON, Demo
from quilt_mcp.console.process import Misuse
from quilt_mcp.core.registry import path_variables

URI = Annotated[
    str | None,
    Parameter(help="The URI, with values instead of {variables}. By default, list all.", completer=complete),
]
Fields = Annotated[
    str | None,
    Parameter(help="The columns of tables, separated by commas, such as reference_id,status. By default, a few."),
]
AllPages = Annotated[
    bool, Parameter(name="--all", negative="", show_default=False, help="Read all pages that follow, too.")
]


def get(
    uri: URI = None,
    /,
    *,
    fields: Fields = None,
    all_pages: AllPages = False,
    demo: Demo = None,
    as_json: AsJSON = False,
) -> int:
    """Read a resource like the tool get_resource. Without a URI, list all resources.

    A list that is too wide for the terminal shows the fields that tell most. If there are more pages, the last line is
    the command for the next one.
    """
    if fields is not None and (uri is None or as_json):
        raise Misuse("--fields needs a URI, and excludes --json.")
    with waiting("Reading") as status:
        body = run_session(partial(_read, uri=uri, all_pages=all_pages, status=status), demo=demo)
    if as_json:
        show_json(body)
    elif not body["success"]:
        complain(*explain(body))
    elif uri:
        show_pages(*draw(body, _parse_fields(fields, body["data"])), after=describe_next(body, demo))
    else:
        listed = {category: [_describe(row) for row in rows] for category, rows in body["data"].items()}
        show(document(listed, Layout(is_brief=False)))
    return 0 if body["success"] else 1


def list_resources(*, as_json: AsJSON = False) -> int:
    """List all resources by category."""
    return get(as_json=as_json)


async def _read(client: ServerClient, *, uri: str | None, all_pages: bool, status: Status) -> Body:
    body = await call_tool(client, uri)
    if not all_pages:
        return body

    def report(joined: Body) -> None:
        total = joined["data"].get("count")
        status.update(f"Read {len(find_rows(joined['data']))}" + (f" of {total}" if isinstance(total, int) else ""))

    return await read_all(body, partial(call_tool, client), report)


def draw(body: Body, layout: Layout) -> list[RenderableType]:
    """Return an answer for people. The cursor is in the command for the next page."""
    data = {key: value for key, value in body["data"].items() if key != CURSOR}
    return [trace_tree(data) if is_trace(data) and not layout.fields else document(data, layout)]


def describe_next(body: Body, demo: str | None) -> list[str]:
    """Return the line with the number of rows and the command for the next page; none on the last page."""
    uri = find_next_uri(body)
    if uri is None:
        return []
    command = shlex.join(["quilt-mcp", "get", uri, *(["--demo", demo] if demo else [])])
    shown, total = len(find_rows(body["data"])), body["data"].get("count")
    how_many = f"{shown} of {total}" if isinstance(total, int) and total > shown else f"{shown}, and more"
    return ["", f"{how_many}; next: {command}"]


def _parse_fields(fields: str | None, data: Body) -> Layout:
    """Return the layout with the columns that the user wants.

    Raises:
        Misuse: a column is in no list of the answer.
    """
    if fields is None:
        return Layout()
    wanted = tuple(filter(None, (name.strip() for name in fields.split(","))))
    rows = [row for row in find_rows(data) if isinstance(row, dict)]
    known = list_keys(rows)
    missing = [name for name in wanted if name not in known]
    if missing or not wanted:
        raise Misuse(f"--fields takes fields of this list: {', '.join(known) or 'it has none'}.")
    return Layout(wanted)


def _describe(row: Body) -> Body:
    needs = [*path_variables(row["uri"]), *(["admin"] if row["requires_admin"] else [])]
    return {"URI": row["uri"], "name": row["name"], "needs": ", ".join(needs)}


def explain(body: Body) -> list[str]:
    """Return the lines of an error, with actions that a person in a shell can take."""
    details = [f"  {body['details']}"] if body["details"] else []
    actions = (f"  - {_say_in_shell(action)}" for action in body["suggested_actions"])
    return [f"{body['error']}: {body['message']}", *details, *actions]


def _say_in_shell(action: str) -> str:
    words = action.replace("Call get_resource() without arguments", "Run `quilt-mcp list`")
    return words.replace("with requires_admin=false", "without admin")
