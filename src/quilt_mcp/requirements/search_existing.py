"""The candidates of a search in a database of the earlier system, which has no index."""

import re
from collections.abc import Sequence

from sqlalchemy import ColumnElement, and_, case, false, literal, not_, or_, select

from quilt_mcp.requirements.conditions import Scope, Selection
from quilt_mcp.requirements.model import KINDS, Kind
from quilt_mcp.requirements.search_candidates import ANYWHERE, EXACT_REFERENCE, IN_TITLE
from quilt_mcp.requirements.search_text import UNSPACED, Group, ParsedQuery, Term
from quilt_mcp.requirements.tables import BY_KIND, AnyColumn, Statement

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
