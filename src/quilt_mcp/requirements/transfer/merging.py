"""Merges the records of a file with rows that others have changed: last import, row, file.

The database keeps a hash of each value that the last file of a source had. What only the file changed since is taken,
and what only the database changed is kept. What both changed is a conflict, which the user decides.
"""

import csv
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic_core import from_json, to_json
from sqlalchemy import Connection, bindparam, select, text

from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.model import FIELDS, PARENTS, RECORDS
from quilt_mcp.requirements.tables import Id, Values
from quilt_mcp.requirements.transfer.files import protect
from quilt_mcp.requirements.transfer.records import shorten
from quilt_mcp.requirements.transfer.spool import Spool, Spooled

Side = Literal["ours", "theirs"]
"""The value of the database, or that of the file."""
SIDES: tuple[Side, ...] = ("ours", "theirs")
DECISION_COLUMNS = ("record", "field", "ours", "theirs", "decision")
MOST_CONFLICTS = 10_000
"""The maximum number of conflicts in a file of decisions."""
_NOT_COMPARED = {"kind", "id", model.POSITION, *model.TIMES}
_WRITE = text(
    "INSERT INTO imported_values (source, entity_id, fields) VALUES (:source, :entity_id, :fields) "
    "ON CONFLICT (source, entity_id) DO UPDATE SET fields = excluded.fields"
).bindparams(bindparam("entity_id", type_=Id))
_UNDECIDED = (
    "Changed in the file and, to {ours}, in the database since the last import. Use --ours or --theirs, or name a file "
    "with --decisions."
)


class Conflict(NamedTuple):
    """A field that both sides changed since the last import. References are shown by name."""

    line: int
    kind: str
    name: str
    field: str
    ours: object
    theirs: object


@dataclass(frozen=True)
class Decisions:
    """What the user decides.

    Attributes:
        side: the side of all conflicts; None if each is decided on its own.
        by_field: the sides of single conflicts, by the name of the record and the field.
    """

    side: Side | None = None
    by_field: Mapping[tuple[str, str], Side] = field(default_factory=dict)

    def find(self, name: str, field_name: str) -> Side | None:
        return self.by_field.get((name, field_name), self.side)


@dataclass
class Merger:
    """Compares the records of one source with its last import.

    Attributes:
        source: the number of the source.
        kept: how many values only the database changed.
        conflicts: the first conflicts.
    """

    connection: Connection
    spool: Spool
    source: int
    decisions: Decisions
    kept: int = 0
    conflicts: list[Conflict] = field(default_factory=list)
    _bases: dict[str, dict[str, str]] = field(default_factory=dict)
    _given: dict[int, set[str]] = field(default_factory=dict)

    def load(self, kind: str, records: Iterable[Spooled]) -> None:
        """Load what the last import and the file have of some entities."""
        ids = {one.number: one.values.get("id", "") for one in records}
        parent = PARENTS.get(kind, "")
        given = self.spool.list_given(ids)
        self._given = {number: {parent if one == "parent" else one for one in names} for number, names in given.items()}
        values = tables.imported_values.c
        wanted = select(values.entity_id, values.fields).where(
            values.source == self.source, values.entity_id.in_(list(ids.values()))
        )
        self._bases = {row.entity_id: from_json(row.fields) for row in self.connection.execute(wanted).all()}

    def has_time(self, record: Spooled) -> bool:
        """Return whether the file says which state of the row it is based on."""
        return "updated_at" in self._given.get(record.number, ())

    def merge(self, record: Spooled, row: Values, changed: Values) -> list[str]:
        """Leave out of the changes what the row keeps. Return the fields in which the user has to decide."""
        base, name = self._find_base(record), str(row["reference_id"])
        undecided = []
        for one in sorted(changed.keys() & base.keys() - _NOT_COMPARED):
            side: Side | None = "theirs"
            if compute_hash(changed[one]) == base[one]:
                side = "ours"
                self.kept += 1
            elif compute_hash(row[one]) != base[one]:
                side = self.decisions.find(name, one)
            if side == "ours":
                del changed[one]
            elif side is None:
                undecided.append(one)
        return undecided

    def _find_base(self, record: Spooled) -> dict[str, str]:
        """Return the hashes of the last import. A field that it did not have then got its default."""
        values = record.values
        if (base := self._bases.get(values["id"])) is None:
            return {}
        return {**_hash_defaults(values["kind"]), **base}

    def note(self, conflict: Conflict) -> str:
        """Note a conflict. Return what the user has to do."""
        if len(self.conflicts) < MOST_CONFLICTS:
            self.conflicts.append(conflict)
        return _UNDECIDED.format(ours=shorten(repr(conflict.ours)))

    def store(self, records: Iterable[Spooled]) -> None:
        """Keep what the file has of some records, for the next import. `load` has loaded them."""
        rows = []
        for number, _, values in records:
            new = {name: compute_hash(values.get(name)) for name in self._given.get(number, set()) - _NOT_COMPARED}
            fields = to_json({**self._bases.get(values["id"], {}), **new}).decode()
            rows.append({"source": self.source, "entity_id": values["id"], "fields": fields})
        if rows:
            self.connection.execute(_WRITE, rows)


@cache
def _hash_defaults(kind: str) -> dict[str, str]:
    record = RECORDS[kind]
    defaults = {name: record.default(name) for name in record.fields if not FIELDS[name].link}
    found = {name: value for name, value in defaults.items() if value is not None} | dict.fromkeys(record.optional)
    return {name: compute_hash(value) for name, value in found.items()}


def compute_hash(value: object) -> str:
    return hashlib.blake2s(to_json(value), digest_size=8).hexdigest()


def read_decisions(path: Path, side: Side | None) -> Decisions:
    """Read a file of decisions.

    Raises:
        ResourceExecutionError: it is not one.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [*csv.DictReader(file)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise _make_unreadable(path, "It is not CSV in UTF-8.") from error
    found: dict[tuple[str, str], Side] = {}
    for number, row in enumerate(rows, 2):
        decision = (row.get("decision") or "").strip().casefold()
        wanted: Side | None = next((one for one in SIDES if one == decision), None)
        if wanted is None or not row.get("record") or not row.get("field"):
            raise _make_unreadable(path, f"Row {number} must have a record, a field, and the decision ours or theirs.")
        found[str(row["record"]), str(row["field"])] = wanted
    return Decisions(side, found)


def write_decisions(path: Path, conflicts: Iterable[Conflict]) -> None:
    """Write a file in which the user decides."""
    with path.open("x", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, DECISION_COLUMNS, lineterminator="\r\n")
        writer.writeheader()
        for one in conflicts:
            row = {"record": one.name, "field": one.field, "ours": one.ours, "theirs": one.theirs, "decision": ""}
            writer.writerow({name: protect(value) for name, value in row.items()})


def _make_unreadable(path: Path, details: str) -> ResourceExecutionError:
    action = f"Write it with --dry-run and --decisions, with the columns {', '.join(DECISION_COLUMNS)}."
    return ResourceExecutionError(f"{path} is no file of decisions.", details=details, suggested_actions=[action])
