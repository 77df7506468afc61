"""The SQL of the relationships of a requirement, in both directions, page by page."""

from sqlalchemy import ColumnElement, FromClause, select

from quilt_mcp.requirements import shapes
from quilt_mcp.requirements.answers import Requirement, RequirementRelationships
from quilt_mcp.requirements.parameters import Position, encode_position
from quilt_mcp.requirements.reads import Reader
from quilt_mcp.requirements.tables import AnyRow, relationship_types, requirement_relationships, requirements

MAX_LIMIT = 500
_COLUMNS = [
    requirement_relationships.c.id,
    requirement_relationships.c.source_requirement_id,
    requirement_relationships.c.target_requirement_id,
    requirement_relationships.c.relationship_type_id,
    relationship_types.c.name.label("relationship_type"),
    requirement_relationships.c.created_by,
    requirement_relationships.c.created_at,
    requirements.c.reference_id.label("related_reference_id"),
    requirements.c.title.label("related_title"),
]
_SOURCE, _TARGET = (
    requirement_relationships.c.source_requirement_id,
    requirement_relationships.c.target_requirement_id,
)


def read_relationships(
    reader: Reader, requirement: Requirement, position: Position, limit: int, tag: str
) -> RequirementRelationships:
    """Read a page of the relationships of a requirement, at most `limit` of each direction."""
    rows: list[list[AnyRow]] = []
    totals, after = [], []
    for place, (this, other) in enumerate(((_SOURCE, _TARGET), (_TARGET, _SOURCE))):
        related = _join(other)
        visible = [this == requirement["id"], *reader.restrict(requirements)]
        columns = [*_COLUMNS, reader.name_of(requirement_relationships, "created_by_name")]
        statement = select(*columns).select_from(related).where(*visible).order_by(requirement_relationships.c.id)
        start = position.after[place]
        if start:
            statement = statement.where(requirement_relationships.c.id > start)
        found = reader.execute(statement.limit(limit + 1))
        rows.append(found)
        after.append(found[:limit][-1].id if found else start)
        if position.totals:
            totals.append(position.totals[place])
        else:
            totals.append(len(found) if len(found) <= limit else reader.count(related, visible))
    more = max(map(len, rows)) > limit
    outgoing, incoming = ([shapes.build_relationship(row) for row in found[:limit]] for found in rows)
    return {
        **requirement,
        "source_relationships": outgoing,
        "source_count": totals[0],
        "target_relationships": incoming,
        "target_count": totals[1],
        "next_cursor": encode_position(after, totals, tag) if more else None,
        "is_complete": not more and not any(position.after),
    }


def _join(other: ColumnElement[str]) -> FromClause:
    return requirement_relationships.join(
        relationship_types, relationship_types.c.id == requirement_relationships.c.relationship_type_id
    ).join(requirements, requirements.c.id == other)
