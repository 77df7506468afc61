"""Tables in Parquet, CSV, TSV and JSON Lines, opened by pyarrow. Only the process in `child.py` imports this."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import csv, json
from pyarrow import parquet as pq

from quilt_mcp.services.preview.asked import Asked
from quilt_mcp.services.preview.block_file import BLOCK, BlockFile
from quilt_mcp.services.preview.cells import MOST_COLUMNS, fill_rows
from quilt_mcp.services.preview.refused import Refused

LARGEST_FOOTER_TEXT, LARGEST_FOOTER_LIST = 8_000_000, 1_000_000
DELIMITERS = ",\t;|"


def read_parquet(file: BlockFile, asked: Asked) -> dict[str, object]:
    """Return the schema in the footer, and the first rows of the first row group.

    The number of rows is what the footer says. Only the pages that contain these rows are read.
    """
    _use_one_thread()
    opened = pq.ParquetFile(
        pa.PythonFile(file, mode="r"),
        buffer_size=BLOCK,
        pre_buffer=False,
        thrift_string_size_limit=LARGEST_FOOTER_TEXT,
        thrift_container_size_limit=LARGEST_FOOTER_LIST,
    )
    schema, meta = opened.schema_arrow, opened.metadata
    rows, is_cut = list[list[object]](), False
    if meta.num_row_groups and asked.rows:
        names = list(dict.fromkeys(schema.names[:MOST_COLUMNS]))
        batches = opened.iter_batches(asked.rows, row_groups=[0], columns=names, use_threads=False)
        rows, is_cut = fill_rows(_list_rows(batches), asked.rows)
    return _describe(schema, rows, is_cut=is_cut, row_count=meta.num_rows)


def read_csv(file: BlockFile, asked: Asked) -> dict[str, object]:
    """Return the first rows of a text with separators. The first row has the names of the columns.

    The types are those that fit all rows that were read. Rows with another number of cells are left out.
    """
    _use_one_thread()
    raw, left_out = file.readall(), 0

    def skip(_: object) -> str:
        nonlocal left_out
        left_out += 1
        return "skip"

    first = raw.split(b"\n", 1)[0].decode(errors="replace")
    delimiter = asked.delimiter or max(DELIMITERS, key=first.count)
    table = csv.read_csv(
        pa.BufferReader(raw),
        csv.ReadOptions(use_threads=False, block_size=len(raw) + 1),
        csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip),
    )
    return _describe_whole(table, asked) | {"rows_left_out": left_out}


def read_json_lines(file: BlockFile, asked: Asked) -> dict[str, object]:
    """Return the first lines, each an object, as rows."""
    _use_one_thread()
    raw = file.readall()
    table = json.read_json(pa.BufferReader(raw), json.ReadOptions(use_threads=False, block_size=len(raw) + 1))
    return _describe_whole(table, asked)


def _use_one_thread() -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)


def _describe_whole(table: pa.Table, asked: Asked) -> dict[str, object]:
    shown = table.slice(0, asked.rows).select(range(min(table.num_columns, MOST_COLUMNS)))
    rows, is_cut = fill_rows(_list_rows(shown.to_batches()), asked.rows)
    count = table.num_rows if asked.is_whole else None
    return _describe(table.schema, rows, is_cut=is_cut, row_count=count)


def _list_rows(batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch]) -> Iterator[Sequence[object]]:
    for batch in batches:
        try:
            columns = [column.to_pylist() for column in batch.columns]
        except (ValueError, OverflowError) as error:  # a time that Python does not have
            raise Refused(f"A value cannot be shown: {error}") from error
        yield from zip(*columns, strict=True)


def _describe(schema: pa.Schema, rows: list[list[object]], *, is_cut: bool, row_count: int | None) -> dict[str, object]:
    columns = [{"name": str(field.name)[:200], "type": str(field.type)[:200]} for field in schema]
    return {
        "columns": columns[:MOST_COLUMNS],
        "column_count": len(columns),
        "rows": rows,
        "row_count": row_count,
        "cells_cut": is_cut,
    }
