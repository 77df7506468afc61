"""A million entities are exported and imported exactly, in bounded memory."""

import hashlib
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.bench.generated_requirements import database, url
from tests.bench.processes import run_command
from tests.requirements.generated import TABLES
from tests.support.postgres_server import PostgresServer

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
async def test_a_million_entities_are_exported_and_imported_exactly(tmp_path: Path, postgres: PostgresServer) -> None:
    source, first, second = await database(ENTITIES, tmp_path), tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    copy, name = tmp_path / "copy.sqlite3", f"million-{os.getpid()}"

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
