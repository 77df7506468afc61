"""How a database fails, which failures result, and that it recovers."""

import asyncio
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import aiosqlite
import pytest
from pydantic import SecretStr
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError

from quilt_mcp.core.errors import ResourceExecutionError, ResourceFailure, Unavailable, find_failure
from quilt_mcp.requirements import migrating, tables
from quilt_mcp.requirements.database import Database, open_database
from quilt_mcp.requirements.failures import FAILURES
from quilt_mcp.settings import Settings
from tests.requirements.changing import END_CONNECTIONS, create_project
from tests.requirements.conftest import opened
from tests.requirements.reading import PASSWORD, epics, failure_of, file_of
from tests.support.postgres_server import PostgresServer, postgres_server
from tests.support.waiting import SECONDS, until


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://user:{PASSWORD}@host/db",
        f"postgresql+psycopg2://user:{PASSWORD}@host/db",
        f"{PASSWORD}",
        "",
    ],
)
def test_a_setting_with_another_scheme_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="must start with postgresql:// or sqlite://") as refused:
        Settings(database_url=SecretStr(url))
    assert PASSWORD not in str(refused.value)


def test_a_setting_that_needs_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quilt_mcp.app.database.settings.find_spec", lambda _: None)
    for setting in ("database_url", "workflows_url"):
        with pytest.raises(ValueError, match="install the extra `postgres`"):
            Settings.model_validate({setting: "postgresql://user@host/db"})
    Settings(database_url=SecretStr("sqlite:////some/file"))


@pytest.mark.parametrize("url", [f"postgresql://user:{PASSWORD}@host:port/db", "sqlite://", "sqlite:///:memory:"])
def test_a_url_that_is_not_valid_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ResourceExecutionError, match="QUILT_MCP_DATABASE_URL") as refused:
        open_database(Settings(database_url=SecretStr(url)))
    assert refused.value.__cause__ is None
    assert PASSWORD not in repr(refused.value.__context__ and refused.value.__suppress_context__)


def test_the_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_DATABASE_URL", f"postgresql://user:{PASSWORD}@host/db")
    settings = Settings()
    database = open_database(settings)
    assert PASSWORD not in f"{settings!r} {settings} {settings.model_dump()} {database.engine!r} {vars(database)}"


@pytest.mark.parametrize(
    ("address", "message", "transient"),
    [
        ("127.0.0.1:1", "cannot be reached", True),
        ("no-such-host.invalid:5432", "cannot be reached", True),
    ],
)
async def test_a_server_that_does_not_exist(address: str, message: str, transient: bool) -> None:  # noqa: FBT001 - a table's column
    url = SecretStr(f"postgresql://user:{PASSWORD}@{address}/db")
    async with opened(Settings(database_url=url)) as database:
        failure = await failure_of(database)
    assert message in failure.message
    assert failure.transient is transient


async def test_a_server_that_never_responds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = SecretStr(f"postgresql://user:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/db")
        settings = Settings(database_url=url, database_timeout_seconds=0.2)  # it is silent
        async with opened(settings) as database:
            failure = await failure_of(database)
    assert type(failure) is Unavailable
    assert "in time" in failure.message


async def test_an_unknown_database_is_not_transient(postgres: PostgresServer) -> None:
    async with opened(Settings(database_url=SecretStr(postgres.url("nowhere")))) as database:
        failure = await failure_of(database)
    assert not failure.transient
    assert failure.details == "SQLSTATE 3D000"


@pytest.mark.soak
async def test_a_user_without_privileges(make_settings: Callable[..., Settings], postgres: PostgresServer) -> None:
    settings = make_settings("postgresql", "sample")
    assert settings.database_url
    postgres.sql("DROP ROLE IF EXISTS nobody_in_particular; ")
    postgres.sql("CREATE ROLE nobody_in_particular LOGIN")
    url = settings.database_url.get_secret_value().replace("//tests@", f"//nobody_in_particular:{PASSWORD}@")
    async with opened(Settings(database_url=SecretStr(url))) as database:
        failure = await failure_of(database)
    assert "not allowed to do this" in failure.message


@pytest.mark.soak
async def test_a_statement_that_takes_too_long_is_ended(make_settings: Callable[..., Settings]) -> None:
    settings = make_settings("postgresql", "tables").model_copy(update={"database_timeout_seconds": 0.2})
    async with opened(settings) as database:
        await epics(database)
        with pytest.raises(Unavailable, match="in time"):
            async with database.reading() as connection:
                await connection.execute(text("SELECT pg_sleep(60)"))
        assert await epics(database) == 0


