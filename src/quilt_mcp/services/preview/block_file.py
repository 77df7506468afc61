"""A file of which only those blocks are read that somebody asks for."""

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from quilt_mcp.services.preview.refused import TooMuch

if TYPE_CHECKING:
    from typing_extensions import Buffer  # of the standard library from Python 3.12 on

BLOCK = 65_536

ReadRange = Callable[[int, int], bytes]
"""Returns the bytes of a range, given as its start and its size."""


class BlockFile(io.RawIOBase):
    """A seekable file that reads ranges, and keeps what it has read.

    Args:
        read_range: reads a range. It is called with whole blocks, fewer bytes only at the end of the file.
        size: of the file, in bytes.
        most: the number of bytes that it reads at most.
    """

    def __init__(self, read_range: ReadRange, size: int, most: int) -> None:
        super().__init__()
        self._read_range, self._size, self._most = read_range, size, most
        self._blocks: dict[int, bytes] = {}
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: "Buffer") -> int:
        view = memoryview(buffer).cast("B")
        found = self._read(self._at, min(len(view), max(0, self._size - self._at)))
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def readall(self) -> bytes:
        found = self._read(self._at, max(0, self._size - self._at))
        self._at += len(found)
        return found

    def _read(self, start: int, size: int) -> bytes:
        if not size:
            return b""
        first, last = start // BLOCK, (start + size - 1) // BLOCK
        missing = [at for at in range(first, last + 1) if at not in self._blocks]
        if missing:
            self._fetch(missing[0], missing[-1])
        found = b"".join(self._blocks[at] for at in range(first, last + 1))
        return found[start - first * BLOCK :][:size]

    def _fetch(self, first: int, last: int) -> None:
        start, end = first * BLOCK, min((last + 1) * BLOCK, self._size)
        if end - start > self._most:
            raise TooMuch(f"more than {self._most} bytes")
        self._most -= end - start
        found = self._read_range(start, end - start)
        for at in range(first, last + 1):
            self._blocks[at] = found[(at - first) * BLOCK :][:BLOCK]
