"""Reading and writing record files: JSON Lines and CSV, in UTF-8."""

import csv
import itertools
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, BinaryIO, Literal, NamedTuple, TextIO

from pydantic import ValidationError

from quilt_mcp.requirements.records import TABLES, parse_record

Format = Literal["jsonl", "csv"]

LINE_BYTES = 1_000_000
"""The longest line that is read: more than the longest texts need, however they are escaped."""
COLUMNS = (
    "kind",
    "id",
    "reference_id",
    "username",
    "email",
    "name",
    "user_id",
    "project_id",
    "role",
    "epic_id",
    "user_story_id",
    "acceptance_criteria_id",
    "type_id",
    "source_requirement_id",
    "target_requirement_id",
    "relationship_type_id",
    "author_id",
    "creator_id",
    "assignee_id",
    "created_by",
    "priority",
    "status",
    "title",
    "description",
    "created_at",
    "updated_at",
)
"""Every field of any record, in the order in which they are written."""
_REASONS = 3
_OF_NO_FIELD = {
    "union_tag_invalid": f"kind: It is none of {', '.join(TABLES)}.",
    "union_tag_not_found": "kind: It is missing.",
    "model_attributes_type": "It is no object with fields.",
}


class Rejection(NamedTuple):
    """Why a record is not imported."""

    line: int
    """Of the file, counted from 1; a record of several lines ends there."""
    reason: str


class Numbered(NamedTuple):
    """A record and where it stands."""

    line: int
    values: dict[str, Any]


def read_records(file: BinaryIO, form: Format) -> Iterator[Numbered | Rejection]:
    """The records of a file, and in their place why they are none. Ends where nothing more can be told apart.

    Raises:
        OSError: the file cannot be read.
    """
    return _read_csv(file) if form == "csv" else _read_json_lines(file)


class Writer:
    """Writes records to a text file, which has to leave line ends as they are."""

    def __init__(self, file: TextIO, form: Format) -> None:
        self._file = file
        self._csv = csv.DictWriter(file, COLUMNS, lineterminator="\n") if form == "csv" else None
        if self._csv:
            self._csv.writeheader()

    def write(self, values: Mapping[str, Any]) -> None:
        """Write one record; None is left out."""
        given = {name: _plain(values[name]) for name in COLUMNS if values.get(name) is not None}
        if self._csv:
            self._csv.writerow(given)
        else:
            self._file.write(json.dumps(given, ensure_ascii=False) + "\n")


def _plain(value: Any) -> Any:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def _lines(file: BinaryIO) -> Iterator[tuple[int, str | Rejection]]:
    """The lines with their numbers, decoded, or why that cannot be done."""
    for number in itertools.count(1):
        raw = file.readline(LINE_BYTES + 1)
        if not raw:
            return
        if len(raw) > LINE_BYTES:
            yield number, Rejection(number, f"The line is longer than {LINE_BYTES:,} bytes; what follows is not read.")
            return
        try:
            yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            yield number, Rejection(number, f"The line is not UTF-8, from its byte {error.start + 1} on.")


def _read_json_lines(file: BinaryIO) -> Iterator[Numbered | Rejection]:
    for number, line in _lines(file):
        if isinstance(line, Rejection):
            yield line
        elif line.strip():
            try:
                fields = json.loads(line)
            except (ValueError, RecursionError):
                cut = "" if line.endswith("\n") else " It is the last one: the file may have been cut off."
                yield Rejection(number, f"The line is no JSON.{cut}")
            else:
                yield _record(number, fields)


def _read_csv(file: BinaryIO) -> Iterator[Numbered | Rejection]:
    broken: list[Rejection] = []

    def decoded() -> Iterator[str]:
        for _, line in _lines(file):
            if isinstance(line, Rejection):
                broken.append(line)
                return
            yield line

    rows = csv.reader(decoded(), strict=True)
    try:
        header = next(rows, None)
        if header is None:
            broken.append(Rejection(1, "The file is empty: its first line has to name the columns."))
        elif unknown := [name for name in header if name not in COLUMNS] or _repeated(header):
            broken.append(Rejection(1, f"There is no column {unknown[0]!a}, or it stands there twice."))
        else:
            yield from (_csv_record(rows.line_num, header, cells) for cells in rows if cells)
    except csv.Error:
        broken.append(
            broken.pop() if broken else Rejection(rows.line_num, "A quoted cell does not end, or is too long.")
        )
    if broken:
        yield broken[0]


def _repeated(header: list[str]) -> list[str]:
    return [name for place, name in enumerate(header) if name in header[:place]]


def _csv_record(line: int, header: list[str], cells: list[str]) -> Numbered | Rejection:
    if len(cells) != len(header):
        return Rejection(line, f"The row has {len(cells)} cells where the first line names {len(header)} columns.")
    return _record(line, {name: cell for name, cell in zip(header, cells, strict=True) if cell})


def _record(line: int, fields: object) -> Numbered | Rejection:
    try:
        return Numbered(line, parse_record(fields))
    except ValidationError as error:
        return Rejection(line, "; ".join(map(_reason, error.errors(include_input=False, include_url=False)[:_REASONS])))


def _reason(error: Mapping[str, Any]) -> str:
    if error["type"] in _OF_NO_FIELD:
        return _OF_NO_FIELD[error["type"]]
    field = ".".join(str(part) for part in error["loc"][1:])  # the first part is the kind
    return f"{field}: {error['ctx']['error'] if error['type'] == 'value_error' else error['msg']}"