async def test_a_writer_stops_waiting_for_another(settings_with_tables: Settings) -> None:
    impatient = settings_with_tables.model_copy(update={"database_timeout_seconds": 0.2})
    async with opened(settings_with_tables) as database, opened(impatient) as other, database.writing():
        with pytest.raises(Unavailable):
            async with other.writing():
                pytest.fail("two writers at once")


async def test_more_readers_than_connections_wait_and_then_fail(settings_with_tables: Settings) -> None:
    settings = settings_with_tables.model_copy(update={"database_timeout_seconds": 0.2})
    async with opened(settings) as database:
        holding = [database.reading() for _ in range(10)]
        for one in holding:
            await one.__aenter__()
        failure = await failure_of(database)
        for one in holding:
            await one.__aexit__(None, None, None)
        assert type(failure) is Unavailable
        assert await epics(database) == 0


async def test_a_cancelled_statement_ends_and_its_connection_is_free(tmp_path: Path) -> None:
    endless = text("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n")
    asking: list[aiosqlite.Connection] = []

    async def ask() -> None:
        async with database.reading() as connection:
            raw = (await connection.get_raw_connection()).driver_connection
            assert isinstance(raw, aiosqlite.Connection)
            asking.append(raw)
            await connection.execute(endless)

    async with opened(Settings(data_dir=tmp_path)) as database:
        await epics(database)
        for _ in range(12):  # more than there are connections
            asking.clear()
            task = asyncio.create_task(ask())
            await until(asking.copy)
            await asyncio.sleep(0.005)
            task.cancel()
            ended, _pending = await asyncio.wait([task], timeout=SECONDS / 4)
            with suppress(ValueError, sqlite3.ProgrammingError):  # it is closed, as expected
                await asking[0].interrupt()  # so that a failed test ends
            assert ended
            assert task.cancelled()
        assert await epics(database) == 0


