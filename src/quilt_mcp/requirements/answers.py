"""The answers of requirements:// resources.

Times are ISO 8601 in UTC with a `Z`, to the second. They are null only if a database of the earlier requirements
system has no value for them. IDs are UUIDs in lower case. Names of users are usernames. They are null only if the
database does not let the server read its users.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Generic,
    Literal,
    NotRequired,  # pydantic needs it before Python 3.12
    TypeVar,
    cast,
)

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core.answers import iso
from quilt_mcp.requirements import model
from quilt_mcp.requirements.model import Kind

if TYPE_CHECKING:
    from quilt_mcp.requirements.tables import AnyRow


class Planned(TypedDict):
    """The fields that epics, user stories and requirements share."""

    id: str
    """The UUID."""
    reference_id: str
    """Prefix and number, such as EP-001."""
    title: str
    """1 to 500 characters."""
    description: str | None
    """At most 50,000 characters; null if there is none."""
    status: str
    """For epics and user stories: Backlog, Draft, In Progress, Done or Cancelled. For requirements: Draft, Active or
    Obsolete. A database of the earlier requirements system can have others."""
    priority: int
    """1 is critical, 2 high, 3 medium, 4 low."""
    creator_id: str
    """The ID of the user who created it."""
    creator_name: str | None
    """The username of that user; null if the server may not read users."""
    assignee_id: str
    """The ID of the user who is responsible for it."""
    assignee_name: str | None
    """The username of that user; null if the server may not read users."""
    project_name: str | None
    """The name of its project; null in a database of the earlier system, which has none."""
    created_at: str | None
    """ISO 8601 in UTC; null only if a database of the earlier system has no value."""
    updated_at: str | None
    """ISO 8601 in UTC; null only if a database of the earlier system has no value."""
    uri: str
    """The URI of the entity."""


class Epic(Planned):
    """An epic."""


class UserStory(Planned):
    """A user story."""

    epic_id: str
    """The ID of its epic."""
    epic_reference_id: str | None
    """The reference ID of its epic; null only if there is no such epic."""


class Requirement(Planned):
    """A requirement."""

    user_story_id: str
    """The ID of its user story."""
    epic_reference_id: str | None
    """The reference ID of the epic of its user story; null only if there is no such epic."""
    acceptance_criteria_id: str | None
    """The ID of an acceptance criterion of the same user story; null if it refers to none."""
    type_id: str
    """The ID of its requirement type, one of requirements://requirements-types."""
    type_name: str
    """The name of its requirement type, such as Functional."""


class AcceptanceCriterion(TypedDict):
    """An acceptance criterion."""

    id: str
    """The UUID."""
    reference_id: str
    """Prefix and number, such as AC-001."""
    description: str
    """1 to 50,000 characters."""
    user_story_id: str
    """The ID of its user story."""
    epic_reference_id: str | None
    """The reference ID of the epic of its user story; null only if there is no such epic."""
    project_name: str | None
    """The name of its project; null in a database of the earlier system, which has none."""
    author_id: str
    """The ID of the user who wrote it."""
    author_name: str | None
    """The username of that user; null if the server may not read users."""
    created_at: str | None
    """ISO 8601 in UTC; null only if a database of the earlier system has no value."""
    updated_at: str | None
    """ISO 8601 in UTC; null only if a database of the earlier system has no value."""
    uri: str
    """The URI of the acceptance criterion."""


class RequirementType(TypedDict):
    """A type that a requirement can have."""

    id: str
    """The UUID."""
    name: str
    """The name, such as Functional."""
    description: str | None
    """Null if there is none."""


class BriefRow(TypedDict):
    """An entity with `view=brief`."""

    reference_id: str
    """Prefix and number, such as EP-001."""
    title: str
    """Its first 52 characters, with `…` at the end if there are more. For an acceptance criterion, which has no title,
    its description."""
    status: str | None
    """Null for an acceptance criterion, which has none."""
    uri: str
    """The URI of the entity."""


