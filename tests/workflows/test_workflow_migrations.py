"""Workflows that earlier versions wrote: they are taken over without loss, or left as they are with a reason.

The fixtures were written by those versions: the files of version 1 and 2, a dump of PostgreSQL, and what the service
functions of that version returned for each owner.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from shutil import copyfile
from typing import Any
from urllib.parse import urlsplit

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from pydantic import SecretStr
from sqlalchemy import Connection, inspect, text

from quilt_mcp.app import App, identity
from quilt_mcp.app.database import migrating
from quilt_mcp.app.database.engines import make_postgresql_engine, make_sqlite_engine
from quilt_mcp.app.identity import LOCAL, Identity
from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.settings import Settings
from quilt_mcp.workflows.failures import SCHEMA
from quilt_mcp.workflows.schema_state import MIGRATIONS
from quilt_mcp.workflows.service import workflow_create, workflow_get_status, workflow_ids, workflow_list_all
from quilt_mcp.workflows.tables import metadata
from tests.support import apps
from tests.support.postgres_server import NoPostgres, PostgresServer, postgres_server
from tests.support.waiting import SECONDS

FIXTURES = Path(__file__).parents[1] / "fixtures"
TABLES = ("workflows", "steps", "log")
_numbers = count()
Rows = dict[str, list[dict[str, Any]]]

pytestmark = pytest.mark.usefixtures("data_dir")


@pytest.fixture(params=["v1", "v2"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(data_dir: Path, version: str) -> Path:
    return put(f"workflows-{version}.sqlite3", data_dir)


def put(fixture: str, data_dir: Path) -> Path:
    data_dir.mkdir(exist_ok=True)
    path = data_dir / "workflows.sqlite3"
    copyfile(FIXTURES / fixture, path)
    return path


def execute(file: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(statement).fetchall()


def rows_of(file: Path) -> Rows:
    """Return every row with every column; with the owner that version 1 did not name."""
    return {
        table: [{"owner": "local", **row} for row in execute(file, f"SELECT * FROM {table} ORDER BY rowid")]  # noqa: S608 - constants
        for table in TABLES
    }


def answers(monkeypatch: pytest.MonkeyPatch, owners: list[str]) -> dict[str, Any]:
    """Return what the service functions return for each owner, without the texts that this version words otherwise."""
    found: dict[str, Any] = {}
    for owner in owners:
        who = LOCAL if owner == "local" else Identity(*reversed(json.loads(owner)))
        monkeypatch.setattr(identity, "current", partial(lambda one: one, who))
        statuses: dict[str, Any] = {one: dict(workflow_get_status(one)) for one in workflow_ids()}
        for status in statuses.values():
            del status["recommendations"], status["recent_activity"]
        found[owner] = {"ids": workflow_ids(), "list": workflow_list_all(), "status": statuses}
    monkeypatch.undo()
    return found


def check_answers(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = json.loads((FIXTURES / f"workflows-{version}.json").read_text())
    assert answers(monkeypatch, list(expected)) == expected


def test_the_fixtures_contain_every_column_and_status() -> None:
    for version in ("v1", "v2"):
        rows = rows_of(FIXTURES / f"workflows-{version}.sqlite3")
        for table in TABLES:
            for column in rows[table][0]:
                assert any(row[column] not in {None, ""} for row in rows[table]), (table, column)
        assert {row["status"] for row in rows["workflows"]} == {"created", "in_progress", "failed", "completed"}
        assert {row["status"] for row in rows["steps"]} == {"pending", "in_progress", "completed", "failed", "skipped"}
    assert len({row["owner"] for row in rows["workflows"]}) == 3


def test_reads_return_what_the_earlier_version_returned(
    file: Path, version: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of(file)
    apps.use_settings(Settings(data_dir=data_dir))
    check_answers(version, monkeypatch)
    assert rows_of(file) == before


def test_a_write_migrates_and_keeps_every_row(
    file: Path, version: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of(file)
    workflow_create("another", "Title")
    assert execute(file, f"SELECT version_num FROM {MIGRATIONS.version_table}")[0][0] == MIGRATIONS.newest  # noqa: S608 - a constant
    assert execute(file, "PRAGMA foreign_key_check") == []
    after = rows_of(file)
    assert [row for row in after["workflows"] if row["id"] != "another"] == before["workflows"]
    assert (after["steps"], after["log"]) == (before["steps"], before["log"])
    execute(file, "DELETE FROM workflows WHERE id = 'another'")
    apps.use_settings(Settings(data_dir=data_dir))
    check_answers(version, monkeypatch)


def test_a_read_of_version_2_changes_no_byte(data_dir: Path) -> None:
    file = put("workflows-v2.sqlite3", data_dir)
    before = file.read_bytes()
    workflow_list_all()
    assert file.read_bytes() == before
    assert list(data_dir.iterdir()) == [file]


def test_the_second_use_changes_no_byte(file: Path, data_dir: Path) -> None:
    workflow_create("another", "Title")
    before = file.read_bytes()
    apps.use_settings(Settings(data_dir=data_dir))
    workflow_list_all()
    workflow_create("another", "Title")
    assert file.read_bytes() == before


@pytest.mark.parametrize("origin", ["v1", "v2", "new"])
def test_the_tables_are_the_same_for_each_origin(origin: str, data_dir: Path) -> None:
    if origin != "new":
        put(f"workflows-{origin}.sqlite3", data_dir)
    workflow_create("another", "Title")
    file = data_dir / "workflows.sqlite3"
    assert execute(file, "PRAGMA user_version")[0][0] == 2  # so that the earlier version can use the file too
    engine = make_sqlite_engine(file, 1)
    with engine.connect() as connection:
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
    # the mark of the earlier versions; a primary key of SQLite is never null, and older files do not declare that
    known = ("remove_table", "modify_nullable")
    changes = [change for group in found for change in (group if isinstance(group, list) else [group])]
    return [
        change
        for change in changes
        if not (change[0] == known[0] and change[1].name == "schema_version")
        and not (
            change[0] == known[1] and change[3] in {"position", "owner", "id"} and connection.dialect.name == "sqlite"
        )
    ]


def test_the_list_of_revisions_is_complete() -> None:
    scripts = ScriptDirectory(str(MIGRATIONS.folder), version_locations=[str(MIGRATIONS.folder)])
    assert tuple(reversed([script.revision for script in scripts.walk_revisions()])) == MIGRATIONS.revisions


def test_downgrade_to_nothing_and_upgrade(data_dir: Path) -> None:
    workflow_create("w", "Title")
    file = data_dir / "workflows.sqlite3"
    engine = make_sqlite_engine(file, 1)
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        migrating.downgrade(connection, MIGRATIONS, "base")
    assert workflow_ids() == []
    workflow_create("w", "Title")
    assert workflow_ids() == ["w"]


USE = """
import sys, time
from pathlib import Path
from quilt_mcp.workflows.service import workflow_create, workflow_ids
import quilt_mcp.workflows.database, quilt_mcp.app.database.migrating
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
def test_processes_that_start_at_once_migrate_once(data_dir: Path, tmp_path: Path) -> None:
    file = put("workflows-v1.sqlite3", data_dir)
    before = rows_of(file)
    use_at_once(tmp_path)
    after = rows_of(file)
    added = {"by-a", "by-b"}
    assert [row for row in after["workflows"] if row["id"] not in added] == before["workflows"]
    assert {row["id"] for row in after["workflows"]} >= added
    assert (after["steps"], after["log"]) == (before["steps"], before["log"])
    assert len(execute(file, f"SELECT * FROM {MIGRATIONS.version_table}")) == 1  # noqa: S608 - a constant


