"""The requirements database as resources, list and completion ask it: for the caller of the request under way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import Row, select

from quilt_mcp import cursors, identity
from quilt_mcp.requirements import ids, kinds, search_answer, tables
from quilt_mcp.requirements.access import Scope, scope_of
from quilt_mcp.requirements.database import Database, open_database
from quilt_mcp.requirements.kinds import Kind
from quilt_mcp.requirements.reads import Reader, Rows
from quilt_mcp.requirements.search_text import parse
from quilt_mcp.settings import Settings
from quilt_mcp.trace import calling


class RequirementsStore:
    """One database, for one event loop.

    Attributes:
        settings: those that it was made under.
        database: the connections.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database: Database = open_database(settings)

    async def close(self) -> None:
        """Close every connection."""
        await self.database.close()

    @asynccontextmanager
    async def reader(self, scope: Scope | None = None) -> AsyncIterator[Reader]:
        """A reader for the caller of this request, with what it may see now unless a scope is given.

        Raises:
            UnknownUser: the caller is no user of the database.
            ResourceFailure: as `Database.reading`.
        """
        async with self.database.reading() as connection:
            caller = identity.current()
            if scope is None:
                has_projects = not self.database.is_existing
                scope = await scope_of(connection, caller.key, self._username(caller), has_projects=has_projects)
            yield Reader(connection, scope)

    def _username(self, caller: identity.Identity) -> str | None:
        """The caller's name in the database; None for the administrator that the person at this machine is."""
        if caller.is_local:
            return self.settings.requirements_user
        return str(caller.claims.get(self.settings.requirements_user_claim, caller.subject))

    async def scope(self) -> Scope:
        """What the caller of this request may see now."""
        async with self.reader() as reader:
            return reader.scope

    async def generation(self) -> int:
        """A number that every write makes greater; 0 where the database does not count them."""
        async with self.database.reading() as connection:
            if self.database.is_existing:
                return 0
            with calling("sql", "select"):
                return int((await connection.execute(select(tables.generation.c.number))).scalar_one())

    async def entity(self, kind: Kind, text: str) -> dict[str, Any]:
        """The entity with this id."""
        entity_id = ids.parse_id(kind, text)
        async with self.reader() as reader:
            return await reader.entity(kind, entity_id)

    async def collection(self, kind: Kind, cursor: str | None, limit: str | None) -> dict[str, Any]:
        """A page of all entities of a kind."""
        size = ids.parse_limit(limit)
        async with self.reader() as reader:
            tag = cursors.tag_of(kind.segment, reader.scope)
            after = cursors.decode(cursor, tag) if cursor else ""
            return _page(kind.table, await reader.page(kind, after=after, limit=size), tag)

    async def types(self, cursor: str | None, limit: str | None) -> dict[str, Any]:
        """A page of the types of requirement."""
        size, tag = ids.parse_limit(limit), cursors.tag_of("requirement_types")
        after = cursors.decode(cursor, tag) if cursor else ""
        async with self.reader() as reader:
            return _page("requirement_types", await reader.types(after=after, limit=size), tag)

    async def children(
        self, parent: Kind, kind: Kind, text: str, cursor: str | None, limit: str | None
    ) -> dict[str, Any]:
        """A page of the entities of a kind that belong to one parent."""
        entity_id, size = ids.parse_id(parent, text), ids.parse_limit(limit)
        async with self.reader() as reader:
            of = (await reader.entity(parent, entity_id))["id"]
            tag = cursors.tag_of(kind.segment, of, reader.scope)
            after = cursors.decode(cursor, tag) if cursor else ""
            return _page(kind.table, await reader.page(kind, after=after, limit=size, parent=of), tag)

    async def hierarchy(self, text: str) -> dict[str, Any]:
        """An epic with all that belongs to it."""
        entity_id = ids.parse_id(kinds.EPIC, text)
        async with self.reader() as reader:
            return await reader.hierarchy(await reader.entity(kinds.EPIC, entity_id))

    async def relationships(self, text: str) -> dict[str, Any]:
        """A requirement with its relationships."""
        entity_id = ids.parse_id(kinds.REQUIREMENT, text)
        async with self.reader() as reader:
            return await reader.relationships(await reader.entity(kinds.REQUIREMENT, entity_id))

    async def search(self, query: str, cursor: str | None, limit: str | None) -> dict[str, Any]:
        """A page of what a query finds."""
        parsed = parse(query)
        async with self.reader() as reader:
            return await search_answer.answer(
                reader.connection,
                query=query,
                parsed=parsed,
                cursor=cursor,
                limit=limit,
                cap=self.settings.search_candidates,
                scope=reader.scope,
                is_existing=self.database.is_existing,
            )

    async def references(self, kind: Kind, prefix: str, limit: int) -> list[str]:
        """The first reference ids that begin so."""
        async with self.reader() as reader:
            return await reader.references(kind, prefix, limit)

    async def titles(self, kind: Kind, scope: Scope, *, after: str, limit: int) -> list[Row[Any]]:
        """Id, reference_id and title of the entities that follow an id."""
        async with self.reader(scope) as reader:
            return await reader.titles(kind, after=after, limit=limit)


def _page(key: str, found: Rows, tag: str) -> dict[str, Any]:
    next_cursor = cursors.encode(found.last_id, tag) if found.last_id else None
    return {key: found.rows, "count": found.total, "next_cursor": next_cursor}
