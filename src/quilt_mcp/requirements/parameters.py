"""The parameters of requirements:// URIs that are not filters: the variable {id}, those of overviews, and of pages."""

import base64
import re
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from quilt_mcp.core import cursors
from quilt_mcp.core.cursors import parse_integer
from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.requirements.kinds import BY_PREFIX, Kind, format_reference

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NEARLY_REFERENCE = re.compile(r"([A-Za-z]+)[-_.~]*([0-9]{1,15})")
_REFERENCE = re.compile(r"([A-Z]+)-(?:[0-9]{3}|[1-9][0-9]{3,14})")


class EntityId(NamedTuple):
    """The value of one of the two unique columns of an entity."""

    column: str
    """`id` or `reference_id`."""
    value: str


def parse_id(kind: Kind, text: str) -> EntityId:
    """Parse the ID of an entity of this kind: a UUID, or a reference ID such as EP-001.

    Raises:
        InvalidTemplateVariable: it is neither, or the reference ID of another kind.
    """
    if _UUID.fullmatch(text):
        return EntityId("id", text)
    reference = _REFERENCE.fullmatch(text)
    if reference and reference[1] == kind.prefix:
        return EntityId("reference_id", text)
    other = BY_PREFIX.get(reference[1]) if reference else None
    hint = (
        f"Read requirements://{other.segment}/{text}: {text} is the reference ID of another kind of entity."
        if other
        else f"Use a URI such as requirements://{kind.segment}/{kind.prefix}-001."
    )
    raise InvalidTemplateVariable(
        f"{text!a} is not a valid ID for requirements://{kind.segment}.",
        details=f"An ID is a UUID in lower case, or a reference ID such as {kind.prefix}-001 or {kind.prefix}-1234.",
        suggested_actions=[hint, advise_list(kind)],
    )


class Guess(NamedTuple):
    """The entity that a text nearly names."""

    kind: Kind
    reference: str

    @property
    def advice(self) -> str:
        """The suggested action."""
        return f"Did you mean {self.reference}? Read requirements://{self.kind.segment}/{self.reference}."


def guess_reference(text: str) -> Guess | None:
    """Return what a text means that nearly is a reference ID, such as EP-1, EP-0001, ep-001 or EP001; else None."""
    match = _NEARLY_REFERENCE.fullmatch(text)
    kind = BY_PREFIX.get(match[1].upper()) if match else None
    if not match or not kind:
        return None
    reference = format_reference(kind, int(match[2]))
    return None if reference == text else Guess(kind, reference)


def advise_list(kind: Kind) -> str:
    """Return the suggested action that leads to the existing entities of a kind."""
    return f"Read requirements://{kind.segment} for the existing IDs."


MAX_DEPTH = 10
DEFAULT_DEPTH = 3

CATEGORIES = (
    "stories_without_criteria",
    "criteria_without_requirements",
    "requirements_without_criterion",
    "orphans",
)
"""The values of `category`."""


def parse_depth(text: str | None) -> int:
    """Parse the maximum number of steps of a trace.

    Raises:
        InvalidTemplateVariable: it is not an integer from 1 to MAX_DEPTH.
    """
    advice = f"Omit `depth` for {DEFAULT_DEPTH} steps. To go farther, start another trace at `continue_at`."
    return parse_integer("depth", text, default=DEFAULT_DEPTH, largest=MAX_DEPTH, advice=advice)


def parse_category(text: str | None, cursor: str | None, *, has_epic: bool) -> tuple[str, ...]:
    """Return the categories to read: the given one, or all that apply.

    Raises:
        InvalidTemplateVariable: it is not a category, or there is a cursor without a category.
    """
    allowed = CATEGORIES[:-1] if has_epic else CATEGORIES
    if text is None:
        if cursor:
            raise InvalidTemplateVariable(
                "`cursor` needs `category`, because each category has pages of its own.",
                suggested_actions=["Read the URI in `rest` of a gap as it is."],
            )
        return allowed
    if text in allowed:
        return (text,)
    reason = "An orphan belongs to no epic." if text in CATEGORIES else f"It was {text!a}."
    raise InvalidTemplateVariable(
        f"`category` must be one of {', '.join(allowed)}.",
        details=reason,
        suggested_actions=["Omit `category` for the first entities of each."],
    )


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
