"""The problems of an import: those of a record, with the field, what is wrong and what to change; and their report."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pydantic_core import ErrorDetails

from quilt_mcp.requirements.kinds import BY_NAME
from quilt_mcp.requirements.parameters import guess_reference

_MOST_CHARACTERS = 60
_MOST_PROBLEMS = 3
"""The maximum number of problems that are reported for a record."""
_TOO_LARGE = 10**9
"""The first number that is too large for a reference ID."""
_WHOLE_NUMBER = "Must be a whole number from 1 to 4, or critical, high, medium or low."
"""The reason for a wrong number: the only one in a record is the priority."""
_FIELDS_OF_KIND = "See the documentation of requirements for the fields of each kind."


class Problem(NamedTuple):
    """A reason why a record is not imported.

    Attributes:
        field: the field or column; None if the reason concerns the whole line.
        reason: what is wrong, and what to change.
    """

    field: str | None
    reason: str


class InvalidRecord(Exception):
    """A record is not valid.

    Attributes:
        problems: the first ones; at least one.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems[:_MOST_PROBLEMS]


def explain(error: ErrorDetails) -> Problem:
    """Return the problem that an error of pydantic describes. Its own words are for programmers."""
    place = error["loc"]
    kind = str(place[0]) if place else ""
    field = shorten(str(place[1])) if len(place) > 1 else None
    if error["type"].startswith("union_tag"):
        field = "kind"
    context: Mapping[str, object] = {"input": error["input"], **error.get("ctx", {})}
    write = _REASONS.get(error["type"], _explain_other)
    return Problem(field, write(kind, context))


def shorten(text: str) -> str:
    """Return the start of a text that a file contains, for a message on one line."""
    safe = "".join(character if character.isprintable() else "?" for character in text[: _MOST_CHARACTERS + 1])
    return safe if len(text) <= _MOST_CHARACTERS else f"{safe[:_MOST_CHARACTERS]}…"


def _explain_reference(kind: str, context: Mapping[str, object]) -> str:
    prefix, given = BY_NAME[kind].prefix, str(context["input"])
    guess = guess_reference(given)
    if guess and guess.kind.prefix == prefix and 0 < int(guess.reference.removeprefix(f"{prefix}-")) < _TOO_LARGE:
        return f"{shorten(given)!r} is not a reference ID. Write {guess.reference}."
    return f"Must be {prefix}- and a number of 3 to 9 digits from 001, such as {prefix}-007."


def _explain_extra(kind: str, _: Mapping[str, object]) -> str:
    return f"Records of the kind {kind} have no such field. Remove it. {_FIELDS_OF_KIND}"


def _explain_choice(_: str, context: Mapping[str, object]) -> str:
    return f"Must be one of {context['expected']}."


def _explain_length(_: str, context: Mapping[str, object]) -> str:
    return f"Has more than {context['max_length']:,} characters. Shorten it."


def _explain_own(_: str, context: Mapping[str, object]) -> str:
    return str(context["error"])


def _explain_kind(_: str, context: Mapping[str, object]) -> str:
    allowed = str(context["expected_tags"]).replace("'", "")
    return f"Must be one of {allowed}."


def _explain_other(_kind: str, _: Mapping[str, object]) -> str:
    return f"The value is not valid. {_FIELDS_OF_KIND}"


def _always(reason: str) -> Callable[[str, Mapping[str, object]], str]:
    return lambda _kind, _context: reason


_REASONS = {
    "union_tag_invalid": _explain_kind,
    "union_tag_not_found": _always("Missing. Add the kind of the record, such as epic."),
    "model_attributes_type": _always("The line is not a JSON object. Write one object in each line."),
    "missing": _always("Missing. Add it."),
    "extra_forbidden": _explain_extra,
    "string_type": _always("Must be a text."),
    # of texts that a function of ours has checked before
    "too_short": _always("Must not be empty. Write a text, or leave the field out."),
    "too_long": _explain_length,
    "string_pattern_mismatch": _explain_reference,
    "literal_error": _explain_choice,
    "value_error": _explain_own,
    "int_type": _always(_WHOLE_NUMBER),
    "int_parsing": _always(_WHOLE_NUMBER),
    "int_parsing_size": _always(_WHOLE_NUMBER),
    "int_from_float": _always(_WHOLE_NUMBER),
    "finite_number": _always(_WHOLE_NUMBER),
    "greater_than_equal": _always(_WHOLE_NUMBER),
    "less_than_equal": _always(_WHOLE_NUMBER),
}


MOST_KEPT = 1000
"""The maximum number of rejections in a report. The others are only counted."""


class Rejection(NamedTuple):
    """A reason why a record is not imported."""

    line: int
    """The first line of the record in the file, counted from 1; 0 if the reason concerns the whole import."""
    field: str | None
    """The field or column; None if the reason concerns the whole line."""
    reason: str
    """What is wrong, and what to change."""


class Rejections:
    """Collects rejections.

    Args:
        announce: called with each of the first ones, when it is found.

    Attributes:
        first: the first ones that were found, in that order.
        count: the number of all.
    """

    def __init__(self, announce: Callable[[Rejection], object]) -> None:
        self._announce = announce
        self.first: list[Rejection] = []
        self.count = 0

    def add(self, line: int, field: str | None, reason: str) -> None:
        """Add a rejection of a record."""
        self.take(Rejection(line, field, reason))

    def take(self, rejection: Rejection) -> None:
        """Add a rejection that has the names of the file."""
        self.count += 1
        if self.count <= MOST_KEPT:
            self.first.append(rejection)
            self._announce(rejection)
