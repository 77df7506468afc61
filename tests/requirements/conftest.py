"""Databases for the tests: each test has its own, on SQLite and on a real PostgreSQL."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest
from pydantic import SecretStr

from quilt_mcp.demo.requirements_sample import create_sample, write_sample
from quilt_mcp.requirements import migrating
from quilt_mcp.requirements.database import Database, open_database
from quilt_mcp.requirements.engines import FILE_NAME, make_file
from quilt_mcp.settings import Settings
from tests.postgres_server import NoPostgres, PostgresServer, postgres_server

Contents = Literal["nothing", "tables", "sample"]
_numbers = count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of this process, with the templates `tables` and `sample`."""
    try:
        context = postgres_server()
        server = context.__enter__()
    except NoPostgres as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    try:
        _run(_fill(server.create("tables"), sample=False))
        _run(_fill(server.create("sample", "tables"), sample=True))
        yield server
    finally:
        context.__exit__(None, None, None)


@pytest.fixture
def make_settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str, Contents], Settings]]:
    """Makes a database of a dialect with contents, and answers the settings that lead to it."""
    made: list[str] = []

    def make(dialect: str, contents: Contents) -> Settings:
        data_dir = tmp_path / f"data-{next(_numbers)}"
        if dialect == "sqlite":
            settings = Settings(data_dir=data_dir, database_url=None)
            if contents == "sample":
                write_sample(settings)
            elif contents == "tables":
                make_file(data_dir / FILE_NAME)
                (data_dir / FILE_NAME).write_bytes(_file_with_tables())
            return settings
        server: PostgresServer = request.getfixturevalue("postgres")
        made.append(f"test-{os.getpid()}-{next(_numbers)}")
        url = server.create(made[-1], "template0" if contents == "nothing" else contents)
        return Settings(data_dir=data_dir, database_url=SecretStr(url))

    yield make
    for name in made:
        request.getfixturevalue("postgres").drop(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    """Each of the two, in turn."""
    return str(request.param)


@pytest.fixture
def settings_without_tables(make_settings: Callable[[str, Contents], Settings], dialect: str) -> Settings:
    return make_settings(dialect, "nothing")


@pytest.fixture
def settings_with_tables(make_settings: Callable[[str, Contents], Settings], dialect: str) -> Settings:
    return make_settings(dialect, "tables")


@pytest.fixture
def settings_with_sample(make_settings: Callable[[str, Contents], Settings], dialect: str) -> Settings:
    return make_settings(dialect, "sample")


@pytest.fixture
async def empty_database(settings_with_tables: Settings) -> AsyncIterator[Database]:
    """A database with the tables and nothing in them but what every database has."""
    async with opened(settings_with_tables) as database:
        yield database


@pytest.fixture
async def database(settings_with_sample: Settings) -> AsyncIterator[Database]:
    """A database with the sample."""
    async with opened(settings_with_sample) as database:
        yield database


@pytest.fixture
def existing_settings(make_settings: Callable[[str, Contents], Settings], postgres: PostgresServer) -> Settings:
    """A database of the earlier system."""
    settings = make_settings("postgresql", "nothing")
    assert settings.database_url
    name = settings.database_url.get_secret_value().partition("?")[0].rpartition("/")[2]
    postgres.sql(Path(__file__).with_name("existing_system.sql").read_text(), database=name)
    return settings


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Database]:
    """The database of these settings, closed at the end."""
    database = open_database(settings)
    try:
        yield database
    finally:
        await database.close()


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    with ThreadPoolExecutor(1) as thread:  # for the test's own may run an event loop
        thread.submit(asyncio.run, coroutine).result()


@cache
def _file_with_tables() -> bytes:
    with TemporaryDirectory() as directory:
        _run(_migrate(Settings(data_dir=Path(directory), database_url=None)))
        return (Path(directory) / FILE_NAME).read_bytes()


async def _fill(url: str, *, sample: bool) -> None:
    settings = Settings(database_url=SecretStr(url))
    await _migrate(settings)
    if sample:
        async with opened(settings) as database, database.writing() as connection:
            await create_sample(connection)


async def _migrate(settings: Settings) -> None:
    async with opened(settings) as database:
        await migrating.upgrade(database)
