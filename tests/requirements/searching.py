"""Searches a database in tests, and writes what they find."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, select

from quilt_mcp.requirements import tables, writing
from quilt_mcp.requirements.conditions import Scope, Selection
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.model import EPIC
from quilt_mcp.requirements.search import SearchHits, rank
from quilt_mcp.requirements.search_candidates import select_candidates
from quilt_mcp.requirements.search_text import parse_query
from quilt_mcp.requirements.tables import Statement, Values
from tests.requirements.changing import create_user

EVERYTHING = Scope("test")
NO_FILTERS = Selection()


def search_connection(
    connection: Connection,
    query: str,
    *,
    scope: Scope = EVERYTHING,
    selection: Selection = NO_FILTERS,
    limit: int = 50,
    offset: int = 0,
    cap: int = 2000,
) -> SearchHits:
    """Search over a connection."""
    candidates = select_candidates(parse_query(query), scope, selection, connection.dialect.name, most=cap + 1)
    return rank(connection, candidates, limit=limit, offset=offset, cap=cap)


def search(
    database: Database, query: str, scope: Scope = EVERYTHING, selection: Selection = NO_FILTERS, **options: int
) -> SearchHits:
    """Search a database."""
    with database.reading() as connection:
        return search_connection(connection, query, scope=scope, selection=selection, **options)


def find_references(database: Database, query: str, scope: Scope = EVERYTHING) -> list[str]:
    """Return the reference IDs of all hits, in the order of the ranking."""
    found = search(database, query, scope)
    assert found.total == len(found.hits)
    return [hit.reference_id for hit in found.hits]


def write_epics(database: Database, texts: Iterable[Sequence[str]], **columns: object) -> list[Values]:
    """Write epics with these titles and descriptions."""
    with database.writing() as connection:
        user = connection.scalar(select(tables.users.c.id))
        user = user or create_user(connection, "a", "a@example.com")
        rows = [{"title": title, "description": body, "creator_id": user, **columns} for title, body in texts]
        return writing.create_entities(connection, EPIC, rows)


def explain_each(database: Database, statements: Iterable[Statement], *without: str) -> list[str]:
    """Return the plan of each statement, if PostgreSQL may not scan in some ways."""
    plans = []
    with database.reading() as connection:
        for name in without:
            connection.exec_driver_sql(f"SET LOCAL enable_{name} = off")
        for statement in statements:
            sql = statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
            plans.append("\n".join(row[0] for row in connection.exec_driver_sql(f"EXPLAIN {sql}")))
    return plans
