"""The matches of a query in a database of the earlier requirements system, which is read-only and has no search index.

The query language is the same, but PostgreSQL's own parser splits texts into words, without stemming. So a word that
contains a period or an @ can be one word, and Chinese and Japanese text is not split. Accents count, unless the
extension `unaccent` is installed. The search reads the tables in the order of their IDs until it has enough matches.
For a rare word it reads the whole database, limited by `database_timeout_seconds`, unless titles and descriptions have
trigram indexes. A reference ID finds only its entity, not the texts that mention it.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import (
    Column,
    ColumnElement,
    Table,
    and_,
    case,
    cast,
    func,
    lateral,
    literal,
    literal_column,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.core.tracing import calling
from quilt_mcp.requirements.conditions import Conditions, Selection
from quilt_mcp.requirements.kinds import DESCRIPTION_LENGTH, KINDS, Kind
from quilt_mcp.requirements.search.compile import compile_to_tsquery
from quilt_mcp.requirements.search.facets import UNFILTERED
from quilt_mcp.requirements.search.ranking import ANYWHERE, EXACT_REFERENCE, IN_TITLE
from quilt_mcp.requirements.search.text import ParsedQuery, Term
from quilt_mcp.requirements.tables import BY_KIND, Statement

# other configurations have the stemming and stop words of one language
_CONFIGURATION: ColumnElement[str] = literal_column("'simple'::regconfig")
# a lexeme that the parser never produces; it prevents phrases from matching across title and description
_BORDER = cast(literal("'|':1"), TSVECTOR)
_PLAIN = re.compile(r"[\w\s-]+")
_PIECE = re.compile(r"[^\W_]{3,}")
_INDEXED = text("""
    SELECT tables.relname AS table_name, columns.attname AS column_name
    FROM pg_index AS indexes
    CROSS JOIN LATERAL generate_subscripts(indexes.indkey, 1) AS place
    JOIN pg_class AS tables ON tables.oid = indexes.indrelid
    JOIN pg_attribute AS columns ON columns.attrelid = tables.oid AND columns.attnum = indexes.indkey[place]
    JOIN pg_opclass AS classes ON classes.oid = indexes.indclass[place]
    WHERE classes.opcname IN ('gin_trgm_ops', 'gist_trgm_ops')
        AND indexes.indisvalid AND indexes.indpred IS NULL AND pg_table_is_visible(tables.oid)
""")
_UNACCENT = text("""
    SELECT namespaces.nspname FROM pg_extension AS extensions
    JOIN pg_namespace AS namespaces ON namespaces.oid = extensions.extnamespace
    WHERE extensions.extname = 'unaccent' AND has_schema_privilege(namespaces.oid, 'USAGE')
