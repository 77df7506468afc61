"""The pages of an answer: the URI of the next one, and all of them as one answer."""

from collections.abc import Awaitable, Callable
from urllib.parse import quote, unquote

from quilt_mcp.app.checks import Body
from quilt_mcp.console.process import Unable

CURSOR = "next_cursor"


class Unjoinable(Unable):
    """Pages have different values for a name, so they are not one answer."""


def find_next_uri(body: Body) -> str | None:
    """Return the URI of the page that follows an answer; None if it is the last one."""
    if not body["success"] or not (cursor := body["data"].get(CURSOR)):
        return None
    path, _, query = body["uri"].partition("?")
    kept = [pair for pair in query.split("&") if pair and unquote(pair.partition("=")[0]) != "cursor"]
    pairs = [*kept, f"cursor={quote(str(cursor), safe='')}"]
    return f"{path}?{'&'.join(pairs)}"


def find_rows(data: Body) -> list[object]:
    """Return the list of an answer that has pages: the longest list of objects."""
    lists = [one for one in data.values() if isinstance(one, list) and any(isinstance(row, dict) for row in one)]
    return max(lists, key=len, default=[])


async def read_all(
    body: Body, read: Callable[[str], Awaitable[Body]], report: Callable[[Body], None] = lambda _: None
) -> Body:
    """Return an answer with the rows of all pages that follow it, or the error of a page.

    Args:
        body: the first page.
        read: returns the answer for a URI.
        report: is called with what is joined after each page.

    Raises:
        Unjoinable: the pages are not one answer.
    """
    while uri := find_next_uri(body):
        following = await read(uri)
        if not following["success"]:
            return following
        body = body | {"data": _join(body["data"], following["data"])}
        report(body)
    return body


def _join(data: Body, more: Body) -> Body:
    joined: Body = data | {CURSOR: more.get(CURSOR)}
    for key, value in more.items():
        before = data.get(key)
        if isinstance(value, list) and isinstance(before, list):
            joined[key] = before + value
        elif isinstance(value, dict) and isinstance(before, dict):
            joined[key] = _merge(key, before, value)
    return joined


def _merge(key: str, before: Body, more: Body) -> Body:
    if any(before[name] != more[name] for name in before.keys() & more.keys()):
        raise Unjoinable(f"--all cannot join the pages of this resource: {key} differs between them. Omit --all.")
    return before | more
