"""The four kinds of entity, and the fields of all records: each is written here once.

Epic ─┬─ User Story ─┬─ Acceptance Criteria
      │              └─ Requirement         (can refer to one acceptance criterion of its user story)
      └─ …

The tables, the records of import files and their columns are made from these fields, and the answers select from them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

TITLE_LENGTH = 500
"""Maximum number of characters of a title."""
DESCRIPTION_LENGTH = 50_000
"""Maximum number of characters of a description."""

STORY_STATUSES = ("Backlog", "Draft", "In Progress", "Done", "Cancelled")
REQUIREMENT_STATUSES = ("Draft", "Active", "Obsolete")
FINAL_STATUSES = ("Done", "Cancelled", "Obsolete")
"""The statuses of entities on which no more work is done."""
PRIORITIES = {"critical": 1, "high": 2, "medium": 3, "low": 4}
"""The priorities by their names. Both can be written."""
LAST_NUMBER = 999_999_999
"""The highest number of a reference ID."""
MEMBER_ROLES = ("Editor", "Viewer")
"""The roles of project members. Both may read everything in the project."""
ADMINISTRATOR = "Administrator"
USER_ROLES = (ADMINISTRATOR, "User", "Commenter")
"""The roles of users. An administrator sees every project."""

REQUIREMENT_TYPES = {
    "Functional": "What the system does.",
    "Non-Functional": "How well the system does it: speed, security, availability.",
    "Business Rule": "A business rule that the system must follow.",
    "Interface": "How people and other systems interact with the system.",
    "Data": "What data the system keeps, and in which form.",
}
RELATIONSHIP_TYPES = {
    "depends_on": "The target must be fulfilled before the source.",
    "blocks": "The target cannot be fulfilled until the source is.",
    "relates_to": "The two are related.",
    "conflicts_with": "The two cannot both be fulfilled.",
    "derives_from": "The source was derived from the target.",
}
"""The types that every database starts with, with their descriptions."""
ORDERING_RELATIONSHIPS = ("depends_on", "blocks", "derives_from")
"""The relationship types that order requirements. Relationships of one of these types must not form a cycle."""
DEFAULT_PROJECT_ID = "00000000-0000-4000-8000-000000000001"
"""The project that every database starts with. Entities without a project belong to it."""


class Field(NamedTuple):
    """A field of records. It is also the column of a table."""

    name: str
    form: Literal[
        "id", "reference", "name", "email", "link", "choice", "priority", "title", "description", "position", "time"
    ]
    link: str = ""
    """The table of the rows that it refers to."""
    default: object = None
    """Its value in a new row, unless the record has one."""
    reqif: str = ""
    """The name of the attribute that ReqIF tools recognise."""


FIELDS = {
    one.name: one
    for one in (
        Field("id", "id"),
        Field("reference_id", "reference", reqif="ReqIF.ForeignID"),
        Field("username", "name"),
        Field("email", "email"),
        Field("name", "name"),
        Field("user_id", "link", "users"),
        Field("project_id", "link", "projects"),
        Field("role", "choice"),
        Field("epic_id", "link", "epics"),
        Field("user_story_id", "link", "user_stories"),
        Field("acceptance_criteria_id", "link", "acceptance_criteria"),
        Field("type_id", "link", "requirement_types", default="Functional"),
        Field("source_requirement_id", "link", "requirements"),
        Field("target_requirement_id", "link", "requirements"),
        Field("relationship_type_id", "link", "relationship_types"),
        Field("author_id", "link", "users", reqif="ReqIF.ForeignCreatedBy"),
        Field("creator_id", "link", "users", reqif="ReqIF.ForeignCreatedBy"),
        Field("assignee_id", "link", "users"),
        Field("created_by", "link", "users"),
        Field("priority", "priority", default=3),
        Field("status", "choice"),
        Field("title", "title", reqif="ReqIF.Name"),
        Field("description", "description", reqif="ReqIF.Text"),
        Field("position", "position"),
        Field("created_at", "time", reqif="ReqIF.ForeignCreatedOn"),
        Field("updated_at", "time", reqif="ReqIF.ForeignModifiedOn"),
    )
}
"""All fields, in the order of the columns of a CSV file."""
LINKS = {one.name: one.link for one in FIELDS.values() if one.link}
"""The table that each field refers to."""
AUTHORS = ("author_id", "creator_id", "created_by")
TIMES = ("created_at", "updated_at")
POSITION = "position"
"""The order of entities: the number of the reference ID, unless a document has another order. 5.5 is after REQ-005."""
CHANGED = "changed_fields"
"""The column with the fields that the last update of an entity changed. It is no field of records."""
ENDS = ("source_requirement_id", "target_requirement_id", "relationship_type_id")
"""What tells relationships apart."""
MEMBER = ("user_id", "project_id")
"""What tells memberships apart."""
_NAMED = ("id", "name", "description", *TIMES)
_PLANNED = ("creator_id", "assignee_id", "priority", "status", "title", "description")


@dataclass(frozen=True)
class Kind:
    """One kind of entity.

    Attributes:
        name: its name in import files and search entries, such as "user_story".
        segment: its collection in URIs, such as "user-stories".
        table: its table, and the JSON key of a list of its entities, such as "user_stories".
        prefix: the prefix of its reference IDs, such as "US".
        title: its name for people, such as "User Story".
        statuses: the allowed statuses, with the default first; empty if the kind has no status, priority and title.
        parent: the name of the parent's kind; None if the parent is a project.
        own: the fields that only this kind has.
    """

    name: str
    segment: str
    table: str
    prefix: str
    title: str
    statuses: tuple[str, ...] = ()
    parent: str | None = None
    own: tuple[str, ...] = ()

    @property
    def parent_column(self) -> str | None:
        """The column and JSON key of the parent's ID; None without a parent."""
        return f"{self.parent}_id" if self.parent else None

    def make_uri(self, reference_id: str) -> str:
        """Return the URI of an entity of this kind."""
        return f"requirements://{self.segment}/{reference_id}"

    @property
    def author_column(self) -> str:
        """The column and JSON key of the ID of the user who created it."""
        return "creator_id" if self.statuses else "author_id"

    @property
    def fields(self) -> tuple[str, ...]:
        text = _PLANNED if self.statuses else ("author_id", "description")
        return ("id", "reference_id", self.parent_column or "project_id", *self.own, *text, *TIMES)


