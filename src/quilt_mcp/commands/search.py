"""`quilt-mcp search`: search with every resource that takes a query."""

from collections.abc import Iterator
from functools import partial
from urllib.parse import quote

from rich.console import RenderableType
from rich.text import Text

from quilt_mcp.app.checks import Body
from quilt_mcp.commands.get import describe_next, explain
from quilt_mcp.commands.session import ServerClient, call_tool, run_session
from quilt_mcp.commands.startup import list_uris
from quilt_mcp.console.output import VISIBLE, complain, show_json, show_pages, waiting
from quilt_mcp.console.parser import AsJSON, Demo
from quilt_mcp.console.process import Misuse
from quilt_mcp.core.answers import JSONObject
from quilt_mcp.core.registry import path_of

NAMES = ("reference_id", "name", "key", "title", "bucket")
FILES = 3
"""How many files of a package are named."""
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
    uris = [path_of(uri).replace("{query}", query) for uri in list_uris() if path_of(uri).endswith(QUERY)]
    if not uris:
        raise Misuse("No resource of the installed domains takes a query. `quilt-mcp list` shows what can be read.")
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
            parts += [Text(body["uri"], "dim"), *_list_hits(body["data"]), ""]
            after += [line for line in describe_next(body, demo) if line]
        show_pages(*parts, after=after)
    return 0 if found else 1


def _list_hits(data: JSONObject) -> Iterator[Text]:
    """Yield the lines of what was found: its name and text, the files in which the words are, and its URI."""
    lists = [value for value in data.values() if isinstance(value, list)]
    hits = [row for rows in lists for row in rows if isinstance(row, dict) and row.get("uri")]
    if not hits:
        yield Text("nothing found")
    for row in hits:
        names = [str(row[key]) for key in NAMES if row.get(key)]
        text = str(row.get("message") or row.get("description") or "")
        yield _make_line(f"{' '.join(names)}  {text}".rstrip(), "bold")
        if entries := row.get("matching_entries"):
            files = [str(entry["path"]) for entry in entries]
            more = row["matching_entry_count"] - len(files[:FILES])
            yield _make_line(f"  in {', '.join(files[:FILES])}{f' and {more} more' if more else ''}")
        yield _make_line(f"  {row['uri']}", whole=True)


def _make_line(text: str, style: str = "", *, whole: bool = False) -> Text:
    """Return one line, which ends at the width of the terminal, unless it is to be copied."""
    line = Text(text.replace("\n", " ").translate(VISIBLE), style)
    line.no_wrap, line.overflow = not whole, "fold" if whole else "ellipsis"
    return line


async def _read_each(client: ServerClient, *, uris: list[str]) -> list[Body]:
    return [await call_tool(client, uri) for uri in uris]
