"""Reads record files: JSON Lines and CSV, in UTF-8."""

import json
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import BinaryIO, Literal, NamedTuple

from quilt_mcp.requirements.transfer.lines import (
    RECORD_BYTES,
    TRUNCATED,
    Lines,
    UnreadableFile,
    describe_cells,
    describe_encoding,
)
from quilt_mcp.requirements.transfer.record_writer import COLUMNS, unprotect
from quilt_mcp.requirements.transfer.records import FieldValues, parse_record
from quilt_mcp.requirements.transfer.rejections import Rejection
from quilt_mcp.requirements.transfer.wording import InvalidRecord, shorten

Format = Literal["jsonl", "csv"]
Parse = Callable[[object], FieldValues]

_COLUMNS = {*COLUMNS, "parent"}


class Numbered(NamedTuple):
    """A record and its line."""

    line: int
    values: FieldValues


class Refused(NamedTuple):
    """A record that is not valid."""

    rejections: list[Rejection]
    """At least one."""
    fields: object
    """What the line contains, as far as it can be parsed; None if it cannot."""
    ends_file: bool = False
    """Whether the rest of the file was not read."""


class _RepeatedKey(ValueError):
    """A JSON object has a key twice."""


class RecordReader:
    """Reads the records of a file, once: iterate over it. A record that is not valid is `Refused`.

    Iterating raises OSError if the file cannot be read.

    Args:
        file: the file.
        form: its format.
        parse: validates the fields of a record.
        most_bytes: the maximum length of a line, or of a CSV row with line breaks in its cells.
    """

    def __init__(
        self, file: BinaryIO, form: Format, *, parse: Parse = parse_record, most_bytes: int = RECORD_BYTES
    ) -> None:
        self._lines = Lines(file, most_bytes)
        self._form = form
        self._parse = parse

    @property
    def bytes_read(self) -> int:
        """The number of bytes of the file that were read so far."""
        return self._lines.bytes_read

    @property
    def may_be_cut(self) -> bool:
        """Whether the last row of a CSV file has no line break, so that its last cell can be incomplete."""
        return self._form == "csv" and self._lines.has_open_end

    def __iter__(self) -> Iterator[Numbered | Refused]:
        """Read the file."""
        try:
            yield from self._read_csv() if self._form == "csv" else self._read_json_lines()
        except UnreadableFile as end:
            yield Refused([end.rejection], None, ends_file=True)

    def _read_json_lines(self) -> Iterator[Numbered | Refused]:
        for number, raw in self._lines.read_lines():
            if raw.strip():
                yield _parse_json(number, raw, self._parse)

    def _read_csv(self) -> Iterator[Numbered | Refused]:
        rows = self._lines.read_rows()
        _, header = next(rows, (1, []))
        _check_header(header)
        for line, cells in rows:
            yield self._parse_cells(line, header, cells)

    def _parse_cells(self, line: int, header: list[str], cells: list[str]) -> Numbered | Refused:
        if len(cells) != len(header):
            return _refuse(line, describe_cells(cells, header, is_cut=self.may_be_cut))
        fields = {name: unprotect(cell) if cell else None for name, cell in zip(header, cells, strict=True)}
        return parse_numbered(line, fields, self._parse)


def _parse_json(line: int, raw: bytes, parse: Parse) -> Numbered | Refused:
    try:
        fields = _DECODER.decode(raw.decode())
    except UnicodeDecodeError as error:
        return _refuse(line, describe_encoding(error))
    except _RepeatedKey as error:
        return Refused([Rejection(line, str(error), "Appears twice in the record. Remove one.")], None)
    except (ValueError, RecursionError) as error:
        if not raw.endswith(b"\n"):
            return _refuse(line, f"The line is not valid JSON. Correct it. {TRUNCATED}")
        where = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        return _refuse(line, f"The line is not valid JSON{where}. Write one JSON object in each line.")
    return parse_numbered(line, fields, parse)


def _refuse(line: int, reason: str) -> Refused:
    return Refused([Rejection(line, None, reason)], None)


def _make_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for key, value in pairs:
        if key in made:
            raise _RepeatedKey(shorten(key))
        made[key] = value
    return made


_DECODER = json.JSONDecoder(object_pairs_hook=_make_object)


def _check_header(header: list[str]) -> None:
    if not header:
        raise UnreadableFile(
            1, "The file is empty, or its first line is. Write the names of the columns in the first line."
        )
    if "Issue key" in header:
        raise UnreadableFile(
            1, "This is a Jira export. Change it to records first; docs/interchange.md has a program for that."
        )
    seen = set()
    for place, name in enumerate(header, 1):
        if not name:
            raise UnreadableFile(1, f"Column {place} has no name. Name it, or remove it.")
        if name not in _COLUMNS:
            allowed = ", ".join((*COLUMNS, "parent"))
            near = get_close_matches("_".join(name.casefold().split()), _COLUMNS, n=1)
            meant = "".join(f" Did you mean {one}?" for one in near)
            raise UnreadableFile(
                1, f"The column {shorten(name)!r} is unknown. Rename or remove it.{meant} Columns: {allowed}."
            )
        if name in seen:
            raise UnreadableFile(1, f"The column {name} appears twice. Remove one.")
        seen.add(name)


def parse_numbered(line: int, fields: object, parse: Parse) -> Numbered | Refused:
    """Validate the fields of a record."""
    try:
        return Numbered(line, parse(fields))
    except InvalidRecord as error:
        return Refused([Rejection(line, *problem) for problem in error.problems], fields)