""")


@dataclass(frozen=True, slots=True)
class Support:
    """The features of the database that a search can use.

    Attributes:
        indexed: the names of the tables of which every text has a trigram index.
        unaccent: the schema of the extension `unaccent`; None if it is not installed, or an index is used instead,
            which contains the texts with their accents.
    """

    indexed: frozenset[str] = frozenset()
    unaccent: str | None = None


async def find_support(connection: AsyncConnection) -> Support:
    """Find out what the database has now."""
    with calling("sql", "select"):
        rows = (await connection.execute(_INDEXED)).all()
        schema = await connection.scalar(_UNACCENT)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row.table_name].add(row.column_name)
    indexed = {one.name for one in BY_KIND.values() if found[one.name] >= {text.name for text in _texts_of(one)}}
    return Support(frozenset(indexed), None if indexed else schema)


def select_existing(
    query: ParsedQuery, *, most: int, support: Support = Support(), selection: Selection = UNFILTERED
) -> list[Statement]:
    """Return selects of kind, entity_id, reference_id, tier and score, for the entities that match.

    Args:
        query: the parsed query.
        most: maximum number of rows of each select that searches texts.
        support: what the database has that the search can use.
        selection: the filters. Kinds that none of them can match have no select.
    """
    limits = {kind: selection.limit(kind, "postgresql") for kind in KINDS}
    limited = {kind: conditions for kind, conditions in limits.items() if conditions is not None}
    selects = list(_select_references(query, limited))
    if len(query.references) < len(query.groups):
        selects += _select_matches(query, limited, most, support)
    return selects


def _select_references(query: ParsedQuery, limited: Mapping[Kind, Conditions]) -> Iterator[Statement]:
    for kind, conditions in limited.items() if query.references else ():
        entities = BY_KIND[kind.name]
        yield select(
            literal(kind.name).label("kind"),
            entities.c.id.label("entity_id"),
            entities.c.reference_id,
            literal(EXACT_REFERENCE).label("tier"),
            literal(0.0).label("score"),
        ).where(entities.c.reference_id.in_(query.references), *conditions)


def _select_matches(
    query: ParsedQuery, limited: Mapping[Kind, Conditions], most: int, support: Support
) -> Iterator[Statement]:
    def compile_query(text: str) -> ColumnElement[str]:
        found: ColumnElement[str] = func.to_tsquery(_CONFIGURATION, _fold(literal(text), support))
        return found

    anywhere = compile_query(compile_to_tsquery(query))
    in_title = compile_query(compile_to_tsquery(query, in_title=True))
    required = compile_query(compile_to_tsquery(query.without_excluded()))
    for kind, conditions in limited.items():
        entities = BY_KIND[kind.name]
        # OFFSET 0 makes PostgreSQL compute the words once, not once for each use
        once = select(_words_of(entities, support).label("words")).correlate(entities).offset(literal_column("0"))
        computed = lateral(once, "computed")
        words = computed.c.words
        preselected = _preselect(query, entities) if entities.name in support.indexed else None
        first = conditions if preselected is None else [*conditions, preselected]
        yield (
            select(
                literal(kind.name).label("kind"),
                entities.c.id.label("entity_id"),
                entities.c.reference_id,
                case((words.bool_op("@@")(in_title), IN_TITLE), else_=ANYWHERE).label("tier"),
                func.ts_rank(words, required).label("score"),
            )
            .select_from(entities.join(computed, true()))
            .where(words.bool_op("@@")(anywhere), *first)
            .order_by(entities.c.id)
            .limit(most)
        )


def _preselect(query: ParsedQuery, entities: Table) -> ColumnElement[bool] | None:
    """Return a condition that every match fulfils, and that a trigram index answers; None if there is none.

    Each alternative needs a term with a piece of at least three characters that must occur in a text as it is.
    """
    alternatives = []
    for group in query.groups:
        pieces = [piece for term in group.required if (piece := _find_piece(term))]
        if not pieces:
            return None
        texts = _texts_of(entities)
        alternatives.append(and_(*(or_(*(text.ilike(f"%{piece}%") for text in texts)) for piece in pieces)))
    return or_(*alternatives)


def _find_piece(term: Term) -> str | None:
    if not _PLAIN.fullmatch(term.written):  # PostgreSQL's parser leaves out tags and entities
        return None
    pieces = [piece for piece in _PIECE.findall(term.written) if piece.isascii() or piece.isalpha()]
    return max(pieces, key=len, default=None)


def _texts_of(entities: Table) -> list[Column[str]]:
    return [entities.c[name] for name in ("title", "description") if name in entities.c]


def _fold(text: ColumnElement[str], support: Support) -> ColumnElement[str]:
    """Remove the accents, if the database can. Its text search removes the case."""
    if support.unaccent is None:
        return text
    folded: ColumnElement[str] = getattr(func, support.unaccent).unaccent(text)
    return folded


def _words_of(entities: Table, support: Support) -> ColumnElement[str]:
    text = func.left(func.coalesce(entities.c.description, ""), DESCRIPTION_LENGTH)
    body: ColumnElement[str] = func.to_tsvector(_CONFIGURATION, _fold(text, support))
    if "title" not in entities.c:
        return body
    words = func.to_tsvector(_CONFIGURATION, _fold(entities.c.title, support))
    title = func.setweight(words, literal_column("'A'"))
    return title.op("||")(_BORDER).op("||")(body)
