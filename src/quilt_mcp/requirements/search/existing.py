"""The matches of a query in a database of the earlier requirements system, which is read-only and has no search index.

The query language is the same, and so is what separates words, except that accents count. Each word is a regular
expression over the texts, which a trigram index of the extension `pg_trgm` answers if there is one. The search reads
the tables in the order of their IDs until it has enough matches. For a rare word without such an index it reads the
whole database, limited by `database_timeout_seconds`. A reference ID finds only its entity, not the texts that mention
it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import ColumnElement, and_, case, literal, not_, or_, select, true

from quilt_mcp.requirements.conditions import Conditions, Selection
from quilt_mcp.requirements.kinds import KINDS, Kind
from quilt_mcp.requirements.search.facets import UNFILTERED
from quilt_mcp.requirements.search.ranking import ANYWHERE, EXACT_REFERENCE, IN_TITLE
from quilt_mcp.requirements.search.text import UNSPACED, Group, ParsedQuery, Term
from quilt_mcp.requirements.tables import BY_KIND, AnyColumn, Statement

_PIECE = re.compile(r"[^\W_]+")
_OTHER = "[^[:alnum:]]"
_HAS_UNSPACED = re.compile(f"[{UNSPACED}]")


def select_existing(query: ParsedQuery, *, most: int, selection: Selection = UNFILTERED) -> list[Statement]:
    """Return selects of kind, entity_id, reference_id, tier and score, for the entities that match.

    Args:
        query: the parsed query.
        most: maximum number of rows of each select that searches texts.
        selection: the filters. Kinds that none of them can match have no select.
    """
    limits = {kind: selection.limit(kind, "postgresql") for kind in KINDS}
    limited = {kind: conditions for kind, conditions in limits.items() if conditions is not None}
    selects = list(_select_references(query, limited))
    if len(query.references) < len(query.groups):
        selects += _select_matches(query, limited, most)
    return selects


def _select_references(query: ParsedQuery, limited: Mapping[Kind, Conditions]) -> Iterator[Statement]:
    for kind, conditions in limited.items() if query.references else ():
        entities = BY_KIND[kind.name]
        yield _select(kind, literal(EXACT_REFERENCE)).where(entities.c.reference_id.in_(query.references), *conditions)


def _select_matches(query: ParsedQuery, limited: Mapping[Kind, Conditions], most: int) -> Iterator[Statement]:
    for kind, conditions in limited.items():
        entities = BY_KIND[kind.name]
        texts = [entities.c[name] for name in ("title", "description") if name in entities.c]
        in_title = _match(query, texts[:1]) if kind.statuses else not_(true())
        tier = case((in_title, IN_TITLE), else_=ANYWHERE)
        yield _select(kind, tier).where(_match(query, texts), *conditions).order_by(entities.c.id).limit(most)


def _select(kind: Kind, tier: ColumnElement[int]) -> Statement:
    entities = BY_KIND[kind.name]
    return select(
        literal(kind.name).label("kind"),
        entities.c.id.label("entity_id"),
        entities.c.reference_id,
        tier.label("tier"),
        literal(0.0).label("score"),
    )


def _match(query: ParsedQuery, texts: Sequence[AnyColumn]) -> ColumnElement[bool]:
    """Return the condition that one group of terms occurs in these texts."""

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
