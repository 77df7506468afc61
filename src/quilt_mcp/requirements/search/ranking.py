"""Ranks the candidates of a search, with one statement on either database.

Results come in tiers: first the entity with the reference ID in the query, then entities with all required terms
in the title, then the rest. Within a tier they are sorted by the score of the database, then by kind and ID.
Scores of SQLite and PostgreSQL cannot be compared; tiers can.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import CTE, ColumnElement, Subquery, func, select, true, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.core.tracing import calling
from quilt_mcp.requirements.tables import BY_KIND, Statement

DEFAULT_LIMIT = 50
MAX_LIMIT = 100
EXACT_REFERENCE, IN_TITLE, ANYWHERE = 0, 1, 2
"""The tiers: the query is the reference ID; the title contains all required terms; all other matches."""
_SHOWN = ("title", "description", "priority", "status", "created_at")


@dataclass(frozen=True, slots=True)
class Hit:
    """An entity that matches.

    Attributes:
        kind: the name of its kind, such as "user_story".
        title: None for an acceptance criterion, as are priority and status.
        created_at: None only in a database of the earlier requirements system.
        tier: EXACT_REFERENCE, IN_TITLE or ANYWHERE.
        score: the score of the database; higher is better. Comparable only within one tier, query and database.
    """

    kind: str
    entity_id: str
    reference_id: str
    title: str | None
    description: str | None
    priority: int | None
    status: str | None
    created_at: datetime | None
    tier: int
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    """A page of hits.

    Attributes:
        hits: the best first.
        total: the number of matches, at most the cap.
        total_is_exact: False if there are more matches than the cap.
        next_offset: the offset of the next page; None on the last page.
    """

    hits: list[Hit]
    total: int
    total_is_exact: bool
    next_offset: int | None


async def rank(
    connection: AsyncConnection, candidates: Sequence[Statement], *, limit: int, offset: int, cap: int
) -> Found:
    """Rank candidates. Return a page of them.

    Args:
        connection: to the database.
        candidates: selects of kind, entity_id, reference_id, tier and score, each of at most cap + 1 rows. Without
            selects, nothing is found.
        limit: hits per page, 1 to 100.
        offset: position of the first hit of the page in the ranking, from 0 to the cap.
        cap: maximum number of hits that can be paged through.

    Raises:
        InvalidTemplateVariable: the limit or the offset is out of bounds.
    """
    if not (1 <= limit <= MAX_LIMIT and 0 <= offset <= cap):
        raise InvalidTemplateVariable(
            "The cursor is past the last result.",
            details=f"A page has 1 to {MAX_LIMIT} results and starts within the first {cap}.",
            suggested_actions=["Start without a cursor, and pass each next_cursor unchanged."],
        )
    if not candidates:
        return Found([], 0, total_is_exact=True, next_offset=None)
    with calling("sql", "search"):
        rows = (await connection.execute(_select_page(candidates, min(limit, cap - offset), offset))).all()
    number = rows[0].number
    hits = [Hit(*row[1:]) for row in rows if row.entity_id is not None]
    following = offset + len(hits)
    more = bool(hits) and following < min(number, cap)
    return Found(hits, min(number, cap), number <= cap, following if more else None)


def _select_page(candidates: Sequence[Statement], limit: int, offset: int) -> Statement:
    """Select one row per hit, each with the total; a single row with the total if the page has no hits."""
    every = union_all(*(select(one.subquery()) for one in candidates)).subquery()
    place = func.row_number().over(partition_by=every.c.entity_id, order_by=every.c.tier)
    placed = select(every, place.label("place")).subquery()
    found = select(placed).where(placed.c.place == 1).cte("found")
    number = select(func.count().label("number")).select_from(found).subquery("numbered")
    page = select(found).order_by(*_order(found)).limit(limit).offset(offset).subquery("page")
    rows = number.outerjoin(page, true())
    for entities in BY_KIND.values():
        rows = rows.outerjoin(entities, entities.c.id == page.c.entity_id)
    return (
        select(
            number.c.number, page.c.kind, page.c.entity_id, page.c.reference_id, *_COALESCED, page.c.tier, page.c.score
        )
        .select_from(rows)
        .order_by(*_order(page))
    )


def _order(rows: CTE | Subquery) -> tuple[ColumnElement[object], ...]:
    return rows.c.tier, rows.c.score.desc(), rows.c.kind, rows.c.entity_id


def _coalesce(name: str) -> ColumnElement[object]:
    """Return a column of the entity, from the table of its kind. The others are null because no ID matches."""
    columns = [entities.c[name] for entities in BY_KIND.values() if name in entities.c]
    return func.coalesce(*columns, type_=columns[0].type).label(name)


_COALESCED = [_coalesce(name) for name in _SHOWN]