class Counted(TypedDict):
    """The fields that all pages share."""

    count: int
    """The total of all pages, as of the first page."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""


class EpicPage(Counted):
    """A page of epics, in the order of the document or of `sort`."""

    epics: list[Epic | BriefRow]
    """The epics of this page."""


class UserStoryPage(Counted):
    """A page of user stories, in the order of the document or of `sort`."""

    user_stories: list[UserStory | BriefRow]
    """The user stories of this page."""


class RequirementPage(Counted):
    """A page of requirements, in the order of the document or of `sort`."""

    requirements: list[Requirement | BriefRow]
    """The requirements of this page."""


class AcceptanceCriterionPage(Counted):
    """A page of acceptance criteria, in the order of the document or of `sort`."""

    acceptance_criteria: list[AcceptanceCriterion | BriefRow]
    """The acceptance criteria of this page."""


class RequirementTypePage(Counted):
    """A page of requirement types, in the order of their IDs."""

    requirement_types: list[RequirementType]
    """The requirement types of this page."""


class UserStoryTree(UserStory):
    """A user story with its children, in the order of the document."""

    acceptance_criteria: list[AcceptanceCriterion]
    """The first of them, if there are more than fit into an answer."""
    acceptance_criteria_count: int
    """The number of all; requirements://user-stories/{id}/acceptance-criteria has them all."""
    requirements: list[Requirement]
    """The first of them, if there are more than fit into an answer."""
    requirements_count: int
    """The number of all; requirements://user-stories/{id}/requirements has them all."""
    is_complete: bool
    """False if children are left out."""


class BriefTree(BriefRow):
    """A user story with its children, in the order of the document, with `view=brief`."""

    acceptance_criteria: list[BriefRow]
    """As in UserStoryTree."""
    acceptance_criteria_count: int
    """The number of all."""
    requirements: list[BriefRow]
    """As in UserStoryTree."""
    requirements_count: int
    """The number of all."""
    is_complete: bool
    """False if children are left out."""


class EpicHierarchy(Epic):
    """An epic with a page of its user stories, in the order of the document."""

    user_stories: list[UserStoryTree | BriefTree]
    """The user stories of this page."""
    count: int
    """The number of the epic's user stories, as of the first page."""
    next_cursor: str | None
    """The `cursor` of the page with the next user stories; null on the last page."""
    is_complete: bool
    """True if this page contains all user stories of the epic and all their children."""


class Relationship(TypedDict):
    """A relationship of one requirement to another."""

    id: str
    """The UUID."""
    source_requirement_id: str
    """The ID of the requirement from which it leads."""
    target_requirement_id: str
    """The ID of the requirement to which it leads."""
    relationship_type_id: str
    """The ID of its type."""
    relationship_type: str
    """The name of the type, such as depends_on."""
    created_by: str
    """The ID of the user who created it."""
    created_by_name: str | None
    """The username of that user; null if the server may not read users."""
    created_at: str | None
    """ISO 8601 in UTC; null only if a database of the earlier system has no value."""
    related_reference_id: str
    """The reference ID of the other requirement."""
    related_title: str
    """The title of the other requirement."""
    related_uri: str
    """The URI of the other requirement."""


class RequirementRelationships(Requirement):
    """A requirement with a page of its relationships to requirements that the caller may see.

    They are in the order of their IDs. Both directions have the same page.
    """

    source_relationships: list[Relationship]
    """Relationships with this requirement as the source."""
    source_count: int
    """The number of all, as of the first page."""
    target_relationships: list[Relationship]
    """Relationships with this requirement as the target."""
    target_count: int
    """The number of all, as of the first page."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""
    is_complete: bool
    """True if this page contains all relationships."""


class SearchResult(TypedDict):
    """An entity that matches a query."""

    id: str
    """The UUID."""
    reference_id: str
    """Prefix and number, such as EP-001."""
    type: str
    """`epic`, `user_story`, `acceptance_criteria` or `requirement`."""
    title: str | None
    """Null for an acceptance criterion, which has no title, priority or status."""
    description: str | None
    """Null if there is none."""
    priority: int | None
    """1 is critical, 2 high, 3 medium, 4 low; null for an acceptance criterion."""
    status: str | None
    """Null for an acceptance criterion."""
    created_at: str | None
    """ISO 8601 in UTC; null only if a database of the earlier system has no value."""
    match: Literal["reference_id", "title", "text", "stems", "some_words"]
    """Where it matches: `reference_id` if the query is its reference ID, `title` if the title contains all required
    terms, else `text`; `stems` or `some_words` as in `relaxed`."""
    relevance: float
    """The score of the database, to three decimals: higher is better among results with the same `match`. Scores of
    different queries or databases cannot be compared."""
    uri: str
    """The URI of the entity."""


class BriefResult(BriefRow):
    """An entity that matches a query, with `view=brief`."""

    type: str
    """`epic`, `user_story`, `acceptance_criteria` or `requirement`."""
    match: Literal["reference_id", "title", "text", "stems", "some_words"]
    """Where it matches."""


class MissingWord(TypedDict):
    """A word that occurs in nothing that the caller may see, in no form."""

    word: str
    """The word, as given."""
    nearest: list[str]
    """At most 3 words that occur and resemble it, in lower case and without accents."""


class SearchPage(TypedDict):
    """A page of search results, with the best first."""

    query: str
    """The query, as given."""
    results: list[SearchResult | BriefResult]
    """The results of this page."""
    count: int
    """The total of all pages."""
    count_is_exact: bool
    """False if there are more matches than `count`, the maximum that a client can page through."""
    relaxed: Literal["stems", "some_words"] | None
    """If less than 5 results have all words as written, others follow: with words of the same `stems` in English,
    German or French, such as deletion for delete; or with `some_words`, most of them. Null if there are none."""
    missing_words: list[MissingWord] | None
    """If no result has all words as written: the words that occur nowhere. Null if some have, and in a database of the
    earlier requirements system, which would have to read all texts again."""
    ignores: list[Literal["case", "accents"]]
    """The differences between letters that do not count. A database of the earlier requirements system can lack
    `accents`."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""


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
    uri: str
    """The URI of the entity."""


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
    members_uri: str
    """The URI of its members."""
    uri: str
    """The URI of its epics."""


