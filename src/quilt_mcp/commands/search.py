"""`quilt-mcp search`: search with every resource that takes a query."""

from functools import partial
from urllib.parse import quote

from rich.console import RenderableType
from rich.text import Text

from quilt_mcp.app.checks import Body
from quilt_mcp.commands.get import describe_next, draw, explain
from quilt_mcp.commands.session import ServerClient, call_tool, run_session
from quilt_mcp.console.output import Layout, complain, show_json, show_pages, waiting
from quilt_mcp.console.parser import AsJSON, Demo
from quilt_mcp.core.registry import path_of
from quilt_mcp.tools.resource_access import RESOURCE_REGISTRY

QUERY = "search/{query}"
"""The end of the URIs that search."""


def search(first: str, /, *more: str, demo: Demo = None, as_json: AsJSON = False) -> int:
    """Search packages and requirements. Each row has the URI to read with `quilt-mcp get`.

    Args:
        first: a word.
        more: other words.
        demo: a demo world.
        as_json: whether to print JSON.

    Returns:
        0 if a search succeeded.
    """
    query = quote(" ".join((first, *more)), safe="")
    uris = [path_of(uri).replace("{query}", query) for uri in RESOURCE_REGISTRY if path_of(uri).endswith(QUERY)]
    with waiting("Searching"):
        bodies = run_session(partial(_read_each, uris=uris), demo=demo)
    found = [body for body in bodies if body["success"]]
    if as_json:
        show_json({"searches": bodies})
    else:
        for body in bodies:
            if not body["success"]:
                complain(*explain(body))
        parts: list[RenderableType] = []
        after: list[str] = []
        for body in found:
            parts += [Text(body["uri"], "bold"), *draw(body, Layout()), ""]
            after += [line for line in describe_next(body, demo) if line]
        show_pages(*parts, after=after)
    return 0 if found else 1


async def _read_each(client: ServerClient, *, uris: list[str]) -> list[Body]:
    return [await call_tool(client, uri) for uri in uris]
