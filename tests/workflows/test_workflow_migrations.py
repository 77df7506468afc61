"""The tables of workflows are created once, and those of other programs and newer versions are left as they are."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pydantic import SecretStr
from sqlalchemy import Connection, inspect, text

from quilt_mcp.app import App
from quilt_mcp.app.database.engines import Migrations, Storage
from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.settings import Settings
from quilt_mcp.workflows.service import workflow_add_step, workflow_create, workflow_ids, workflow_list_all
from quilt_mcp.workflows.store import FAILURES, MIGRATIONS, SCHEMA, metadata
from tests.support import apps
from tests.support.postgres_server import PostgresServer
from tests.support.waiting import SECONDS

TABLES = ("workflows", "steps", "log")
KEYS = {"position", "owner", "id"}
_numbers = count()
Rows = dict[str, list[dict[str, Any]]]

pytestmark = pytest.mark.usefixtures("data_dir")


@pytest.fixture
def file(data_dir: Path) -> Path:
    """The workflow file, with a workflow in it."""
    workflow_create("w", "Title")
    workflow_add_step("w", "s", "Do")
    return data_dir / "workflows.sqlite3"


def execute(file: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(statement).fetchall()


def rows_of(file: Path) -> Rows:
    """Return every row with every column."""
    return {
        table: [dict(row) for row in execute(file, f"SELECT * FROM {table} ORDER BY rowid")]  # noqa: S608 - constants
        for table in TABLES
    }


def test_the_second_use_changes_no_byte(file: Path, data_dir: Path) -> None:
    before = file.read_bytes()
    apps.use_settings(Settings(data_dir=data_dir))
    workflow_list_all()
    workflow_create("w", "Title")
    assert file.read_bytes() == before


def test_the_migration_creates_the_tables_of_the_statements(file: Path) -> None:
    with Storage(None, file, FAILURES, seconds=SECONDS, keeps_connections=False).transaction() as connection:
        assert differences(connection) == []
        assert set(inspect(connection).get_table_names()) == {*TABLES, MIGRATIONS.version_table}
        keys = {table: inspect(connection).get_foreign_keys(table) for table in TABLES}
    assert [(len(found), [key["referred_table"] for key in found]) for found in keys.values()] == [
        (0, []),
        (1, ["workflows"]),
        (1, ["steps"]),
    ]


def differences(connection: Connection) -> list[object]:
    """Return the differences between the tables of the database and `tables.py`."""
    options = {"version_table": MIGRATIONS.version_table, "compare_type": True}
    found = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
    # a primary key of SQLite is never null, and its columns do not say so
    changes = [change for group in found for change in (group if isinstance(group, list) else [group])]
    is_sqlite = connection.dialect.name == "sqlite"
    return [one for one in changes if not (is_sqlite and one[0] == "modify_nullable" and one[3] in KEYS)]


USE = """
import sys, time
from pathlib import Path
from quilt_mcp.workflows.service import workflow_create, workflow_ids
import quilt_mcp.workflows.store
print("ready", flush=True)
while not Path(sys.argv[1]).exists():
    time.sleep(0.001)
