"""The SQL of an epic with its descendants, page by page.

A page contains whole user stories: as many as have at most 2,000 children of each kind together. Only a user story that
has more on its own is incomplete, and says so.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

from sqlalchemy import Label, func, select

from quilt_mcp.requirements import shapes
from quilt_mcp.requirements.answers import AcceptanceCriterion, Epic, EpicHierarchy, Requirement, UserStoryTree
from quilt_mcp.requirements.conditions import match_any
from quilt_mcp.requirements.kinds import ACCEPTANCE_CRITERIA, REQUIREMENT, Kind
from quilt_mcp.requirements.parameters import Position, encode_position
from quilt_mcp.requirements.reads import Reader
from quilt_mcp.requirements.shapes import Shape
from quilt_mcp.requirements.tables import BY_KIND, AnyRow, user_stories

Child = TypeVar("Child", AcceptanceCriterion, Requirement)

MAX_CHILDREN = 2000


def read_hierarchy(reader: Reader, epic: Epic, position: Position, limit: int, tag: str) -> EpicHierarchy:
    """Read a page of the user stories of an epic, with the acceptance criteria and requirements of each.

    Args:
        reader: for the caller.
        epic: the epic.
        position: of the page.
        limit: maximum number of user stories.
        tag: of the cursors.
    """
    of_epic = [user_stories.c.epic_id == epic["id"], *reader.restrict(user_stories)]
    counts = [_count_children(reader, kind) for kind in (ACCEPTANCE_CRITERIA, REQUIREMENT)]
    statement = select(*reader.columns_of(shapes.USER_STORY), *counts).where(*of_epic).order_by(user_stories.c.id)
    if position.after[0]:
        statement = statement.where(user_stories.c.id > position.after[0])
    rows = reader.execute(statement.limit(limit + 1))
    shown = rows[: min(limit, _count_fitting(rows))]
    is_last = len(shown) == len(rows)
    total = position.totals[0] if position.totals else len(rows) if is_last else reader.count(user_stories, of_epic)
    ids = [row.id for row in shown]
    criteria = _read_children(reader, shapes.ACCEPTANCE_CRITERION, ids)
    wanted = _read_children(reader, shapes.REQUIREMENT, ids)
    stories = [_build_tree(row, criteria[row.id], wanted[row.id]) for row in shown]
    return {
        **epic,
        "user_stories": stories,
        "count": total,
        "next_cursor": None if is_last else encode_position([ids[-1]], [total], tag),
        "is_complete": is_last and not position.after[0] and all(story["is_complete"] for story in stories),
    }


def _count_children(reader: Reader, kind: Kind) -> Label[int]:
    table = BY_KIND[kind.name]
    of_story = [table.c[str(kind.parent_column)] == user_stories.c.id, *reader.restrict(table)]
    counted = select(func.count()).select_from(table).where(*of_story).correlate(user_stories)
    return counted.scalar_subquery().label(f"{kind.table}_count")


def _count_fitting(rows: Sequence[AnyRow]) -> int:
    """Return how many of the user stories have at most MAX_CHILDREN of each kind together; at least 1."""
    criteria = wanted = 0
    for place, row in enumerate(rows):
        criteria += row.acceptance_criteria_count
        wanted += row.requirements_count
        if place and max(criteria, wanted) > MAX_CHILDREN:
            return place
    return len(rows)


def _read_children(reader: Reader, shape: Shape[Child], stories: list[str]) -> defaultdict[str, list[Child]]:
    grouped: defaultdict[str, list[Child]] = defaultdict(list)
    if not stories:
        return grouped
    table = BY_KIND[shape.kind.name]
    of_stories = match_any(table.c.user_story_id, stories, reader.connection.dialect.name)
    statement = (
        select(*reader.columns_of(shape))
        .where(of_stories, *reader.restrict(table))
        .order_by(table.c.id)
        .limit(MAX_CHILDREN)
    )
    for row in reader.execute(statement):
        grouped[row.user_story_id].append(shape.build(row))
    return grouped


def _build_tree(row: AnyRow, criteria: list[AcceptanceCriterion], wanted: list[Requirement]) -> UserStoryTree:
    return {
        **shapes.USER_STORY.build(row),
        "acceptance_criteria": criteria,
        "acceptance_criteria_count": row.acceptance_criteria_count,
        "requirements": wanted,
        "requirements_count": row.requirements_count,
        "is_complete": (len(criteria), len(wanted)) == (row.acceptance_criteria_count, row.requirements_count),
    }
