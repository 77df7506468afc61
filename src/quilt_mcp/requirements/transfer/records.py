"""The records of import and export files, one for each row of a table, and what is wrong with them.

Every record has `kind`. A field that ends in `_id` refers to another record by its ID or by another unique value:
a reference ID, a username, the name of a project or of a type. `parent` stands for the field of the parent. Fields with
a default are optional.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic_core import ErrorDetails, PydanticKnownError

from quilt_mcp.requirements import model
from quilt_mcp.requirements.model import BY_NAME, FIELDS, PARENTS, PRIORITIES, RECORDS, RecordType
from quilt_mcp.requirements.parameters import guess_reference

_MOST_CHARACTERS = 60
_MOST_PROBLEMS = 3
"""The maximum number of problems that are reported for a record."""
_TOO_LARGE = 10**9
"""The first number that is too large for a reference ID."""
_WHOLE_NUMBER = "Must be a whole number from 1 to 4, or critical, high, medium or low."
"""The reason for a wrong number: the only one in a record is the priority."""
_FIELDS_OF_KIND = "See the documentation of requirements for the fields of each kind."
_REASONS = {
    "union_tag_invalid": "Must be one of {expected_tags}.",
    "union_tag_not_found": "Missing. Add the kind of the record, such as epic.",
    "model_attributes_type": "The line is not a JSON object. Write one object in each line.",
    "missing": "Missing. Add it.",
    "extra_forbidden": f"Records of the kind {{kind}} have no such field. Remove it. {_FIELDS_OF_KIND}",
    "string_type": "Must be a text.",
    # of texts that a function of ours has checked before
    "too_short": "Must not be empty. Write a text, or leave the field out.",
    "too_long": "Has more than {max_length:,} characters. Shorten it.",
    "value_error": "{error}",
    **dict.fromkeys(
        (
            "int_type",
            "int_parsing",
            "int_parsing_size",
            "int_from_float",
            "finite_number",
            "greater_than_equal",
            "less_than_equal",
        ),
        _WHOLE_NUMBER,
    ),
}
# PostgreSQL cannot store U+0000, and neither database lone surrogates. Both store all other characters.
_FORBIDDEN = re.compile(r"[\x00\ud800-\udfff]")
_NUMBER = "(00[1-9]|0[1-9][0-9]|[1-9][0-9]{2,8})"
FieldValues: TypeAlias = dict[str, Any]
"""The values of a record, by field, with `kind`. Omitted fields are absent."""
MOST_KEPT = 1000
"""The maximum number of rejections in a report. The others are only counted."""


class Problem(NamedTuple):
    """A reason why a record is not imported."""

    field: str | None
    reason: str


class InvalidRecord(Exception):
    """A record is not valid."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems[:_MOST_PROBLEMS]


def explain(error: ErrorDetails) -> Problem:
    """Return the problem that an error of pydantic describes. Its own words are for programmers."""
    place, context = error["loc"], error.get("ctx", {})
    kind = str(place[0]) if place else ""
    field = shorten(str(place[1])) if len(place) > 1 else None
    if error["type"].startswith("union_tag"):
        field = "kind"
    if error["type"] == "string_pattern_mismatch":
        return Problem(field, _explain_reference(kind, str(error["input"])))
    if error["type"] == "literal_error" and field:
        allowed = {_fold(one): one for one in RECORDS[kind].choices.get(field, ())}
        near = [allowed[one] for one in get_close_matches(_fold(str(error["input"])), allowed, 1)]
        meant = f" Did you mean {near[0]}?" if near else ""
        return Problem(field, f"Must be one of {', '.join(allowed.values())}.{meant}")
    reason = _REASONS.get(error["type"], f"The value is not valid. {_FIELDS_OF_KIND}")
    tags = str(context.get("expected_tags")).replace("'", "")
    return Problem(field, reason.format(**context | {"kind": kind, "expected_tags": tags}))


def _fold(text: str) -> str:
    return " ".join(text[:_MOST_CHARACTERS].casefold().replace("_", " ").replace("-", " ").split())


