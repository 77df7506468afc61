"""The cursors of filtered and sorted pages: the sort key and the ID of the last row, and the total."""

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from quilt_mcp.core import cursors
from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.requirements.conditions import SORTED_LENGTH
from quilt_mcp.requirements.filters import SortKey

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Value = str | int | datetime | None
"""A sort key of a row. A time is null only in a database of the earlier requirements system."""


class Mark(NamedTuple):
    """The last row before a page.

    Attributes:
        row_id: its ID.
        value: its sort key; None if the order is that of the IDs, or if the row has none.
        total: the number of rows of all pages, as of the first page.
    """

    row_id: str
    value: Value
    total: int


def encode_mark(mark: Mark, tag: str) -> str:
    """Return the cursor of the page that starts after this row."""
    return cursors.encode(f"{UUID(mark.row_id).hex} {mark.total} {_write(mark.value)}", tag)


def decode_mark(cursor: str, key: SortKey | None, tag: str) -> Mark:
    """Return the last row before a page.

    Args:
        cursor: as the client sent it.
        key: by which the list is sorted.
        tag: of the list, its filters and its caller.

    Raises:
        InvalidTemplateVariable: `encode_mark` did not make this cursor for a list with this tag.
    """
    text = cursors.decode(cursor, tag)
    try:
        row_id, total, value = text.split(" ")
        mark = Mark(str(UUID(row_id)), _read(value, key), int(total))
        is_ours = cursor == encode_mark(mark, tag) and 0 <= mark.total < 10**15
    except (ValueError, OverflowError, binascii.Error):
        is_ours = False
    if not is_ours:
        raise InvalidTemplateVariable(
            "The cursor is not valid for this list.",
            suggested_actions=["Start without a cursor, and pass each next_cursor unchanged."],
        )
    return mark


def _write(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return str((value - _EPOCH) // _MICROSECOND)
    if isinstance(value, int):
        return str(value)
    return base64.urlsafe_b64encode(value.encode()).decode().rstrip("=")


def _read(text: str, key: SortKey | None) -> Value:
    if key is None or (not text and key.endswith("_at")):
        return None
    if key in {"created_at", "updated_at"}:
        return _EPOCH + int(text) * _MICROSECOND
    if key == "priority":
        return int(text[:4])  # which every integer column can be compared with
    found = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    if len(found) > SORTED_LENGTH or "\0" in found:
        raise ValueError
    return found
