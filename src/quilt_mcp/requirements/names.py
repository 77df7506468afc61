"""The names that answers show beside IDs: of users and of requirement types.

Each name is a scalar subquery, so that a page needs no further statement and is read along the same index.
"""

from functools import cache
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, literal_column, select, text

from quilt_mcp.core.tracing import calling
from quilt_mcp.requirements.tables import requirement_types, users


class _Named(NamedTuple):
    """The source of a name: the column with the ID, and the table and the column with the name."""

    id_column: str
    table: Table
    column: str


_NAMES = {
    "creator_name": _Named("creator_id", users, "username"),
    "assignee_name": _Named("assignee_id", users, "username"),
    "author_name": _Named("author_id", users, "username"),
    "created_by_name": _Named("created_by", users, "username"),
    "type_name": _Named("type_id", requirement_types, "name"),
}
_MAY_READ_USERS = (
    "SELECT pg_catalog.has_column_privilege('users', 'id', 'SELECT') "
    "AND pg_catalog.has_column_privilege('users', 'username', 'SELECT')"
)


def may_read_users(connection: Connection) -> bool:
    """Return whether the database user may read the names of users. Queries once for each connection of the pool.

    Without this privilege the names of users are null. Everything else can be read, for example in a database of the
    earlier requirements system.
    """
    if connection.dialect.name != "postgresql":
        return True
    pooled = connection.info
    if _MAY_READ_USERS not in pooled:
        with calling("sql", "select"):
            pooled[_MAY_READ_USERS] = bool(connection.scalar(text(_MAY_READ_USERS)))
    return bool(pooled[_MAY_READ_USERS])


@cache  # to create the subqueries takes longer than to read an entity
def select_columns(table: Table, columns: tuple[str, ...], *, has_users: bool) -> tuple[ColumnElement[object], ...]:
    """Return the columns of an answer: those of the table, and the names beside its IDs.

    Args:
        table: the table.
        columns: the keys of the answer.
        has_users: whether the names of users can be read; if not, they are null.
    """
    return tuple(table.c[key] if key in table.c else select_name(table, key, has_users=has_users) for key in columns)


def select_name(table: Table, key: str, *, has_users: bool) -> ColumnElement[object]:
    """Return the column with the name beside an ID of a table, such as `creator_name`."""
    named = _NAMES[key]
    if named.table is users and not has_users:
        return literal_column("NULL").label(key)
    is_same = named.table.c.id == table.c[named.id_column]
    return select(named.table.c[named.column]).where(is_same).correlate(table).scalar_subquery().label(key)
