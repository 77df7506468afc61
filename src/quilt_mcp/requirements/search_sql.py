"""The search, as one statement on either database.

What is found comes in tiers: the entity whose reference id was asked for, then those that have all that is wanted in
their title, then the rest; within a tier by the database's own score, then by kind and id. Scores of SQLite and
PostgreSQL cannot be compared, tiers can. To rank every match of a common word would take long, so each tier offers
only its first entries to the ranking, in the order in which they came into the index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select, true, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.errors import InvalidTemplateVariable
from quilt_mcp.requirements.access import Scope
from quilt_mcp.requirements.search_candidates import candidates
from quilt_mcp.requirements.search_text import ParsedQuery
from quilt_mcp.requirements.tables import BY_KIND
from quilt_mcp.trace import calling

DEFAULT_LIMIT = 50
MAX_LIMIT = 100
_SHOWN = ("title", "description", "priority", "status", "created_at")


@dataclass(frozen=True, slots=True)
class Hit:
    """An entity that was found.

    Attributes:
        kind: the name of its kind, such as "user_story".
        title: None, as are priority and status, for an acceptance criterion: it has none.
        tier: EXACT_REFERENCE, IN_TITLE or ANYWHERE of `search_candidates`.
        score: the database's own; higher is better. It means nothing across tiers, queries or databases.
    """

    kind: str
    entity_id: str
    reference_id: str
    title: str | None
    description: str | None
    priority: int | None
    status: str | None
    created_at: datetime
    tier: int
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    """A page of what was found.

    Attributes:
        hits: the best first.
        total: how many entities there are; if not exact, how many can be paged through, and there are more.
        next_offset: where the next page begins; None at the end.
    """

    hits: list[Hit]
    total: int
    total_is_exact: bool
    next_offset: int | None


async def search(  # noqa: PLR0913 - all but two are keyword-only
    connection: AsyncConnection,
    query: ParsedQuery,
    *,
    scope: Scope,
    limit: int = DEFAULT_LIMIT,
    offset: int = 0,
    cap: int,
) -> Found:
    """A page of the entities that a query finds among those in the scope.

    Args:
        connection: to a database that has the index.
        query: what is looked for.
        scope: what the caller may see.
        limit: hits on the page, 1-100.
        offset: of the page's first hit in the ranking, from 0 to the cap.
        cap: how many matches of each tier are ranked, and how many hits can be paged through.

    Raises:
        InvalidTemplateVariable: limit or offset are not within their bounds.
    """
    matches = candidates(query, scope, connection.dialect.name, most=cap + 1)
    return await answer(connection, matches, limit=limit, offset=offset, cap=cap)


async def answer(
    connection: AsyncConnection, matches: Sequence[Select[Any]], *, limit: int, offset: int, cap: int
) -> Found:
    """The page of these matches: selects of kind, entity_id, reference_id, tier and score, at most cap + 1 each.

    Raises:
        InvalidTemplateVariable: limit or offset are not within their bounds.
    """
    if not (1 <= limit <= MAX_LIMIT and 0 <= offset <= cap):
        raise InvalidTemplateVariable(
            "A page of the search cannot be there.",
            details=f"A page has 1 to {MAX_LIMIT} entities, and begins with one of the first {cap}.",
            suggested_actions=["Start again without a cursor, and pass on each next cursor as it is."],
        )
    with calling("sql", "search"):
        rows = (await connection.execute(_page_of(matches, min(limit, cap - offset), offset))).all()
    number = rows[0].number
    hits = [Hit(*row[1:]) for row in rows if row.entity_id is not None]
    following = offset + len(hits)
    more = bool(hits) and following < min(number, cap)
    return Found(hits, min(number, cap), number <= cap, following if more else None)


def _page_of(matches: Sequence[Select[Any]], limit: int, offset: int) -> Select[Any]:
    """One row for each hit with the number of all; a single row with the number where the page has no hits."""
    every = union_all(*(select(one.subquery()) for one in matches)).subquery()
    place = func.row_number().over(partition_by=every.c.entity_id, order_by=every.c.tier)
    placed = select(every, place.label("place")).subquery()
    found = select(placed).where(placed.c.place == 1).cte("found")
    number = select(func.count().label("number")).select_from(found).subquery("numbered")
    page = select(found).order_by(*_ranking(found)).limit(limit).offset(offset).subquery("page")
    rows = number.outerjoin(page, true())
    for entities in BY_KIND.values():
        rows = rows.outerjoin(entities, entities.c.id == page.c.entity_id)
    shown = [_shown(name) for name in _SHOWN]
    return (
        select(number.c.number, page.c.kind, page.c.entity_id, page.c.reference_id, *shown, page.c.tier, page.c.score)
        .select_from(rows)
        .order_by(*_ranking(page))
    )


def _ranking(rows: Any) -> tuple[ColumnElement[Any], ...]:
    return rows.c.tier, rows.c.score.desc(), rows.c.kind, rows.c.entity_id


def _shown(name: str) -> ColumnElement[Any]:
    """The column of the page's entity, of whichever kind that has it; the id decides which."""
    columns = [entities.c[name] for entities in BY_KIND.values() if name in entities.c]
    return func.coalesce(*columns, type_=columns[0].type).label(name)