workflow_ids()
workflow_create(f"by-{sys.argv[2]}", "Title")
"""


def use_at_once(tmp_path: Path, **environment: str) -> None:
    go = tmp_path / "go"
    users = [
        subprocess.Popen(
            [sys.executable, "-c", USE, str(go), name],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
        for name in "ab"
    ]
    for user in users:
        assert user.stdout is not None
        assert user.stdout.readline() == "ready\n"
    go.touch()
    for user in users:
        with user:
            assert user.wait(timeout=SECONDS) == 0


@pytest.mark.soak
def test_processes_that_start_at_once_create_the_tables_once(data_dir: Path, tmp_path: Path) -> None:
    use_at_once(tmp_path)
    file = data_dir / "workflows.sqlite3"
    assert {row["id"] for row in rows_of(file)["workflows"]} == {"by-a", "by-b"}
    assert len(execute(file, f"SELECT * FROM {MIGRATIONS.version_table}")) == 1  # noqa: S608 - a constant


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


KILLED = """
import os, signal
from quilt_mcp.app.database.engines import Migrations
from quilt_mcp.workflows.service import workflow_create
upgrade = Migrations.upgrade
def kill(*arguments):
    upgrade(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
Migrations.upgrade = kill
workflow_create("another", "Title")
"""


@pytest.mark.soak
def test_a_migration_that_is_killed_creates_nothing(data_dir: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED]) as killed:
        assert killed.wait(timeout=SECONDS) == -signal.SIGKILL
    assert execute(data_dir / "workflows.sqlite3", "SELECT name FROM sqlite_master") == []
    workflow_create("another", "Title")
    assert workflow_ids() == ["another"]


def fail_after_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade = Migrations.upgrade

    def fail(*arguments: Any) -> None:
        upgrade(*arguments)
        raise ZeroDivisionError

    monkeypatch.setattr(Migrations, "upgrade", fail)
    with pytest.raises(ZeroDivisionError):
        workflow_create("another", "Title")
    monkeypatch.undo()


def test_a_migration_that_fails_creates_nothing(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_after_upgrade(monkeypatch)
    assert execute(data_dir / "workflows.sqlite3", "SELECT name FROM sqlite_master") == []


FOREIGN = [
    "CREATE TABLE poems (id INTEGER)",
    "CREATE TABLE workflows (id INTEGER); CREATE TABLE steps (id INTEGER)",
]
CALLS: list[Callable[[], object]] = [workflow_list_all, workflow_ids, lambda: workflow_create("x", "Title")]


def test_a_file_of_a_newer_version_is_refused_and_not_changed(file: Path) -> None:
    execute(file, f"UPDATE {MIGRATIONS.version_table} SET version_num = '0999'")  # noqa: S608 - a constant
    before = file.read_bytes()
    for call in CALLS:
        with pytest.raises(ResourceExecutionError, match="does not know") as failure:
            call()
        assert "supports up to" in str(failure.value.details)
        assert failure.value.suggested_actions[0] == "Upgrade quilt-mcp, if a newer version wrote it."
    assert file.read_bytes() == before
    execute(file, f"UPDATE {MIGRATIONS.version_table} SET version_num = '0001'")  # noqa: S608 - a constant
    assert workflow_ids() == ["w"]


@pytest.mark.parametrize("script", FOREIGN)
def test_a_file_of_another_program_is_refused_and_not_changed(script: str, data_dir: Path) -> None:
    data_dir.mkdir()
    file = data_dir / "workflows.sqlite3"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)
        connection.execute("PRAGMA journal_mode = WAL")
    before = file.read_bytes()
    for call in CALLS:
        with pytest.raises(ResourceExecutionError, match="quilt-mcp did not create") as failure:
            call()
        assert str(failure.value.details).startswith("missing: ")
    assert file.read_bytes() == before


def test_a_damaged_file_is_refused_and_not_changed(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[100:4096] = b"\xff" * 3996
    file.write_bytes(content)
    for call in CALLS:
        with pytest.raises(ResourceExecutionError, match="damaged"):
            call()
    assert file.read_bytes() == content


@pytest.fixture
def url(postgres: PostgresServer, data_dir: Path) -> str:
    """A database without tables, which is in use."""
    url = postgres.create(f"workflows-{next(_numbers)}")
    apps.use_settings(Settings(workflows_url=SecretStr(url), data_dir=data_dir))
    return url


def dump(url: str) -> tuple[Rows, list[str]]:
    """Return every row, and the differences between the tables and `tables.py`."""
    storage = Storage(SecretStr(url), Path(), FAILURES, seconds=SECONDS, keeps_connections=False, schema=SCHEMA)
    with storage.transaction() as connection:
        rows = {
            table: [dict(row) for row in connection.execute(text(f"SELECT * FROM {table} ORDER BY {key}")).mappings()]  # noqa: S608 - constants
            for table, key in {"workflows": "owner, id", "steps": "position", "log": "position"}.items()
        }
        return rows, [repr(one) for one in differences(connection)]


def test_the_migration_creates_the_tables_of_the_statements_in_postgresql(url: str) -> None:
    workflow_create("w", "Title")
    assert dump(url)[1] == []


@pytest.mark.soak
def test_processes_that_start_at_once_create_the_tables_of_postgresql_once(url: str, tmp_path: Path) -> None:
    use_at_once(tmp_path, QUILT_MCP_WORKFLOWS_URL=url)
    rows, changes = dump(url)
    assert changes == []
    assert len(rows["workflows"]) == 2


def test_postgresql_of_a_newer_version_is_refused(url: str, postgres: PostgresServer) -> None:
    workflow_create("x", "Title")
    statement = f"UPDATE {SCHEMA}.{MIGRATIONS.version_table} SET version_num = '0999'"  # noqa: S608 - constants
    postgres.sql(statement, database=urlsplit(url).path.strip("/"))
    before = dump(url)
    for call in CALLS:
        with pytest.raises(ResourceExecutionError, match="does not know"):
            call()
    assert dump(url) == before


def test_postgresql_tables_of_another_program_are_refused(postgres: PostgresServer, data_dir: Path) -> None:
    url = postgres.create("foreign")
    postgres.sql(f"CREATE SCHEMA {SCHEMA}; CREATE TABLE {SCHEMA}.workflows (poem TEXT)", database="foreign")
    apps.use_settings(Settings(workflows_url=SecretStr(url), data_dir=data_dir))
    for call in CALLS:
        with pytest.raises(ResourceExecutionError, match="quilt-mcp did not create"):
            call()
    assert postgres.sql(f"SELECT count(poem) FROM {SCHEMA}.workflows", database="foreign") == "0"  # noqa: S608 - a constant


def test_a_migration_of_postgresql_that_fails_creates_nothing(
    url: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_after_upgrade(monkeypatch)
    name = urlsplit(url).path.strip("/")
    query = f"SELECT count(*) FROM information_schema.tables WHERE table_schema = '{SCHEMA}'"  # noqa: S608 - a constant
    assert postgres.sql(query, database=name) == "0"