def test_servers_of_one_process_migrate_at_once(tmp_path: Path) -> None:
    directories = [tmp_path / str(number) for number in range(8)]
    for directory in directories[:4]:
        put("workflows-v1.sqlite3", directory)
    start = threading.Barrier(len(directories))

    def write(directory: Path) -> list[str]:
        with App(Settings(data_dir=directory)).active():
            start.wait()
            workflow_create("another", "Title")
            return workflow_ids()

    with ThreadPoolExecutor(len(directories)) as pool:
        assert [len(ids) for ids in pool.map(write, directories)] == [7] * 4 + [1] * 4


KILLED = """
import os, signal
from alembic.operations import Operations
from quilt_mcp.workflows.service import workflow_create
execute = Operations.execute
def kill(self, statement):
    execute(self, statement)
    if "user_version" in statement:
        os.kill(os.getpid(), signal.SIGKILL)
Operations.execute = kill
workflow_create("another", "Title")
"""


@pytest.mark.soak
def test_a_migration_that_is_killed_changes_nothing(file: Path, version: str) -> None:
    before = rows_of(file)
    with subprocess.Popen([sys.executable, "-c", KILLED]) as killed:
        assert killed.wait(timeout=SECONDS) == -signal.SIGKILL
    assert execute(file, "PRAGMA user_version")[0][0] == int(version[1])
    assert {row["name"] for row in execute(file, "SELECT name FROM sqlite_master WHERE type = 'table'")} == set(TABLES)
    assert rows_of(file) == before
    workflow_create("another", "Title")
    assert (rows_of(file)["steps"], rows_of(file)["log"]) == (before["steps"], before["log"])


