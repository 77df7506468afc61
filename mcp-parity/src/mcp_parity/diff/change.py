"""One difference between two revisions, as a client sees it."""

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

LONGEST_VALUE = 60
LONGEST_NAME = 200


class Kind(StrEnum):
    """The effect of a change on existing clients, the worst first."""

    BREAKING = "breaking"
    COMPATIBLE = "compatible"
    VALUE = "value"


@dataclass(frozen=True)
class Change:
    """A sentence of two parts, `thing` and `what`, in Markdown, and both values where they are useful."""

    kind: Kind
    thing: str
    what: str
    values: str = ""

    def generalize(self) -> "Change":
        """Return what identifies a line. Values that differ make several lines only if the change is breaking."""
        return self if self.kind is Kind.BREAKING else replace(self, values="")


@dataclass(frozen=True)
class Finding:
    """A change of one resource or tool.

    Attributes:
        subject: the URI, the tool's name, or the directory of other goldens; what CHANGELOG.md names.
        change: the change.
        where: the world, the listing or the golden that has the change; empty if there is only one.
    """

    subject: str
    change: Change
    where: str = ""


def code(text: str) -> str:
    """Return a text as Markdown code, with letters that look like others and control characters escaped."""
    escaped = json.dumps(text)[1:-1].replace('\\"', '"')
    return _code(escaped, LONGEST_NAME)


def format_value(value: Any) -> str:
    """Return a JSON value as Markdown code."""
    return _code(json.dumps(value), LONGEST_VALUE)


def _code(text: str, longest: int) -> str:
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "`" + cut.replace("`", r"\u0060") + "`"
