"""Rows as JSON: the fields that each kind of entity has in every answer."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Row, Table

from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.kinds import Kind
from quilt_mcp.requirements.tables import BY_KIND, relationship_types, requirement_relationships, requirement_types
from quilt_mcp.services.timestamps import iso

_PLANNED = ("id", "reference_id", "title", "description", "status", "priority", "creator_id", "assignee_id")
_TIMES = ("created_at", "updated_at")
_FIELDS: dict[str, tuple[str, ...]] = {
    kinds.EPIC.name: (*_PLANNED, *_TIMES),
    kinds.USER_STORY.name: (*_PLANNED, "epic_id", *_TIMES),
    kinds.ACCEPTANCE_CRITERIA.name: ("id", "reference_id", "description", "user_story_id", "author_id", *_TIMES),
    kinds.REQUIREMENT.name: (*_PLANNED, "user_story_id", "acceptance_criteria_id", "type_id", *_TIMES),
}


def entity_columns(kind: Kind) -> list[Column[Any]]:
    """The columns of an entity's answer, in their order."""
    return _columns(BY_KIND[kind.name], _FIELDS[kind.name])


TYPE_COLUMNS = [requirement_types.c.id, requirement_types.c.name, requirement_types.c.description]
RELATIONSHIP_COLUMNS = [
    requirement_relationships.c.id,
    requirement_relationships.c.source_requirement_id,
    requirement_relationships.c.target_requirement_id,
    requirement_relationships.c.relationship_type_id,
    relationship_types.c.name.label("relationship_type"),
    requirement_relationships.c.created_by,
    requirement_relationships.c.created_at,
]


def as_json(row: Row[Any]) -> dict[str, Any]:
    """The row as JSON: its moments in UTC, all else as it is."""
    return {
        name: iso(value) if isinstance(value, datetime) else value
        for name, value in row._mapping.items()  # noqa: SLF001 - public, named so that it is no column
    }


def all_as_json(rows: Iterable[Row[Any]]) -> list[dict[str, Any]]:
    """The rows as JSON, in their order."""
    return [as_json(row) for row in rows]


def _columns(table: Table, names: Iterable[str]) -> list[Column[Any]]:
    return [table.c[name] for name in names]
