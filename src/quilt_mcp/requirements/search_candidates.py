"""What a query finds in the index, tier by tier, as selects for either database.

A tier offers only its first entries to the ranking, in the order in which they came into the index: to rank every
match of a common word would take long.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    String,
    cast,
    column,
    func,
    literal,
    literal_column,
    select,
    table,
)
from sqlalchemy.dialects.postgresql import TSQUERY, TSVECTOR

from quilt_mcp.requirements.access import Scope, visible
from quilt_mcp.requirements.search_compile import fts5, tsquery
from quilt_mcp.requirements.search_text import ParsedQuery
from quilt_mcp.requirements.tables import Id

EXACT_REFERENCE, IN_TITLE, ANYWHERE = 0, 1, 2
"""The tiers: its reference id was asked for; all that is wanted is in its title; it fits."""

_entries = table(
    "search_entries",
    column("id", BigInteger),
    column("kind", String),
    column("entity_id", Id),
    column("project_id", Id),
    column("reference_id", String),
    column("words", TSVECTOR),
)
# the hidden column of the table's own name, which MATCH and bm25 take
_words = table("search_words", column("rowid", BigInteger), column("search_words", String))


def candidates(query: ParsedQuery, scope: Scope, dialect: str, *, most: int) -> list[Select[Any]]:
    """Selects of kind, entity_id, reference_id, tier and score. An entity can be in several; its first tier counts.

    The score is the database's own, and higher is better.
    """
    condition = visible(_entries.c.project_id, scope, dialect)
    of_dialect = _in_sqlite if dialect == "sqlite" else _in_postgresql
    found = of_dialect(query, condition, most)
    return [_asked_by_reference(query, condition), *found] if query.references else found


def _candidate(tier: int, score: ColumnElement[float]) -> Select[Any]:
    return select(
        _entries.c.kind,
        _entries.c.entity_id,
        _entries.c.reference_id,
        literal(tier).label("tier"),
        score.label("score"),
    )


def _asked_by_reference(query: ParsedQuery, condition: Sequence[ColumnElement[bool]]) -> Select[Any]:
    wanted = _entries.c.reference_id.in_(query.references)
    return _candidate(EXACT_REFERENCE, literal_column("0.0")).where(wanted, *condition)


def _in_sqlite(query: ParsedQuery, condition: Sequence[ColumnElement[bool]], most: int) -> list[Select[Any]]:
    def matches(match: str, tier: int) -> Select[Any]:
        return (
            _candidate(tier, -func.bm25(_words.c.search_words))
            # + keeps FTS5 from being asked anew for each entry: it shall come first
            .select_from(_words.join(_entries, _entries.c.id == literal_column("+search_words.rowid")))
            .where(_words.c.search_words.match(match), *condition)
            .order_by(_words.c.rowid)
            .limit(most)
        )

    in_title, anywhere = fts5(query, in_title=True), fts5(query)
    return [matches(in_title, IN_TITLE), matches(anywhere, ANYWHERE)]


def _in_postgresql(query: ParsedQuery, condition: Sequence[ColumnElement[bool]], most: int) -> list[Select[Any]]:
    anywhere, in_title = cast(tsquery(query), TSQUERY), cast(tsquery(query, in_title=True), TSQUERY)
    wanted = cast(tsquery(query.wanted()), TSQUERY)  # ts_rank is 0 for whatever has a ! in it

    def matches(match: ColumnElement[Any], tier: int) -> Select[Any]:
        return (
            _candidate(tier, func.ts_rank(_entries.c.words, wanted))
            .where(_entries.c.words.bool_op("@@")(match), *condition)
            .order_by(_entries.c.id)
            .limit(most)
        )

    return [matches(in_title, IN_TITLE), matches(anywhere, ANYWHERE)]
