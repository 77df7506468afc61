"""Keeps the records of an import on the disk, so that the memory does not grow with the file.

The spool is a private SQLite database in the directory for temporary files. SQLite removes its file when it is opened,
so it disappears with the process, however that ends.
"""

import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from pydantic_core import from_json, to_json

from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.requirements.model import AUTHORS, BY_NAME, NAMES, RECORDS, TABLES, TIMES
from quilt_mcp.requirements.transfer.files import Numbered
from quilt_mcp.requirements.transfer.records import FieldValues, Rejections
from quilt_mcp.requirements.writing import new_id

BATCH = 500
FOREIGN_NUMBER = "Number in the file"
"""Before a number of another tool, in a description."""
_PAGES = -50_000  # 50 MB of the spool are kept in memory
_TABLES = f"""
    PRAGMA cache_size = {_PAGES};
    PRAGMA journal_mode = OFF;
    CREATE TABLE records (number INTEGER PRIMARY KEY, kind TEXT, line INTEGER, fields TEXT, place INTEGER, given TEXT);
    -- a unique value of a record of the file, or of a row of the database that a record refers to (without a line)
    CREATE TABLE keys (place TEXT, key TEXT, id TEXT, line INTEGER, number INTEGER, PRIMARY KEY (place, key))
        WITHOUT ROWID;
    -- the rows of the database that the file contains too
    CREATE TABLE stored (place TEXT, id TEXT, PRIMARY KEY (place, id)) WITHOUT ROWID;
    -- the records whose reference IDs are numbers of other tools
    CREATE TABLE foreign_numbers (number INTEGER PRIMARY KEY);
    CREATE TABLE criteria (id TEXT PRIMARY KEY, story TEXT) WITHOUT ROWID;
    CREATE TABLE edges (
        source TEXT, target TEXT, type TEXT, line INTEGER, number INTEGER, PRIMARY KEY (source, target, type)
    ) WITHOUT ROWID;
    BEGIN;
"""


class Spooled(NamedTuple):
    """A record in the spool."""

    number: int
    line: int
    values: FieldValues


class Key(NamedTuple):
    """A unique value of a record of the file: its ID, name or email."""

    key: str
    id: str
    line: int
    number: int
    """The number of the record."""


