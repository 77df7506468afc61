"""Pages of text in UTF-8, of a file as it is stored or as gzip compressed it."""

import codecs
import gzip
import zlib
from typing import NamedTuple

from quilt_mcp.services.preview.block_file import BlockFile
from quilt_mcp.services.preview.refused import TooMuch
from quilt_mcp.services.preview.stored_file import CHUNK, StoredFile

PAGE = 20_000
"""The characters of a page of text: two pages are less than some clients show of one answer."""
MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
"""The byte order mark, which some programs write at the start of UTF-8."""
GZIP = b"\x1f\x8b"
MOST_COMPRESSED, MOST_INFLATED = 8_000_000, 32_000_000
"""How far a gzip file is read, in bytes as stored and as decompressed: each page reads it from its start."""


class TextPage(NamedTuple):
    """A page of text.

    Attributes:
        text: its characters.
        size: how many bytes of the file they are.
    """

    text: str
    size: int

    @property
    def lines(self) -> int:
        return self.text.count("\n")


def cut_page(raw: bytes, *, is_end: bool) -> TextPage | None:
    """Return the page that bytes start with; None if they are no text. A page ends with a line, if one ends in it.

    Args:
        raw: at least one page, or everything up to the end of the file.
        is_end: whether the file ends with these bytes.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(raw, final=is_end)
    except UnicodeDecodeError as error:
        if error.start < PAGE:
            return None
        text, is_end = raw[: error.start].decode(), False
    page = text[:PAGE]
    if "\0" in page:
        return None
    if len(page) < len(text) or not is_end:
        end = page.rfind("\n") + 1
        page = page[:end] if end > PAGE // 2 else page
    return TextPage(page.removeprefix(MARK), len(page.encode()))


class Window(NamedTuple):
    """A part of the content of a file, from which a page is shown.

    Attributes:
        content: its bytes.
        is_end: whether the file ends with them.
        is_inflated: whether gzip had compressed them.
        problem: why no more can be read; None if more can, or there is no more.
    """

    content: bytes
    is_end: bool
    is_inflated: bool = False
    problem: str | None = None


def inflate(file: StoredFile, start: int, size: int = CHUNK) -> Window:
    """Decompress a part of a gzip file, which starts at this byte of its content."""
    source, found = BlockFile(file.read, file.size, MOST_COMPRESSED), b""
    if start + size > MOST_INFLATED:
        problem = f"Only {MOST_INFLATED:,} bytes of what a gzip file contains are read."
        return Window(b"", is_end=False, is_inflated=True, problem=problem)
    try:
        with gzip.GzipFile(fileobj=source, mode="rb") as opened:
            opened.seek(start)
            while len(found) < size and (more := opened.read(size - len(found))):
                found += more
            return Window(found, is_end=not opened.read(1), is_inflated=True)
    except TooMuch:
        problem = f"Only {MOST_COMPRESSED:,} bytes of a gzip file are read."
    except (EOFError, gzip.BadGzipFile, zlib.error):
        problem = "The gzip file is damaged, or not complete."
    return Window(found, is_end=False, is_inflated=True, problem=problem)
