"""What an export writes, an import writes again: every row, on both databases, and from the earlier system's tables."""

import hashlib
import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements.commands import work as requirements_work
from quilt_mcp.requirements.transfer.files import protect, unprotect
from tests.bench.processes import run_command
from tests.requirements import generated
from tests.requirements.generated import TABLES, Form, Rows, Size
from tests.requirements.million import create, url
from tests.requirements.reading import place_of
from tests.support import apps
from tests.support.postgres_server import PostgresServer
from tests.support.settings import Settings

UNUSUAL = (
    "plain",
    "=cmd|' /C calc'!A0",
    "'=1",
    "''",
    "'tis",
    "-1\r\n+2",
    "\r",
    "\ttab",
    '"quoted", and "not',
    "line\nline\r\nline\rline\u2028line\x85line\x0bline\x0cline\x1c",
    "\x01\x1b[31mred\x7f",
    "\ufeffmark",
    "\u200b\u202eright to left",
    "e\u0301 é ﬁ İ ß",
    "数据 данные 🧪\U0010fffd",
    "\ufffe\uffff",
    "null",
    "x" * 50_000,
    "\U0001f9ea" * 500,
    "7",
    "  spaces  ",
)
SMALL = Size(users=3, members=90, entities=6)
LARGE = Size(users=120, members=1100, entities=2600)
# what a database cannot store is not generated: U+0000 in PostgreSQL, half of a surrogate pair in both
texts = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30), min_size=1, max_size=6
)


def export_to(file: Path, settings: Settings, batch: int | None = None) -> None:
    apps.use_settings(settings)
    if batch is None:
        assert main(["requirements", "export", str(file), "--with-users"]) == 0
    else:
        assert run_export(file, batch) > batch


def run_export(file: Path, batch: int) -> int:
    """Export as the command does, but read fewer rows together. Return their number."""
    form = cast("Literal['jsonl', 'csv', 'reqif']", file.suffix[1:])

    def check_end(_: str, done: int, total: int) -> None:
        assert done <= total  # an export that reads rows again has no end

    return requirements_work.export_file(file, form, check_end, batch=batch).total()


def import_from(file: Path, settings: Settings) -> None:
    apps.use_settings(settings)
    assert main(["requirements", "import", str(file)]) == 0


def check_exact(
    source: tuple[Form, Settings], target: tuple[Form, Settings], rows: Rows, file: Path, *, batch: int | None = None
) -> None:
    """Check that an export of the rows, imported into another database, gives the same rows.

    Args:
        source: the form of the database of the rows, and its settings.
        target: those of the other one.
        rows: what is exported.
        file: the file of the export.
        batch: the number of rows that the export reads together; None for what the command does.
    """
    expected = generated.fit(rows, source[0])
    generated.write(source[0], place_of(source[1]), expected)
    export_to(file, source[1], batch)
    import_from(file, target[1])
    found = generated.dump(target[0], place_of(target[1]), expected)
    for table in ("requirement_types", "relationship_types"):  # the target began with types of its own
        names = {row["name"] for row in expected[table]}
        found[table] = [row for row in found[table] if row["name"] in names]
    assert sum(map(len, found.values())) == sum(map(len, expected.values()))
    assert found == generated.sort(expected)


LARGE_ONES = [
    ("sqlite", 4, "csv"),
    ("postgresql", 7, "jsonl"),
    ("earlier", 4, "reqif"),
    ("sqlite", 7, "jsonl"),
    ("sqlite", 7, "reqif"),
    ("postgresql", 4, "csv"),
    ("earlier", 4, "jsonl"),
    ("earlier", 7, "csv"),
]


