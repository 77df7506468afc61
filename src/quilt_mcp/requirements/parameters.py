"""The variable {id} of requirements:// URIs."""

import re
from typing import NamedTuple

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
