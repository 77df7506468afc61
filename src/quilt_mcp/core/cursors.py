"""Pages of lists: their size, and cursors, opaque texts that say where the next page starts.

A cursor contains the key of the last row and a tag of the list and the caller. It becomes a bound parameter of a query
that filters by the caller's scope, so a forged cursor gains nothing. Cursors of another list or version are refused.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.core.parameters import parse_integer

VERSION = 1
MAX_LENGTH = 512
_TAG_BYTES = 6


def compute_tag(*scope: object) -> str:
    """Return a short hash of a list and of its caller's scope."""
    return hashlib.blake2s(repr(scope).encode(), digest_size=_TAG_BYTES).hexdigest()


def encode(after: str, tag: str) -> str:
    """Return the cursor of the page that follows the row with this key."""
    text = json.dumps([VERSION, tag, after], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(cursor: str, tag: str, form: str = r"[\s\S]*") -> str:
    """Return the key of the last row before this cursor's page. `form` is the regular expression for keys.

    Raises:
        InvalidTemplateVariable: `encode` did not make this cursor for a list with this tag.
    """
    try:
        if len(cursor) > MAX_LENGTH:
            raise ValueError  # noqa: TRY301 - one error for every invalid cursor
        padded = cursor + "=" * (-len(cursor) % 4)
        version, owner, after = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if (version, owner) != (VERSION, tag) or encode(after, tag) != cursor or not re.fullmatch(form, after):
            raise ValueError  # noqa: TRY301 - the same
    except (ValueError, TypeError, RecursionError) as error:
        raise make_invalid() from error
    return str(after)


def make_invalid() -> InvalidTemplateVariable:
    return InvalidTemplateVariable(
        "The cursor is not valid for this list.",
        details="A cursor is valid for one list and one caller, until the caller's permissions change.",
        suggested_actions=["Start without a cursor, and pass each next_cursor unchanged."],
    )


Value = str | int | float | datetime | UUID | bytes | None
"""A value in a cursor. A UUID is shorter than the hexadecimal digits that `bytes` are written as."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MOST_DIGITS = 15


def encode_values(values: Iterable[Value], tag: str) -> str:
    """Return the cursor of a page with values instead of one text."""
    return encode(" ".join(map(_write, values)), tag)


def decode_values(cursor: str, tag: str, types: Sequence[type]) -> list[Any]:
    """Return the values in a cursor, each of its type. A UUID or a time can also be None.

    Raises:
        InvalidTemplateVariable: `encode_values` did not make this cursor, of such values, for a list with this tag.
    """
    texts = decode(cursor, tag).split(" ")
    try:
        values = [_read(text, kind) for text, kind in zip(texts, types, strict=True)]
        if encode_values(values, tag) == cursor:
            return values
    except (ValueError, OverflowError):
        pass
    raise make_invalid()


def _write(value: Value) -> str:
    if isinstance(value, datetime):
        value = (value - _EPOCH) // _MICROSECOND
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str | UUID):
        plain = value.encode() if isinstance(value, str) else value.bytes
        return base64.urlsafe_b64encode(plain).decode().rstrip("=")
    return "" if value is None else str(value)


def _read(text: str, kind: type) -> Value:
    if not text and kind in {UUID, datetime, type(None)}:
        return None
    if kind is datetime:
        return _EPOCH + int(text) * _MICROSECOND
    if kind is bytes:
        return bytes.fromhex(text)
    if kind is int:
        if not text.isdecimal() or len(text) > _MOST_DIGITS:
            raise ValueError("not a number")
        return int(text)
    if kind is float:
        if not math.isfinite(number := float(text)):
            raise ValueError("not a number")
        return number
    plain = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return UUID(bytes=plain) if kind is UUID else plain.decode()


MAX_LIMIT = 200
DEFAULT_LIMIT = 50
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list.

    Attributes:
        rows: in the order of the list.
        total: the number of rows of all pages.
        next_cursor: the cursor of the next page; None on the last page.
    """

    rows: list[T]
    total: int
    next_cursor: str | None


def parse_limit(text: str | None, *, default: int = DEFAULT_LIMIT, largest: int = MAX_LIMIT) -> int:
    """Parse the number of rows per page.

    Raises:
        InvalidTemplateVariable: it is not an integer from 1 to `largest`.
    """
    advice = f"Omit `limit` for pages of {default}. Use `next_cursor` to read further pages."
    return parse_integer("limit", text, default=default, largest=largest, advice=advice)
