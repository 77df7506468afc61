"""What is asked of the process that opens files, as a line of JSON."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """What to show of which file.

    Attributes:
        kind: such as parquet; `child.py` has the kinds.
        size: the number of bytes of the file.
        rows: of a table, the number of rows.
        delimiter: of a text with separators; None to find it in the first line.
        is_whole: whether the file is the whole table, and not only its start.
        first: of a PDF file, the number of the first page, from 1.
        room: of a PDF file, the number of characters.
    """

    kind: str
    size: int
    rows: int = 0
    delimiter: str | None = None
    is_whole: bool = False
    first: int = 1
    room: int = 0
