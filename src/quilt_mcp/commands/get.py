"""`quilt-mcp get` and `quilt-mcp list`: show resources as tables, or as JSON."""

from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from quilt_mcp.commands.options import AsJSON, Demo
from quilt_mcp.commands.output import complain, show, show_json, waiting
from quilt_mcp.commands.session import Body, call_tool, run_session
from quilt_mcp.commands.tables import document, is_trace, table_of, trace_tree
from quilt_mcp.core.registry import path_variables

URI = Annotated[str | None, Parameter(help="The URI, with values instead of {variables}. By default, list all.")]


def get(uri: URI = None, /, *, demo: Demo = None, as_json: AsJSON = False) -> int:
    """Read a resource like the tool get_resource. Without a URI, list all resources."""
    with waiting("Reading"):
        body = run_session(lambda client: call_tool(client, uri), demo=demo)
    if as_json:
        show_json(body)
    elif not body["success"]:
        complain(*_explain(body))
    elif uri:
        data = body["data"]
        show(trace_tree(data) if is_trace(data) else document(data))
    else:
        show(_list(body["data"]))
    return 0 if body["success"] else 1


def list_resources(*, as_json: AsJSON = False) -> int:
    """List all resources by category."""
    return get(as_json=as_json)


def _list(categories: Body) -> Table:
    table = table_of("URI", "name", "needs")
    for rows in categories.values():
        for row in rows:
            needs = [*path_variables(row["uri"]), *(["admin"] if row["requires_admin"] else [])]
            table.add_row(row["uri"], row["name"], ", ".join(needs))
        table.add_section()
    return table


def _explain(body: Body) -> list[str]:
    details = [f"  {body['details']}"] if body["details"] else []
    return [f"{body['error']}: {body['message']}", *details, *(f"  - {action}" for action in body["suggested_actions"])]
