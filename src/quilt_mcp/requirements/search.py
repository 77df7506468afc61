"""A page of search results: the candidates of either database, in the order of their ranks.

Results come in tiers: first the entity with the reference ID in the query, then entities with all required terms
in the title, then the rest. Within a tier they are sorted by the score of the database, then by kind and ID.
Scores of SQLite and PostgreSQL cannot be compared; tiers can. The database of the earlier system has no index.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from sqlalchemy import CTE, ColumnElement, Connection, Subquery, func, select, true, union_all

from quilt_mcp.core import cursors
from quilt_mcp.core.answers import iso
from quilt_mcp.core.cursors import parse_limit
from quilt_mcp.core.cuts import fit
from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.core.tracing import calling
from quilt_mcp.requirements.answers import BriefResult, MissingWord, SearchPage, SearchResult, make_brief_row
from quilt_mcp.requirements.conditions import Selection
from quilt_mcp.requirements.model import BY_NAME
from quilt_mcp.requirements.reads import Reader
from quilt_mcp.requirements.search_candidates import Reach, select_candidates
from quilt_mcp.requirements.search_existing import select_existing
from quilt_mcp.requirements.search_relaxed import FEW, Relaxation, find_missing, put_later, relax
from quilt_mcp.requirements.search_text import ParsedQuery
from quilt_mcp.requirements.tables import BY_KIND, AnyRow, Statement

DEFAULT_LIMIT = 50
MAX_LIMIT = 100
_SHOWN = ("title", "description", "priority", "status", "created_at")
EXAMINED = 100
"""How many results are searched for a word that resembles another."""
_MATCHES: tuple[Literal["reference_id"], Literal["title"], Literal["text"]] = ("reference_id", "title", "text")
"""The value of `match` for each tier of exact results."""


class SearchHits(NamedTuple):
    """A page of hits, the best first. They have the columns that `_select_page` selects."""

    hits: list[AnyRow]
    total: int
    """The number of matches, at most the cap."""
    total_is_exact: bool
    next_offset: int | None
    """The offset of the next page; None on the last page."""


def rank(connection: Connection, candidates: Sequence[Statement], *, limit: int, offset: int, cap: int) -> SearchHits:
    if offset > cap:
        raise InvalidTemplateVariable(
            "The cursor is past the last result.",
            details=f"A page has 1 to {MAX_LIMIT} results and starts within the first {cap}.",
            suggested_actions=["Start without a cursor, and pass each next_cursor unchanged."],
        )
    if not candidates:
        return SearchHits([], 0, total_is_exact=True, next_offset=None)
    with calling("sql", "search"):
        rows = connection.execute(_select_page(candidates, min(limit, cap - offset), offset)).all()
    number = rows[0].number
    hits = [row for row in rows if row.entity_id is not None]
    following = offset + len(hits)
    more = bool(hits) and following < min(number, cap)
    return SearchHits(hits, min(number, cap), number <= cap, following if more else None)


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
    shown = (page.c.kind, page.c.entity_id, page.c.reference_id, *_COALESCED, page.c.tier, page.c.score)
    return select(number.c.number, *shown).select_from(rows).order_by(*_order(page))


def _order(rows: CTE | Subquery) -> tuple[ColumnElement[object], ...]:
    return rows.c.tier, rows.c.score.desc(), rows.c.kind, rows.c.entity_id


def _coalesce(name: str) -> ColumnElement[object]:
    """Return a column of the entity, from the table of its kind. The others are null because no ID matches."""
    columns = [entities.c[name] for entities in BY_KIND.values() if name in entities.c]
    return func.coalesce(*columns, type_=columns[0].type).label(name)


_COALESCED = [_coalesce(name) for name in _SHOWN]


def find_first(reader: Reader, query: ParsedQuery, most_projects: int) -> list[AnyRow]:
    """Return the first entities that match, of all that the caller may see: enough to look for words in them."""
    scope, dialect, everything = reader.scope, reader.dialect, Selection()
    reaches: tuple[Reach, ...] = ("first", "matches") if dialect == "postgresql" else ("matches",)
    hits: list[AnyRow] = []
    for reach in reaches:
        if len(hits) < EXAMINED:
            candidates = select_candidates(
                query, scope, everything, dialect, most=EXAMINED, most_projects=most_projects, within=reach
            )
            hits = rank(reader.connection, candidates, limit=EXAMINED, offset=0, cap=EXAMINED).hits
    return hits


def read_search_page(
    reader: Reader,
    *,
    query: str,
    parsed: ParsedQuery,
    cursor: str | None,
    limit: str | None,
    cap: int,
    selection: Selection,
    most_projects: int,
    is_brief: bool = False,
) -> SearchPage:
    size = parse_limit(limit, default=DEFAULT_LIMIT, largest=MAX_LIMIT)
    tag = cursors.compute_tag("search", query, reader.scope, selection)
    offset = int(cursors.decode(cursor, tag, "[0-9]{1,9}")) if cursor else 0

    def choose(wanted: ParsedQuery, within: Selection) -> list[Statement]:
        if reader.is_existing:
            return select_existing(wanted, reader.scope, within, most=cap + 1)
        return select_candidates(
            wanted, reader.scope, within, reader.dialect, most=cap + 1, most_projects=most_projects
        )

    exact = choose(parsed, selection)
    found = rank(reader.connection, exact, limit=size, offset=offset, cap=cap)
    missing: list[MissingWord] | None = None
    relaxed: Relaxation | None = None
    if found.total < FEW and not reader.is_existing:  # which would read all texts again, for each word
        missing = (
            None if found.total else find_missing(parsed, lambda wanted: find_first(reader, wanted, most_projects))
        )
        for how, wanted in relax(parsed, [one["word"] for one in missing or []]):
            both = [*exact, *put_later(choose(wanted, selection))]
            more = rank(reader.connection, both, limit=size, offset=offset, cap=cap)
            if more.total > found.total:
                found, relaxed = more, how
                break
    build = _build_brief if is_brief else _build_result
    shown: list[SearchResult | BriefResult] = fit([build(hit, relaxed) for hit in found.hits])
    following = offset + len(shown) if len(shown) < len(found.hits) else found.next_offset
    return {
        "query": query,
        "results": shown,
        "count": found.total,
        "count_is_exact": found.total_is_exact,
        "relaxed": relaxed,
        "missing_words": missing,
        "ignores": ["case"] if reader.is_existing else ["case", "accents"],
        "next_cursor": cursors.encode(str(following), tag) if following is not None else None,
    }


def _find_match(hit: AnyRow, relaxed: Relaxation | None) -> Literal["reference_id", "title", "text"] | Relaxation:
    return relaxed if relaxed and hit.tier >= len(_MATCHES) else _MATCHES[hit.tier]


def _build_result(hit: AnyRow, relaxed: Relaxation | None) -> SearchResult:
    return {
        "id": hit.entity_id,
        "reference_id": hit.reference_id,
        "type": hit.kind,
        "title": hit.title,
        "description": hit.description,
        "priority": hit.priority,
        "status": hit.status,
        "created_at": iso(hit.created_at),
        "match": _find_match(hit, relaxed),
        "relevance": round(hit.score, 3),
        "uri": BY_NAME[hit.kind].make_uri(hit.reference_id),
    }


def _build_brief(hit: AnyRow, relaxed: Relaxation | None) -> BriefResult:
    row = make_brief_row(BY_NAME[hit.kind], hit.reference_id, hit.title or hit.description, hit.status)
    return {**row, "type": hit.kind, "match": _find_match(hit, relaxed)}
