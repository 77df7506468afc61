"""Databases for the tests: each test has its own, on SQLite and on a real PostgreSQL."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest
from pydantic import SecretStr
from sqlalchemy import event

from quilt_mcp.app.database.engines import make_file
from quilt_mcp.requirements.database import Database, open_database
from quilt_mcp.requirements.sample import write_sample
from quilt_mcp.requirements.settings import FILE_NAME
from tests.requirements.generated import Form
from tests.requirements.reading import name_of
from tests.support import apps
from tests.support.demo_data import create_sample
from tests.support.postgres_server import PostgresServer
from tests.support.settings import Settings

Contents = Literal["nothing", "tables", "sample"]
_numbers = count()


@pytest.fixture(scope="session")
def postgres_with_templates(postgres: PostgresServer) -> PostgresServer:
    """The PostgreSQL server, with the databases `tables` and `sample` to copy."""
    _fill(postgres.create("tables"), sample=False)
    _fill(postgres.create("sample", "tables"), sample=True)
    return postgres


@pytest.fixture(scope="session")
def first_settings() -> Settings:
    """The settings of the environment, which are read once."""
    return Settings(database_url=None)


@pytest.fixture
def make_settings(
    request: pytest.FixtureRequest, first_settings: Settings, tmp_path: Path
) -> Iterator[Callable[[str, Contents], Settings]]:
    """Makes a database of a dialect with contents, and answers the settings that lead to it."""
    made: list[str] = []

    def make(dialect: str, contents: Contents) -> Settings:
        data_dir = tmp_path / f"data-{next(_numbers)}"
        if dialect == "sqlite":
            if contents != "nothing":
                make_file(data_dir / FILE_NAME)
                (data_dir / FILE_NAME).write_bytes(_file_with(contents))
            return first_settings.model_copy(update={"data_dir": data_dir})
        server: PostgresServer = request.getfixturevalue("postgres_with_templates")
        made.append(f"test-{os.getpid()}-{next(_numbers)}")
        url = server.create(made[-1], "template0" if contents == "nothing" else contents)
        return first_settings.model_copy(update={"data_dir": data_dir, "database_url": SecretStr(url)})

    yield make
    for name in made:
        request.getfixturevalue("postgres_with_templates").drop(name)


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
def empty_database(settings_with_tables: Settings) -> Iterator[Database]:
    """A database with the tables and nothing in them but what every database has."""
    with opened(settings_with_tables) as database:
        yield database


@pytest.fixture
def database(settings_with_sample: Settings) -> Iterator[Database]:
    """A database with the sample."""
    with opened(settings_with_sample) as database:
        yield database


@pytest.fixture
def existing_settings(make_settings: Callable[[str, Contents], Settings], postgres: PostgresServer) -> Settings:
    """A database of the earlier system."""
    settings = make_settings("postgresql", "nothing")
    postgres.sql(Path(__file__).with_name("existing_system.sql").read_text(), database=name_of(settings))
    return settings


@pytest.fixture
def make_empty(
    request: pytest.FixtureRequest, make_settings: Callable[[str, Contents], Settings]
) -> Callable[[Form], Settings]:
    """Makes a database with the tables of a form."""

    def make(form: Form) -> Settings:
        if form != "earlier":
            return make_settings(form, "tables")
        settings: Settings = request.getfixturevalue("existing_settings")
        return settings

    return make


@pytest.fixture
def each_form(make_empty: Callable[[Form], Settings], existing_settings: Settings) -> dict[Form, Settings]:
    """The settings of an empty database of each form."""
    return {"sqlite": make_empty("sqlite"), "postgresql": make_empty("postgresql"), "earlier": existing_settings}


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """The SELECT statements with their parameters, from the start of the test."""
    found: list[tuple[str, Any]] = []
    from_settings = Database.__init__

    def counted(self: Database, engine: Any) -> None:
        from_settings(self, engine)
        event.listen(self.storage.engine, "before_cursor_execute", note)

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        of_schema = "pg_catalog" in statement or "schema_version" in statement
        if statement.lstrip().startswith(("SELECT", "WITH")) and not of_schema:
            found.append((statement, parameters))

    monkeypatch.setattr(Database, "__init__", counted)
    return found


@pytest.fixture
def set_settings() -> Iterator[Callable[[Settings], None]]:
    """A function that sets the settings for the test."""
    before = apps.current_settings()
    yield apps.use_settings
    apps.use_settings(before)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of records, which a test writes."""
    return tmp_path / "records.jsonl"


@pytest.fixture
def data_dir_with_tables(data_dir: Path) -> Path:
    """The directory for this test's data, with a database without entities: only the first command would migrate it."""
    make_file(data_dir / FILE_NAME)
    (data_dir / FILE_NAME).write_bytes(_file_with("tables"))
    return data_dir


@pytest.fixture
def tables(settings_with_tables: Settings, set_settings: Callable[[Settings], None]) -> None:
    """Sets the settings to a database without entities."""
    set_settings(settings_with_tables)


@contextmanager
def opened(settings: Settings) -> Iterator[Database]:
    """The database of these settings, closed at the end."""
    database = open_database(settings)
    try:
        yield database
    finally:
        database.close()


@cache
def _file_with(contents: Literal["tables", "sample"]) -> bytes:
    with TemporaryDirectory() as directory:
        settings = Settings(data_dir=Path(directory), database_url=None)
        if contents == "sample":
            write_sample(settings)
        else:
            _migrate(settings)
        return (Path(directory) / FILE_NAME).read_bytes()


def _fill(url: str, *, sample: bool) -> None:
    settings = Settings(database_url=SecretStr(url))
    _migrate(settings)
    if sample:
        with opened(settings) as database, database.writing() as connection:
            create_sample(connection)


def _migrate(settings: Settings) -> None:
    with opened(settings) as database:
        database.upgrade()
