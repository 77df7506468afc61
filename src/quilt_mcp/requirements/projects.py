"""The SQL of projects."""

from uuid import UUID

from sqlalchemy import ColumnElement, func, select

from quilt_mcp.core.answers import iso
from quilt_mcp.core.errors import NotFound
from quilt_mcp.requirements.answers import Project, ProjectName
from quilt_mcp.requirements.conditions import match_any, restrict
from quilt_mcp.requirements.parameters import Position
from quilt_mcp.requirements.reads import Reader, Rows
from quilt_mcp.requirements.tables import Statement, epics, projects


def read_projects(reader: Reader, position: Position, *, limit: int) -> Rows[Project]:
    """Read a page of the caller's projects."""
    [after], visible = position.after, _restrict(reader)
    if position.totals:
        [total] = position.totals
    else:
        [counted] = reader.execute(select(func.count().label("total")).select_from(projects).where(*visible))
        total = counted.total
    statement = select(projects).where(*visible).order_by(projects.c.id).limit(limit + 1)
    rows = reader.execute(statement.where(projects.c.id > after) if after else statement)
    shown = rows[:limit]
    of_projects = match_any(epics.c.project_id, [row.id for row in shown], reader.dialect)
    numbers = select(epics.c.project_id, func.count().label("number")).where(of_projects).group_by(epics.c.project_id)
    number_of = {row.project_id: row.number for row in reader.execute(numbers)}
    found: list[Project] = [
        {
            "id": row.id,
            "name": row.name,
            "description": row.description,
            "epic_count": number_of.get(row.id, 0),
            "created_at": iso(row.created_at),
            "updated_at": iso(row.updated_at),
        }
        for row in shown
    ]
    return Rows(found, total, shown[-1].id if len(rows) > limit else None)


def find_project(reader: Reader, text: str) -> ProjectName:
    """Find a project of the caller by its ID or its name.

    Raises:
        NotFound: it does not exist, or the caller is not a member.
    """
    for row in reader.execute(_select_names(reader).where(_matches(text))):
        return {"id": row.id, "name": row.name}
    raise make_unknown_project(text)


def list_names(reader: Reader, prefix: str, limit: int) -> list[str]:
    """List the first names of the caller's projects that start with a prefix."""
    # not LIKE and not the default order, in which the two databases differ
    starts = func.substr(projects.c.name, 1, len(prefix)) == prefix
    order = projects.c.name.collate("C" if reader.dialect == "postgresql" else "BINARY")
    rows = reader.execute(_select_names(reader).where(starts).order_by(order).limit(limit))
    return [row.name for row in rows]


def make_unknown_project(text: str) -> NotFound:
    """Return the failure for a project that the caller cannot find."""
    return NotFound(
        f"Project {text!a} not found.",
        details="It does not exist, or you are not a member.",
        suggested_actions=["Read requirements://projects for your projects."],
    )


def _select_names(reader: Reader) -> Statement:
    return select(projects.c.id, projects.c.name).where(*_restrict(reader))


def _restrict(reader: Reader) -> list[ColumnElement[bool]]:
    return restrict(projects.c.id, reader.scope, reader.dialect)


def _matches(text: str) -> ColumnElement[bool]:
    try:
        is_id = str(UUID(text)) == text
    except ValueError:
        is_id = False
    return projects.c.id == text if is_id else projects.c.name == text
