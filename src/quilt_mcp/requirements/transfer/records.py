"""The records of import and export files: one JSON object or CSV row for each row of a table.

Every record has `kind`. A field that ends in `_id` refers to another record by its ID or by another unique value:
a reference ID, a username, the name of a project or of a type. `parent` stands for the field of the parent. Fields with
a default are optional.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias, Union
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
from pydantic_core import PydanticKnownError

from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.filters import PRIORITIES
from quilt_mcp.requirements.transfer.rejections import InvalidRecord, Problem, explain

# PostgreSQL cannot store U+0000, and neither database lone surrogates. Both store all other characters.
_FORBIDDEN = re.compile(r"[\x00\ud800-\udfff]")


def can_store(value: str) -> bool:
    """Return whether the databases can store a text."""
    return not _FORBIDDEN.search(value)


def _check_text(value: str) -> str:
    if not can_store(value):
        raise ValueError("Must not contain the character U+0000 or half of a surrogate pair. Remove it.")
    return value


def check_not_blank(value: str) -> str:
    """Return a text that is not blank."""
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


def _parse_priority(value: object) -> object:
    """Return the number of a priority with a name. Refuse true and false, which pydantic takes for 1 and 0."""
    if isinstance(value, bool):
        raise PydanticKnownError("int_type")
    return PRIORITIES.get(value, value) if isinstance(value, str) else value


_NUMBER = "(00[1-9]|0[1-9][0-9]|[1-9][0-9]{2,8})"
EpicReference = Annotated[str, Field(pattern=f"^EP-{_NUMBER}$")]
UserStoryReference = Annotated[str, Field(pattern=f"^US-{_NUMBER}$")]
AcceptanceCriteriaReference = Annotated[str, Field(pattern=f"^AC-{_NUMBER}$")]
RequirementReference = Annotated[str, Field(pattern=f"^REQ-{_NUMBER}$")]
Text = Annotated[str, AfterValidator(_check_text)]
Id = Annotated[str, AfterValidator(_parse_uuid)]
Link = Annotated[Text, Field(min_length=1, max_length=255)]
Name = Annotated[Text, Field(max_length=100), AfterValidator(check_not_blank)]
Title = Annotated[Text, Field(max_length=kinds.TITLE_LENGTH), AfterValidator(check_not_blank)]
Description = Annotated[Text, Field(max_length=kinds.DESCRIPTION_LENGTH)]
Time = Annotated[datetime, BeforeValidator(_parse_time)]
StoryStatus = Literal["Backlog", "Draft", "In Progress", "Done", "Cancelled"]
RequirementStatus = Literal["Draft", "Active", "Obsolete"]
Priority = Annotated[int, BeforeValidator(_parse_priority), Field(ge=1, le=4)]


DEFAULT_TYPE = "Functional"
"""The type of requirements without one."""


class Record(BaseModel):
    """The base of all records. Unknown fields are errors; None stands for an omitted field."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Timed(Record):
    """A record with the times of its row."""

    id: Id | None = None
    created_at: Time | None = None
    updated_at: Time | None = None


class Named(Timed):
    """A record with a unique name."""

    name: Name
    description: Description | None = None


class Project(Named):
    """A project."""

    kind: Literal["project"]


class RequirementType(Named):
    """A type of requirement."""

    kind: Literal["requirement_type"]


class RelationshipType(Named):
    """A type of relationship between requirements."""

    kind: Literal["relationship_type"]


class User(Timed):
    """A user."""

    kind: Literal["user"]
    username: Name
    email: Annotated[Text, Field(max_length=255), AfterValidator(check_not_blank)]
    role: Literal["Administrator", "User", "Commenter"] = "User"


class Member(Record):
    """A user's membership of a project."""

    kind: Literal["member"]
    user_id: Link
    project_id: Link
    role: Literal["Editor", "Viewer"] = "Editor"


class Planned(Timed):
    """The fields that epics, user stories and requirements share."""

    parent: Link | None = None
    creator_id: Link | None = None
    assignee_id: Link | None = None
    priority: Priority = 3
    title: Title
    description: Description | None = None


class Epic(Planned):
    """An epic."""

    kind: Literal["epic"]
    reference_id: EpicReference | None = None
    project_id: Link | None = None
    status: StoryStatus = "Backlog"


class UserStory(Planned):
    """A user story."""

    kind: Literal["user_story"]
    reference_id: UserStoryReference | None = None
    epic_id: Link | None = None
    status: StoryStatus = "Backlog"


class AcceptanceCriteria(Timed):
    """An acceptance criterion. Its text can also be in `title`, as in a table of all kinds."""

    kind: Literal["acceptance_criteria"]
    reference_id: AcceptanceCriteriaReference | None = None
    parent: Link | None = None
    user_story_id: Link | None = None
    author_id: Link | None = None
    title: Annotated[Description, AfterValidator(check_not_blank)] | None = None
    description: Annotated[Description, AfterValidator(check_not_blank)] | None = None


class Requirement(Planned):
    """A requirement."""

    kind: Literal["requirement"]
    reference_id: RequirementReference | None = None
    user_story_id: Link | None = None
    acceptance_criteria_id: Link | None = None
    type_id: Link = DEFAULT_TYPE
    status: RequirementStatus = "Draft"


