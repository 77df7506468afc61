"""The answers of requirements:// resources.

Times are ISO 8601 in UTC with a `Z`, to the second. They are null only if a database of the earlier requirements
system has no value for them. IDs are UUIDs in lower case. Names of users are usernames. They are null only if the
database does not let the server read its users.
"""

from typing import Literal

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12


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
    created_at: str | None
    """ISO 8601 in UTC; null only if a database of the earlier system has no value."""
    updated_at: str | None
    """ISO 8601 in UTC; null only if a database of the earlier system has no value."""


class Epic(Planned):
    """An epic."""


class UserStory(Planned):
    """A user story."""

    epic_id: str
    """The ID of its epic."""


class Requirement(Planned):
    """A requirement."""

    user_story_id: str
    """The ID of its user story."""
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
    author_id: str
    """The ID of the user who wrote it."""
    author_name: str | None
    """The username of that user; null if the server may not read users."""
    created_at: str | None
    """ISO 8601 in UTC; null only if a database of the earlier system has no value."""
    updated_at: str | None
    """ISO 8601 in UTC; null only if a database of the earlier system has no value."""


class RequirementType(TypedDict):
    """A type that a requirement can have."""

    id: str
    """The UUID."""
    name: str
    """The name, such as Functional."""
    description: str | None
    """Null if there is none."""


class Counted(TypedDict):
    """The fields that all pages share."""

    count: int
    """The total of all pages, as of the first page."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""


class EpicPage(Counted):
    """A page of epics, in the order of their IDs or of `sort`."""

    epics: list[Epic]
    """The epics of this page."""


class UserStoryPage(Counted):
    """A page of user stories, in the order of their IDs or of `sort`."""

    user_stories: list[UserStory]
    """The user stories of this page."""


class RequirementPage(Counted):
    """A page of requirements, in the order of their IDs or of `sort`."""

    requirements: list[Requirement]
    """The requirements of this page."""


class AcceptanceCriterionPage(Counted):
    """A page of acceptance criteria, in the order of their IDs or of `sort`."""

    acceptance_criteria: list[AcceptanceCriterion]
    """The acceptance criteria of this page."""


class RequirementTypePage(Counted):
    """A page of requirement types, in the order of their IDs."""

    requirement_types: list[RequirementType]
    """The requirement types of this page."""


class UserStoryTree(UserStory):
    """A user story with its children, in the order of their IDs."""

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


class EpicHierarchy(Epic):
    """An epic with a page of its user stories, in the order of their IDs."""

    user_stories: list[UserStoryTree]
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
    match: Literal["reference_id", "title", "text"]
    """Where it matches: `reference_id` if the query is its reference ID, `title` if the title contains all required
    terms, else `text`."""
    relevance: float
    """The score of the database, to three decimals: higher is better among results with the same `match`. Scores of
    different queries or databases cannot be compared."""


class SearchPage(TypedDict):
    """A page of search results, with the best first."""

    query: str
    """The query, as given."""
    results: list[SearchResult]
    """The results of this page."""
    count: int
    """The total of all pages."""
    count_is_exact: bool
    """False if there are more matches than `count`, the maximum that a client can page through."""
    ignores: list[Literal["case", "accents"]]
    """The differences between letters that do not count. A database of the earlier requirements system can lack
    `accents`."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""
