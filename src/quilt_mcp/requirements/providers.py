"""What the requirements database adds to `resources/list`: each entity once, by its UUID.

Each provider owns the URIs below one collection. UUIDs have the same order as text, in PostgreSQL and in SQLite, so
that the order of the table's key is the order of the URIs.
"""

from typing import TYPE_CHECKING, ClassVar

from mcp_types import Resource

from quilt_mcp import runtime_context
from quilt_mcp.errors import UnknownUser
from quilt_mcp.manager import MIME_TYPE
from quilt_mcp.requirements.kinds import ACCEPTANCE_CRITERIA, EPIC, REQUIREMENT, USER_STORY, Kind

if TYPE_CHECKING:
    from quilt_mcp.requirements.access import Scope

FILE_NAME = "requirements.sqlite3"
SHOWN = 120
"""Characters in the list of a description that stands for a title: an acceptance criterion has none."""


async def scope() -> "Scope | None":
    """What the caller of this request may see; None where that is nothing: then the providers list nothing.

    Whoever is no user of the database gets the rest of the list; a read of it says what is missing.
    """
    if not is_there():
        return None
    try:
        return await runtime_context.requirements().scope()
    except UnknownUser:
        return None


def is_there() -> bool:
    """Whether there is a database. One that nobody has made is not made by listing it."""
    settings = runtime_context.settings()
    has_one = settings.database_url is not None or (settings.data_dir / FILE_NAME).exists()
    return has_one and runtime_context.has_requirements()


async def generation() -> int:
    """A number that grows with every write to the database; 0 where there is none, or it does not tell."""
    return await runtime_context.requirements().generation() if is_there() else 0


class EntityProvider:
    """Lists the entities of one kind."""

    kind: ClassVar[Kind]

    def __init__(self) -> None:
        self.name = f"{self.kind.name}_provider"
        self.prefix = f"requirements://{self.kind.segment}/"

    async def page(self, after: str, limit: int, scope: "Scope | None") -> list[Resource]:
        """At most `limit` entities whose UUIDs follow `after`."""
        if scope is None:
            return []
        rows = await runtime_context.requirements().titles(self.kind, scope, after=after, limit=limit)
        return [self._resource(row.id, row.reference_id, row.title) for row in rows]

    def _resource(self, entity_id: str, reference_id: str, title: str) -> Resource:
        is_cut = len(title) > SHOWN and not self.kind.statuses
        shown = f"{title[: SHOWN - 1]}…" if is_cut else title
        return Resource(
            uri=f"{self.prefix}{entity_id}",
            name=f"{self.kind.title}: {shown}",
            description=f"{self.kind.title} {reference_id}: {shown}",
            mime_type=MIME_TYPE,
        )


class EpicProvider(EntityProvider):
    """Lists the epics."""

    kind = EPIC


class UserStoryProvider(EntityProvider):
    """Lists the user stories."""

    kind = USER_STORY


class RequirementProvider(EntityProvider):
    """Lists the requirements."""

    kind = REQUIREMENT


class AcceptanceCriteriaProvider(EntityProvider):
    """Lists the acceptance criteria."""

    kind = ACCEPTANCE_CRITERIA


class SearchProvider:
    """Lists the template of the search as if it were a resource, where a setting wants it."""

    name = "search_provider"
    prefix = "requirements://search/"

    async def page(self, after: str, limit: int, scope: "Scope | None") -> list[Resource]:
        """The template, unless it comes before."""
        del scope  # everyone may search
        row = Resource(
            uri=f"{self.prefix}{{query}}",
            name="Search Requirements",
            description="Search across all epics, user stories, and requirements",
            mime_type=MIME_TYPE,
        )
        is_wanted = runtime_context.settings().list_search_template and after < "{query}"
        return [row][: limit if is_wanted else 0]