class ProjectPage(Counted):
    """A page of projects, in the order of their IDs."""

    projects: list[Project]
    """The projects of this page."""


class Member(TypedDict):
    """A member of a project."""

    username: str
    """The username."""
    role: str
    """`Editor` or `Viewer`. Both may read everything in the project. An administrator need not be a member."""


class MemberPage(Counted):
    """A page of the members of a project, in the order of their IDs."""

    members: list[Member]
    """The members of this page."""


A_co = TypeVar("A_co", covariant=True)
BRIEF_TITLE = 52
"""Maximum length of a title with `view=brief`: a page of 50 then has at most 8,000 characters."""
MAX_SHOWN = 120
"""Maximum length of a description that is shown as a title, because an acceptance criterion has no title."""


@dataclass(frozen=True, eq=False)
class Entities(Generic[A_co]):
    """The answers for one kind of entity.

    Attributes:
        kind: the kind.
        answer, page: the types of the answers for one entity and for a page of them.
        one, many: the names of one entity and of several.
        leads: what the trace of one leads to.
    """

    kind: Kind
    answer: type[A_co]
    page: type
    one: str
    many: str
    leads: str

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """What a row starts with, in this order: a column of the table, or the name beside an ID."""
        return (*(name for name in self.answer.__annotations__ if name not in {*model.TIMES, "uri"}), *model.TIMES)

    def build(self, row: "AnyRow") -> A_co:
        # by place, because a row takes three times as long to find its values by name
        answer = dict(zip(self.columns, row, strict=False))
        for name in model.TIMES:
            answer[name] = iso(answer[name])
        answer["uri"] = self.kind.make_uri(answer["reference_id"])
        return cast("A_co", answer)


EPICS = Entities(
    model.EPIC,
    Epic,
    EpicPage,
    "an epic",
    "epics",
    "its descendants, and the requirements that these have relationships with",
)
USER_STORIES = Entities(
    model.USER_STORY,
    UserStory,
    UserStoryPage,
    "a user story",
    "user stories",
    "its epic, its children, and the requirements that these have relationships with",
)
REQUIREMENTS = Entities(
    model.REQUIREMENT,
    Requirement,
    RequirementPage,
    "a requirement",
    "requirements",
    "up to its epic, to its acceptance criterion, and along relationships both ways",
)
ACCEPTANCE_CRITERIA = Entities(
    model.ACCEPTANCE_CRITERIA,
    AcceptanceCriterion,
    AcceptanceCriterionPage,
    "an acceptance criterion",
    "acceptance criteria",
    "up to its epic, and the requirements that refer to it, with theirs",
)


class BriefEntities(Entities[BriefRow]):
    """The rows of one kind with `view=brief`."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return ("id", "reference_id", *(("title", "status") if self.kind.statuses else ("description",)))

    def build(self, row: "AnyRow") -> BriefRow:
        return make_brief_row(self.kind, row.reference_id, row[2], row.status if self.kind.statuses else None)


def make_brief_row(kind: Kind, reference_id: str, title: str, status: str | None) -> BriefRow:
    shown = title if len(title) <= BRIEF_TITLE else f"{title[: BRIEF_TITLE - 1]}…"
    return {"reference_id": reference_id, "title": shown, "status": status, "uri": kind.make_uri(reference_id)}


COLLECTIONS: tuple[Entities[object], ...] = (EPICS, USER_STORIES, REQUIREMENTS, ACCEPTANCE_CRITERIA)
BRIEF: dict[str, BriefEntities] = {
    one.kind.name: BriefEntities(one.kind, BriefRow, one.page, one.one, one.many, one.leads) for one in COLLECTIONS
}
"""The rows with `view=brief`, by the name of the kind."""