class Relationship(Record):
    """A relationship between two requirements."""

    kind: Literal["relationship"]
    id: Id | None = None
    source_requirement_id: Link
    target_requirement_id: Link
    relationship_type_id: Link
    created_by: Link | None = None
    created_at: Time | None = None


TABLES = {
    "user": "users",
    "project": "projects",
    "member": "project_members",
    "requirement_type": "requirement_types",
    "relationship_type": "relationship_types",
    "epic": "epics",
    "user_story": "user_stories",
    "acceptance_criteria": "acceptance_criteria",
    "requirement": "requirements",
    "relationship": "requirement_relationships",
}
"""The table of each kind of record. A kind follows those that it refers to."""
LINKS = {
    "project_id": "projects",
    "user_id": "users",
    "creator_id": "users",
    "assignee_id": "users",
    "author_id": "users",
    "created_by": "users",
    "epic_id": "epics",
    "user_story_id": "user_stories",
    "acceptance_criteria_id": "acceptance_criteria",
    "type_id": "requirement_types",
    "source_requirement_id": "requirements",
    "target_requirement_id": "requirements",
    "relationship_type_id": "relationship_types",
}
"""The table that each field refers to."""
PARENTS = {kind.name: kind.parent_column or "project_id" for kind in kinds.KINDS}
"""For each kind of entity, the field that `parent` stands for."""

MODELS: dict[str, type[Record]] = {
    "user": User,
    "project": Project,
    "member": Member,
    "requirement_type": RequirementType,
    "relationship_type": RelationshipType,
    "epic": Epic,
    "user_story": UserStory,
    "acceptance_criteria": AcceptanceCriteria,
    "requirement": Requirement,
    "relationship": Relationship,
}
"""The model of each kind of record."""


def make_adapter(models: Iterable[type[Record]]) -> TypeAdapter[Record]:
    """Return the validator of a union of models."""
    union: Any = Union[*models]
    return TypeAdapter(Annotated[union, Field(discriminator="kind")])


_RECORDS = make_adapter(MODELS.values())


FieldValues: TypeAlias = dict[str, Any]
"""The values of a record, by field, with `kind`. Omitted fields are absent."""


def parse_record(fields: object) -> FieldValues:
    """Validate a record. Return its values.

    Raises:
        InvalidRecord: the record is not valid.
    """
    if isinstance(fields, dict):
        fields = {name: value for name, value in fields.items() if value is not None}
    try:
        values = _RECORDS.validate_python(fields).model_dump(exclude_none=True)
    except ValidationError as error:
        raise InvalidRecord([explain(one) for one in error.errors(include_url=False)]) from None
    if problems := [*move_title(values), *_check_parent(values)]:
        raise InvalidRecord(problems)
    return values


def move_title(values: FieldValues) -> Iterator[Problem]:
    """Make the title of an acceptance criterion its description."""
    if values["kind"] != kinds.ACCEPTANCE_CRITERIA.name:
        return
    if "title" in values and "description" in values:
        yield Problem("title", "An acceptance criterion has one text. Remove the title or the description.")
    elif "title" not in values and "description" not in values:
        yield Problem("description", "Missing. Add it.")
    else:
        values["description"] = values.pop("title", None) or values["description"]


def _check_parent(values: FieldValues) -> Iterator[Problem]:
    field = PARENTS.get(values["kind"])
    if field is None:
        return
    if "parent" in values and field in values:
        yield Problem("parent", f"Means the same as {field}. Remove one of the two.")
    elif "parent" not in values and field not in values and field != "project_id":
        yield Problem(field, "Missing. Add it, or the field parent.")


_OPTIONAL = dict.fromkeys(MODELS, ("description",)) | {
    "requirement": ("description", "acceptance_criteria_id"),
    kinds.ACCEPTANCE_CRITERIA.name: (),
}
"""The fields of each kind that null or an empty cell removes. Other fields keep their values."""


def parse_change(fields: object) -> FieldValues:
    """Validate the fields that a record has. Return their values; None for a value to remove.

    Raises:
        InvalidRecord: a field is not valid.
    """
    given = {name: value for name, value in fields.items() if value is not None} if isinstance(fields, dict) else fields
    try:
        values = _CHANGES.validate_python(given).model_dump(exclude_none=True)
    except ValidationError as error:
        raise InvalidRecord([explain(one) for one in error.errors(include_url=False)]) from None
    if problems := list(_check(values)):
        raise InvalidRecord(problems)
    if isinstance(fields, dict):
        values |= {name: None for name in _OPTIONAL[values["kind"]] if fields.get(name, "") is None}
    return values


def _check(values: FieldValues) -> Iterator[Problem]:
    if "title" in values or "description" in values:
        yield from move_title(values)
    field = PARENTS.get(values["kind"])
    if field and "parent" in values and field in values:
        yield Problem("parent", f"Means the same as {field}. Remove one of the two.")


def _make_partial(model: type[Record]) -> type[Record]:
    """Return a model with the same fields, all of them optional."""
    fields: dict[str, Any] = {
        name: (Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation, None)
        for name, field in model.model_fields.items()
        if name != "kind"
    }
    made: type[Record] = create_model(f"{model.__name__}Change", __base__=model, **fields)
    return made


_CHANGES = make_adapter(map(_make_partial, MODELS.values()))
