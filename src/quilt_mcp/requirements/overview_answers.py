"""The answers of the overviews: relationships of all requirements, changes, coverage and the summary."""

from typing import Literal

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.requirements.answers import BriefEntity, Counted, ProjectName


class RelatedPair(TypedDict):
    """A relationship of one requirement to another."""

    type: str
    """The name of its type, such as depends_on."""
    sentence: str
    """What it says, such as REQ-006 depends on REQ-001."""
    source_reference_id: str
    """The reference ID of the requirement from which it leads."""
    source_title: str
    """The title of that requirement."""
    target_reference_id: str
    """The reference ID of the requirement to which it leads."""
    target_title: str
    """The title of that requirement."""
    uri: str
    """The URI of all relationships of the source."""


class RelationshipCount(TypedDict):
    """How many relationships have a type."""

    type: str
    """The name of the type."""
    count: int
    """How many relationships have it."""


class RelationshipPage(Counted):
    """A page of the relationships between requirements that the caller may see, in the order of their IDs."""

    types: list[RelationshipCount] | None
    """How many there are of each type; null after the first page, which has it."""
    relationships: list[RelatedPair]
    """The relationships of this page."""


class Change(TypedDict):
    """The last change of an entity, in one line."""

    reference_id: str
    """Prefix and number, such as EP-001."""
    type: str
    """`epic`, `user_story`, `acceptance_criteria` or `requirement`."""
    title: str
    """For an acceptance criterion, which has no title: the first 120 characters of its description."""
    status: str | None
    """Null for an acceptance criterion, which has none."""
    change: Literal["created", "updated"]
    """`created` if nothing has changed since the entity was created. Deleted entities leave no trace."""
    fields: list[str] | None
    """The names of the fields whose values differ from those before this change, such as status and title; only
    `updated_at` if a file brought a later time and nothing else. Null for `created`, and if it is not known: the change
    was written before the schema 0008, or is older than the entity in this database."""
    at: str
    """When it was: ISO 8601 in UTC."""
    author_name: str | None
    """The username of who created the entity. Who changed it is not recorded. Null if the server may not read users."""
    uri: str
    """The URI of the entity."""


class ChangePage(Counted):
    """A page of changes, the last one first. An entity occurs once, with its last change."""

    changes: list[Change]
    """The changes of this page."""


class Gap(TypedDict):
    """The entities that lack something."""

    category: str
    """stories_without_criteria, criteria_without_requirements (no requirement refers to them),
    requirements_without_criterion (they refer to none) or orphans (their parent does not exist)."""
    count: int
    """The number of entities that lack it."""
    total: int
    """The number of entities that could lack it."""
    entities: list[BriefEntity]
    """The first of them, in the order of their IDs."""
    rest: str | None
    """The URI of the entities that follow; null if there are none."""


class Coverage(TypedDict):
    """What is missing in the entities that the caller may see."""

    epic: BriefEntity | None
    """The epic to which the answer is limited; null for all epics."""
    project: ProjectName | None
    """The project to which the answer is limited; null for all projects."""
    gaps: list[Gap]
    """One for each category, or the one that was asked for. `orphans` is absent if the answer is limited to an epic,
    because an orphan belongs to none."""
    next_cursor: str | None
    """With a category: the `cursor` of the next page; null on the last page. Else null: see `rest` of each gap."""


class ValueCount(TypedDict):
    """How many entities have a value."""

    value: str
    """The status, the number of the priority, or the name."""
    count: int
    """How many entities have it."""
    uri: str | None
    """The list of these entities; null if no list is limited like this answer."""


class Group(TypedDict):
    """The entities of a kind by one of their fields."""

    by: str
    """`status`, `priority`, `assignee`, `type` or `project`."""
    values: list[ValueCount]
    """Each status and priority, and the 50 most frequent of the others."""
    is_complete: bool
    """False if there are more values."""


class KindSummary(TypedDict):
    """How many entities of a kind there are."""

    type: str
    """`epic`, `user_story`, `acceptance_criteria` or `requirement`."""
    count: int
    """How many."""
    uri: str | None
    """The list of them; null if no list is limited like this answer."""
    groups: list[Group]
    """The groups that were asked for and that the kind has."""


class Summary(TypedDict):
    """How many entities the caller may see."""

    epic: BriefEntity | None
    """The epic to which the answer is limited; null for all epics."""
    project: ProjectName | None
    """The project to which the answer is limited; null for all projects."""
    kinds: list[KindSummary]
    """One for each kind. With an epic, the kinds below it."""