def shorten(text: str) -> str:
    """Return the start of a text that a file contains, for a message on one line."""
    safe = "".join(character if character.isprintable() else "?" for character in text[: _MOST_CHARACTERS + 1])
    return safe if len(text) <= _MOST_CHARACTERS else f"{safe[:_MOST_CHARACTERS]}…"


def _explain_reference(kind: str, given: str) -> str:
    prefix = BY_NAME[kind].prefix
    guess = guess_reference(given)
    if guess and guess.kind.prefix == prefix and 0 < int(guess.reference.removeprefix(f"{prefix}-")) < _TOO_LARGE:
        return f"{shorten(given)!r} is not a reference ID. Write {guess.reference}."
    return f"Must be {prefix}- and a number of 3 to 9 digits from 001, such as {prefix}-007."


def can_store(value: str) -> bool:
    """Return whether the databases can store a text."""
    return not _FORBIDDEN.search(value)


def _check_text(value: str) -> str:
    if not can_store(value):
        raise ValueError("Must not contain the character U+0000 or half of a surrogate pair. Remove it.")
    return value


def check_not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("Must not be blank. Write a text.")
    return value


def _parse_uuid(value: str) -> str:
    try:
        return str(UUID(value))
    except ValueError:
        raise ValueError("Must be a UUID. Correct it, or leave it out for a new one.") from None


def _parse_time(value: object) -> datetime:
    """Parse a time. Pydantic would also take a number, such as the year 2026 for a second in 1970."""
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        if time.tzinfo:
            return time.astimezone(UTC)
    except (ValueError, OverflowError):  # OverflowError: in UTC it is before the year 1 or after the year 9999
        pass
    raise ValueError("Must be a date and a time with a time zone, such as 2026-01-31T12:00:00Z.")


def show_time(value: object) -> object:
    """Return a time as files and messages have it, and other values as they are."""
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def _parse_position(value: object) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else 0.0
    except (ValueError, OverflowError):
        number = 0.0
    if 0 < number <= _TOO_LARGE:
        return number
    raise ValueError("Must be a number from 1 to 1000000000, such as 5.5 for a place between REQ-005 and REQ-006.")


def _parse_priority(value: object) -> object:
    """Return the number of a priority with a name. Refuse true and false, which pydantic takes for 1 and 0."""
    if isinstance(value, bool):
        raise PydanticKnownError("int_type")
    return PRIORITIES.get(value, value) if isinstance(value, str) else value


_Text = Annotated[str, AfterValidator(_check_text)]
_Link = Annotated[_Text, Field(min_length=1, max_length=255)]
_Description = Annotated[_Text, Field(max_length=model.DESCRIPTION_LENGTH)]
_Criterion = Annotated[_Description, AfterValidator(check_not_blank)]
_TYPES: dict[str, object] = {
    "id": Annotated[str, AfterValidator(_parse_uuid)],
    "link": _Link,
    "name": Annotated[_Text, Field(max_length=100), AfterValidator(check_not_blank)],
    "email": Annotated[_Text, Field(max_length=255), AfterValidator(check_not_blank)],
    "title": Annotated[_Text, Field(max_length=model.TITLE_LENGTH), AfterValidator(check_not_blank)],
    "description": _Description,
    "time": Annotated[datetime, BeforeValidator(_parse_time)],
    "position": Annotated[float, BeforeValidator(_parse_position)],
    "priority": Annotated[int, BeforeValidator(_parse_priority), Field(ge=1, le=4)],
}
"""What a record may have, by the form of the field."""
_PARENT, _CRITERION_TEXTS = {"parent": _Link}, {"title": _Criterion, "description": _Criterion}


