"""The tables of workflows are created once, and those of other programs and newer versions are left as they are."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect

from quilt_mcp.app import App
from quilt_mcp.app.database.engines import Migrations, Storage, make_file
from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.workflows.service import workflow_add_step, workflow_create, workflow_ids, workflow_list_all
from quilt_mcp.workflows.settings import FILE_NAME
from quilt_mcp.workflows.store import FAILURES, MIGRATIONS, SCHEMA, metadata
from tests.support import apps
from tests.support.settings import Settings
from tests.support.waiting import SECONDS

TABLES = {"workflows": "owner, id", "steps": "position", "log": "position"}
KEYS = {"position", "owner", "id"}
Where = dict[str, Any]


@contextmanager
def connected(storage: Where, *, writes: bool = False) -> Iterator[Connection]:
    """Yield a connection to the database of workflows, as another process has one."""
    url, file = storage.get("workflows_url"), storage["data_dir"] / FILE_NAME
    database = Storage(url, file, FAILURES, seconds=SECONDS, keeps_connections=False, schema=SCHEMA)
    with database.transaction(writes=writes) as connection:
        yield connection


def dump(storage: Where) -> object:
    """Return every row of the tables, and the bytes of a file."""
    file = storage["data_dir"] / FILE_NAME
    with connected(storage) as connection:
        rows = {
            table: [tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY {key}")]  # noqa: S608 - constants
            for table, key in TABLES.items()
        }
    return rows, file.read_bytes() if file.exists() else None


def create_one() -> None:
    workflow_create("w", "Title")
    workflow_add_step("w", "s", "Do")


def test_the_second_use_changes_nothing(storage: Where) -> None:
    create_one()
    before = dump(storage)
    apps.use_settings(Settings(**storage))
    workflow_list_all()
    workflow_create("w", "Title")
    assert dump(storage) == before


def test_the_migration_creates_the_tables_of_the_statements(storage: Where) -> None:
    create_one()
    with connected(storage) as connection:
        assert differences(connection) == []
        assert set(inspect(connection).get_table_names()) == {*TABLES, MIGRATIONS.version_table}
        keys = [inspect(connection).get_foreign_keys(table) for table in TABLES]
    assert [[key["referred_table"] for key in found] for found in keys] == [[], ["workflows"], ["steps"]]


def differences(connection: Connection) -> list[object]:
    """Return the differences between the tables of the database and those of the code."""
    options = {"version_table": MIGRATIONS.version_table, "compare_type": True}
    found = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
    # a primary key of SQLite is never null, and its columns do not say so
    changes = [change for group in found for change in (group if isinstance(group, list) else [group])]
    is_sqlite = connection.dialect.name == "sqlite"
    return [one for one in changes if not (is_sqlite and one[0] == "modify_nullable" and one[3] in KEYS)]


def test_servers_of_one_process_migrate_at_once(tmp_path: Path) -> None:
    directories = [tmp_path / str(number) for number in range(8)]
    start = threading.Barrier(len(directories))

    def write(directory: Path) -> list[str]:
        with App(Settings(data_dir=directory)).active():
            start.wait()
            workflow_create("another", "Title")
            return workflow_ids()

    with ThreadPoolExecutor(len(directories)) as pool:
        assert [len(ids) for ids in pool.map(write, directories)] == [1] * 8


def test_a_migration_that_fails_creates_nothing(storage: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade = Migrations.upgrade

    def fail(*arguments: Any) -> None:
        upgrade(*arguments)
        raise ZeroDivisionError

    monkeypatch.setattr(Migrations, "upgrade", fail)
    with pytest.raises(ZeroDivisionError):
        workflow_create("another", "Title")
    with connected(storage) as connection:
        inspector = inspect(connection)
        assert SCHEMA not in inspector.get_schema_names()
        assert inspector.get_table_names() == []


CALLS: list[Callable[[], object]] = [workflow_list_all, workflow_ids, lambda: workflow_create("x", "Title")]


def check_refused(reason: str, details: str) -> None:
    for call in CALLS:
        with pytest.raises(ResourceExecutionError, match=reason) as failure:
            call()
        assert details in str(failure.value.details)
        assert failure.value.suggested_actions


def test_tables_of_a_newer_version_are_refused_and_not_changed(storage: Where) -> None:
    create_one()

    def set_version(version: str) -> None:
        with connected(storage, writes=True) as connection:
            statement = f"UPDATE {MIGRATIONS.version_table} SET version_num = '{version}'"  # noqa: S608 - constants
            connection.exec_driver_sql(statement)

    set_version("0999")
    before = dump(storage)
    check_refused("does not know", "supports up to")
    assert dump(storage) == before
    set_version("0001")
    assert workflow_ids() == ["w"]


@pytest.mark.parametrize("names", [["poems"], ["workflows", "steps"]], ids=["others", "with our names"])
def test_tables_of_another_program_are_refused_and_not_changed(storage: Where, names: list[str]) -> None:
    file, statements = storage["data_dir"] / FILE_NAME, [f"CREATE TABLE {name} (poem TEXT)" for name in names]
    if "workflows_url" in storage:
        with connected(storage, writes=True) as connection:
            for statement in (f"CREATE SCHEMA {SCHEMA}", *statements):
                connection.exec_driver_sql(statement)
    else:  # without a write-ahead log, which a write must not turn on
        make_file(file)
        with closing(sqlite3.connect(file)) as other:
            other.executescript(";".join(statements))
    before = file.read_bytes() if file.exists() else b""
    check_refused("quilt-mcp did not create", "missing: ")
    with connected(storage) as connection:
        assert sorted(inspect(connection).get_table_names()) == sorted(names)
    assert (file.read_bytes() if file.exists() else b"") == before


def test_a_damaged_file_is_refused_and_not_changed(data_dir: Path) -> None:
    create_one()
    file = data_dir / FILE_NAME
    content = bytearray(file.read_bytes())
    content[100:4096] = b"\xff" * 3996
    file.write_bytes(content)
    check_refused("damaged", "")
    assert file.read_bytes() == content


FILES = {path.stem: path for path in (Path(__file__).parent / "revisions").glob("*.sql")}
"""A dump of each schema that a version has written, with one workflow."""


def restore(name: str, data_dir: Path) -> None:
    make_file(data_dir / FILE_NAME)
    with closing(sqlite3.connect(data_dir / FILE_NAME)) as connection:
        connection.executescript(FILES[name].read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["mark-2", "0001-marked", "0001"])
def test_workflows_of_earlier_versions_stay(name: str, data_dir: Path) -> None:
    restore(name, data_dir)
    apps.use_settings(Settings(data_dir=data_dir))
    assert workflow_ids() == ["w"]
    workflow_create("another", "Title")
    workflow_add_step("w", "t", "Do")
    assert set(workflow_ids()) == {"w", "another"}


def test_the_schema_without_owners_is_refused_and_not_changed(data_dir: Path) -> None:
    restore("mark-1", data_dir)
    apps.use_settings(Settings(data_dir=data_dir))
    before = (data_dir / FILE_NAME).read_bytes()
    check_refused("does not know", "without workflows.owner, steps.owner, log.owner")
    assert (data_dir / FILE_NAME).read_bytes() == before


def test_each_number_has_a_file_with_its_tables(data_dir: Path) -> None:
    assert {name for name in FILES if name.startswith("0")} == {*MIGRATIONS.steps, "0001-marked"}
    restore(MIGRATIONS.newest, data_dir)
    with connected({"data_dir": data_dir}) as connection:
        assert differences(connection) == []
