"""What the database remembers of the files of a source: the mapping of the attributes of its types."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pydantic_core import from_json, to_json
from sqlalchemy import Connection, func, insert, select, update

from quilt_mcp.requirements import tables
from quilt_mcp.requirements.database import Database

Chosen = dict[str, dict[str, str]]
"""The names of attributes by field, by the name of their type."""
MOST_USERS = 10_000
"""The maximum number of users in which an assignee is found by name."""
_NAME_LENGTH = 255


class Origin(Protocol):
    """Where records come from: a reader of a file, once it has read it."""

    @property
    def source(self) -> str:
        """Tells the files of one source from others."""

    @property
    def mapping(self) -> Chosen:
        """What its types have their fields in."""


@dataclass
class Memory:
    """What the database knows before a file is read.

    Attributes:
        database: where it is kept; None for nothing.
        mapping: what earlier files of the source had.
        users: the names of users, by lower case.
    """

    database: Database | None = None
    mapping: Chosen = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict)

    def recall(self, source: str) -> None:
        if self.database is None:
            return
        with self.database.reading() as connection:
            wanted = select(tables.import_sources.c.mapping).where(tables.import_sources.c.name == _cut(source))
            self.mapping = from_json(connection.scalar(wanted) or "{}") if not self.database.is_existing else {}
            names = connection.scalars(select(tables.users.c.username).limit(MOST_USERS)).all()
        self.users = {name.casefold(): name for name in names}


def remember(connection: Connection, origin: Origin) -> int:
    """Keep the mapping of a source. Return the number of the source."""
    sources, name = tables.import_sources, _cut(origin.source)
    mapping = to_json(origin.mapping).decode()
    changed = update(sources).where(sources.c.name == name).values(mapping=mapping).returning(sources.c.number)
    if (number := connection.scalar(changed)) is not None:
        return int(number)
    next_number = int(connection.scalar(select(func.coalesce(func.max(sources.c.number), 0))) or 0) + 1
    connection.execute(insert(sources).values(name=name, number=next_number, mapping=mapping))
    return next_number


def _cut(source: str) -> str:
    """Return the name of a source as PostgreSQL can store it."""
    return source.replace("\0", "")[:_NAME_LENGTH]
