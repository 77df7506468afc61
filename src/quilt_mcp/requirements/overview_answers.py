"""The answers of the resources that look across entities: traces, coverage and projects.

IDs and times are as in `answers.py`.
"""

from typing import (
    Literal,
    NotRequired,  # pydantic needs it before Python 3.12
)

from typing_extensions import TypedDict

from quilt_mcp.requirements.answers import Counted


class BriefEntity(TypedDict):
    """An entity in one line."""

    id: str
    """The UUID."""
    reference_id: str
    """Prefix and number, such as EP-001."""
    type: str
    """`epic`, `user_story`, `acceptance_criteria` or `requirement`."""
    title: str
    """For an acceptance criterion, which has no title: the first 120 characters of its description."""
    status: str | None
    """Null for an acceptance criterion, which has none."""
    priority: int | None
    """1 is critical, 2 high, 3 medium, 4 low; null for an acceptance criterion."""


class TracedEntity(BriefEntity):
    """An entity of a trace."""

    continues: NotRequired[bool | None]
    """True if the entity has links that belong to the trace but are left out, because the depth or the maximum number
    of links is reached. Null if this was not read because there are too many links. Absent if it has none."""
    continue_at: NotRequired[str]
    """With `continues`: the URI of a trace that starts here."""


class TraceLink(TypedDict):
    """A link from an entity of the trace to an entity that is one step farther, or that is already in the trace."""

    distance: int
    """The number of steps from the start to `entity` along this link."""
    from_reference_id: str
    """The reference ID of the entity from which the link was followed."""
    link: Literal["parent", "criterion", "child", "requirement", "relationship"]
    """What `entity` is to the entity from which the link was followed: its parent, its child, the acceptance criterion
    that it refers to, a requirement that refers to it, or a requirement that it has a relationship with."""
    direction: NotRequired[Literal["outgoing", "incoming"]]
    """Only for a relationship: `outgoing` if `entity` is its target, `incoming` if `entity` is its source."""
    relationship_type: NotRequired[str]
    """Only for a relationship: the name of its type, such as depends_on."""
    relationship_id: NotRequired[str]
    """Only for a relationship: its ID."""
    entity: TracedEntity
    """The entity to which the link leads."""
    is_repeated: NotRequired[Literal[True]]
    """Present if an earlier link leads to the same entity. What follows it is listed once, with the first link."""


class Cycle(TypedDict):
    """Relationships that lead from a requirement back to itself."""

    length: int
    """The number of relationships of the path."""
    path: list[str]
    """Reference IDs, from source to target: the first 51. The last of a complete path is the first again."""
    relationship_types: list[str]
    """The type of each relationship between them, in the same order."""
    is_complete: bool
    """False if the path is cut after 50 relationships. The links of the trace include all."""
    closed_by: str
    """The ID of the last relationship of the whole path. The trace lists it on this page."""


class Trace(Counted):
    """A page of the links that can be followed from an entity, nearest first.

    A trace goes up from each entity to its parent, down from the start to all its descendants, and across from each
    requirement to its acceptance criterion and along its relationships in both directions. It has each link once.
    `count` is the number of links of all pages.
    """

    start: TracedEntity
    """The entity of the URI."""
    depth: int
    """The maximum number of steps from the start."""
    entity_count: int
    """The number of entities of all pages, including the start."""
    links: list[TraceLink]
    """The links of this page."""
    cycle_count: int
    """The number of cycles of all pages. Each cycle in the trace contains the last relationship of one of them."""
    page_cycle_count: int
    """The number of cycles with their last relationship on this page."""
    cycles: list[Cycle]
    """The first 20 of these."""
    cycles_rest: str | None
    """The URI of this page with a smaller `limit`: that page and those that follow it name all their cycles. Null if
    `cycles` has all cycles of this page."""
    cut_by: Literal["depth", "size"] | None
    """Why entities are left out: `depth` if the depth is reached, `size` if the trace has the maximum of 2,000 links.
    Null if the trace is complete. See `continues` and `continue_at` of each entity."""


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
    at: str
    """When it was: ISO 8601 in UTC."""
    created_by: str | None
    """The username of who created the entity. Who changed it is not recorded. Null if the server may not read users."""
    uri: str
    """The URI of the entity."""


class ChangePage(Counted):
    """A page of changes, the last one first. An entity occurs once, with its last change."""

    changes: list[Change]
    """The changes of this page."""


class ProjectName(TypedDict):
    """A project, by its name."""

    id: str
    """The UUID."""
    name: str
    """The name."""


class Project(ProjectName):
    """A project."""

    description: str | None
    """Null if there is none."""
    epic_count: int
    """The number of its epics."""
    created_at: str | None
    """ISO 8601 in UTC; null only if a database of the earlier system has no value."""
    updated_at: str | None
    """ISO 8601 in UTC; null only if a database of the earlier system has no value."""


class ProjectPage(Counted):
    """A page of projects, in the order of their IDs."""

    projects: list[Project]
    """The projects of this page."""


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
