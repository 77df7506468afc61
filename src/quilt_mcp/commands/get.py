"""`quilt-mcp get` and `quilt-mcp list`: resources as tables for a person, or as JSON."""

from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from quilt_mcp.commands.options import AsJSON, Demo
from quilt_mcp.commands.output import complain, show, show_json, waiting
from quilt_mcp.commands.session import ask, call_tool
from quilt_mcp.commands.tables import document, table_of
from quilt_mcp.registry import path_variables

URI = Annotated[str | None, Parameter(help="Its URI, with values in place of {variables}; without one, list them.")]


def get(uri: URI = None, /, *, demo: Demo = None, as_json: AsJSON = False) -> int:
    """Read a resource as the tool get_resource does; without a URI, list them."""
    with waiting("Reading"):
        body = ask(lambda client: call_tool(client, uri), demo=demo)
    if as_json:
        show_json(body)
    elif not body["success"]:
        complain(*_explanation(body))
    elif uri:
        show(document(body["data"]))
    else:
        show(_listing(body["data"]))
    return 0 if body["success"] else 1


def list_resources(*, as_json: AsJSON = False) -> int:
    """List the resources by category."""
    return get(as_json=as_json)


def _listing(categories: dict[str, list[dict[str, Any]]]) -> Table:
    table = table_of("URI", "name", "needs")
    for rows in categories.values():
        for row in rows:
            needs = [*path_variables(row["uri"]), *(["admin"] if row["requires_admin"] else [])]
            table.add_row(row["uri"], row["name"], ", ".join(needs))
        table.add_section()
    return table


def _explanation(body: dict[str, Any]) -> list[str]:
    details = [f"  {body['details']}"] if body["details"] else []
    return [f"{body['error']}: {body['message']}", *details, *(f"  - {action}" for action in body["suggested_actions"])]
