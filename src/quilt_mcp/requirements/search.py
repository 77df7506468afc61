"""A page of search results: the candidates, in one statement on either database, and their ranks.

Results come in tiers: first the entity with the reference ID in the query, then entities with all required terms
in the title, then the rest. Within a tier they are sorted by the score of the database, then by kind and ID.
Scores of SQLite and PostgreSQL cannot be compared; tiers can. The database of the earlier system has no index.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Connection,
    String,
    Subquery,
    Text,
    and_,
    case,
    cast,
    column,
    false,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    table,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, TSQUERY, TSVECTOR

from quilt_mcp.core import cursors
from quilt_mcp.core.answers import iso
from quilt_mcp.core.cursors import parse_limit
from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.core.tracing import calling
from quilt_mcp.requirements.answers import SearchPage, SearchResult
from quilt_mcp.requirements.conditions import Conditions, Scope, Selection, restrict
from quilt_mcp.requirements.model import KINDS, Kind
from quilt_mcp.requirements.reads import Reader
from quilt_mcp.requirements.search_text import (
    GAP,
    UNSPACED,
    Group,
    ParsedQuery,
    Term,
    compile_facets,
    compile_fts5,
    compile_tsquery,
)
from quilt_mcp.requirements.selecting import DEFAULT
from quilt_mcp.requirements.tables import BY_KIND, AnyColumn, AnyRow, Id, Statement, Time
from quilt_mcp.requirements.writing import make_facet

DEFAULT_LIMIT = 50
MAX_LIMIT = 100
EXACT_REFERENCE, IN_TITLE, ANYWHERE = 0, 1, 2
"""The tiers: the query is the reference ID; the title contains all required terms; all other matches."""
_SHOWN = ("title", "description", "priority", "status", "created_at")


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


def select_candidates(
    query: ParsedQuery,
    scope: Scope,
    selection: Selection,
    dialect: str,
    *,
    most: int,
    most_projects: int = DEFAULT.most_projects,
) -> list[Statement]:
    """Return selects of kind, entity_id, reference_id, tier and score, for the entities that match within the filters.

    An entity can be in several selects; its first tier counts. A higher score is better.
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
    if dialect == "sqlite":
        return _select_in_sqlite(query, facets, conditions, most)
    conditions += [_entries.c.facets.overlap(several) for several in facets]
    return _select_in_postgresql(query, conditions, most)


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


def _select_in_postgresql(query: ParsedQuery, conditions: Conditions, most: int) -> list[Statement]:
    required = cast(compile_tsquery(query.without_excluded()), TSQUERY)
    score = func.ts_rank(_entries.c.words, required)  # 0 for a query that contains !, so without what is excluded
    matches = _entries.c.words.bool_op("@@")

    def select_matches(tier: int, *matching: ColumnElement[bool]) -> Statement:
        return _select(tier, score).where(*matching, *conditions).order_by(_entries.c.id).limit(most)

    in_title = [_title_words.bool_op("@@")(required)]
    if query.has_excluded:  # what is excluded may not be outside the title either
        in_title.append(matches(cast(compile_tsquery(query, in_title=True), TSQUERY)))
    anywhere = matches(cast(compile_tsquery(query), TSQUERY))
    found = [select_matches(IN_TITLE, *in_title), select_matches(ANYWHERE, anywhere)]
    return [_select_references(query).where(*conditions), *found] if query.references else found


_PIECE = re.compile(r"[^\W_]+")
_OTHER = "[^[:alnum:]]"
_HAS_UNSPACED = re.compile(f"[{UNSPACED}]")


def select_existing(query: ParsedQuery, scope: Scope, selection: Selection, *, most: int) -> list[Statement]:
    """Return selects as `select_candidates`, for a database of the earlier system. It has no scores: all are 0."""
    exact: list[Statement] = []
    others: list[Statement] = []
    for kind in KINDS:
        entities, conditions = BY_KIND[kind.name], selection.limit(kind, scope, "postgresql")
        if conditions is None:
            continue
        if query.references:
            is_exact = entities.c.reference_id.in_(query.references)
            exact.append(_select_entities(kind, literal(EXACT_REFERENCE)).where(is_exact, *conditions))
        texts = [entities.c[name] for name in ("title", "description") if name in entities.c]
        in_title = _match(query, [entities.c.title]) if "title" in entities.c else false()
        found = _select_entities(kind, case((in_title, IN_TITLE), else_=ANYWHERE))
        others.append(found.where(_match(query, texts), *conditions).order_by(entities.c.id).limit(most))
    return exact + others


def _select_entities(kind: Kind, tier: ColumnElement[int]) -> Statement:
    entities = BY_KIND[kind.name]
    return select(
        literal(kind.name).label("kind"),
        entities.c.id.label("entity_id"),
        entities.c.reference_id,
        tier.label("tier"),
        literal(0.0).label("score"),
    )


def _match(query: ParsedQuery, texts: Sequence[AnyColumn]) -> ColumnElement[bool]:
    def find(term: Term) -> list[ColumnElement[bool]]:
        pattern = _make_pattern(term)
        return [text.regexp_match(pattern, flags="i") for text in texts]

    def match_group(group: Group) -> ColumnElement[bool]:
        # a description can be null, and then the match is null too; an index answers only the bare match
        excluded = (not_(or_(*(one.is_(True) for one in find(term)))) for term in group.excluded)
        return and_(*(or_(*find(term)) for term in group.required), *excluded)

    return or_(*map(match_group, query.groups))


def _make_pattern(term: Term) -> str:
    """Return the regular expression of a term: its letters and digits, with anything else between and around them."""
    pieces = _PIECE.findall(term.written) or term.tokens  # of compatibility forms, such as ㎏, only these have letters
    text = f"{_OTHER}+".join(pieces)
    start = "" if _HAS_UNSPACED.match(pieces[0]) else f"(^|{_OTHER})"
    end = "" if term.prefix or _HAS_UNSPACED.match(pieces[-1][-1]) else f"($|{_OTHER})"
    return start + text + end


_MATCHES: tuple[Literal["reference_id"], Literal["title"], Literal["text"]] = ("reference_id", "title", "text")
"""The value of `match` for each tier."""


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
) -> SearchPage:
    size = parse_limit(limit, default=DEFAULT_LIMIT, largest=MAX_LIMIT)
    tag = cursors.compute_tag("search", query, reader.scope, selection)
    offset = int(cursors.decode(cursor, tag, "[0-9]{1,9}")) if cursor else 0
    if reader.is_existing:
        candidates = select_existing(parsed, reader.scope, selection, most=cap + 1)
    else:
        candidates = select_candidates(
            parsed, reader.scope, selection, reader.dialect, most=cap + 1, most_projects=most_projects
        )
    found = rank(reader.connection, candidates, limit=size, offset=offset, cap=cap)
    return {
        "query": query,
        "results": [_build_result(hit) for hit in found.hits],
        "count": found.total,
        "count_is_exact": found.total_is_exact,
        "ignores": ["case"] if reader.is_existing else ["case", "accents"],
        "next_cursor": cursors.encode(str(found.next_offset), tag) if found.next_offset is not None else None,
    }


def _build_result(hit: AnyRow) -> SearchResult:
    return {
        "id": hit.entity_id,
        "reference_id": hit.reference_id,
        "type": hit.kind,
        "title": hit.title,
        "description": hit.description,
        "priority": hit.priority,
        "status": hit.status,
        "created_at": iso(hit.created_at),
        "match": _MATCHES[hit.tier],
        "relevance": round(hit.score, 3),
    }
