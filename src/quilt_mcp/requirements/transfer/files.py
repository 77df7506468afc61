"""The lines of text files and the rows of CSV files, in UTF-8, and records as lines or rows. None may be too long."""

import codecs
import csv
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import BinaryIO, Literal, NamedTuple, TextIO

from quilt_mcp.requirements.model import FIELDS
from quilt_mcp.requirements.transfer.encodings import WINDOWS, decode_windows, read_utf_16
from quilt_mcp.requirements.transfer.records import (
    FieldValues,
    InvalidRecord,
    Rejection,
    parse_record,
    shorten,
    show_time,
)

RECORD_BYTES = 1_000_000
"""Maximum length of a line or CSV row: more than the longest record needs, with every character escaped."""
TRUNCATED = "If the file was cut off here, export or copy it again."
"""What can explain an error in a last line that has no line break."""
_SEPARATORS = ",;\t"
_BLANK = f'{_SEPARATORS}" \r\n'
_SEPARATOR_LINE = re.compile(r'"?sep=([,;\t])"?[,;\t]*\r?\n?', re.IGNORECASE)
"""A first line that Excel writes and reads."""
_NOT_READ = "The rest of the file was not read."
_WIDE = {"utf-16": "UTF-16", "utf-32": "UTF-32"}
"""The encodings other than UTF-8 that `json.detect_encoding` knows."""
COLUMNS = ("kind", *FIELDS)
"""The fields of all records, in the order in which they are written."""
# with the wide forms, and with tabs and line breaks, which spreadsheets remove before they look at the next character
_DANGEROUS = "=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20"
_TO_PROTECT = re.compile(rf"'*([{_DANGEROUS}]|\Z)")
_PROTECTED = re.compile(rf"'+([{_DANGEROUS}]|\Z)")
Format = Literal["jsonl", "csv"]
Parse = Callable[[object], FieldValues]
_COLUMNS = {*COLUMNS, "parent"}


