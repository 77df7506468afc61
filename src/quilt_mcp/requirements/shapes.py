"""Converts rows to answers. Does not import SQLAlchemy, so that a server can start without it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from quilt_mcp.core.answers import iso
from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.answers import (
    AcceptanceCriterion,
    Epic,
    Relationship,
    Requirement,
    RequirementType,
    UserStory,
)
from quilt_mcp.requirements.kinds import Kind

if TYPE_CHECKING:
    from quilt_mcp.requirements.tables import AnyRow

A = TypeVar("A")

_TIMES = ("created_at", "updated_at")


@dataclass(frozen=True)
class Shape(Generic[A]):
    """How rows of one kind become answers.

    Attributes:
        kind: the kind.
        columns: those that a row starts with, in this order: of the table, or the name beside an ID.
    """

    kind: Kind
    columns: tuple[str, ...]

    def build(self, row: "AnyRow") -> A:
        """Build the answer from a row."""
        # by place, because a row takes three times as long to find its values by name
        answer = dict(zip(self.columns, row, strict=False))
        for name in _TIMES:
            answer[name] = iso(answer[name])
        return cast("A", answer)


def _make_shape(kind: Kind, answer: type[A]) -> Shape[A]:
    return Shape(kind, (*(name for name in answer.__annotations__ if name not in _TIMES), *_TIMES))


def build_type(row: "AnyRow") -> RequirementType:
    """Build the answer for a requirement type."""
    return {"id": row.id, "name": row.name, "description": row.description}


def build_relationship(row: "AnyRow") -> Relationship:
    """Build the answer for a relationship, joined with its type and with the other requirement."""
    return {
        "id": row.id,
        "source_requirement_id": row.source_requirement_id,
        "target_requirement_id": row.target_requirement_id,
        "relationship_type_id": row.relationship_type_id,
        "relationship_type": row.relationship_type,
        "created_by": row.created_by,
        "created_by_name": row.created_by_name,
        "created_at": iso(row.created_at),
        "related_reference_id": row.related_reference_id,
        "related_title": row.related_title,
    }


EPIC = _make_shape(kinds.EPIC, Epic)
USER_STORY = _make_shape(kinds.USER_STORY, UserStory)
ACCEPTANCE_CRITERION = _make_shape(kinds.ACCEPTANCE_CRITERIA, AcceptanceCriterion)
REQUIREMENT = _make_shape(kinds.REQUIREMENT, Requirement)
