"""Exports a database as records that an import can read."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from sqlalchemy import Connection, Table, and_, func, literal, or_, select, tuple_, union

from quilt_mcp.core.errors import InvalidTemplateVariable, NotFound
from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.conditions import Conditions, match_any
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.model import LINKS, TABLES
from quilt_mcp.requirements.tables import Values, metadata
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
    """Yield the rows as records, in one snapshot, sorted by kind and ID. Records follow those that they refer to.

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
            for rows in _read_rows(connection, table, names, conditions[kind], batch):
                for row in rows:
                    yield {"kind": kind, **row}
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
    return [column for column in COLUMNS if column in columns and column not in left_out]


def _read_rows(
    connection: Connection, table: Table, names: list[str], conditions: Conditions, batch: int
) -> Iterator[list[Values]]:
    key = list(table.primary_key)
    statement = select(*(table.c[name] for name in names)).where(*conditions).order_by(*key).limit(batch)
    page = statement
    while True:
        rows = [dict(row) for row in connection.execute(page).mappings().all()]
        yield rows
        if len(rows) < batch:
            return
        # the types matter: an ID is not compared as text, in which form it has other characters than in the table
        last = (literal(rows[-1][column.name], column.type) for column in key)
        page = statement.where(tuple_(*key) > tuple_(*last))
