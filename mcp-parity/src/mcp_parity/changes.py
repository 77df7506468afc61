"""One change between two revisions: its effect on clients, and how it is written."""

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from mcp_parity.values import cut, show_both

LONGEST_VALUE = 60
LONGEST_NAME = 200
LONGEST_TEXT = 600


class Kind(StrEnum):
    """The effect of a change on existing clients, the worst first.

    Models follow descriptions as instructions: a changed one fails nothing, but a person must read it.
    """

    BREAKING = "breaking"
    DESCRIPTION = "description"
    COMPATIBLE = "compatible"
    VALUE = "value"


TO_READ = frozenset({Kind.BREAKING, Kind.DESCRIPTION})


@dataclass(frozen=True)
class Change:
    """A sentence of two parts, `thing` and `what`, in Markdown, and both values where they are useful."""

    kind: Kind
    thing: str
    what: str
    values: str = ""

    def generalize(self) -> "Change":
        """Return what identifies a line. Values that differ make several lines only if a person must read them."""
        return self if self.kind in TO_READ else replace(self, values="")


@dataclass(frozen=True)
class Finding:
    """A change of one resource or tool.

    CHANGELOG.md names the subject: the URI, the tool's name, or the directory of other goldens. `where` is the world,
    the listing or the golden that has the change; empty if there is only one.
    """

    subject: str
    change: Change
    where: str = ""


def code(text: str) -> str:
    """Return a text as Markdown code, with letters that look like others and control characters escaped."""
    escaped = json.dumps(text)[1:-1].replace('\\"', '"')
    return _code(escaped, LONGEST_NAME)


def format_value(value: Any) -> str:
    return _code(json.dumps(value), LONGEST_VALUE)


def format_pair(before: Any, after: Any) -> str:
    """Return two values. What long ones have in common at their start is left out."""
    return " → ".join(_code(text, LONGEST_VALUE) for text in show_both(before, after, LONGEST_VALUE))


def format_texts(before: Any, after: Any) -> str:
    """Return two descriptions. What long ones have in common at their start is left out."""
    return " → ".join(_code(text, LONGEST_TEXT) for text in show_both(before, after, LONGEST_TEXT))


def _code(text: str, longest: int) -> str:
    return "`" + cut(text, longest).replace("`", r"\u0060") + "`"


# What models read. The whole text is shown.
TEXTS = frozenset({"title", "description", "instructions", "annotations.title"})
