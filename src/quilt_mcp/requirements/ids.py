"""What stands for {id}, {cursor} and {limit} in a requirements:// URI."""

import re
from typing import NamedTuple

from quilt_mcp.errors import InvalidTemplateVariable
from quilt_mcp.requirements.kinds import BY_PREFIX, Kind

MAX_LIMIT = 200
DEFAULT_LIMIT = 50

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REFERENCE = re.compile(r"([A-Z]+)-[0-9]{3,15}")


class EntityId(NamedTuple):
    """How an entity is named: by one of its two unique columns."""

    column: str
    """id, or reference_id."""
    value: str


def parse_id(kind: Kind, text: str) -> EntityId:
    """The id of an entity of this kind: a UUID, or a reference id such as EP-001.

    Raises:
        InvalidTemplateVariable: it is neither, or the reference id of another kind.
    """
    if _UUID.fullmatch(text):
        return EntityId("id", text)
    reference = _REFERENCE.fullmatch(text)
    if reference and reference[1] == kind.prefix:
        return EntityId("reference_id", text)
    other = BY_PREFIX.get(reference[1]) if reference else None
    hint = (
        f"{text} is one of requirements://{other.segment}: read requirements://{other.segment}/{text}." if other else ""
    )
    raise InvalidTemplateVariable(
        f"{text!a} is no id of requirements://{kind.segment}.",
        details="An id is a UUID in lower-case letters, or a reference id with at least three digits.",
        suggested_actions=[
            hint or f"Use a form like requirements://{kind.segment}/{kind.prefix}-001.",
            _LIST.format(kind.segment),
        ],
    )


_LIST = "Read requirements://{} to see which there are."


def parse_limit(text: str | None, *, default: int = DEFAULT_LIMIT, largest: int = MAX_LIMIT) -> int:
    """How many rows a page has.

    Raises:
        InvalidTemplateVariable: not a whole number from 1 to `largest`.
    """
    if text is None:
        return default
    if re.fullmatch(r"[0-9]{1,4}", text) and 1 <= int(text) <= largest:
        return int(text)
    raise InvalidTemplateVariable(
        f"{text!a} is no limit.",
        details=f"A limit is a whole number from 1 to {largest}.",
        suggested_actions=[f"Leave it out for {default}, or give one from 1 to {largest}; go on with next_cursor."],
    )
