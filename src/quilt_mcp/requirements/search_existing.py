"""The search in a database of the earlier requirements system, which has no index of ours and is only read.

The query language is the same, but PostgreSQL's own parser makes the words, without stemming: accents are not folded
(café is found as it is written), a word with a point or @ in it may be one word, and Chinese and Japanese are not taken
apart. A search reads the tables in the order of their ids until it has enough matches: a rare word in a large database
takes as long as reading it, and `database_timeout_seconds` ends that. So reference ids are only looked up, and what
mentions them in its text is not found.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Select, case, cast, func, lateral, literal, literal_column, select, true
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements.kinds import DESCRIPTION_LENGTH
from quilt_mcp.requirements.search_candidates import ANYWHERE, EXACT_REFERENCE, IN_TITLE
from quilt_mcp.requirements.search_compile import to_tsquery
from quilt_mcp.requirements.search_sql import DEFAULT_LIMIT, Found, answer
from quilt_mcp.requirements.search_text import ParsedQuery
from quilt_mcp.requirements.tables import BY_KIND

# Stemming and stop words would depend on the language.
_CONFIGURATION: ColumnElement[Any] = literal_column("'simple'::regconfig")
# a lexeme that the parser never makes; it keeps phrases from spanning the border of title and description
_BORDER = cast(literal("'|':1"), TSVECTOR)


async def search_existing(
    connection: AsyncConnection, query: ParsedQuery, *, limit: int = DEFAULT_LIMIT, offset: int = 0, cap: int
) -> Found:
    """A page of the entities that a query finds; such a database shows everyone all.

    Args:
        connection: to a database of the earlier requirements system.
        query: what is looked for.
        limit: hits on the page, 1-100.
        offset: of the page's first hit in the ranking, from 0 to the cap.
        cap: how many matches of each kind are ranked, and how many hits can be paged through.

    Raises:
        InvalidTemplateVariable: limit or offset are not within their bounds.
    """
    candidates = list(_asked_by_reference(query))
    if len(query.references) < len(query.groups):
        candidates += _matches(query, cap + 1)
    return await answer(connection, candidates, limit=limit, offset=offset, cap=cap)


def _asked_by_reference(query: ParsedQuery) -> Iterator[Select[Any]]:
    for kind, entities in BY_KIND.items() if query.references else ():
        yield select(
            literal(kind).label("kind"),
            entities.c.id.label("entity_id"),
            entities.c.reference_id,
            literal(EXACT_REFERENCE).label("tier"),
            literal(0.0).label("score"),
        ).where(entities.c.reference_id.in_(query.references))


def _matches(query: ParsedQuery, most: int) -> Iterator[Select[Any]]:
    anywhere = func.to_tsquery(_CONFIGURATION, to_tsquery(query))
    in_title = func.to_tsquery(_CONFIGURATION, to_tsquery(query, in_title=True))
    wanted: ColumnElement[Any] = func.to_tsquery(_CONFIGURATION, to_tsquery(query.wanted()))
    for kind, entities in BY_KIND.items():
        # OFFSET 0 keeps PostgreSQL from computing the words once for each place where they are used
        once = select(_words_of(entities).label("words")).correlate(entities).offset(literal_column("0"))
        computed = lateral(once, "computed")
        words = computed.c.words
        yield (
            select(
                literal(kind).label("kind"),
                entities.c.id.label("entity_id"),
                entities.c.reference_id,
                case((words.bool_op("@@")(in_title), IN_TITLE), else_=ANYWHERE).label("tier"),
                func.ts_rank(words, wanted).label("score"),
            )
            .select_from(entities.join(computed, true()))
            .where(words.bool_op("@@")(anywhere))
            .order_by(entities.c.id)
            .limit(most)
        )


def _words_of(entities: Any) -> Any:
    body = func.to_tsvector(_CONFIGURATION, func.left(func.coalesce(entities.c.description, ""), DESCRIPTION_LENGTH))
    if "title" not in entities.c:
        return body
    title = func.setweight(func.to_tsvector(_CONFIGURATION, entities.c.title), literal_column("'A'"))
    return title.op("||")(_BORDER).op("||")(body)
