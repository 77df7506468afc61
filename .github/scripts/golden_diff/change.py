"""One difference between two revisions, as a client sees it."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

LONGEST_VALUE = 60
LONGEST_NAME = 200


class Kind(StrEnum):
    """What a change means to a client that was written before it; the worst first."""

    BREAKING = "breaking"
    COMPATIBLE = "compatible"
    VALUE = "value"


@dataclass(frozen=True)
class Change:
    """A sentence of two parts, `thing` and `what`, in Markdown, and both values where they tell something."""

    kind: Kind
    thing: str
    what: str
    values: str = ""


@dataclass(frozen=True)
class Finding:
    """A change of one resource or tool.

    Attributes:
        subject: the URI, the tool's name, or the directory of other goldens; what CHANGELOG.md names.
        change: the change.
        where: the world, the listing or the golden in which it was seen; empty if there is but one.
    """

    subject: str
    change: Change
    where: str = ""


def code(text: str) -> str:
    """Markdown code of a text; look-alike letters and control characters are escaped, so that a reader sees them."""
    escaped = json.dumps(text)[1:-1].replace('\\"', '"')
    return _code(escaped, LONGEST_NAME)


def shown(value: Any) -> str:
    """Markdown code of a JSON value."""
    return _code(json.dumps(value), LONGEST_VALUE)


def _code(text: str, longest: int) -> str:
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "`" + cut.replace("`", r"\u0060") + "`"


def written(value: Any) -> str:
    """The JSON text of a value, to tell values apart that are equal in Python alone: 1 == 1.0 == True."""
    return json.dumps(value, sort_keys=True)
