"""Converts rows to answers. Does not import SQLAlchemy, so that a server can start without it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

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


@dataclass(frozen=True)
class Shape(Generic[A]):
    """How rows of one kind become answers.

    Attributes:
        kind: the kind.
        columns: the columns that `build` reads: of the table, or the name beside an ID.
        build: makes an answer from a row.
    """

    kind: Kind
    columns: tuple[str, ...]
    build: Callable[["AnyRow"], A]


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


def _build_epic(row: "AnyRow") -> Epic:
    return {
        "id": row.id,
        "reference_id": row.reference_id,
        "title": row.title,
        "description": row.description,
        "status": row.status,
        "priority": row.priority,
        "creator_id": row.creator_id,
        "creator_name": row.creator_name,
        "assignee_id": row.assignee_id,
        "assignee_name": row.assignee_name,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }


def _build_user_story(row: "AnyRow") -> UserStory:
    return {
        "id": row.id,
        "reference_id": row.reference_id,
        "title": row.title,
        "description": row.description,
        "status": row.status,
        "priority": row.priority,
        "creator_id": row.creator_id,
        "creator_name": row.creator_name,
        "assignee_id": row.assignee_id,
        "assignee_name": row.assignee_name,
        "epic_id": row.epic_id,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }


def _build_acceptance_criterion(row: "AnyRow") -> AcceptanceCriterion:
    return {
        "id": row.id,
        "reference_id": row.reference_id,
        "description": row.description,
        "user_story_id": row.user_story_id,
        "author_id": row.author_id,
        "author_name": row.author_name,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }


def _build_requirement(row: "AnyRow") -> Requirement:
    return {
        "id": row.id,
        "reference_id": row.reference_id,
        "title": row.title,
        "description": row.description,
        "status": row.status,
        "priority": row.priority,
        "creator_id": row.creator_id,
        "creator_name": row.creator_name,
        "assignee_id": row.assignee_id,
        "assignee_name": row.assignee_name,
        "user_story_id": row.user_story_id,
        "acceptance_criteria_id": row.acceptance_criteria_id,
        "type_id": row.type_id,
        "type_name": row.type_name,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }


EPIC = Shape(kinds.EPIC, tuple(Epic.__annotations__), _build_epic)
USER_STORY = Shape(kinds.USER_STORY, tuple(UserStory.__annotations__), _build_user_story)
ACCEPTANCE_CRITERION = Shape(
    kinds.ACCEPTANCE_CRITERIA, tuple(AcceptanceCriterion.__annotations__), _build_acceptance_criterion
)
REQUIREMENT = Shape(kinds.REQUIREMENT, tuple(Requirement.__annotations__), _build_requirement)
