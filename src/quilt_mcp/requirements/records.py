"""The records of import and export files: one JSON object, or one row of a CSV file, for each row of a table.

Every record has `kind`. A field that ends in `_id` names another record by its id, or by what is unique about it for
people: a reference id, a username, the name of a project or of a type. What has a default may be left out.
"""

import re
from datetime import UTC
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

from quilt_mcp.requirements import kinds

# What no text may hold: control characters other than tab and line ends, and halves of surrogate pairs. PostgreSQL
# takes neither U+0000 nor the latter.
_UNWANTED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def _text(value: str) -> str:
    if _UNWANTED.search(value):
        raise ValueError("it holds control characters or half a surrogate pair")
    return value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("it is blank")
    return value


def _uuid(value: str) -> str:
    try:
        return str(UUID(value))
    except ValueError:
        raise ValueError("it is no UUID") from None


def _reference(prefix: str) -> Any:
    return Annotated[str, Field(pattern=rf"^{prefix}-(00[1-9]|0[1-9][0-9]|[1-9][0-9]{{2,8}})$")]


Text = Annotated[str, AfterValidator(_text)]
Id = Annotated[str, AfterValidator(_uuid)]
Link = Annotated[Text, Field(min_length=1, max_length=255)]
Name = Annotated[Text, Field(max_length=100), AfterValidator(_not_blank)]
Title = Annotated[Text, Field(max_length=kinds.TITLE_LENGTH), AfterValidator(_not_blank)]
Description = Annotated[Text, Field(max_length=kinds.DESCRIPTION_LENGTH)]
Time = Annotated[AwareDatetime, AfterValidator(lambda value: value.astimezone(UTC))]
StoryStatus = Literal["Backlog", "Draft", "In Progress", "Done", "Cancelled"]
RequirementStatus = Literal["Draft", "Active", "Obsolete"]


class Record(BaseModel):
    """What all records have in common: no field that is not known. None stands for what is left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Named(Record):
    """A record with a unique name."""

    id: Id | None = None
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


class User(Record):
    """A user."""

    kind: Literal["user"]
    id: Id | None = None
    username: Name
    email: Annotated[Text, Field(max_length=255), AfterValidator(_not_blank)]
    role: Literal["Administrator", "User", "Commenter"] = "User"


class Member(Record):
    """A user's membership of a project."""

    kind: Literal["member"]
    user_id: Link
    project_id: Link
    role: Literal["Editor", "Viewer"] = "Editor"


class Planned(Record):
    """What epics, user stories and requirements have in common."""

    id: Id | None = None
    creator_id: Link | None = None
    assignee_id: Link | None = None
    priority: Annotated[int, Field(ge=1, le=4)] = 3
    title: Title
    description: Description | None = None
    created_at: Time | None = None
    updated_at: Time | None = None


class Epic(Planned):
    """An epic."""

    kind: Literal["epic"]
    reference_id: _reference("EP") | None = None  # type: ignore[valid-type]  # made by a function
    project_id: Link | None = None
    status: StoryStatus = "Backlog"


class UserStory(Planned):
    """A user story."""

    kind: Literal["user_story"]
    reference_id: _reference("US") | None = None  # type: ignore[valid-type]  # made by a function
    epic_id: Link
    status: StoryStatus = "Backlog"


class AcceptanceCriteria(Record):
    """An acceptance criterion."""

    kind: Literal["acceptance_criteria"]
    id: Id | None = None
    reference_id: _reference("AC") | None = None  # type: ignore[valid-type]  # made by a function
    user_story_id: Link
    author_id: Link | None = None
    description: Annotated[Description, AfterValidator(_not_blank)]
    created_at: Time | None = None
    updated_at: Time | None = None


class Requirement(Planned):
    """A requirement."""

    kind: Literal["requirement"]
    reference_id: _reference("REQ") | None = None  # type: ignore[valid-type]  # made by a function
    user_story_id: Link
    acceptance_criteria_id: Link | None = None
    type_id: Link
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
"""The table of each kind of record, each after those that it refers to."""
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
"""The table to which each field refers."""

_ANY = TypeAdapter[Record](
    Annotated[
        Project
        | RequirementType
        | RelationshipType
        | User
        | Member
        | Epic
        | UserStory
        | AcceptanceCriteria
        | Requirement
        | Relationship,
        Field(discriminator="kind"),
    ]
)


def parse_record(fields: object) -> dict[str, Any]:
    """The values of a record, by field and without those that were left out; `kind` among them.

    Raises:
        ValidationError: pydantic's, if it is no record.
    """
    return _ANY.validate_python(fields).model_dump(exclude_none=True)
