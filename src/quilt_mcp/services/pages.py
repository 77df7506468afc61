"""Pages of lists that are read as a whole, with cursors that name the last row of a page."""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core import cursors
from quilt_mcp.core.cursors import MAX_LIMIT, Page, parse_limit
from quilt_mcp.core.cuts import fit
from quilt_mcp.core.errors import InvalidTemplateVariable

MAX_NAME_IN_CURSOR = 120

T = TypeVar("T")
R = TypeVar("R")


class Paged(TypedDict):
    """One page of a list."""

    count: int
    """The total of all pages."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""


def cut_page(
    rows: Iterable[T],
    name_of: Callable[[T], str],
    *,
    build: Callable[[T], R],
    cursor: str | None,
    limit: str | None,
    scope: Sequence[object],
    largest: int = MAX_LIMIT,
) -> Page[R]:
    """Return the page of a list that starts at a cursor. The rows are sorted by name, and names are unique.

    It ends at its number of rows, or with the last row that fits into an answer.

    Args:
        rows: all rows that the caller may see. A cursor selects some of them, and can do nothing else.
        name_of: returns the name of a row.
        build: makes what the answer has from a row.
        cursor: the `next_cursor` of the page before; None for the first page.
        limit: the number of rows per page, as the caller wrote it.
        scope: what identifies the list. A cursor of another list is refused.
        largest: the largest number of rows per page.

    Raises:
        InvalidTemplateVariable: the cursor or the limit is not valid.
    """
    return cut_joint_page(
        rows,
        name_of,
        build=lambda chosen: [build(row) for row in chosen],
        cursor=cursor,
        limit=limit,
        scope=scope,
        largest=largest,
    )


def cut_joint_page(
    rows: Iterable[T],
    name_of: Callable[[T], str],
    *,
    build: Callable[[list[T]], list[R]],
    cursor: str | None,
    limit: str | None,
    scope: Sequence[object],
    largest: int = MAX_LIMIT,
) -> Page[R]:
    """Do what `cut_page` does, with a function that makes all rows of a page together, in their order."""
    size, tag = parse_limit(limit, largest=largest), cursors.compute_tag(*scope)
    after = cursors.decode(cursor, tag) if cursor else None
    ordered = sorted(rows, key=name_of)
    start = _find_start([name_of(row) for row in ordered], after) if after is not None else 0
    page = fit(build(ordered[start : start + size]))
    end = start + len(page)
    next_cursor = cursors.encode(_mark(name_of(ordered[end - 1])), tag) if end < len(ordered) else None
    return Page(page, len(ordered), next_cursor)


def _mark(name: str) -> str:
    """Return the text for a name in a cursor: the name, or a hash of a name that is too long for a URI."""
    if len(json.dumps(name)) <= MAX_NAME_IN_CURSOR:  # as in a cursor: escapes are long
        return f"={name}"
    return "#" + hashlib.blake2s(name.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _find_start(names: Sequence[str], after: str) -> int:
    if after.startswith("="):
        return bisect_right(names, after[1:])
    found = next((at for at, name in enumerate(names) if _mark(name) == after), None)
    if found is None:
        raise InvalidTemplateVariable(
            "The cursor's page cannot be found.",
            details="The last row of the page before it no longer exists.",
            suggested_actions=["Start without a cursor."],
        )
    return found + 1
