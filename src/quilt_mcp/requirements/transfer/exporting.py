"""Exports a database as records that an import can read."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from sqlalchemy import Connection, and_, func, or_, select, union

from quilt_mcp.core.errors import InvalidTemplateVariable, NotFound
from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.conditions import Conditions, match_any, place_column
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.model import LINKS, POSITION, TABLES, read_number
from quilt_mcp.requirements.tables import AnyColumn, Values, metadata
from quilt_mcp.requirements.transfer.files import COLUMNS

BATCH = 1000
"""The number of rows that are read together."""
_OF_PROJECTS = {"project", "member"}
_OF_PEOPLE = {"user", "member"}
_PEOPLE = {field for field, table in LINKS.items() if table == "users"}
"""The fields that name users."""
_MOST_NAMES = 10
"""Maximum number of projects that a refusal lists."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What an export contains.

    Attributes:
        projects: the names or IDs of its projects; empty for everything.
        has_users: whether it contains users and memberships, and the author and the assignee of a record.
    """

    projects: Sequence[str] = ()
    has_users: bool = True


EVERYTHING = Part()


def export_records(
    database: Database,
    part: Part = EVERYTHING,
    *,
    batch: int = BATCH,
    progress: Callable[[int, int], object] = lambda *_: None,
) -> Generator[Values, None, None]:
    """Yield the rows as records, in one snapshot, sorted by kind and position. Records follow what they refer to.

    An export of some projects has the relationships between their requirements, the types that these use, and the users
    that these name.

    A database of the earlier requirements system has no projects, so its records belong to the default project. The
    generator keeps a connection open: close it if you do not read all records.
    """
    with database.reading() as connection:
        exported = {
            kind: metadata.tables[name]
            for kind, name in TABLES.items()
            if not (database.is_existing and kind in _OF_PROJECTS) and (part.has_users or kind not in _OF_PEOPLE)
        }
        ids = _find_projects(connection, part.projects, has_projects=not database.is_existing)
        conditions = {kind: _limit(kind, ids, database.dialect) if ids else [] for kind in exported}
        counts = [select(func.count()).select_from(table).where(*conditions[kind]) for kind, table in exported.items()]
        total = sum([connection.execute(one).scalar_one() for one in counts])
        done = 0
        progress(done, total)
        for kind, table in exported.items():
            names = _list_columns(kind, database, has_users=part.has_users)
            order: list[AnyColumn] = list(table.primary_key)
            if kind in model.BY_NAME:
                order = [place_column(table, is_existing=database.is_existing), table.c.id]
            selected = select(*(table.c[name] for name in names)).where(*conditions[kind]).order_by(*order)
            for rows in connection.execute(selected, execution_options={"yield_per": batch}).mappings().partitions():
                for row in map(dict, rows):
                    yield {"kind": kind, **row, **_leave_out_position(row)}
                done += len(rows)
                progress(done, total)


def _find_projects(connection: Connection, wanted: Sequence[str], *, has_projects: bool) -> list[str]:
    """Return the IDs of projects with these names or IDs. A name comes first."""
    if not wanted:
        return []
    if not has_projects:
        raise InvalidTemplateVariable(
            "A database of the earlier requirements system has no projects.",
            suggested_actions=["Leave --project out to export everything."],
        )
    rows = connection.execute(select(tables.projects.c.id, tables.projects.c.name)).all()
    by_name = {row.id: row.id for row in rows} | {row.name: row.id for row in rows}
    for one in wanted:
        if one not in by_name:
            names = sorted(row.name for row in rows)
            folded = {name.casefold(): name for name in names}
            near = [f"Did you mean {folded[name]}?" for name in get_close_matches(one.casefold(), folded, n=3)]
            shown = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
            raise NotFound(f"Project {one!a} not found.", suggested_actions=[*near, f"The projects are {shown}."])
    return sorted({by_name[one] for one in wanted})


def _limit(kind: str, projects: Sequence[str], dialect: str) -> Conditions:
    """Return the conditions for the rows of a kind that belong to some projects."""
    columns = metadata.tables[TABLES[kind]].c
    of_projects = match_any(tables.requirements.c.project_id, projects, dialect)
    inside = select(tables.requirements.c.id).where(of_projects)
    links = tables.requirement_relationships.c
    related = and_(links.source_requirement_id.in_(inside), links.target_requirement_id.in_(inside))
    if kind == "relationship":
        return [related]
    if kind == "relationship_type":
        return [columns.id.in_(select(links.relationship_type_id).where(related))]
    if kind == "requirement_type":
        return [columns.id.in_(select(tables.requirements.c.type_id).where(of_projects))]
    if kind == "user":
        named = [
            select(column).where(match_any(table.c.project_id, projects, dialect))
            for table in (tables.project_members, *tables.BY_KIND.values())
            for column in table.c
            if column.name in _PEOPLE
        ]
        authors = select(links.created_by).where(related)
        return [or_(columns.id.in_(union(*named)), columns.id.in_(authors))]
    return [match_any(columns.id if kind == "project" else columns.project_id, projects, dialect)]


def _list_columns(kind: str, database: Database, *, has_users: bool) -> list[str]:
    columns = metadata.tables[TABLES[kind]].c
    left_out = set() if has_users else set(_PEOPLE)
    if database.is_existing or kind not in {model.EPIC.name, "member"}:
        left_out.add("project_id")  # the earlier system has no projects, and all other kinds have that of their parent
    if database.is_existing:
        left_out.add(POSITION)
    return [column for column in COLUMNS if column in columns and column not in left_out]


def _leave_out_position(row: Values) -> Values:
    """Return no position if it is the number of the reference ID, as of all entities that no document places."""
    is_usual = row.get(POSITION) is not None and row[POSITION] == read_number(row["reference_id"])
    return {POSITION: None} if is_usual else {}
