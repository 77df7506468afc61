"""The entries of `resources/list` that come from the requirements database: each entity once, by its UUID.

Each provider owns the URIs of one collection. PostgreSQL and SQLite sort UUIDs as their text, so the order of a table's
key is the order of the URIs.
"""

from functools import partial
from typing import TYPE_CHECKING

from mcp_types import Annotations, Resource

from quilt_mcp.app import current_app
from quilt_mcp.app.pools import run_in_pool
from quilt_mcp.core.answers import MIME_TYPE, iso
from quilt_mcp.requirements.errors import UnknownUser
from quilt_mcp.requirements.kinds import Kind
from quilt_mcp.requirements.service import current_store
from quilt_mcp.requirements.settings import FILE_NAME, RequirementsSettings

if TYPE_CHECKING:
    from quilt_mcp.requirements.conditions import Scope
    from quilt_mcp.requirements.reads import Title

MAX_SHOWN = 120
"""Maximum length of a description that is listed as a title, because an acceptance criterion has no title."""


async def find_scope() -> "Scope | None":
    """Return what the caller may see, or None if the providers have nothing to list.

    There is nothing to list without a database, if the setting `list_entities` is off, and for a caller who is not a
    user of the database. Reads report the reason.
    """
    if not current_app().settings_as(RequirementsSettings).list_entities or not has_database():
        return None
    try:
        return await run_in_pool("database", current_store().find_scope)
    except UnknownUser:
        return None


def has_database() -> bool:
    settings = current_app().settings_as(RequirementsSettings)
    return settings.database_url is not None or (settings.data_dir / FILE_NAME).exists()


class EntityProvider:
    """Lists the entities of one kind.

    Attributes:
        kind: the kind.
        name: the name in logs, metrics and `_meta`.
        prefix: the prefix of the entities' URIs.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.name = f"{kind.name}_provider"
        self.prefix = f"requirements://{kind.segment}/"

    async def page(self, after: str, limit: int, scope: "Scope | None") -> list[Resource]:
        """Return at most `limit` entities with UUIDs after `after`."""
        if scope is None:
            return []
        read = partial(current_store().list_titles, self.kind, scope, after=after, limit=limit)
        titles = await run_in_pool("database", read)
        return [self._describe(one) for one in titles]

    def _describe(self, entity: "Title") -> Resource:
        is_cut = len(entity.title) > MAX_SHOWN and not self.kind.statuses
        shown = f"{entity.title[: MAX_SHOWN - 1]}…" if is_cut else entity.title
        return Resource(
            uri=f"{self.prefix}{entity.id}",
            name=f"{self.kind.title}: {shown}",
            description=f"{self.kind.title} {entity.reference_id}: {shown}",
            mime_type=MIME_TYPE,
            annotations=Annotations(last_modified=iso(entity.updated_at)) if entity.updated_at else None,
        )


def list_search_template() -> list[Resource]:
    """Return the search template as a resource, if the setting `list_search_template` is on."""
    if not current_app().settings_as(RequirementsSettings).list_search_template:
        return []
    return [
        Resource(
            uri="requirements://search/{query}",
            name="Search Requirements",
            description="Search across all epics, user stories, and requirements",
            mime_type=MIME_TYPE,
        )
    ]