async def test_a_damaged_file(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    file_of(settings).write_bytes(b"no database at all" * 1000)
    async with opened(settings) as database:
        failure = await failure_of(database)
    assert "damaged" in failure.message
    assert not failure.transient
    assert file_of(settings).read_bytes().startswith(b"no database")


async def test_a_directory_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with opened(Settings(data_dir=tmp_path / "file" / "data")) as database:
        failure = await failure_of(database)
    assert "cannot be opened or written" in failure.message
    assert failure.details == "ENOTDIR"


async def test_a_full_disk_leaves_no_partial_write(make_settings: Callable[..., Settings]) -> None:
    settings = make_settings("sqlite", "tables")

    async def write_much(database: Database) -> None:
        async with database.writing() as connection:
            pages = await connection.scalar(text("PRAGMA page_count"))
            await connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
            for number in range(200):
                await create_project(connection, f"{number}", "x" * 1000)

    async with opened(settings) as database:
        with pytest.raises(ResourceExecutionError, match="full"):
            await write_much(database)
    with closing(sqlite3.connect(file_of(settings))) as connection:
        assert connection.execute("SELECT count(*) FROM projects").fetchone() == (1,)


async def test_a_read_only_file(make_settings: Callable[..., Settings]) -> None:
    async def write(database: Database) -> None:
        async with database.reading() as connection:
            await connection.exec_driver_sql("PRAGMA query_only = ON")  # has the same error code as a read-only file
            await connection.execute(tables.generation.update().values(number=1))

    async with opened(make_settings("sqlite", "tables")) as database:
        with pytest.raises(ResourceExecutionError, match="cannot be opened or written"):
            await write(database)


@pytest.mark.soak
async def test_a_server_that_stops_and_starts_again() -> None:
    with postgres_server() as server:
        url = SecretStr(server.create("reborn"))
        async with opened(Settings(database_url=url)) as database:
            await migrating.upgrade(database)
            assert await epics(database) == 0
            readers = [asyncio.create_task(keep_reading(database)) for _ in range(4)]
            await asyncio.sleep(0.05)
            await asyncio.to_thread(server.stop)
            failures = await asyncio.gather(*readers)
            assert [(type(failure), failure.transient) for failure in failures] == [(Unavailable, True)] * 4
            assert "cannot be reached" in (await failure_of(database)).message
            await asyncio.to_thread(server.start)
            assert await epics(database) == 0


@pytest.mark.soak
@pytest.mark.parametrize("readers", [1, 10, 40])  # the pool has ten connections
async def test_connections_that_the_server_ended_while_they_were_idle_are_not_used(
    readers: int, make_settings: Callable[..., Settings], postgres: PostgresServer
) -> None:
    patient = {"database_timeout_seconds": SECONDS}  # 40 readers wait for ten connections
    async with opened(make_settings("postgresql", "sample").model_copy(update=patient)) as database:
        for _ in range(3):
            assert await asyncio.gather(*(epics(database) for _ in range(readers))) == [9] * readers
            assert "t" in await asyncio.to_thread(postgres.sql, END_CONNECTIONS)


@pytest.mark.soak
@pytest.mark.parametrize("ended", ["first", "last"])
async def test_a_write_uses_no_connection_that_the_server_ended_alone(
    ended: str, make_settings: Callable[..., Settings], postgres: PostgresServer
) -> None:
    order = "backend_start" if ended == "first" else "backend_start DESC"
    async with opened(make_settings("postgresql", "tables")) as database:
        async with database.reading(), database.reading():
            pass  # the pool has two connections now
        one = f"SELECT pid FROM pg_stat_activity WHERE application_name = 'quilt-mcp' ORDER BY {order} LIMIT 1"  # noqa: S608 - constants
        assert "t" in await asyncio.to_thread(postgres.sql, f"SELECT pg_terminate_backend(({one}))")
        assert (await database.schema()).state == "current"
        assert "t" in await asyncio.to_thread(postgres.sql, f"SELECT pg_terminate_backend(({one}))")
        async with database.writing() as connection:
            await create_project(connection, "Project")


@pytest.mark.soak
async def test_a_write_after_the_server_ended_the_connection_is_not_lost(
    make_settings: Callable[..., Settings], postgres: PostgresServer
) -> None:
    async with opened(make_settings("postgresql", "tables")) as database:
        for number in range(3):
            async with database.writing() as connection:
                await create_project(connection, f"Project {number}")
            assert "t" in await asyncio.to_thread(postgres.sql, END_CONNECTIONS)
        async with database.reading() as connection:
            assert (
                await connection.scalar(select(func.count()).select_from(tables.projects)) == 4
            )  # with the default one


async def keep_reading(database: Database) -> ResourceFailure:
    """Read until a read fails, and return the failure."""
    while True:
        try:
            await epics(database)
        except ResourceFailure as failure:
            return failure


@pytest.mark.soak
async def test_a_server_that_starts_later_is_found() -> None:
    with postgres_server() as server:
        url = SecretStr(server.create("late"))
        async with opened(Settings(database_url=url)) as database:
            await migrating.upgrade(database)
        server.stop()
        async with opened(Settings(database_url=url)) as database:
            assert (await failure_of(database)).transient
            await asyncio.to_thread(server.start)
            assert await epics(database) == 0


class DriverError(Exception):
    """An error of a driver, with PostgreSQL's code."""

    def __init__(self, state: str) -> None:
        super().__init__(f"connection to {PASSWORD} failed")
        self.sqlstate = state


@pytest.mark.parametrize(
    ("state", "failure", "transient"),
    [
        ("08006", Unavailable, True),  # connection failure
        ("57P01", Unavailable, True),  # admin shutdown
        ("57P03", Unavailable, True),  # cannot connect now
        ("57014", Unavailable, True),  # query cancelled, by a time limit
        ("53300", Unavailable, True),  # too many connections
        ("40001", Unavailable, True),  # serialization failure
        ("55P03", Unavailable, True),  # lock not available
        ("53100", ResourceExecutionError, False),  # disk full
        ("28P01", ResourceExecutionError, False),  # invalid password
        ("3D000", ResourceExecutionError, False),  # unknown database
        ("42501", ResourceExecutionError, False),  # insufficient privilege
        ("25006", ResourceExecutionError, False),  # read-only transaction
    ],
)
def test_postgresql_codes_become_failures(state: str, failure: type[ResourceFailure], transient: bool) -> None:  # noqa: FBT001 - a table's column
    translated = find_failure(DBAPIError("SELECT 1", None, DriverError(state)), FAILURES.rows)
    assert type(translated) is failure
    assert translated.transient is transient
    assert PASSWORD not in f"{translated.message} {translated.details} {translated.suggested_actions}"


@pytest.mark.parametrize("state", ["42P01", "42601", "23505", "22001", ""])
def test_a_wrong_statement_is_not_a_failure_of_the_database(state: str) -> None:
    assert find_failure(DBAPIError("SELECT 1", None, DriverError(state)), FAILURES.rows) is None


def test_a_connection_that_broke_without_a_code_is_transient() -> None:
    error = DBAPIError("SELECT 1", None, DriverError(""), connection_invalidated=True)
    assert type(find_failure(error, FAILURES.rows)) is Unavailable
