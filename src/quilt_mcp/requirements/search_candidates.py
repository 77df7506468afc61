"""The candidates of a search in the index, in one statement on either database."""

from collections.abc import Iterable, Sequence
from typing import Literal

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    String,
    Text,
    cast,
    column,
    func,
    literal,
    literal_column,
    select,
    table,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, TSQUERY, TSVECTOR

from quilt_mcp.requirements.conditions import Conditions, Scope, Selection, is_below, restrict
from quilt_mcp.requirements.model import KINDS
from quilt_mcp.requirements.search_text import GAP, ParsedQuery, compile_facets, compile_fts5, compile_tsquery
from quilt_mcp.requirements.selecting import DEFAULT
from quilt_mcp.requirements.tables import BY_KIND, AnyColumn, Id, Statement, Time
from quilt_mcp.requirements.writing import make_facet

Reach = Literal["first", "matches"]
"""For few matches in the order of the entries, PostgreSQL would read all entries, because it takes rare words for
frequent ones. So it reads only the `first` entries, which have enough of a frequent word, or sorts all `matches`."""
FIRST_ENTRIES = 2_000
_LARGEST = 2**62
EXACT_REFERENCE, IN_TITLE, ANYWHERE = 0, 1, 2
"""The tiers: the query is the reference ID; the title contains all required terms; all other matches."""

_entries = table(
    "search_entries",
    column("id", BigInteger),
    column("kind", String),
    column("entity_id", Id),
    column("project_id", Id),
    column("reference_id", String),
    column("updated_at", Time),
    column("words", TSVECTOR),
    column("facets", ARRAY(Text)),
)
# FTS5 has a hidden column with the name of the table, for MATCH and highlight
_words = table(
    "search_words",
    column("rowid", BigInteger),
    column("title", String),
    column("body", String),
    column("search_words", String),
)
# an index contains this expression
_title_words: ColumnElement[str] = func.ts_filter(_entries.c.words, literal_column("'{a}'"))


def make_facets(scope: Scope, selection: Selection, most_projects: int) -> list[list[str]]:
    """Return lists of facets. An entity within the filters has one of each list."""
    wanted: list[tuple[str, Iterable[object]]] = [
        ("status", selection.status),
        ("priority", selection.priority),
        ("assignee_id", selection.assignee_ids),
        ("type_id", selection.type_ids),
    ]
    if scope.projects and len(scope.projects) <= most_projects:
        wanted.append(("project_id", scope.projects))
    return [[make_facet(column, value) for value in values] for column, values in wanted if values]


def select_candidates(
    query: ParsedQuery,
    scope: Scope,
    selection: Selection,
    dialect: str,
    *,
    most: int,
    most_projects: int = DEFAULT.most_projects,
    within: Reach | None = None,
) -> list[Statement]:
    """Return selects of kind, entity_id, reference_id, tier and score, for the entities that match within the filters.

    An entity can be in several selects; its first tier counts. A higher score is better. PostgreSQL reads what `within`
    says.
    """
    if selection.includes_unassigned and not selection.assignee_ids:
        return []  # every entity with a status has an assignee
    if selection.project_ids:
        scope = Scope(scope.caller, selection.project_ids)
    facets = make_facets(scope, selection, most_projects)
    # Facets only make a search faster as far as the scope is concerned: what a caller may see is compared again.
    conditions = restrict(_entries.c.project_id, scope, dialect)
    if selection.updated_since:
        conditions.append(_entries.c.updated_at >= selection.updated_since)
    if selection.kinds:
        conditions.append(_entries.c.kind.in_(selection.kinds))
    if selection.epic_id:
        tables = ((kind, BY_KIND[kind.name].c.id) for kind in KINDS)
        below = (select(row_id).where(is_below(kind, selection.epic_id)) for kind, row_id in tables)
        conditions.append(_entries.c.entity_id.in_(union_all(*below)))
    if dialect == "sqlite":
        return _select_in_sqlite(query, facets, conditions, most)
    conditions += [_entries.c.facets.overlap(several) for several in facets]
    if within == "first":
        last = select(_entries.c.id).order_by(_entries.c.id).offset(FIRST_ENTRIES).limit(1).scalar_subquery()
        conditions.append(_entries.c.id <= func.coalesce(last, _LARGEST))
    order = _entries.c.id + 0 if within == "matches" else _entries.c.id  # not the index of the IDs
    return _select_in_postgresql(query, conditions, most, order)


