"""The relationships of all requirements that the caller may see, each with a sentence."""

from collections.abc import Sequence

from sqlalchemy import func, or_, select
from sqlalchemy.sql.selectable import FromClause

from quilt_mcp.core import cursors
from quilt_mcp.core.cursors import Page
from quilt_mcp.core.cuts import fit
from quilt_mcp.requirements.conditions import Conditions, match_any, restrict
from quilt_mcp.requirements.model import REQUIREMENT
from quilt_mcp.requirements.overview_answers import RelatedPair, RelationshipCount
from quilt_mcp.requirements.overviews import Filter
from quilt_mcp.requirements.parameters import decode_position, encode_position, refuse_value
from quilt_mcp.requirements.reads import Reader
from quilt_mcp.requirements.tables import AnyRow, relationship_types, requirement_relationships, requirements

MOST_TYPES = 1_000
_links = requirement_relationships.c
_sources, _targets = requirements.alias("sources"), requirements.alias("targets")


def find_types(reader: Reader, names: Sequence[str]) -> dict[str, str]:
    """Return the relationship types with these names, or all, by their IDs.

    Raises:
        InvalidTemplateVariable: there is no such type.
    """
    columns = (relationship_types.c.id, relationship_types.c.name)
    rows = reader.execute(select(*columns).order_by(relationship_types.c.name).limit(MOST_TYPES))
    known = {row.name: row.id for row in rows}
    for name in names:
        if name not in known:
            raise refuse_value("type", name, [*known])
    return {known[name]: name for name in names or known}


def read_all_relationships(
    reader: Reader, types: dict[str, str], limited: Filter, cursor: str | None, limit: int
) -> tuple[Page[RelatedPair], list[RelationshipCount] | None]:
    """Read a page in the order of the IDs, and on the first page how many there are of each type."""
    tag = cursors.compute_tag("all relationships", sorted(types), limited.ids, reader.scope)
    position = decode_position(cursor, tag)
    rows, conditions = _select(reader, limited)
    conditions.append(match_any(_links.relationship_type_id, types, reader.dialect))
    counts: list[RelationshipCount] | None = None
    if position.totals:
        [total] = position.totals
    else:
        counts = _count(reader, rows, conditions, types)
        total = sum(one["count"] for one in counts)
    columns = (
        _links.id,
        _links.relationship_type_id,
        *(end.c[name].label(f"{side}_{name}") for side, end in _ENDS for name in ("reference_id", "title")),
    )
    joined = _join(rows)
    [after] = position.after
    following = [_links.id > after] if after else []
    statement = select(*columns).select_from(joined).where(*conditions, *following).order_by(_links.id)
    found = reader.execute(statement.limit(limit + 1))
    shown = fit([_build(row, types) for row in found[:limit]])
    last = encode_position([found[len(shown) - 1].id], [total], tag) if len(found) > len(shown) else None
    return Page(shown, total, last), counts


_ENDS = (("source", _sources), ("target", _targets))


def _select(reader: Reader, limited: Filter) -> tuple[FromClause, Conditions]:
    """Return the tables that the conditions need, and the conditions: both ends can be seen, one is within limits."""
    is_limited = bool(limited.epic or limited.project)
    if reader.scope.projects is None and not is_limited:
        return requirement_relationships, []
    conditions: Conditions = []
    for _, end in _ENDS:
        conditions += restrict(end.c.project_id, reader.scope, reader.dialect)
    if is_limited:
        within = select(requirements.c.id).where(*limited.limit(REQUIREMENT))
        conditions.append(or_(_links.source_requirement_id.in_(within), _links.target_requirement_id.in_(within)))
    return _join(requirement_relationships), conditions


def _join(rows: FromClause) -> FromClause:
    if rows is not requirement_relationships:
        return rows
    with_source = rows.join(_sources, _sources.c.id == _links.source_requirement_id)
    return with_source.join(_targets, _targets.c.id == _links.target_requirement_id)


def _count(reader: Reader, rows: FromClause, conditions: Conditions, types: dict[str, str]) -> list[RelationshipCount]:
    number = func.count().label("number")
    statement = select(_links.relationship_type_id, number).select_from(rows).where(*conditions)
    found = {
        row.relationship_type_id: row.number
        for row in reader.execute(statement.group_by(statement.selected_columns[0]))
    }
    return [{"type": name, "count": found.get(one, 0)} for one, name in types.items()]


def _build(row: AnyRow, types: dict[str, str]) -> RelatedPair:
    name = types[row.relationship_type_id]
    source, target = row.source_reference_id, row.target_reference_id
    return {
        "type": name,
        "sentence": f"{source} {name.replace('_', ' ')} {target}",
        "source_reference_id": source,
        "source_title": row.source_title,
        "target_reference_id": target,
        "target_title": row.target_title,
        "uri": f"{REQUIREMENT.make_uri(source)}/relationships",
    }