@pytest.mark.soak
@pytest.mark.parametrize(("form", "version", "suffix"), LARGE_ONES)
def test_a_large_database_is_exported_exactly(
    make_empty: Callable[[Form], Settings], form: Form, version: int, suffix: str, tmp_path: Path
) -> None:
    rows = generated.generate(version, LARGE, [text[:40] for text in UNUSUAL], version=version)
    assert sum(map(len, rows.values())) > 10_000
    assert len(rows["project_members"]) > 1000
    target: Form = "postgresql" if form == "sqlite" else "sqlite"
    check_exact((form, make_empty(form)), (target, make_empty(target)), rows, tmp_path / f"all.{suffix}")


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "reqif"])
def test_a_database_is_exported_exactly(
    make_settings: Callable[..., Settings], dialect: Form, suffix: str, tmp_path: Path
) -> None:
    rows = generated.generate(1, SMALL, UNUSUAL, version=7)
    source, target = make_settings(dialect, "tables"), make_settings(dialect, "tables")
    check_exact((dialect, source), (dialect, target), rows, tmp_path / f"all.{suffix}", batch=5)


@pytest.mark.soak
@pytest.mark.parametrize("form", ["sqlite", "postgresql", "earlier"])
@given(
    seed=st.integers(0, 2**32),
    more=texts,
    version=st.sampled_from([4, 7]),
    suffix=st.sampled_from(["jsonl", "csv", "reqif"]),
    batch=st.integers(3, 7),
)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_database_is_exported_exactly(  # noqa: PLR0917 - what hypothesis chooses
    make_empty: Callable[[Form], Settings],
    form: Form,
    tmp_path: Path,
    seed: int,
    more: list[str],
    version: int,
    suffix: str,
    batch: int,
) -> None:
    rows = generated.generate(seed, SMALL, [*more, *UNUSUAL], version=version)
    target: Form = "sqlite" if form == "earlier" else form
    file = tmp_path / f"all.{suffix}"
    check_exact((form, make_empty(form)), (target, make_empty(target)), rows, file, batch=batch)


@given(st.text("'=+-@\t\r\nab\uff1d", max_size=5) | st.text())
def test_protected_cells_keep_their_text(text: str) -> None:
    cell = protect(text)
    assert isinstance(cell, str)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d"))
    assert cell
    assert unprotect(cell) == text


ENTITIES = 1_000_000
MOST_MEMORY = 300 * 10**6
"""Of an import and of an export, in bytes."""


def hash_tables(file: Path) -> dict[str, tuple[int, str]]:
    """Return the number and a hash of the rows of each table."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return {table: hash_rows(connection, table) for table in TABLES}


def hash_rows(connection: sqlite3.Connection, table: str) -> tuple[int, str]:
    described = list(connection.execute(f"PRAGMA table_info({table})"))
    columns = ", ".join(sorted(name for _, name, *_ in described))
    key = ", ".join(name for _, name, *_, place in described if place)
    digest, count = hashlib.sha256(), 0
    for row in connection.execute(f"SELECT {columns} FROM {table} ORDER BY {key}"):  # noqa: S608 - names of the schema
        digest.update(f"{row!r}\n".encode())
        count += 1
    return count, digest.hexdigest()


def hash_file(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@pytest.mark.soak
@pytest.mark.alone
def test_a_million_entities_are_exported_and_imported_exactly(tmp_path: Path, postgres: PostgresServer) -> None:
    source, first, second = tmp_path / "million.sqlite3", tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    copy, name = tmp_path / "copy.sqlite3", f"million-{os.getpid()}"
    create(source, ENTITIES)

    def run(step: str, command: str, file: Path, database_url: str) -> None:
        done = run_command(["requirements", command, str(file)], tmp_path, database_url=database_url)
        figures = (
            f"{done.seconds:.0f} s, {done.processor_seconds:.0f} s CPU, peak memory {done.peak_memory / 1e6:.0f} MB"
        )
        sys.stdout.write(f"{step}: {figures}\n")
        assert done.peak_memory <= MOST_MEMORY, step

    run("export from SQLite", "export", first, url(source))
    run("import into SQLite", "import", first, url(copy))
    expected = hash_tables(source)
    assert sum(count for count, _ in expected.values()) > ENTITIES
    assert hash_tables(copy) == expected
    copy.unlink()
    source.unlink()
    on_postgres = postgres.create(name)
    try:
        run_command(["requirements", "migrate"], tmp_path, database_url=on_postgres)
        run("import into PostgreSQL", "import", first, on_postgres)
        run("export from PostgreSQL", "export", second, on_postgres)
    finally:
        postgres.drop(name)
    assert hash_file(second) == hash_file(first)