def _select(tier: int, score: ColumnElement[float]) -> Statement:
    return select(
        _entries.c.kind,
        _entries.c.entity_id,
        _entries.c.reference_id,
        literal(tier).label("tier"),
        score.label("score"),
    )


def _select_references(query: ParsedQuery) -> Statement:
    return _select(EXACT_REFERENCE, literal_column("0.0")).where(_entries.c.reference_id.in_(query.references))


def _select_in_sqlite(
    query: ParsedQuery, facets: Sequence[Sequence[str]], conditions: Conditions, most: int
) -> list[Statement]:
    limited = compile_facets(facets)

    def select_matches(match: str, matches: Statement) -> Statement:
        has_words = _words.c.search_words.match(f"{limited} AND ({match})" if limited else match)
        return matches.where(has_words, *conditions).limit(most)

    found = [
        select_matches(compile_fts5(query, in_title=True), _IN_TITLE),
        select_matches(compile_fts5(query), _ANYWHERE),
    ]
    if query.references:
        exact = _select_references(query).where(*conditions)
        if limited:
            exact = exact.join(_words, _words.c.rowid == _entries.c.id).where(_words.c.search_words.match(limited))
        found.insert(0, exact)
    return found


def _score(*columns: ColumnElement[str]) -> ColumnElement[float]:
    """Return a score between 0 and 1 that grows with the number of matches in some columns and with their brevity.

    FTS5 has only bm25, which reads all entries of the table that contain one of the words, also those that the caller
    may not see. For a word that is in most entries, all its scores are 0.
    """
    marked = [
        func.length(func.highlight(_words.c.search_words, literal_column(str(place)), GAP, "")) - func.length(text)
        for place, text in enumerate(columns)
    ]
    weight = 0.5 + func.length(columns[-1]) / 500.0
    # matches / (matches + weight), but SQLite computes an expression again where it occurs again
    score: AnyColumn = 1.0 - weight / (sum(marked[1:], marked[0]) + weight)
    return score


def _select_words(tier: int, *columns: ColumnElement[str]) -> Statement:
    """Select the entries of a tier in SQLite, in their order, without the condition that words match."""
    # the + makes SQLite start with FTS5; else it would query FTS5 once per entry
    entries = _words.join(_entries, _entries.c.id == literal_column("+search_words.rowid"))
    return _select(tier, _score(*columns)).select_from(entries).order_by(_words.c.rowid)


# once, because that takes longer than SQLite needs to find few words


_IN_TITLE = _select_words(IN_TITLE, _words.c.title)
_ANYWHERE = _select_words(ANYWHERE, _words.c.title, _words.c.body)


def _select_in_postgresql(query: ParsedQuery, conditions: Conditions, most: int, order: AnyColumn) -> list[Statement]:
    required = cast(compile_tsquery(query.without_excluded()), TSQUERY)
    score = func.ts_rank(_entries.c.words, required)  # 0 for a query that contains !, so without what is excluded
    matches = _entries.c.words.bool_op("@@")

    def select_matches(tier: int, *matching: ColumnElement[bool]) -> Statement:
        return _select(tier, score).where(*matching, *conditions).order_by(order).limit(most)

    in_title = [_title_words.bool_op("@@")(required)]
    if query.has_excluded:  # what is excluded may not be outside the title either
        in_title.append(matches(cast(compile_tsquery(query, in_title=True), TSQUERY)))
    anywhere = matches(cast(compile_tsquery(query), TSQUERY))
    found = [select_matches(IN_TITLE, *in_title), select_matches(ANYWHERE, anywhere)]
    return [_select_references(query).where(*conditions), *found] if query.references else found