class UnreadableFile(Exception):
    """The rest of the file cannot be read."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.rejection = Rejection(line, None, reason)


def _find_encoding(start: bytes) -> str | None:
    """Return the encoding that the first line of a file shows, if it is not UTF-8.

    Raises:
        UnreadableFile: it starts with zero bytes; or it is the start of a ZIP archive, which a workbook is.
    """
    if start.startswith(b"PK\x03\x04"):
        raise UnreadableFile(1, "The file is a workbook, or another ZIP archive. Save its table as CSV in UTF-8.")
    if not start.strip(b"\0\n"):
        if b"\0" in start:
            raise UnreadableFile(1, "The file starts with zero bytes: it is damaged. Export or copy it again.")
        return None
    # without a byte order mark, zero bytes beside the first character show the encoding
    found = json.detect_encoding(start)
    return found if found[:6] in _WIDE else None


def describe_encoding(error: UnicodeDecodeError) -> str:
    """Return what is wrong with a line that is not in UTF-8."""
    cut = f" {TRUNCATED}" if error.reason == "unexpected end of data" else ""
    return f"The line is not valid UTF-8 at byte {error.start + 1}. Save the file in UTF-8.{cut}"


def describe_cells(cells: list[str], header: list[str], *, is_cut: bool) -> str:
    """Return what is wrong with a row that has too many or too few cells."""
    remedy = "Add the missing cells, or put" if len(cells) < len(header) else "Remove the last cells, or put"
    return (
        f"The row has {len(cells)} cells; the first line has {len(header)} columns. {remedy} cells that contain "
        f"separators in quotation marks.{f' {TRUNCATED}' if is_cut else ''}"
    )


class Writer:
    """Writes records to a text file, which must not translate line endings."""

    def __init__(self, file: TextIO, form: Literal["jsonl", "csv"]) -> None:
        self._file = file
        # with the line ending of RFC 4180, Python also puts quotation marks around cells that contain only \r
        self._csv = csv.DictWriter(file, COLUMNS, lineterminator="\r\n") if form == "csv" else None
        if self._csv:
            self._csv.writeheader()

    def write(self, values: Mapping[str, object]) -> None:
        """Write one record without the values that are None."""
        given = {name: show_time(values[name]) for name in COLUMNS if values.get(name) is not None}
        if self._csv:
            self._csv.writerow({name: protect(cell) for name, cell in given.items()})
        else:
            self._file.write(json.dumps(given, ensure_ascii=False) + "\n")

    def finish(self) -> None:
        """Write what follows the last record: nothing."""


def protect(cell: object) -> object:
    """Return a cell that no spreadsheet evaluates."""
    return f"'{cell}" if isinstance(cell, str) and _TO_PROTECT.match(cell) else cell


def unprotect(cell: str) -> str:
    """Return the value of a cell; the inverse of `protect`. Other cells stay as they are."""
    return cell[1:] if _PROTECTED.match(cell) else cell


class Numbered(NamedTuple):
    """A record and its line.

    Attributes:
        is_foreign: whether its reference ID is a number of another tool. If something else has it, the record gets a
            new one, and the number becomes a line of its description.
        place: its place in the hierarchy of the file, counted from 1; 0 if the file has none.
    """

    line: int
    values: FieldValues
    is_foreign: bool = False
    place: int = 0


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

    Attributes:
        bytes_read: the number of bytes of the file that were read so far.
        source: all files with our own fields are of one source.
        encoding: of a CSV file with characters beyond ASCII, as far as it was read.
        mapped: nothing.
    """

    source = "records"
    mapped = ()

    def __init__(
        self,
        file: BinaryIO,
        form: Format,
        *,
        parse: Parse = parse_record,
        given: Mapping[str, str] | None = None,
        skipped: Counter[str] | None = None,
    ) -> None:
        """Read a file. See the class.

        Args:
            file: to read.
            form: its format.
            parse: makes values of fields.
            given: the names of columns, by field, if they have others.
            skipped: counts the values of unknown columns. Without it, they are refused.
        """
        self._file, self._form, self._parse = file, form, parse
        self._readline: Callable[[int], bytes] = file.readline
        self._given, self._skipped = given or {}, skipped
        self.encoding: str | None = None
        self._record_start = 0  # of the line or row that is being read, in bytes
        self._has_open_end = False  # the last line has no line break: the file ends there, or was cut off there
        self.bytes_read = 0

    @property
    def mapping(self) -> dict[str, dict[str, str]]:
        """None: the columns have the names of the fields."""
        return {}

    @property
    def may_be_cut(self) -> bool:
        """Whether the last row of a CSV file has no line break, so that its last cell can be incomplete."""
        return self._form == "csv" and self._has_open_end

    def __iter__(self) -> Iterator[Numbered | Refused]:
        try:
            yield from self._read_csv() if self._form == "csv" else self._read_json_lines()
        except UnreadableFile as end:
            yield Refused([end.rejection], None, ends_file=True)

    def _read_json_lines(self) -> Iterator[Numbered | Refused]:
        for number, raw in self._read_raw():
            self._record_start = self.bytes_read
            if raw.strip():
                yield _parse_json(number, raw, self._parse)

    def _read_csv(self) -> Iterator[Numbered | Refused]:
        rows = self.read_rows()
        line, header = next(rows, (1, []))
        names = self._name_columns(line, header)
        for number, cells in rows:
            yield self._parse_cells(number, header, names, cells)

    def read_rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the number of the first line and the cells of each row of a CSV file.

        Rows without text are left out, unless they have more cells than the first row, and so are lines without text at
        the start, one that names the separator for Excel, and empty cells behind the last column with a name.
        """
        lines = self._decode_lines()
        first, before, named = next(lines, ""), 0, None
        while first and (not first.strip(_BLANK) or (named is None and _SEPARATOR_LINE.fullmatch(first))):
            found = _SEPARATOR_LINE.fullmatch(first)
            first, before, named = next(lines, ""), before + 1, found[1] if found else named
        if "\r" in first.removesuffix("\n").removesuffix("\r"):
            raise UnreadableFile(1, "The lines end with CR alone. Save the file with LF or CRLF at the end of lines.")
        # spreadsheets write the separator of the language of the user; no name of a column contains one
        separator = named or max(_SEPARATORS, key=first.count)
        rows = csv.reader(itertools.chain([first], lines), delimiter=separator, strict=True)
        columns: int | None = None
        line = before + 1
        try:
            for cells in rows:
                self._record_start = self.bytes_read
                if columns is None:
                    columns = max((place for place, cell in enumerate(cells, 1) if cell), default=len(cells))
                shown = cells if any(cells[columns:]) else cells[:columns]
                if any(cells) or line == before + 1:
                    yield line, shown
                line = before + rows.line_num + 1
        except csv.Error as error:
            rest = TRUNCATED if self._has_open_end else _NOT_READ
            raise UnreadableFile(
                line,
                "The row is not valid CSV: a quotation mark is missing or in the wrong place, or a cell has more than "
                f"{csv.field_size_limit():,} characters. Correct the row. {rest}",
            ) from error

    def _read_raw(self) -> Iterator[tuple[int, bytes]]:
        """Yield each line with its number. The caller notes where the next record starts: a row can have several."""
        for number in itertools.count(1):
            raw = self._read_line(number)
            if number == 1 and raw and (encoding := _find_encoding(raw)):
                if self._form != "csv" or not encoding.startswith("utf-16"):
                    raise UnreadableFile(1, f"The file is in {_WIDE[encoding[:6]]}. Save it in UTF-8.")
                self.encoding = encoding
                self._readline = read_utf_16(raw, self._file, encoding)
                raw = self._read_line(number)
            if not raw:
                return
            self.bytes_read += len(raw)
            self._has_open_end = not raw.endswith(b"\n")
            if self.bytes_read - self._record_start > RECORD_BYTES:
                raise UnreadableFile(
                    number, f"The line or row has more than {RECORD_BYTES:,} bytes. Shorten it. {_NOT_READ}"
                )
            yield number, raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw

    def _read_line(self, number: int) -> bytes:
        try:
            return self._readline(RECORD_BYTES + 1)
        except UnicodeError:
            raise UnreadableFile(number, f"The line is not valid UTF-16. Save the file in UTF-8. {_NOT_READ}") from None

    def _decode_lines(self) -> Iterator[str]:
        for number, raw in self._read_raw():
            try:
                text, encoding = raw.decode(), "utf-8"
            except UnicodeDecodeError as error:
                in_windows = decode_windows(raw) if error.reason != "unexpected end of data" else None
                if in_windows is None or self.encoding not in {None, WINDOWS}:
                    raise UnreadableFile(number, f"{describe_encoding(error)} {_NOT_READ}") from None
                text, encoding = in_windows, WINDOWS
            if not raw.isascii():
                if encoding != (self.encoding or encoding) == WINDOWS:
                    mixed = "The lines before are in Windows-1252, and this one is in UTF-8. Save the file in UTF-8."
                    raise UnreadableFile(number, f"{mixed} {_NOT_READ}")
                self.encoding = self.encoding or encoding
            yield text

    def _name_columns(self, line: int, header: list[str]) -> list[str | None]:
        """Return the field of each column; None for one that is left out."""
        fields = {column.casefold(): name for name, column in self._given.items()}
        names = [fields.get(column.strip().casefold(), column) for column in header]
        known = {column.strip().casefold(): column for column in header}
        for name, column in self._given.items():
            if name not in _COLUMNS:
                raise UnreadableFile(
                    line, f"--map names {shorten(name)!r}, which is no field. {_suggest(name, _COLUMNS)}"
                )
            if column.casefold() not in known:
                reason = f"--map names {shorten(column)!r}, which is no column. {_suggest(column, known.values())}"
                raise UnreadableFile(line, reason)
        if self._skipped is None:
            _check_header(line, names)
            return [*names]
        _check_header(line, [name for name in names if name in _COLUMNS] or names)
        return [name if name in _COLUMNS else None for name in names]

    def _parse_cells(
        self, line: int, header: list[str], names: list[str | None], cells: list[str]
    ) -> Numbered | Refused:
        if len(cells) != len(header):
            return _refuse(line, describe_cells(cells, header, is_cut=self.may_be_cut))
        fields = {}
        for name, column, cell in zip(names, header, cells, strict=True):
            if name:
                fields[name] = unprotect(cell) if cell else None
            elif cell and self._skipped is not None:
                self._skipped[f"column {shorten(column)}"] += 1
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


def _suggest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"Did you mean {shorten(near[0])}? Correct it." if near else "Correct it."


def _check_header(line: int, header: list[str]) -> None:
    if not header:
        raise UnreadableFile(line, "The file is empty. Write the names of the columns in the first line.")
    seen = set()
    for place, name in enumerate(header, 1):
        if not name:
            raise UnreadableFile(line, f"Column {place} has no name. Name it, or remove it.")
        if name not in _COLUMNS:
            allowed = ", ".join((*COLUMNS, "parent"))
            near = get_close_matches("_".join(name.casefold().split()), _COLUMNS, n=1)
            meant = "".join(f" Did you mean {one}?" for one in near)
            raise UnreadableFile(
                line,
                f"The column {shorten(name)!r} is unknown. Rename or remove it, or use --map or --ignore-columns."
                f"{meant} Columns: {allowed}.",
            )
        if name in seen:
            raise UnreadableFile(line, f"The column {name} appears twice. Remove one.")
        seen.add(name)


def parse_numbered(line: int, fields: object, parse: Parse) -> Numbered | Refused:
    try:
        return Numbered(line, parse(fields))
    except InvalidRecord as error:
        return Refused([Rejection(line, *problem) for problem in error.problems], fields)
