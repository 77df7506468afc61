"""What is in a file: forms, pages, limits, and damaged and hostile files. pyarrow and Pillow are second judges."""

import gzip
import io
import json
import random
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import openpyxl  # type: ignore[import-untyped]  # it ships no type information
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moto.s3.models import s3_backends

from quilt_mcp.core.answers import GetResourceSuccess
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.demo.account import ACCOUNT_ID
from quilt_mcp.demo.liver import FILES
from quilt_mcp.demo.world import World
from quilt_mcp.services.preview import process
from quilt_mcp.services.preview.asked import Asked
from quilt_mcp.services.preview.pictures import identify
from quilt_mcp.services.preview.refused import Refused
from quilt_mcp.services.preview.texts import PAGE, cut_page
from quilt_mcp.services.stack.places import Part, Place
from quilt_mcp.tools.resource_access import get_resource
from tests.support.python_caller import read, read_error
from tests.support.worlds import demo_world

BUCKET = "acme-analysis-results"
LIVER = f"quilt://buckets/{BUCKET}/packages/rnaseq/liver"
PARTS = ("text", "table", "notebook", "pdf", "image")


@pytest.fixture(scope="module")
def shared_world() -> Iterator[World]:
    """The admin's world for all tests here: each stores objects of its own, and changes nothing else."""
    with demo_world() as world:
        yield world


def store(key: str, content: bytes) -> str:
    """Store an object and return the URI that shows it."""
    s3_backends[ACCOUNT_ID]["aws"].put_object(BUCKET, key, content)
    return f"quilt://buckets/{BUCKET}/object?key={quote(key, safe='')}"


async def get(uri: str) -> GetResourceSuccess:
    found = await get_resource(uri)
    assert isinstance(found, GetResourceSuccess), found
    return found


async def show(name: str, content: bytes) -> dict[str, Any]:
    found = await read(store(name, content))
    assert sum(found[part] is not None for part in PARTS) <= 1
    return found


async def read_pages(uri: str) -> list[dict[str, Any]]:
    pages, cursor = [await read(uri)], ""
    while cursor := pages[-1]["next_cursor"]:
        pages.append(await read(f"{uri}&cursor={cursor}"))
    return pages