def test_a_migration_that_fails_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade = migrating.upgrade

    def fail(*arguments: Any) -> None:
        upgrade(*arguments)
        raise ZeroDivisionError

    before = rows_of(file)
    monkeypatch.setattr(migrating, "upgrade", fail)
    with pytest.raises(ZeroDivisionError):
        workflow_create("another", "Title")
    assert rows_of(file) == before
    assert MIGRATIONS.version_table not in {row["name"] for row in execute(file, "SELECT name FROM sqlite_master")}


NEWER = ["PRAGMA user_version = 3", f"UPDATE {MIGRATIONS.version_table} SET version_num = '0999'"]  # noqa: S608 - a constant
FOREIGN = [
    "CREATE TABLE poems (id INTEGER)",
    "PRAGMA user_version = 1; CREATE TABLE poems (id INTEGER)",
    "PRAGMA user_version = 2; CREATE TABLE workflows (id INTEGER); CREATE TABLE steps (id INTEGER)",
    "PRAGMA user_version = 7; CREATE TABLE poems (id INTEGER)",
]
CALLS: list[Callable[[], object]] = [workflow_list_all, workflow_ids, lambda: workflow_create("x", "Title")]


@pytest.mark.parametrize("statement", NEWER)
def test_a_file_of_a_newer_version_is_refused_and_not_changed(statement: str, data_dir: Path) -> None:
    file = put("workflows-v2.sqlite3", data_dir)
    if statement in NEWER[1:]:
        workflow_create("x", "Title")
    execute(file, statement)
    before = file.read_bytes()
    for call in CALLS:
        with pytest.raises(ResourceExecutionError, match="newer version") as failure:
            call()
        assert "supports up to" in str(failure.value.details)
        assert failure.value.suggested_actions[0] == "Upgrade quilt-mcp."
    assert file.read_bytes() == before


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


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    try:
        with postgres_server() as server:
            yield server
    except NoPostgres as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def url(postgres: PostgresServer, data_dir: Path) -> str:
    """A database with the tables that the earlier version wrote; it is in use."""
    name = f"old-{next(_numbers)}"
    url = postgres.create(name)
    postgres.sql((FIXTURES / "workflows-v2.sql").read_text(), database=name)
    apps.use_settings(Settings(workflows_url=SecretStr(url), data_dir=data_dir))
    return url


