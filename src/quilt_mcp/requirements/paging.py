"""Where the next page of a list starts, and its totals, which only the first page counts."""

import base64
import re
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from quilt_mcp.core import cursors
from quilt_mcp.core.errors import InvalidTemplateVariable

_KEY = re.compile(r"([A-Za-z0-9_-]{22})?")
_TOTAL = re.compile(r"[0-9]{1,15}")


class Position(NamedTuple):
    """Where a page starts.

    Attributes:
        after: the ID of the last row before the page, one for each of the lists that are paged together; empty at the
            start of a list.
        totals: the numbers of rows of these lists, as of the first page; None on the first page, which counts them.
    """

    after: tuple[str, ...]
    totals: tuple[int, ...] | None = None


def decode_position(cursor: str | None, tag: str, *, lists: int = 1) -> Position:
    """Return the position of a page.

    Args:
        cursor: as the client sent it; None for the first page.
        tag: of the list and its caller.
        lists: the number of lists that are paged together.

    Raises:
        InvalidTemplateVariable: `encode_position` did not make this cursor for a list with this tag.
    """
    if cursor is None:
        return Position(("",) * lists)
    parts = cursors.decode(cursor, tag).split(" ")
    after, totals = parts[:lists], parts[lists:]
    if not (
        len(after) == len(totals) == lists and all(map(_KEY.fullmatch, after)) and all(map(_TOTAL.fullmatch, totals))
    ):
        raise InvalidTemplateVariable(
            "The cursor is not valid for this list.",
            suggested_actions=["Start without a cursor, and pass each next_cursor unchanged."],
        )
    return Position(tuple(map(_unpack, after)), tuple(map(int, totals)))


def encode_position(after: Sequence[str], totals: Sequence[int], tag: str) -> str:
    """Return the cursor of the page that starts after these rows."""
    return cursors.encode(" ".join([*map(_pack, after), *map(str, totals)]), tag)


def _pack(one: str) -> str:
    """Shorten a UUID: the value of a parameter has at most 128 characters."""
    return base64.urlsafe_b64encode(UUID(one).bytes).decode().rstrip("=") if one else ""


def _unpack(packed: str) -> str:
    return str(UUID(bytes=base64.urlsafe_b64decode(packed + "=="))) if packed else ""