class Spool:
    """The records of one import. Close it at the end.

    Attributes:
        connection: to the temporary database, for the checks.
        counts: the number of records by kind.
        lacks_author: whether a record has no author.
        skipped: counts the numbers of other tools that something else has.
    """

    def __init__(self, skipped: Counter[str]) -> None:
        self.skipped = skipped
        self.connection = sqlite3.connect("", isolation_level=None)
        self.connection.executescript(_TABLES)
        self.counts: Counter[str] = Counter()
        self.lacks_author = False

    def close(self) -> None:
        self.connection.close()

    def add(self, record: Numbered, rejections: Rejections) -> None:
        """Add a record. Reject it if an earlier record has the same ID, name or email. Set its ID if it has none."""
        line, values, is_foreign, place = record
        kind = values["kind"]
        self.counts[kind] += 1
        self.note_author(values)
        given = dict(values)
        if kind != "member" and "id" not in values:
            values["id"] = new_id()
        insertion = "INSERT INTO records (kind, line, fields, place, given) VALUES (?, ?, ?, ?, ?)"
        row = (kind, line, _dump(values), place, " ".join(given))
        number = self.connection.execute(insertion, row).lastrowid
        if is_foreign:
            self.connection.execute("INSERT INTO foreign_numbers VALUES (?)", (number,))
        for column in list_unique(TABLES[kind]):
            if column in given:
                before = self.add_key(TABLES[kind], column, given[column], values["id"], line, number)
                if column == "id" and kind in BY_NAME and not before:  # no two entities of any kinds have one
                    before = self.add_key("entities", column, given[column], values["id"], line, number)
                if before and is_foreign and column == "reference_id":
                    self._give_up_number(int(number or 0), line)
                elif before:
                    more = " UUIDs that differ only in case are the same." if column == "id" else ""
                    rejections.add(line, column, f"Duplicate of line {before}. Change or remove one of the two.{more}")

    def note_author(self, values: FieldValues) -> None:
        author = find_author(values["kind"])
        self.lacks_author |= author is not None and author not in values

    def add_refused(self, line: int, fields: object) -> None:
        """Add the ID and name of a record that is not valid, so that records that refer to it are not rejected too."""
        if not isinstance(fields, dict) or str(fields.get("kind")) not in TABLES:
            return
        table = TABLES[str(fields["kind"])]
        for column in list_unique(table):
            value = fields.get(column)
            if isinstance(value, str) and column != "email" and value.isprintable():  # lone surrogates are not
                self.add_key(table, column, value, new_id(), line, None)

    def add_key(  # noqa: PLR0917 - the columns of the table
        self, table: str, column: str, key: str, row_id: str, line: int | None, number: int | None
    ) -> int | None:
        """Add a unique value. Return the line of the record that has it already."""
        place, row = f"{table}.{column}", (key, row_id, line, number)
        if self.connection.execute("INSERT OR IGNORE INTO keys VALUES (?, ?, ?, ?, ?)", (place, *row)).rowcount:
            return None
        found = self.connection.execute("SELECT line FROM keys WHERE place = ? AND key = ?", (place, key))
        return int(found.fetchone()[0] or 0)

    def has_given_id(self, table: str, row_id: str) -> bool:
        return bool(self.find_given_ids(table, [row_id]))

    def find_given_ids(self, table: str, ids: Iterable[str]) -> set[str]:
        """Return which of these IDs records of the file have."""
        return set(self._find(f"{table}.id", list(ids)))

    def take_id(self, table: str, key: Key, row_id: str) -> None:
        """Let a record without an ID in the file be the row of the database with the same name.

        The ID of that row replaces the one that was made for the record. No reference has been resolved to it yet.
        """
        [(fields,)] = self.connection.execute("SELECT fields FROM records WHERE number = ?", (key.number,))
        values = _load(fields) | {"id": row_id}
        self.replace([Spooled(key.number, key.line, values)])
        for column in list_unique(table):
            change = "UPDATE keys SET id = ? WHERE place = ? AND key = ?"
            self.connection.execute(change, (row_id, f"{table}.{column}", values.get(column)))
        self.mark_stored(table, row_id)

    def give_up_number(self, table: str, key: Key) -> bool:
        """Let a record have another reference ID than that of another tool. Return whether it has such a number."""
        found = self.connection.execute("SELECT 1 FROM foreign_numbers WHERE number = ?", (key.number,)).fetchone()
        if found:
            place = f"{table}.reference_id"
            self.connection.execute("DELETE FROM keys WHERE place = ? AND key = ?", (place, key.key))
            self._give_up_number(key.number, key.line)
        return found is not None

    def _give_up_number(self, number: int, line: int) -> None:
        [(fields,)] = self.connection.execute("SELECT fields FROM records WHERE number = ?", (number,))
        values = _load(fields)
        taken = f"{FOREIGN_NUMBER}: {values.pop('reference_id')}"
        values["description"] = "\n\n".join(filter(None, [values.get("description"), taken]))
        self.replace([Spooled(number, line, values)])
        self.skipped["number of another tool that something else has; it is a line of the description"] += 1

    def mark_stored(self, table: str, *ids: str) -> None:
        rows = ((table, row_id) for row_id in ids)
        self.connection.executemany("INSERT OR IGNORE INTO stored VALUES (?, ?)", rows)

    def find_stored(self, table: str, ids: Iterable[str]) -> set[str]:
        """Return which of these rows of the database the file has too, once its records are written."""
        statement = "SELECT id FROM stored WHERE place = ? AND id IN (SELECT value FROM json_each(?))"
        return {row_id for (row_id,) in self.connection.execute(statement, (table, json.dumps(list(ids))))}

    def add_stored(self, table: str, row_id: str, name: str) -> None:
        """Add a row of the database that records refer to. What the file says about the same values comes first."""
        self.add_key(table, "id", row_id, row_id, None, None)
        self.add_key(table, NAMES[table], name, row_id, None, None)

    def add_criteria(self, rows: Iterable[tuple[str, str]]) -> None:
        self.connection.executemany("INSERT OR IGNORE INTO criteria VALUES (?, ?)", rows)

    def find_stories(self, criteria: Iterable[str]) -> dict[str, str]:
        statement = "SELECT id, story FROM criteria WHERE id IN (SELECT value FROM json_each(?))"
        return dict(self.connection.execute(statement, (json.dumps(list(criteria)),)).fetchall())

    def add_edge(self, ends: tuple[str, str, str], line: int | None, number: int | None = None) -> int | None:
        """Add a relationship. Return the line of the same relationship in the file, if it was added before.

        Args:
            ends: the source, the target and the type.
            line: in the file; None for one that only the database has.
            number: of the record.
        """
        if self.connection.execute(
            "INSERT OR IGNORE INTO edges VALUES (?, ?, ?, ?, ?)", (*ends, line, number)
        ).rowcount:
            return None
        same = "source = ? AND target = ? AND type = ?"
        found: int | None = self.connection.execute(f"SELECT line FROM edges WHERE {same}", ends).fetchone()[0]  # noqa: S608 - constants
        return found

    def list_edges(self, type_id: str) -> dict[tuple[str, str], tuple[int, int]]:
        """Return the line and the number of each relationship of a type; 0 if only the database has it."""
        statement = "SELECT source, target, line, number FROM edges WHERE type = ? ORDER BY line"
        found = self.connection.execute(statement, (type_id,))
        return {
            (sys.intern(source), sys.intern(target)): (line or 0, number or 0) for source, target, line, number in found
        }

    def leave_out(self, number: int, reason: str) -> bool:
        """Leave out a relationship of another tool, and count it. Return whether it is one."""
        is_foreign = bool(self.connection.execute("DELETE FROM foreign_numbers WHERE number = ?", (number,)).rowcount)
        if is_foreign:
            self.connection.execute("DELETE FROM records WHERE number = ?", (number,))
            self.connection.execute("DELETE FROM keys WHERE number = ?", (number,))
            self.counts["relationship"] -= 1
            self.skipped[reason] += 1
        return is_foreign

    def find_ids(self, table: str, values: Iterable[str]) -> dict[str, str]:
        """Return the IDs of the records with these IDs or names. An ID comes before a name that looks like it."""
        wanted = {value: normalize_id(value) for value in values}
        by_id = self._find(f"{table}.id", [value for value in wanted.values() if value])
        by_name = self._find(f"{table}.{NAMES[table]}", list(wanted))
        found = {value: by_id.get(row_id or "") or by_name.get(value) for value, row_id in wanted.items()}
        return {value: row_id for value, row_id in found.items() if row_id}

    def _find(self, place: str, keys: list[str]) -> dict[str, str]:
        statement = "SELECT key, id FROM keys WHERE place = ? AND key IN (SELECT value FROM json_each(?))"
        return dict(self.connection.execute(statement, (place, json.dumps(keys))).fetchall())

    def find_last_number(self, table: str) -> int:
        """Return the highest number of the reference IDs that the file contains; 0 without any."""
        statement = "SELECT max(cast(substr(key, instr(key, '-') + 1) AS INTEGER)) FROM keys WHERE place = ?"
        return int(self.connection.execute(statement, (f"{table}.reference_id",)).fetchone()[0] or 0)

    def list_keys(self, place: str) -> Iterator[list[Key]]:
        statement = (
            "SELECT key, id, line, number FROM keys WHERE place = ? AND key > ? AND number > 0 ORDER BY key LIMIT ?"
        )
        after = ""
        while rows := self.connection.execute(statement, (place, after, BATCH)).fetchall():
            yield [Key(*row) for row in rows]
            after = rows[-1][0]

    def list_records(self, kind: str) -> Iterator[list[Spooled]]:
        """Yield the records of a kind: in the order of the hierarchy, or else in that of the file."""
        self.connection.execute("CREATE INDEX IF NOT EXISTS records_of_kind ON records (kind, place, number)")
        statement = (
            "SELECT number, line, fields, place FROM records WHERE kind = ? AND (place, number) > (?, ?) "
            "ORDER BY place, number LIMIT ?"
        )
        after = 0, 0
        while rows := self.connection.execute(statement, (kind, *after, BATCH)).fetchall():
            yield [Spooled(number, line, _load(fields)) for number, line, fields, _ in rows]
            after = rows[-1][3], rows[-1][0]

    def list_given(self, numbers: Iterable[int]) -> dict[int, list[str]]:
        """Return the fields that records have in the file, by the numbers of the records."""
        statement = "SELECT number, given FROM records WHERE number IN (SELECT value FROM json_each(?))"
        found = self.connection.execute(statement, (json.dumps(list(numbers)),))
        return {number: given.split(" ") for number, given in found}

    def has_places(self, kind: str) -> bool:
        found = self.connection.execute("SELECT EXISTS (SELECT 1 FROM records WHERE kind = ? AND place > 0)", (kind,))
        return bool(found.fetchone()[0])

    def set_value(self, number: int, field: str, value: object) -> None:
        change = "UPDATE records SET fields = json_set(fields, ?, ?) WHERE number = ?"
        self.connection.execute(change, (f"$.{field}", value, number))

    def replace(self, records: Iterable[Spooled]) -> None:
        changed = ((_dump(record.values), record.number) for record in records)
        self.connection.executemany("UPDATE records SET fields = ? WHERE number = ?", changed)


