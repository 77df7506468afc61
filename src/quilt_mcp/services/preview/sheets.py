"""The first sheet of an Excel file, opened by openpyxl. Only the process in `child.py` imports this."""

import io
from collections.abc import Sequence
from itertools import islice

from openpyxl import load_workbook  # type: ignore[import-untyped]  # it ships no type information

from quilt_mcp.services.preview.asked import Asked
from quilt_mcp.services.preview.block_file import BlockFile
from quilt_mcp.services.preview.cells import MOST_COLUMNS, fill_rows
from quilt_mcp.services.preview.refused import Refused

TYPES = {bool: "boolean", int: "number", float: "number", str: "text"}
MOST_SHEETS = 50


def read_sheet(file: BlockFile, asked: Asked) -> dict[str, object]:
    """Return the first rows of the first sheet. Its first row has the names of the columns. Formulas have results."""
    book = load_workbook(io.BufferedReader(file), read_only=True, data_only=True)
    if not book.worksheets:
        raise Refused("It has no sheet with cells.")
    sheet, most = book.worksheets[0], asked.rows
    # The size that a file states can be wrong, so the rows are counted as far as they are read.
    found = list(islice(sheet.iter_rows(values_only=True, max_col=MOST_COLUMNS), most + 2))
    header = found[0] if found else ()
    width = max((at for row in found for at, value in enumerate(row, 1) if value is not None), default=0)
    body = [row[:width] for row in found[1:]]
    rows, is_cut = fill_rows(body, most)
    return {
        "columns": [
            {"name": "" if name is None else str(name)[:200], "type": _find_type([row[at] for row in body])}
            for at, name in enumerate(header[:width])
        ],
        "column_count": width if width < MOST_COLUMNS else None,
        "rows": rows,
        "row_count": len(body) if len(found) < most + 2 else None,
        "cells_cut": is_cut,
        "sheet": sheet.title[:200],
        "sheets": [name[:200] for name in book.sheetnames[:MOST_SHEETS]],
    }


def _find_type(values: Sequence[object]) -> str:
    """Return the type of all cells of a column; "mixed" for several."""
    found = {TYPES.get(type(value), type(value).__name__) for value in values if value is not None}
    return found.pop() if len(found) == 1 else "mixed" if found else "empty"
