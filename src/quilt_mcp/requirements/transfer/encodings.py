"""The encodings in which spreadsheets write CSV files: UTF-8, UTF-16 and, in Europe and America, Windows-1252."""

import io
import re
from collections.abc import Callable
from typing import BinaryIO

WINDOWS = "cp1252"
_IN_UTF_8 = re.compile(rb"[\xc2-\xf4][\x80-\xbf]")
"""A character beyond ASCII in UTF-8. In Windows-1252 it would be two that hardly follow each other."""


class _Rest(io.RawIOBase):
    """A file of which the start has been read."""

    def __init__(self, start: bytes, file: BinaryIO) -> None:
        self._start, self._file = start, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview[int] | bytearray") -> int:  # type: ignore[override]  # a part of its types
        part = self._start[: len(buffer)] or self._file.read(len(buffer))
        self._start = self._start[len(part) :]
        buffer[: len(part)] = part
        return len(part)


def read_utf_16(start: bytes, file: BinaryIO, encoding: str) -> Callable[[int], bytes]:
    """Return a function that reads the next line of a file, of at most so many characters, as UTF-8."""
    lines = io.TextIOWrapper(io.BufferedReader(_Rest(start, file)), encoding=encoding, newline="\n")
    return lambda most: lines.readline(most).removeprefix("\ufeff").encode()


def decode_windows(raw: bytes) -> str | None:
    """Return a line that is not UTF-8 in Windows-1252; None if it seems to be damaged UTF-8."""
    if _IN_UTF_8.search(raw):
        return None
    try:
        return raw.decode(WINDOWS)
    except UnicodeDecodeError:  # of five bytes that mean nothing
        return None