def find_author(kind: str) -> str | None:
    return next((name for name in AUTHORS if name in RECORDS[kind].fields), None)


def list_unique(table: str) -> list[str]:
    return [column for column in ("id", NAMES.get(table), "email" if table == "users" else None) if column]


@contextmanager
def open_spool(skipped: Counter[str]) -> Iterator[Spool]:
    """Open a spool, and close it at the end. `skipped` counts what is left out."""
    try:
        with closing(Spool(skipped)) as spool:
            yield spool
    except sqlite3.OperationalError as error:  # of the spool: SQLAlchemy wraps the errors of the database
        raise ResourceExecutionError(
            "The import cannot write its temporary file. Nothing was imported.",
            details=error.sqlite_errorname,
            suggested_actions=["Free disk space, or set SQLITE_TMPDIR to a directory with more."],
        ) from error


def normalize_id(value: str) -> str | None:
    """Return an ID as the database returns it; None for a text that is not an ID."""
    try:
        return str(UUID(value))
    except ValueError:
        return None


def _load(fields: str) -> FieldValues:
    values: FieldValues = from_json(fields, cache_strings="keys")
    return values | {name: datetime.fromisoformat(values[name]) for name in TIMES if name in values}


def _dump(values: FieldValues) -> str:
    return to_json(values).decode()