def dump(url: str) -> tuple[Rows, list[str]]:
    """Return every row, and the differences between the tables and `tables.py`."""
    with make_postgresql_engine(url, SECONDS, lifetime=SECONDS).connect() as connection:
        connection.execute(text(f"SET search_path = {SCHEMA}"))
        rows = {
            table: [dict(row) for row in connection.execute(text(f"SELECT * FROM {table} ORDER BY {key}")).mappings()]  # noqa: S608 - constants
            for table, key in {"workflows": "owner, id", "steps": "position", "log": "position"}.items()
        }
        return rows, [repr(one) for one in differences(connection)]


def test_postgresql_is_read_without_a_change(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dump(url)
    check_answers("v2", monkeypatch)
    assert dump(url) == before


def test_a_write_to_postgresql_migrates_and_keeps_every_row(
    url: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _ = dump(url)
    workflow_create("another", "Title")
    after, changes = dump(url)
    assert changes == []
    assert [row for row in after["workflows"] if row["id"] != "another"] == before["workflows"]
    assert (after["steps"], after["log"]) == (before["steps"], before["log"])
    name = urlsplit(url).path.strip("/")
    # so that machines with the earlier version can use the database too
    assert postgres.sql(f"SELECT number FROM {SCHEMA}.schema_version", database=name) == "1"  # noqa: S608 - a constant
    postgres.sql(f"DELETE FROM {SCHEMA}.workflows WHERE id = 'another'", database=name)  # noqa: S608 - a constant
    check_answers("v2", monkeypatch)


def test_a_new_postgresql_has_the_same_tables(postgres: PostgresServer, url: str, data_dir: Path) -> None:
    workflow_create("another", "Title")
    new = postgres.create("new-tables")
    apps.use_settings(Settings(workflows_url=SecretStr(new), data_dir=data_dir))
    workflow_create("another", "Title")
    assert dump(new)[1] == []
    named = f"'{SCHEMA}'"
    columns = "table_name, column_name, data_type, collation_name, is_nullable, identity_generation"
    described = (
        f"SELECT {columns} FROM information_schema.columns WHERE table_schema = {named} ORDER BY 1, 2",  # noqa: S608 - constants
        f"SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = {named} ORDER BY 1, 2",  # noqa: S608 - constants
        f"SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = {named}::regnamespace ORDER BY 1",  # noqa: S608, E501 - constants
    )
    for query in described:
        old = postgres.sql(query, database=urlsplit(url).path.strip("/"))
        assert old == postgres.sql(query, database="new-tables")
        assert old


@pytest.mark.soak
def test_processes_that_start_at_once_migrate_postgresql_once(url: str, tmp_path: Path) -> None:
    before, _ = dump(url)
    use_at_once(tmp_path, QUILT_MCP_WORKFLOWS_URL=url)
    after, changes = dump(url)
    assert changes == []
    assert len(after["workflows"]) == len(before["workflows"]) + 2
    assert (after["steps"], after["log"]) == (before["steps"], before["log"])


@pytest.mark.parametrize("is_migrated", [False, True])
def test_postgresql_of_a_newer_version_is_refused(url: str, postgres: PostgresServer, is_migrated: bool) -> None:  # noqa: FBT001 - a case
    if is_migrated:
        workflow_create("x", "Title")
    table, value = (
        (MIGRATIONS.version_table, "version_num = '0999'") if is_migrated else ("schema_version", "number = 2")
    )
    postgres.sql(f"UPDATE {SCHEMA}.{table} SET {value}", database=urlsplit(url).path.strip("/"))  # noqa: S608 - constants
    before = dump(url)
    for call in CALLS:
        with pytest.raises(ResourceExecutionError, match="newer version"):
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


def test_a_migration_of_postgresql_that_fails_changes_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade = migrating.upgrade

    def fail(*arguments: Any) -> None:
        upgrade(*arguments)
        raise ZeroDivisionError

    before = dump(url)
    monkeypatch.setattr(migrating, "upgrade", fail)
    with pytest.raises(ZeroDivisionError):
        workflow_create("another", "Title")
    assert dump(url) == before
