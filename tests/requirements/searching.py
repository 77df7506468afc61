"""Searches a database in tests, and writes what they find."""

from collections.abc import Iterable, Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import tables, writing
from quilt_mcp.requirements.conditions import Scope, Selection
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.kinds import EPIC
from quilt_mcp.requirements.search.index import make_limits
from quilt_mcp.requirements.search.page import Found, rank, select_candidates
from quilt_mcp.requirements.search.text import parse_query
from quilt_mcp.requirements.tables import Values
from tests.requirements.changing import create_user

EVERYTHING = Scope("test")
NO_FILTERS = Selection()


async def search_connection(
    connection: AsyncConnection,
    query: str,
    *,
    scope: Scope = EVERYTHING,
    selection: Selection = NO_FILTERS,
    limit: int = 50,
    offset: int = 0,
    cap: int = 2000,
) -> Found:
    """Search over a connection."""
    limits = make_limits(scope, selection)
    dialect = connection.dialect.name
    candidates = select_candidates(parse_query(query), limits, dialect, most=cap + 1) if limits else []
    return await rank(connection, candidates, limit=limit, offset=offset, cap=cap)


async def search(
    database: Database, query: str, scope: Scope = EVERYTHING, selection: Selection = NO_FILTERS, **options: int
) -> Found:
    """Search a database."""
    async with database.reading() as connection:
        return await search_connection(connection, query, scope=scope, selection=selection, **options)


async def find_references(database: Database, query: str, scope: Scope = EVERYTHING) -> list[str]:
    """Return the reference IDs of all hits, in the order of the ranking."""
    found = await search(database, query, scope)
    assert found.total == len(found.hits)
    return [hit.reference_id for hit in found.hits]


async def write_epics(database: Database, texts: Iterable[Sequence[str]], **columns: object) -> list[Values]:
    """Write epics with these titles and descriptions."""
    async with database.writing() as connection:
        user = await connection.scalar(select(tables.users.c.id))
        user = user or await create_user(connection, "a", "a@example.com")
        rows = [{"title": title, "description": body, "creator_id": user, **columns} for title, body in texts]
        return await writing.create_entities(connection, EPIC, rows)
