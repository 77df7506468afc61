"""How a database fails, which failures result, and that it recovers."""

import asyncio
import socket
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from threading import enumerate as list_threads

import pytest
from pydantic import SecretStr
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError

from quilt_mcp.app.pools import Pools
from quilt_mcp.core.errors import ResourceExecutionError, ResourceFailure, Unavailable, find_failure
from quilt_mcp.core.tracing import ReadIsOver
from quilt_mcp.requirements import tables
from quilt_mcp.requirements.database import Database, open_database
from quilt_mcp.requirements.failures import FAILURES
from tests.requirements.changing import END_CONNECTIONS, create_project
from tests.requirements.conftest import opened
from tests.requirements.reading import PASSWORD, epics, failure_of
from tests.support.postgres_server import PostgresServer
from tests.support.settings import Settings
from tests.support.waiting import SECONDS, until


@pytest.mark.parametrize(
    "url", [f"mysql://user:{PASSWORD}@host/db", f"postgresql+psycopg2://user:{PASSWORD}@host/db", PASSWORD, ""]
)
def test_a_setting_with_another_scheme_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="must start with postgresql:// or sqlite://") as refused:
        Settings(database_url=SecretStr(url))
    assert PASSWORD not in str(refused.value)


def test_a_setting_that_needs_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quilt_mcp.app.database.find_spec", lambda _: None)
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
    shown = f"{settings!r} {settings} {settings.model_dump()} {database.storage.engine!r} {vars(database)}"
    assert PASSWORD not in shown


@pytest.mark.parametrize(
    ("scheme", "address"), [("postgres", "127.0.0.1:1"), ("postgresql+psycopg", "no-such-host.invalid:5432")]
)
def test_a_server_that_does_not_exist(scheme: str, address: str) -> None:
    url = SecretStr(f"{scheme}://user:{PASSWORD}@{address}/db")
    with opened(Settings(database_url=url)) as database:
        failure = failure_of(database)
    assert "cannot be reached" in failure.message
    assert failure.transient


@pytest.mark.soak  # libpq waits two seconds at least
def test_a_server_that_never_responds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = SecretStr(f"postgresql://user:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/db")
        settings = Settings(database_url=url, database_timeout_seconds=0.2)  # it is silent
        with opened(settings) as database:
            failure = failure_of(database)
    assert type(failure) is Unavailable
    assert "in time" in failure.message


def test_a_busy_database_is_not_asked_what_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    with opened(Settings(data_dir=tmp_path)) as database:
        assert epics(database) == 0
        monkeypatch.setattr(Database, "schema", None)  # it would open another connection
        with pytest.raises(Unavailable, match="Another process is writing"), database.reading():
            raise DBAPIError("SELECT 1", {}, busy)


def test_an_unknown_database_is_not_transient(postgres: PostgresServer) -> None:
    with opened(Settings(database_url=SecretStr(postgres.url("nowhere")))) as database:
        failure = failure_of(database)
    assert not failure.transient
    assert "does not exist, or refuses the login" in failure.message


def test_options_in_the_url_are_those_of_libpq(postgres: PostgresServer) -> None:
    url = SecretStr(f"{postgres.url('postgres')}&application_name=own&connect_timeout=3")
    with opened(Settings(database_url=url)) as database, database.storage.transaction() as connection:
        assert connection.exec_driver_sql("SELECT current_setting('application_name')").scalar() == "own"
    wrong = SecretStr(f"{postgres.url('postgres')}&sslmode=sometimes")
    with opened(Settings(database_url=wrong)) as database:
        failure = failure_of(database)
    assert (failure.error, failure.transient) == ("ResourceExecutionError", False)
    assert "does not accept an option in QUILT_MCP_DATABASE_URL" in failure.message


@pytest.mark.soak
def test_a_statement_that_takes_too_long_is_ended(make_settings: Callable[..., Settings]) -> None:
    settings = make_settings("postgresql", "tables").model_copy(update={"database_timeout_seconds": 0.2})
    with opened(settings) as database:
        epics(database)
        with pytest.raises(Unavailable, match="in time") as failed, database.reading() as connection:
            connection.execute(text("SELECT pg_sleep(60)"))
        assert failed.value.details == "SQLSTATE 57014"  # the server has ended it, and the connection stays
        assert epics(database) == 0


@pytest.mark.timeout(25)  # SQLAlchemy's own limit, which ours replaces, is 30 s
def test_more_readers_than_connections_wait_and_then_fail(make_settings: Callable[..., Settings]) -> None:
    settings = make_settings("postgresql", "tables").model_copy(update={"database_timeout_seconds": 0.2})
    with opened(settings) as database:
        with ExitStack() as holding:
            for _ in range(10):
                holding.enter_context(database.reading())
            failure = failure_of(database)
        assert type(failure) is Unavailable
        assert epics(database) == 0


async def test_a_statement_ends_when_nothing_waits_for_its_thread(settings_with_tables: Settings, dialect: str) -> None:
    endless = {
        "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
        "postgresql": "SELECT pg_sleep(600)",
    }
    asking: list[bool] = []
    ended: list[type[BaseException]] = []

    def ask() -> None:
        try:
            with database.reading() as connection:
                asking.append(True)
                connection.exec_driver_sql(endless[dialect])
        except BaseException as error:
            ended.append(type(error))
            raise

    patient = settings_with_tables.model_copy(update={"database_timeout_seconds": SECONDS})
    with opened(patient) as database:
        epics(database)
        tasks: list[asyncio.Task[object]] = []
        for _ in range(12):  # more than there are connections
            asking.clear()
            task = asyncio.create_task(Pools().run("database", ask))
            tasks.append(task)
            await until(asking.copy)
            await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            await until(lambda: len(ended) == len(tasks))
        assert set(ended) <= {Unavailable, ReadIsOver}
        assert epics(database) == 0


