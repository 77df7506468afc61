"""What the records of an import refer to: in the file or in the database."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.record_files import Numbered
from quilt_mcp.requirements.records import LINKS, TABLES
from quilt_mcp.requirements.tables import metadata

NAMES = {
    "users": "username",
    "projects": "name",
    "requirement_types": "name",
    "relationship_types": "name",
    **{kind.table: "reference_id" for kind in kinds.KINDS},
}
"""For each table that is referred to, the column that is unique for people."""
_AT_ONCE = 1000


class Directory:
    """The ids behind what fields may say: ids and names, of the records of a file and of what the database holds.

    Attributes:
        stories: for each acceptance criterion that is known, its user story.
    """

    def __init__(self) -> None:
        self._ids: dict[str, dict[str, str]] = defaultdict(dict)
        self.stories: dict[str, str] = {}

    def find(self, table: str, said: str) -> str | None:
        """The id of what a field says; None if there is no such record."""
        return self._ids[table].get(_canonical(said))

    def add(self, table: str, row_id: str, name: str | None) -> None:
        """Let a record be found by its id and its name."""
        self._ids[table][row_id] = row_id
        if name is not None:
            self._ids[table][name] = row_id

    def add_record(self, values: Mapping[str, Any]) -> None:
        """Let a record of the file be found."""
        table = TABLES[values["kind"]]
        if table in NAMES:
            self.add(table, values["id"], values.get(NAMES[table]))
        if table == kinds.ACCEPTANCE_CRITERIA.table:
            self.stories[values["id"]] = values["user_story_id"]

    async def add_existing(self, connection: AsyncConnection, records: Iterable[Numbered]) -> None:
        """Add what the records refer to and the database holds, and what it holds under the records' ids and names."""
        for table, wanted in _mentioned(records).items():
            async for row in rows_named(connection, table, wanted):
                self.add(table, row.id, getattr(row, NAMES[table]))
                if table == kinds.ACCEPTANCE_CRITERIA.table:
                    self.stories[row.id] = row.user_story_id


async def rows_named(connection: AsyncConnection, table: str, wanted: Iterable[str]) -> AsyncIterator[Row[Any]]:
    """The rows of a table with one of these ids or names."""
    columns = metadata.tables[table].c
    said: dict[bool, list[str]] = {True: [], False: []}
    for one in wanted:
        said[_is_id(one)].append(_canonical(one))
    for column, values in ((columns.id, said[True]), (columns[NAMES[table]], said[False])):
        for start in range(0, len(values), _AT_ONCE):
            chunk = values[start : start + _AT_ONCE]
            for row in await connection.execute(select(metadata.tables[table]).where(column.in_(chunk))):
                yield row


def _mentioned(records: Iterable[Numbered]) -> dict[str, set[str]]:
    """By table, the ids and names that fields refer to."""
    mentioned: dict[str, set[str]] = defaultdict(set)
    for record in records:
        for field, table in LINKS.items():
            if field in record.values:
                mentioned[table].add(record.values[field])
        table = TABLES[record.values["kind"]]
        if table in NAMES:
            own = (record.values.get("id"), record.values.get(NAMES[table]))
            mentioned[table] |= {one for one in own if one is not None}
    return mentioned


def _is_id(said: str) -> bool:
    try:
        UUID(said)
    except ValueError:
        return False
    return True


def _canonical(said: str) -> str:
    return str(UUID(said)) if _is_id(said) else said
