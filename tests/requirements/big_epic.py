"""Writes epics with many descendants, without search entries, which would take most of the time."""

import uuid
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from quilt_mcp.requirements import tables
from quilt_mcp.requirements.tables import Values
from quilt_mcp.settings import Settings
from tests.requirements.conftest import opened

_BATCH = 1000


def write_epic(settings: Settings, stories: list[tuple[int, int]], relationships: int = 0) -> None:
    """Write EP-900 with a user story for each pair: its numbers of acceptance criteria and of requirements.

    The first requirement has so many relationships to others, and half as many from others.
    """
    with opened(settings) as database, database.writing() as connection:
        shared = _write_shared(connection)
        epic = shared | {"id": str(uuid.uuid4()), "reference_id": "EP-900", "status": "Draft", "title": "Big"}
        _insert(connection, tables.epics, [epic])
        parents = [
            shared
            | {"id": str(uuid.uuid4()), "reference_id": f"US-{9000 + at}", "epic_id": epic["id"], "title": f"{at}"}
            for at in range(len(stories))
        ]
        _insert(connection, tables.user_stories, [one | {"status": "Draft"} for one in parents])
        criteria: list[Values] = []
        wanted: list[Values] = []
        for parent, (some, more) in zip(parents, stories, strict=True):
            criteria += [_child(parent, "AC", len(criteria) + at) for at in range(some)]
            wanted += [_child(parent, "REQ", len(wanted) + at) for at in range(more)]
        user = shared["creator_id"]
        _insert(connection, tables.acceptance_criteria, [one | {"author_id": user} for one in criteria])
        kind = connection.scalar(select(tables.requirement_types.c.id).limit(1))
        _insert(
            connection, tables.requirements, [shared | one | {"type_id": kind, "status": "Draft"} for one in wanted]
        )
        _insert(connection, tables.requirement_relationships, _relate(connection, wanted, relationships))


def _write_shared(connection: Connection) -> Values:
    """Write a user. Return the values that planned entities have in common."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    times: Values = {"created_at": now, "updated_at": now}
    user = str(uuid.uuid4())
    row = {"id": user, "username": f"u-{user}", "email": f"{user}@acme.example", "role": "User"}
    _insert(connection, tables.users, [row | times])
    project = connection.scalar(select(tables.projects.c.id).limit(1))
    return times | {"project_id": project, "creator_id": user, "assignee_id": user, "priority": 2}


def _child(parent: Values, prefix: str, number: int) -> Values:
    shared: dict[str, Any] = {key: parent[key] for key in ("project_id", "created_at", "updated_at")}
    text = f"{prefix} {number}"
    title = {"title": text} if prefix == "REQ" else {}
    return (
        shared
        | title
        | {
            "id": str(uuid.uuid4()),
            "reference_id": f"{prefix}-{90_000 + number}",
            "user_story_id": parent["id"],
            "description": text,
        }
    )


def _relate(connection: Connection, wanted: list[Values], number: int) -> list[Values]:
    kind = connection.scalar(select(tables.relationship_types.c.id).limit(1))
    user = connection.scalar(select(tables.users.c.id).limit(1))
    ids = [one["id"] for one in wanted]
    pairs = [(ids[0], other) for other in ids[1 : number + 1]] + [(one, ids[0]) for one in ids[1 : number // 2 + 1]]
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        {
            "id": str(uuid.uuid4()),
            "source_requirement_id": source,
            "target_requirement_id": target,
            "relationship_type_id": kind,
            "created_by": user,
            "created_at": now,
        }
        for source, target in pairs
    ]


def _insert(connection: Connection, table: Table, rows: list[Values]) -> None:
    for start in range(0, len(rows), _BATCH):
        connection.execute(insert(table), rows[start : start + _BATCH])