def _list_types(record: RecordType) -> dict[str, object]:
    """Return the type of each field. An entity also has `parent`, and the text of a criterion can be in `title`."""
    types: dict[str, object] = {}
    for name in record.fields:
        form = FIELDS[name].form
        if form == "reference":
            types[name] = Annotated[str, Field(pattern=f"^{BY_NAME[record.kind].prefix}-{_NUMBER}$")]
        elif form == "choice":
            types[name] = Literal[record.choices[name]]
        else:
            types[name] = _TYPES[form]
    if record.kind in BY_NAME:
        types |= _PARENT
    if record.kind == model.ACCEPTANCE_CRITERIA.name:
        types |= _CRITERION_TEXTS
    return types


def _make_validator(*, is_partial: bool) -> TypeAdapter[BaseModel]:
    """Return the validator of records. A partial record can lack every field."""
    models = []
    for record in RECORDS.values():
        fields: dict[str, Any] = {"kind": (Literal[record.kind], ...)}
        for name, type_ in _list_types(record).items():
            is_own = name in record.fields and not is_partial
            default = record.default(name) if is_own else None
            fields[name] = (type_, ... if is_own and record.requires(name) else default or None)
        models.append(create_model(record.kind, __config__=ConfigDict(extra="forbid"), **fields))
    union: Any = Union[*models]
    return TypeAdapter(Annotated[union, Field(discriminator="kind")])


_RECORDS, _CHANGES = _make_validator(is_partial=False), _make_validator(is_partial=True)


def parse_record(fields: object) -> FieldValues:
    values = _validate(_RECORDS, fields)
    _require([*_move_title(values), *_check_parent(values, is_needed=True)])
    return values


def parse_change(fields: object) -> FieldValues:
    """Validate the fields that a record has. Return their values; None for a value to remove."""
    values = _validate(_CHANGES, fields)
    has_text = "title" in values or "description" in values
    _require([*(_move_title(values) if has_text else ()), *_check_parent(values, is_needed=False)])
    if isinstance(fields, dict):
        values |= {name: None for name in RECORDS[values["kind"]].optional if fields.get(name, "") is None}
    return values


def _validate(validator: TypeAdapter[BaseModel], fields: object) -> FieldValues:
    if isinstance(fields, dict):
        fields = {name: value for name, value in fields.items() if value is not None}
    try:
        values: FieldValues = validator.validate_python(fields).model_dump(exclude_none=True)
    except ValidationError as error:
        raise InvalidRecord([explain(one) for one in error.errors(include_url=False)]) from None
    return values


def _require(problems: list[Problem]) -> None:
    if problems:
        raise InvalidRecord(problems)


def _move_title(values: FieldValues) -> Iterator[Problem]:
    """Make the title of an acceptance criterion its description."""
    if values["kind"] != model.ACCEPTANCE_CRITERIA.name:
        return
    if "title" in values and "description" in values:
        yield Problem("title", "An acceptance criterion has one text. Remove the title or the description.")
    elif "title" not in values and "description" not in values:
        yield Problem("description", "Missing. Add it.")
    else:
        values["description"] = values.pop("title", None) or values["description"]


def _check_parent(values: FieldValues, *, is_needed: bool) -> Iterator[Problem]:
    field = PARENTS.get(values["kind"])
    if field is None:
        return
    if "parent" in values and field in values:
        yield Problem("parent", f"Means the same as {field}. Remove one of the two.")
    elif is_needed and "parent" not in values and field not in values and field != "project_id":
        yield Problem(field, "Missing. Add it, or the field parent.")


class Rejection(NamedTuple):
    """A reason why a record is not imported."""

    line: int
    """The first line of the record in the file, counted from 1; 0 if the reason concerns the whole import."""
    field: str | None
    """The field or column; None if the reason concerns the whole line."""
    reason: str
    """What is wrong, and what to change."""


class Rejections:
    """Collects rejections."""

    def __init__(self, announce: Callable[[Rejection], object]) -> None:
        self._announce = announce
        self.first: list[Rejection] = []
        self.count = 0

    def add(self, line: int, field: str | None, reason: str) -> None:
        self.take(Rejection(line, field, reason))

    def take(self, rejection: Rejection) -> None:
        """Add a rejection that has the names of the file."""
        self.count += 1
        if self.count <= MOST_KEPT:
            self.first.append(rejection)
            self._announce(rejection)