@pytest.mark.soak
async def test_a_read_that_nothing_waits_for_sends_no_further_statement(make_settings: Callable[..., Settings]) -> None:
    reading, ended, is_over = Event(), Event(), Event()

    def ask() -> None:
        try:
            with database.reading() as connection:
                reading.set()
                is_over.wait(SECONDS)
                connection.exec_driver_sql("SELECT pg_sleep(600)")
        finally:
            ended.set()

    patient = {"database_timeout_seconds": 10 * SECONDS}
    with opened(make_settings("postgresql", "tables").model_copy(update=patient)) as database:
        task = asyncio.create_task(Pools().run("database", ask))
        await until(reading.is_set)
        task.cancel()
        await asyncio.wait([task])
        await until(lambda: not any(thread.name == "cancel" for thread in list_threads()))
        is_over.set()
        await until(ended.is_set)
        assert epics(database) == 0


@pytest.mark.soak
@pytest.mark.parametrize("readers", [1, 10, 40])  # the pool has ten connections
async def test_connections_that_the_server_ended_while_they_were_idle_are_not_used(
    readers: int, make_settings: Callable[..., Settings], postgres: PostgresServer
) -> None:
    patient = {"database_timeout_seconds": SECONDS}  # 40 readers wait for ten connections
    with opened(make_settings("postgresql", "sample").model_copy(update=patient)) as database:
        for _ in range(3):
            assert await asyncio.gather(*(asyncio.to_thread(epics, database) for _ in range(readers))) == [9] * readers
            assert "t" in await asyncio.to_thread(postgres.sql, END_CONNECTIONS)


@pytest.mark.soak
@pytest.mark.parametrize("ended", ["first", "last"])
async def test_a_write_uses_no_connection_that_the_server_ended_alone(
    ended: str, make_settings: Callable[..., Settings], postgres: PostgresServer
) -> None:
    order = "backend_start" if ended == "first" else "backend_start DESC"
    with opened(make_settings("postgresql", "tables")) as database:
        with database.reading(), database.reading():
            pass  # the pool has two connections now
        one = f"SELECT pid FROM pg_stat_activity WHERE application_name = 'quilt-mcp' ORDER BY {order} LIMIT 1"  # noqa: S608 - constants
        assert "t" in await asyncio.to_thread(postgres.sql, f"SELECT pg_terminate_backend(({one}))")
        assert database.schema().state == "current"
        assert "t" in await asyncio.to_thread(postgres.sql, f"SELECT pg_terminate_backend(({one}))")
        with database.writing() as connection:
            create_project(connection, "Project")


@pytest.mark.soak
async def test_a_write_after_the_server_ended_the_connection_is_not_lost(
    make_settings: Callable[..., Settings], postgres: PostgresServer
) -> None:
    with opened(make_settings("postgresql", "tables")) as database:
        for number in range(3):
            with database.writing() as connection:
                create_project(connection, f"Project {number}")
            assert "t" in await asyncio.to_thread(postgres.sql, END_CONNECTIONS)
        with database.reading() as connection:
            assert connection.scalar(select(func.count()).select_from(tables.projects)) == 4  # with the default one


class DriverError(Exception):
    """An error of a driver, with PostgreSQL's code."""

    def __init__(self, state: str) -> None:
        super().__init__(f"connection to {PASSWORD} failed")
        self.sqlstate = state


@pytest.mark.parametrize(
    ("state", "failure", "message"),
    [
        ("08006", Unavailable, "cannot be reached"),  # connection failure
        ("57P01", Unavailable, "cannot be reached"),  # admin shutdown
        ("57P03", Unavailable, "cannot be reached"),  # cannot connect now
        ("57014", Unavailable, "did not respond in time"),  # query cancelled, by a time limit
        ("25P03", Unavailable, "did not respond in time"),  # idle in transaction
        ("25P04", Unavailable, "did not respond in time"),  # transaction timeout
        ("53300", Unavailable, "is busy"),  # too many connections
        ("40001", Unavailable, "is busy"),  # serialization failure
        ("72000", Unavailable, "is busy"),  # snapshot too old
        ("55P03", Unavailable, "did not finish in time"),  # lock not available
        ("58030", Unavailable, "The server of the requirements database failed."),  # input or output error
        ("XX000", Unavailable, "The server of the requirements database failed."),  # internal error
        ("53100", ResourceExecutionError, "is full"),  # disk full
        ("28P01", ResourceExecutionError, "refuses the login"),  # invalid password
        ("3D000", ResourceExecutionError, "refuses the login"),  # unknown database
        ("42501", ResourceExecutionError, "is not allowed to do this"),  # insufficient privilege
        ("25006", ResourceExecutionError, "is not allowed to do this"),  # read-only transaction
    ],
)
def test_postgresql_codes_become_failures(state: str, failure: type[ResourceFailure], message: str) -> None:
    translated = find_failure(DBAPIError("SELECT 1", None, DriverError(state)), FAILURES.rows)
    assert type(translated) is failure
    assert message in translated.message
    assert translated.transient is (failure is Unavailable)
    assert PASSWORD not in f"{translated.message} {translated.details} {translated.suggested_actions}"


@pytest.mark.parametrize("state", ["42P01", "42601", "23505", "22001", ""])
def test_a_wrong_statement_is_not_a_failure_of_the_database(state: str) -> None:
    assert find_failure(DBAPIError("SELECT 1", None, DriverError(state)), FAILURES.rows) is None


def test_a_connection_that_broke_without_a_code_is_transient() -> None:
    error = DBAPIError("SELECT 1", None, DriverError(""), connection_invalidated=True)
    assert type(find_failure(error, FAILURES.rows)) is Unavailable
