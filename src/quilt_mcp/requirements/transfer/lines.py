"""Reads the lines of text files, and the rows of CSV files, in UTF-8. None may be too long."""

import codecs
import csv
import itertools
import json
from collections.abc import Iterator
from typing import BinaryIO

from quilt_mcp.requirements.transfer.rejections import Rejection

RECORD_BYTES = 1_000_000
"""Maximum length of a line or CSV row: more than the longest record needs, with every character escaped."""
TRUNCATED = "If the file was cut off here, export or copy it again."
"""What can explain an error in a last line that has no line break."""
_SEPARATORS = ",;\t"
_NOT_READ = "The rest of the file was not read."
_WIDE = {"utf-16": "UTF-16", "utf-32": "UTF-32"}
"""The encodings other than UTF-8 that `json.detect_encoding` knows."""


class UnreadableFile(Exception):
    """The rest of the file cannot be read.

    Attributes:
        rejection: the line and the reason.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.rejection = Rejection(line, None, reason)


class Lines:
    """Reads a file, once.

    Args:
        file: the file.
        most_bytes: the maximum length of a line, or of a CSV row with line breaks in its cells.

    Attributes:
        bytes_read: of the file, so far.
        has_open_end: whether the last line that was read has no line break: the file ends there, or was cut off there.
    """

    def __init__(self, file: BinaryIO, most_bytes: int = RECORD_BYTES) -> None:
        self._file = file
        self._most_bytes = most_bytes
        self._row_start = 0
        self.bytes_read = 0
        self.has_open_end = False

    def read_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the bytes of each line.

        Raises:
            UnreadableFile: a line is too long, or the file is in UTF-16 or UTF-32.
        """
        for number, raw in self._read_raw():
            self._row_start = self.bytes_read
            yield number, raw

    def read_rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the number of the first line and the cells of each row of a CSV file.

        Rows without text are left out, unless they have more cells than the first row.

        Raises:
            UnreadableFile: as `read_lines`; or the file is not in UTF-8, or not CSV.
        """
        lines = self._decode_lines()
        first = next(lines, "")
        # spreadsheets write the separator of the language of the user; no name of a column contains one
        separator = max(_SEPARATORS, key=first.count)
        rows = csv.reader(itertools.chain([first], lines), delimiter=separator, strict=True)
        columns: int | None = None
        line = 1
        try:
            for cells in rows:
                self._row_start = self.bytes_read
                if columns is None or any(cells) or len(cells) > columns:
                    yield line, cells
                columns = len(cells) if columns is None else columns
                line = rows.line_num + 1
        except csv.Error as error:
            rest = TRUNCATED if self.has_open_end else _NOT_READ
            raise UnreadableFile(
                line,
                "The row is not valid CSV: a quotation mark is missing or in the wrong place, or a cell has more than "
                f"{csv.field_size_limit():,} characters. Correct the row. {rest}",
            ) from error

    def _read_raw(self) -> Iterator[tuple[int, bytes]]:
        self._row_start = self.bytes_read
        for number in itertools.count(1):
            raw = self._file.readline(self._most_bytes + 1)
            if not raw:
                return
            if number == 1:
                _check_encoding(raw)
            self.bytes_read += len(raw)
            self.has_open_end = not raw.endswith(b"\n")
            if self.bytes_read - self._row_start > self._most_bytes:
                raise UnreadableFile(
                    number, f"The line or row has more than {self._most_bytes:,} bytes. Shorten it. {_NOT_READ}"
                )
            yield number, raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw

    def _decode_lines(self) -> Iterator[str]:
        for number, raw in self._read_raw():
            try:
                yield raw.decode()
            except UnicodeDecodeError as error:
                raise UnreadableFile(number, f"{describe_encoding(error)} {_NOT_READ}") from None


def _check_encoding(start: bytes) -> None:
    """Check that the first line of a file can be UTF-8.

    Raises:
        UnreadableFile: it has zero bytes, as UTF-16 and UTF-32 have them, or one of their byte order marks; or it is
            the start of a ZIP archive, which a workbook is.
    """
    if start.startswith(b"PK\x03\x04"):
        raise UnreadableFile(1, "The file is a workbook, or another ZIP archive. Save its table as CSV in UTF-8.")
    if not start.strip(b"\0\n"):
        if b"\0" in start:
            raise UnreadableFile(1, "The file starts with zero bytes: it is damaged. Export or copy it again.")
        return
    # without a byte order mark, zero bytes beside the first character show the encoding
    if encoding := _WIDE.get(json.detect_encoding(start)[:6]):
        raise UnreadableFile(1, f"The file is in {encoding}. Save it in UTF-8.")


def describe_encoding(error: UnicodeDecodeError) -> str:
    """Return what is wrong with a line that is not in UTF-8."""
    cut = f" {TRUNCATED}" if error.reason == "unexpected end of data" else ""
    return f"The line is not valid UTF-8 at byte {error.start + 1}. Save the file in UTF-8.{cut}"


def describe_cells(cells: list[str], header: list[str], *, is_cut: bool) -> str:
    """Return what is wrong with a row that has too many or too few cells.

    Args:
        cells: of the row.
        header: the cells of the first line.
        is_cut: whether the row is the last one and has no line break.
    """
    remedy = "Add the missing cells, or put" if len(cells) < len(header) else "Remove the last cells, or put"
    return (
        f"The row has {len(cells)} cells; the first line has {len(header)} columns. {remedy} cells that contain "
        f"separators in quotation marks.{f' {TRUNCATED}' if is_cut else ''}"
    )