EPIC = Kind("epic", "epics", "epics", "EP", "Epic", STORY_STATUSES)
USER_STORY = Kind("user_story", "user-stories", "user_stories", "US", "User Story", STORY_STATUSES, "epic")
ACCEPTANCE_CRITERIA = Kind(
    "acceptance_criteria", "acceptance-criteria", "acceptance_criteria", "AC", "Acceptance Criteria", (), "user_story"
)
REQUIREMENT = Kind(
    "requirement",
    "requirements",
    "requirements",
    "REQ",
    "Requirement",
    REQUIREMENT_STATUSES,
    "user_story",
    ("acceptance_criteria_id", "type_id"),
)

KINDS = (EPIC, USER_STORY, ACCEPTANCE_CRITERIA, REQUIREMENT)
"""All kinds. A parent precedes its children."""
BY_NAME = {kind.name: kind for kind in KINDS}
BY_PREFIX = {kind.prefix: kind for kind in KINDS}
PARENTS = {kind.name: kind.parent_column or "project_id" for kind in KINDS}
"""For each kind of entity, the field with its parent, which `parent` stands for in records."""


def format_reference(kind: Kind, number: int) -> str:
    """Return the reference ID with this number, padded to at least three digits, such as EP-007."""
    return f"{kind.prefix}-{number:03d}"


def read_number(reference_id: str) -> int:
    """Return the number of a reference ID, which is also the position of an entity that no document places."""
    return int(reference_id.rpartition("-")[2])


@dataclass(frozen=True)
class RecordType:
    """One kind of record, which is a row of a table.

    Attributes:
        kind: its name in files.
        table: its table.
        fields: its fields, in the order of the columns.
        choices: the allowed values of fields. The default comes first, unless `defaults` has another.
        defaults: the other defaults.
        links: the references that a record must have.
    """

    kind: str
    table: str
    fields: tuple[str, ...]
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    links: tuple[str, ...] = ()

    @property
    def optional(self) -> tuple[str, ...]:
        """The fields that a row can lack."""
        has_text = self.kind == ACCEPTANCE_CRITERIA.name
        return () if has_text else tuple(one for one in self.fields if one in {"description", "acceptance_criteria_id"})

    def requires(self, name: str) -> bool:
        return name in self.links or FIELDS[name].form in {"name", "email", "title"}

    def default(self, name: str) -> object:
        return self.defaults.get(name) or next(iter(self.choices.get(name, ())), FIELDS[name].default)


RECORDS = {
    one.kind: one
    for one in (
        RecordType(
            "user", "users", ("id", "username", "email", "role", *TIMES), {"role": USER_ROLES}, {"role": "User"}
        ),
        RecordType("project", "projects", _NAMED),
        RecordType("member", "project_members", (*MEMBER, "role"), {"role": MEMBER_ROLES}, links=MEMBER),
        RecordType("requirement_type", "requirement_types", _NAMED),
        RecordType("relationship_type", "relationship_types", _NAMED),
        *(RecordType(kind.name, kind.table, (*kind.fields, POSITION), {"status": kind.statuses}) for kind in KINDS),
        RecordType("relationship", "requirement_relationships", ("id", *ENDS, "created_by", "created_at"), links=ENDS),
    )
}
"""The kinds of records. A kind follows those that it refers to."""
TABLES = {kind: one.table for kind, one in RECORDS.items()}
NAMES = {
    one.table: name for one in RECORDS.values() for name in one.fields if FIELDS[name].form in {"reference", "name"}
}
"""For each table that fields refer to, the unique column that people use instead of the ID."""