def write_parquet(table: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


def write_workbook(rows: Sequence[Sequence[object]], **sheets: Sequence[Sequence[object]]) -> bytes:
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for row in rows:
        book.active.append(row)
    for name, body in sheets.items():
        sheet = book.create_sheet(name)
        for row in body:
            sheet.append(row)
    book.save(buffer)
    return buffer.getvalue()


def write_picture(kind: str, width: int = 30, height: int = 20, **options: Any) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.new("RGB", (width, height), "teal").save(buffer, kind, **options)
    return buffer.getvalue()


def write_header_of_png(width: int, height: int) -> bytes:
    """Return a PNG of one colour: its pixels take no room."""
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes((1, 0, 0, 0, 0))
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b"")]
    parts = [
        len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big") for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


# --- the demo's package ---


async def test_each_file_of_a_package_is_shown_as_what_it_is(shared_world: World) -> None:
    expected = {
        "README.md": ("text", "text/markdown"),
        "code/normalize.R": ("text", "text/x-r"),
        "samples.csv": ("table", "text/csv"),
        "tables/genes.tsv": ("table", "text/tab-separated-values"),
        "metrics.jsonl": ("table", "application/jsonl"),
        "counts/liver.parquet": ("table", "application/vnd.apache.parquet"),
        "notebooks/explore.ipynb": ("notebook", "application/x-ipynb+json"),
        "report.pdf": ("pdf", "application/pdf"),
        "logs/align.log.gz": ("text", "text/plain"),
        "figures/pca.png": ("image", "image/png"),
        "figures/QC 100% + #2.png": ("image", "image/png"),
    }
    for path, (part, mime_type) in expected.items():
        found = await read(f"{LIVER}/contents?path={quote(path, safe='')}")
        assert found["kind"] == "file"
        assert (found[part] is not None, found["mime_type"], found["not_shown"]) == (True, mime_type, None), path
        assert [other for other in PARTS if found[other] is not None] == [part]
        assert found["version"] in found["physical_key"]


async def test_every_uri_in_the_package_can_be_read(shared_world: World) -> None:
    seen, waiting = set[str](), [f"{LIVER}/contents"]
    while waiting:
        found = await get_resource(waiting.pop())
        if not found.success:
            assert found.error == "ResourceExecutionError", found
            assert "archive" in found.message  # one file of the demo is in Glacier
            continue
        data = found.data
        links = [data["package"], *([data["folder"]] if data["folder"] else [])]
        new = {row["uri"] for row in data.get("entries", ())} - seen
        assert {(await get_resource(link)).success for link in links} == {True}
        seen |= new
        waiting += sorted(new)
    assert len(seen) == 21


async def test_a_table_has_what_pyarrow_reads(shared_world: World) -> None:
    found = (await read(f"{LIVER}/contents?path=counts%2Fliver.parquet"))["table"]
    table = pq.read_table(FILES / "3/counts/liver.parquet")
    assert [(one["name"], one["type"]) for one in found["columns"]] == [
        (field.name, str(field.type)) for field in table.schema
    ]
    assert (found["row_count"], found["column_count"]) == (table.num_rows, table.num_columns)
    rows = [list(row.values()) for row in table.slice(0, 20).to_pylist()]
    assert found["rows"][:20] == [[one.isoformat() if isinstance(one, date) else one for one in row] for row in rows]


async def test_an_answer_for_a_whole_hash_may_be_kept_if_the_file_has_a_version(shared_world: World) -> None:
    newest = (await read(LIVER))["hash"]
    for uri, seconds in {
        f"{LIVER}/contents": 0,
        f"{LIVER}/contents?path=README.md": 0,
        f"{LIVER}/contents?path=README.md&revision={newest[:8]}": 0,
        f"{LIVER}/contents?revision={newest}": 86_400,
        f"{LIVER}/contents?path=README.md&revision={newest}": 86_400,
    }.items():
        found = await get(uri)
        assert (found.ttl_ms, found.cache_scope) == (1000 * seconds, "private"), uri
    raw = "quilt://buckets/acme-raw-sequencing/packages/runs/250519"
    fixed = (await read(raw))["hash"]
    assert (await get(f"{raw}/contents?path=samples.tsv&revision={fixed}")).ttl_ms == 0


async def test_an_object_that_was_overwritten_since_the_push_is_said_to_be(shared_world: World) -> None:
    uri = "quilt://buckets/acme-raw-sequencing/packages/runs/250519/contents?path=samples.tsv"
    assert (await read(uri))["was_overwritten"] is None
    s3_backends[ACCOUNT_ID]["aws"].put_object("acme-raw-sequencing", "runs/250519/samples.tsv", b"a\tb\n1\t2\n3\t4\n")
    assert (await read(uri))["was_overwritten"] is True


# --- texts ---


TEXTS = {
    "empty": b"",
    "one line": b"one line",
    "windows": b"a\r\nb\r\n",
    "mark": b"\xef\xbb\xbfwith a mark\n",
    "scripts": "報告　書 می‌خواهم हिन्दी 👩‍👩‍👧 \u202f".encode(),
    "escapes": b"\x1b[31mred\x1b[0m\n",
    "html": b"<!doctype html><script>alert(1)</script>",
}


@pytest.mark.parametrize("name", TEXTS)
async def test_a_text_is_shown_as_it_is(name: str, shared_world: World) -> None:
    found = await show(name, TEXTS[name])
    assert found["text"] == TEXTS[name].decode("utf-8-sig")
    assert (found["size"], found["next_cursor"], found["first_line"]) == (len(TEXTS[name]), None, 1)


@pytest.mark.parametrize("content", [b"\0" * 10, b"\xff\xfe\x00a", b"caf\xe9", b"\x80abc", bytes(range(256))])
async def test_bytes_that_are_not_utf_8_have_only_facts_and_the_reason(content: bytes, shared_world: World) -> None:
    found = await show("data", content)
    assert [part for part in PARTS if found[part] is not None] == []
    assert "none of the forms" in found["not_shown"]
    assert (found["mime_type"], found["next_cursor"]) == ("application/octet-stream", None)


async def test_pages_have_the_whole_text_once_in_lines_that_are_numbered(shared_world: World) -> None:
    lines = [f"{number}: {'ñ' * (number % 90)} 🧬\n" for number in range(1, 3001)]
    text = "".join(lines)
    for name, content in (("a.log", text.encode()), ("a.log.gz", gzip.compress(text.encode()))):
        pages = await read_pages(store(name, content))
        assert "".join(page["text"] for page in pages) == text
        assert len(pages) > 5
        for page in pages:
            assert len(page["text"]) <= PAGE
            assert page["text"].startswith(f"{page['first_line']}: ")
            assert page["compression"] == ("gzip" if name.endswith(".gz") else None)


async def test_a_line_of_any_length_is_cut_into_pages(shared_world: World) -> None:
    text = "é" * 90_001
    pages = await read_pages(store("line", text.encode()))
    assert "".join(page["text"] for page in pages) == text
    assert {page["first_line"] for page in pages} == {1}


@given(st.text(max_size=300), st.integers(1, 40))
def test_pages_of_every_text_are_the_text(text: str, length: int) -> None:
    """The bytes of each window end anywhere, as a range does."""
    text = text.replace("\0", "").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    raw, shown, at = text.encode(), "", 0
    while at < len(raw):
        window = raw[at : at + max(length, 4)]
        page = cut_page(window, is_end=at + len(window) >= len(raw))
        assert page is not None
        assert page.size > 0
        shown, at = shown + page.text, at + page.size
    assert shown == text.replace("\N{ZERO WIDTH NO-BREAK SPACE}", "") or shown == text


async def test_a_page_whose_object_changed_is_refused(shared_world: World) -> None:
    uri = store("changing", b"line\n" * 10_000)
    cursor = (await read(uri))["next_cursor"]
    assert (await read(f"{uri}&cursor={cursor}"))["first_line"] > 1000
    store("changing", b"other\n" * 10_000)
    error = await read_error(f"{uri}&cursor={cursor}")
    assert (error.error, error.message) == ("InvalidTemplateVariable", "The object changed since the page before.")
    other = store("another", b"line\n" * 10_000)
    assert (await read_error(f"{other}&cursor={cursor}")).error == "InvalidTemplateVariable"


async def test_binary_data_after_a_text_ends_the_pages_with_the_reason(shared_world: World) -> None:
    pages = await read_pages(store("mixed", b"text\n" * 20_000 + b"\xff\0\xff" * 1000))
    assert pages[0]["text"].startswith("text\n")
    assert (pages[-1]["text"], pages[-1]["next_cursor"]) == (None, None)
    assert "none of the forms" in pages[-1]["not_shown"]


async def test_a_page_of_an_object_of_five_gigabytes_costs_one_range_and_little_memory(
    shared_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, size = store("huge.log", b"x"), 5_000_000_000
    await read(uri)  # imports and connections are not counted
    ranges = list[tuple[int, int]]()

    def read_part(_: object, place: Place, start: int, asked: int, etag: str | None = None) -> Part:
        ranges.append((start, asked))
        return Part(
            (b"%019d\n" * (asked // 20 + 2) % ((1,) * (asked // 20 + 2)))[start % 20 :][:asked], size, '"e"', None, None
        )

    monkeypatch.setattr("quilt_mcp.services.stack.aws.AWSClients.read_part", read_part)
    tracemalloc.start()
    try:
        first = await read(uri)
        again = await read(f"{uri}&cursor={first['next_cursor']}")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ranges == [(0, 65_536), (20_000, 65_536)]
    assert (len(first["text"]), first["size"], again["first_line"]) == (20_000, size, 1001)
    assert peak < 30_000_000


# --- gzip ---


async def test_several_members_of_gzip_are_one_text(shared_world: World) -> None:
    members = [gzip.compress(f"member {number}\n".encode()) for number in range(50)]  # as bgzip writes them
    assert (await show("a.vcf.gz", b"".join(members)))["text"].count("member") == 50


async def test_a_damaged_gzip_file_shows_what_can_be_read(shared_world: World) -> None:
    whole = gzip.compress(b"".join(b"%d\n" % number for number in range(100_000)))
    cut = await show("cut.gz", whole[: len(whole) // 2])
    assert cut["text"].startswith("0\n1\n")
    pages = await read_pages(store("cut.gz", whole[: len(whole) // 2]))
    assert "damaged, or not complete" in pages[-1]["not_shown"]
    junk = await show("junk.gz", b"\x1f\x8b" + b"junk" * 100)
    assert (junk["text"], junk["not_shown"]) == (None, "The gzip file is damaged, or not complete.")


async def test_a_gzip_bomb_costs_no_more_than_its_pages(shared_world: World) -> None:
    bomb = gzip.compress(b"0" * 200_000_000)
    uri = store("bomb.txt.gz", bomb)
    assert len((await read(uri))["text"]) == PAGE
    binary = await show("bomb.gz", gzip.compress(b"\0" * 50_000_000))
    assert (binary["text"], "none of the forms" in binary["not_shown"]) == (None, True)


async def test_a_compressed_table_is_a_table(shared_world: World) -> None:
    found = await show("a.csv.gz", gzip.compress(b"x,y\n1,2\n"))
    assert (found["table"]["rows"], found["compression"]) == ([[1, 2]], "gzip")


# --- tables ---


CSV: dict[str, tuple[bytes, list[tuple[str, str]], list[list[object]]]] = {
    "types": (
        b"i,f,b,d,t\n1,1.5,true,2025-01-02,x\n2,nan,false,2025-01-03,\n",
        [("i", "int64"), ("f", "double"), ("b", "bool"), ("d", "date32[day]"), ("t", "string")],
        [[1, 1.5, True, "2025-01-02", "x"], [2, None, False, "2025-01-03", ""]],
    ),
    "semicolons": (b"a;b\n1;2\n", [("a", "int64"), ("b", "int64")], [[1, 2]]),
    "quotes": (b'a,b\n"x, y","two\nlines"\n', [("a", "string"), ("b", "string")], [["x, y", "two\nlines"]]),
    "same names": (b"a,a\n1,2\n", [("a", "int64"), ("a", "int64")], [[1, 2]]),
    "only a header": (b"a,b\n", [("a", "null"), ("b", "null")], []),
    "scripts": ("名,é\n値,ü\n".encode(), [("名", "string"), ("é", "string")], [["値", "ü"]]),
    "windows": (b"a,b\r\n1,2\r\n", [("a", "int64"), ("b", "int64")], [[1, 2]]),
}


@pytest.mark.parametrize("name", CSV)
async def test_a_text_with_separators_is_a_table(name: str, shared_world: World) -> None:
    content, columns, rows = CSV[name]
    table = (await show("a.csv", content))["table"]
    assert [(one["name"], one["type"]) for one in table["columns"]] == columns
    assert (table["rows"], table["row_count"], table["rows_left_out"]) == (rows, len(rows), 0)


async def test_rows_that_do_not_fit_are_counted(shared_world: World) -> None:
    table = (await show("a.csv", b"a,b\n1,2\n1,2,3\n4\n5,6\n"))["table"]
    assert (table["rows"], table["rows_left_out"]) == ([[1, 2], [5, 6]], 2)


async def test_a_large_table_shows_its_first_rows_and_does_not_count_them(shared_world: World) -> None:
    content = b"number,text\n" + b"".join(b"%d,%s\n" % (number, b"x" * 50) for number in range(20_000))
    uri = store("large.csv", content)
    table = (await read(uri))["table"]
    assert (len(table["rows"]), table["row_count"], table["rows"][49][0]) == (50, None, 49)
    assert len((await read(f"{uri}&limit=3"))["table"]["rows"]) == 3
    assert (await read_error(f"{uri}&limit=0")).error == "InvalidTemplateVariable"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", b"x" * 200_000, "no whole line in its first 65,536 bytes"),
        ("a.csv", b"", "It is empty"),
        ("a.jsonl", b'{"a": 1}\n{"a": "x"}\n', "not a file of this kind (ArrowInvalid)"),
        ("a.jsonl", b"no json\n", "not a file of this kind (ArrowInvalid)"),
        ("a.tsv", b'a\tb\n"never closed\n', ""),
    ],
)
async def test_a_table_that_cannot_be_read_is_shown_as_text_with_the_reason(
    name: str, content: bytes, reason: str, shared_world: World
) -> None:
    found = await show(name, content)
    if reason or found["table"] is None:
        assert found["text"] == content[:PAGE].decode()
        assert "shown as text, not as a table" in found["not_shown"]
        assert reason in found["not_shown"]


async def test_values_that_json_does_not_have_are_texts(shared_world: World) -> None:
    moment = datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)
    table = pa.table(
        {
            "float": [float("nan")],
            "infinite": [float("inf")],
            "big": pa.array([2**63], pa.uint64()),
            "decimal": [Decimal("1.10")],
            "moment": pa.array([moment], pa.timestamp("us", "UTC")),
            "bytes": [b"\0\1"],
            "list": [list(range(30))],
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "struct": [{"a": {"b": {"c": {"d": {"e": 1}}}}}],
            "long": ["x" * 1000],
            "null": pa.array([None], pa.null()),
            "kind": pa.array(["a"]).dictionary_encode(),
        }
    )
    found = (await show("odd.parquet", write_parquet(table)))["table"]
    row = dict(zip(table.column_names, found["rows"][0], strict=True))
    assert row == {
        "float": "nan",
        "infinite": "inf",
        "big": 2**63,
        "decimal": "1.10",
        "moment": "1969-12-31T23:59:59+00:00",
        "bytes": "2 bytes",
        "list": list(range(20)),
        "map": [["k", 1]],
        "struct": {"a": {"b": {"c": {"d": "…"}}}},
        "long": "x" * 500,
        "null": None,
        "kind": "a",
    }
    assert found["cells_cut"] is True


async def test_a_wide_parquet_file_shows_its_first_columns(shared_world: World) -> None:
    table = pa.table({f"c{number}": [number, number] for number in range(3000)})
    found = (await show("wide.parquet", write_parquet(table)))["table"]
    assert (len(found["columns"]), found["column_count"], len(found["rows"][0])) == (100, 3000, 100)


async def test_only_the_first_pages_of_a_large_parquet_file_are_read(
    shared_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 400_000
    table = pa.table({name: [random.random() for _ in range(rows)] for name in "ab"})  # noqa: S311 - no secret
    content = write_parquet(table, row_group_size=rows, use_dictionary=False, data_page_size=100_000)
    sizes = list[int]()

    class Counting(process.Buffered):
        def read(self, start: int, size: int) -> bytes:
            sizes.append(size)
            return super().read(start, size)

    opened = process.open_file(process.Openers(None), Asked("parquet", len(content), rows=10), Counting(content))
    assert (opened["row_count"], len(opened["rows"])) == (rows, 10)
    assert sum(sizes) < len(content) / 5
    assert len(content) > 6_000_000


async def test_an_empty_parquet_file_has_columns(shared_world: World) -> None:
    found = (await show("empty.parquet", write_parquet(pa.table({"a": pa.array([], pa.int64())}))))["table"]
    assert (found["columns"], found["rows"], found["row_count"]) == ([{"name": "a", "type": "int64"}], [], 0)


def spoil_footer(content: bytes) -> Iterator[bytes]:
    """Yield a Parquet file with footers that are not true."""
    yield content[:-8] + (2**31 - 1).to_bytes(4, "little") + b"PAR1"  # longer than the file
    yield content[:-8] + (5).to_bytes(4, "little") + b"PAR1"
    yield content[:-4] + b"XXXX"
    yield b"PAR1" + b"\0" * 100
    yield b"PAR1"
    yield b"PAR1" + b"\xff" * 5000 + (5000).to_bytes(4, "little") + b"PAR1"
    middle = len(content) - 60
    yield content[:middle] + b"\xff" * 20 + content[middle + 20 :]
    yield content[: len(content) // 2]


async def test_a_parquet_file_with_a_false_footer_has_only_facts(shared_world: World) -> None:
    for number, content in enumerate(spoil_footer(write_parquet(pa.table({"a": list(range(1000))})))):
        found = await show(f"false-{number}.parquet", content)
        assert [part for part in PARTS if found[part] is not None] == []
        assert found["not_shown"].startswith("It is damaged, or not a file of this kind"), found["not_shown"]


async def test_the_first_sheet_of_an_excel_file_is_a_table(shared_world: World) -> None:
    rows: list[list[object]] = [
        ["name", "count", "when", "share"],
        ["a", 1, datetime(2025, 2, 3), 0.5],  # noqa: DTZ001 - Excel has no time zones
        ["b", 2, None, "n/a"],
    ]
    table = (await show("a.xlsx", write_workbook(rows, Notes=[["x"]])))["table"]
    assert table["columns"] == [
        {"name": "name", "type": "text"},
        {"name": "count", "type": "number"},
        {"name": "when", "type": "datetime"},
        {"name": "share", "type": "mixed"},
    ]
    assert table["rows"] == [["a", 1, "2025-02-03T00:00:00", 0.5], ["b", 2, None, "n/a"]]
    assert (table["row_count"], table["sheet"], table["sheets"]) == (2, "Sheet", ["Sheet", "Notes"])


async def test_a_long_sheet_is_not_counted_and_an_empty_one_has_no_columns(shared_world: World) -> None:
    long = (await show("a.xlsx", write_workbook([["n"], *([number] for number in range(500))])))["table"]
    assert (len(long["rows"]), long["row_count"]) == (50, None)
    empty = (await show("b.xlsx", write_workbook([])))["table"]
    assert (empty["columns"], empty["rows"], empty["row_count"]) == ([], [], 0)


@pytest.mark.soak
async def test_a_bomb_in_an_excel_file_ends_in_a_reason(shared_world: World) -> None:
    source, buffer = zipfile.ZipFile(io.BytesIO(write_workbook([["a"], [1]]))), io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name in source.namelist():
            content = source.read(name)
            if name == "xl/worksheets/sheet1.xml":
                content = content.replace(b"<sheetData>", b"<sheetData><!--" + b" " * 400_000_000 + b"-->")
            made.writestr(name, content)
    found = await show("bomb.xlsx", buffer.getvalue())
    assert found["table"] is None or len(found["table"]["rows"]) <= 1
    assert found["table"] is not None or found["not_shown"]


# --- notebooks and PDF files ---


def write_notebook(*cells: Mapping[str, object], **more: object) -> bytes:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells, **more}).encode()


async def test_a_notebook_has_its_cells_with_outputs(shared_world: World) -> None:
    picture = {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": ["<Figure>"]}}
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["one\n", "two\n"]},
        picture,
        {"output_type": "display_data", "data": {"image/png": "AAAA"}},
        {"output_type": "error", "ename": "KeyError", "evalue": "'x'", "traceback": []},
    ]
    code = {"cell_type": "code", "source": ["a = 1\n", "a"], "outputs": outputs}
    content = write_notebook({"cell_type": "markdown", "source": "# Title"}, code, {"cell_type": "raw", "source": "r"})
    notebook = (await show("a.ipynb", content))["notebook"]
    assert [cell["kind"] for cell in notebook["cells"]] == ["markdown", "code", "raw"]
    assert notebook["cells"][1]["source"] == "a = 1\na"
    assert [(one["kind"], one["text"]) for one in notebook["cells"][1]["outputs"]] == [
        ("stream", "one\ntwo\n"),
        ("text/plain", "<Figure>"),
        ("image/png", None),
        ("error", "KeyError: 'x'"),
    ]


async def test_pages_of_a_notebook_have_all_cells_once(shared_world: World) -> None:
    cells = [{"cell_type": "markdown", "source": "x" * (number * 37 % 5000)} for number in range(60)]
    pages = await read_pages(store("long.ipynb", write_notebook(*cells)))
    assert [cell["number"] for page in pages for cell in page["notebook"]["cells"]] == list(range(1, 61))
    assert len(pages) > 3
    assert all(len(json.dumps(page)) < 40_000 for page in pages)


@pytest.mark.parametrize(
    "content",
    [b"{}", b"[]", b"no json", b'{"nbformat": 3, "worksheets": []}', b'{"nbformat": 4, "cells": [1]}', b"[" * 100_000],
)
async def test_a_file_other_than_a_notebook_of_format_4_is_shown_as_text(content: bytes, shared_world: World) -> None:
    found = await show("a.ipynb", content)
    assert found["text"] == content[:PAGE].decode()
    assert found["not_shown"] == "It is no notebook of format 4, so it is shown as text."


async def test_a_very_large_notebook_is_shown_as_text(shared_world: World) -> None:
    found = await show("a.ipynb", write_notebook({"cell_type": "raw", "source": "x" * 5_000_000}))
    assert found["text"].startswith('{"nbformat"')
    assert "more than 4,000,000 bytes" in found["not_shown"]


async def test_a_pdf_file_has_the_texts_of_its_pages(shared_world: World) -> None:
    pdf = (await read(f"{LIVER}/contents?path=report.pdf"))["pdf"]
    assert pdf["page_count"] == 2
    assert "Counts of collagen rise" in pdf["pages"][0]["text"]
    assert "L06 was left out" in pdf["pages"][1]["text"]


@pytest.mark.parametrize("content", [b"%PDF-1.7\n", b"%PDF-1.7\n" + b"x" * 10_000, b"%PDF-" + b"\0" * 70_000])
async def test_a_damaged_pdf_file_has_only_facts(content: bytes, shared_world: World) -> None:
    found = await show("a.pdf", content)
    assert (found["pdf"], bool(found["not_shown"])) == (None, True)


# --- pictures ---


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_picture_is_attached(kind: str, shared_world: World) -> None:
    content = write_picture(kind)
    found = await get(store("picture", content))
    assert (found.data["image"]["width"], found.data["image"]["height"]) == (30, 20)
    assert found.attachment is not None
    assert (found.attachment.content, found.attachment.mime_type) == (content, f"image/{kind.lower()}")
    assert found.data["mime_type"] == f"image/{kind.lower()}"


@given(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP"]), st.integers(1, 300), st.integers(1, 300), st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_size_of_a_picture_is_that_which_pillow_writes(kind: str, width: int, height: int, other: bool) -> None:  # noqa: FBT001
    options = {"progressive": other} if kind == "JPEG" else {"lossless": other} if kind == "WEBP" else {}
    found = identify(write_picture(kind, width, height, **options))
    assert found == (f"image/{kind.lower()}", width, height)


async def test_an_animation_of_webp_has_the_size_of_its_canvas(shared_world: World) -> None:
    frames, buffer = [PIL.Image.new("RGBA", (50, 40), color) for color in ("red", "blue")], io.BytesIO()
    frames[0].save(buffer, "WEBP", save_all=True, append_images=frames[1:])
    assert identify(buffer.getvalue()) == ("image/webp", 50, 40)


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("large.png", lambda: write_picture("PNG") + b"\0" * 1_100_000, "at most 1,048,576 are shown"),
        ("bomb.png", lambda: write_header_of_png(30_000, 30_000), "30,000 x 30,000 pixels"),
        ("short.png", lambda: b"\x89PNG\r\n\x1a\n\0\0", "none of the forms"),
        ("zero.png", lambda: write_header_of_png(0, 10), "none of the forms"),
        ("short.jpg", lambda: b"\xff\xd8\xff\xe0", "none of the forms"),
        ("sound.wav", lambda: b"RIFF\x24\0\0\0WAVEfmt ", "none of the forms"),
        ("picture.tiff", lambda: b"II*\0\x08\0\0\0", "none of the forms"),
    ],
)
async def test_a_picture_that_is_not_sent_has_the_reason(
    name: str, make: Callable[[], bytes], reason: str, shared_world: World
) -> None:
    found = await get(store(name, make()))
    assert found.attachment is None
    assert reason in found.data["not_shown"]


async def test_what_only_has_the_name_of_a_picture_is_a_text(shared_world: World) -> None:
    found = await show("picture.png", b"<html><script>alert(1)</script></html>")
    assert (found["text"][:6], found["mime_type"], found["image"]) == ("<html>", "text/plain", None)
    drawn = await show("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>")
    assert (drawn["text"][:4], drawn["image"]) == ("<svg", None)


# --- the process that opens files ---


async def test_without_the_libraries_the_answer_says_how_to_add_them(
    shared_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "find_spec", lambda _: None)
    parquet = await read(f"{LIVER}/contents?path=counts%2Fliver.parquet")
    assert (parquet["table"], "install the extra `preview`" in parquet["not_shown"]) == (None, True)
    table = await read(f"{LIVER}/contents?path=samples.csv")
    assert table["text"].startswith("sample_id,")
    assert "install the extra `preview`" in table["not_shown"]
    changed = await read(f"{LIVER}/changes")
    [row] = [one for one in changed["changes"] if one["path"] == "counts/liver.parquet"]
    assert (row["columns"], "install the extra `preview`" in row["columns_unknown"]) == (None, True)


class Endless:
    """A file that says it is large and whose bytes do not end."""

    size = 2**40

    def read(self, start: int, size: int) -> bytes:
        return b"%PDF-1.7\n" + b" " * (size - 9)


async def test_a_file_that_needs_too_much_is_given_up(shared_world: World) -> None:
    with pytest.raises(Refused):
        process.open_file(process.Openers(None), Asked("pdf", Endless.size, room=10), Endless())


def open_with(script: str) -> dict[str, Any]:
    """Return what the server makes of the output of a script instead of that of the process."""
    command = (sys.executable, "-c", script)
    return process.open_file(process.Openers(None), Asked("pdf", 1), process.Buffered(b"x"), command)


def test_the_process_gets_no_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalr-secret")
    script = "import json, os, sys; sys.stdin.readline(); print(json.dumps({'done': {'seen': sorted(os.environ)}}))"
    assert set(open_with(script)["seen"]) <= {*process.KEPT, "PYTHONPATH", "LC_CTYPE"}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("pass", Refused),
        ("print('{\"done\": 1}')", Refused),
        ("print('{\"read\": [-5, 10]}')", Refused),
        ("print('{\"read\": [0, 10000000000000]}')", Refused),
        ('print(\'{"bug": "TypeError"}\')', RuntimeError),
        ('print(\'{"failed": "no"}\')', Refused),
        ("import sys; sys.stdin.close(); print('x' * 1000000)", Refused),
    ],
)
def test_what_the_process_says_is_not_trusted(script: str, expected: type[Exception]) -> None:
    with pytest.raises(expected):
        open_with(script)


def test_one_caller_leaves_places_for_the_others() -> None:
    openers = process.Openers(None)
    with ExitStack() as held:
        for _ in range(process.MOST_OF_ONE):
            held.enter_context(openers.take_place("greedy", seconds=0))
        with pytest.raises(Unavailable), openers.take_place("greedy", seconds=0):
            pass
        for number in range(process.MOST_AT_ONCE - process.MOST_OF_ONE):
            held.enter_context(openers.take_place(f"caller {number}", seconds=0))
        with pytest.raises(Unavailable), openers.take_place("one more", seconds=0):
            pass
    with openers.take_place("greedy", seconds=0), ExitStack() as local:
        for _ in range(process.MOST_AT_ONCE - 1):
            local.enter_context(openers.take_place(None, seconds=0))
