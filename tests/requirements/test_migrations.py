"""The migrations, up and down, and the commands `migrate` and `status`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from pydantic import SecretStr
from sqlalchemy import Connection, inspect, select, text

import quilt_mcp.requirements.migrations
from quilt_mcp import runtime_context
from quilt_mcp.cli import main
from quilt_mcp.errors import ResourceExecutionError
from quilt_mcp.requirements import migrating, tables
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.schema_state import REVISIONS, VERSION_TABLE
from quilt_mcp.settings import Settings
from tests.requirements.conftest import opened
from tests.requirements.reading import PASSWORD, epics, failure_of


@pytest.fixture
def use() -> Iterator[Callable[[Settings], None]]:
    """Puts settings into force for the test."""
    before = runtime_context.settings()
    yield runtime_context.use_settings
    runtime_context.use_settings(before)


def names(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names())


def differences(connection: Connection) -> list[object]:
    """Between the tables that are there and `tables.py`."""
    context = MigrationContext.configure(
        connection,
        opts={
            "version_table": VERSION_TABLE,
            "compare_type": True,
            "include_name": lambda name, kind, _: kind != "table" or not str(name).startswith("search_"),
        },
    )
    return [one for one in compare_metadata(context, tables.metadata) if "search_" not in repr(one)]


def constraints(connection: Connection) -> set[tuple[str, str]]:
    """What compare_metadata does not look at."""
    inspector = inspect(connection)
    return {
        (table, str(constraint["name"]))
        for table in tables.metadata.tables
        for constraint in inspector.get_check_constraints(table)
    }


async def test_the_migrations_make_the_tables_that_the_statements_expect(empty_database: Database) -> None:
    async with empty_database.reading() as connection:
        assert await connection.run_sync(differences) == []
        found = await connection.run_sync(constraints)
    assert found == {
        (table.name, str(constraint.name))
        for table in tables.metadata.tables.values()
        for constraint in table.constraints
        if type(constraint).__name__ == "CheckConstraint"
    }


def test_each_revision_has_its_place() -> None:
    scripts = ScriptDirectory(str(Path(quilt_mcp.requirements.migrations.__file__).parent))
    assert tuple(reversed([script.revision for script in scripts.walk_revisions()])) == REVISIONS


async def test_down_to_nothing_and_up_again(database: Database) -> None:
    await migrating.downgrade(database)
    assert (await database.schema()).state == "empty"
    async with database.migrating() as connection:
        assert await connection.run_sync(names) == {VERSION_TABLE}
    await migrating.upgrade(database)
    assert await epics(database) == 0


async def test_an_older_version_keeps_its_rows_and_gets_a_search_index(database: Database) -> None:
    await migrating.downgrade(database, "0001")
    assert (await database.schema()).state == "outdated"
    async with database.migrating() as connection:
        assert await connection.scalar(text("SELECT count(*) FROM requirements")) == 180
        assert not {name for name in await connection.run_sync(names) if name.startswith("search_")}
    before = await migrating.upgrade(database)
    assert before.revision == "0001"
    async with database.reading() as connection:
        assert await connection.scalar(text("SELECT count(*) FROM search_entries")) == 297


async def test_an_older_file_is_brought_up_to_date_by_a_read_and_an_older_server_is_not(
    settings_with_sample: Settings,
) -> None:
    async with opened(settings_with_sample) as database:
        await migrating.downgrade(database, "0001")
    async with opened(settings_with_sample) as database:
        if database.dialect == "sqlite":
            assert await epics(database) == 9
            assert (await database.schema()).state == "current"
        else:
            failure = await failure_of(database)
            assert "older version" in failure.message
            assert failure.details == "schema 0001; this version knows up to 0002"


async def test_a_migration_that_fails_changes_nothing(
    settings_without_tables: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    async with opened(settings_without_tables) as database:
        with monkeypatch.context() as patch:
            patch.setattr("quilt_mcp.requirements.search_index.create_search_index", fail)
            with pytest.raises(ZeroDivisionError):
                await migrating.upgrade(database)
        async with database.migrating() as connection:
            assert await connection.run_sync(names) == set()
        await migrating.upgrade(database)
        assert await epics(database) == 0


async def test_there_is_nothing_to_take_back(settings_without_tables: Settings) -> None:
    async with opened(settings_without_tables) as database:
        with pytest.raises(ResourceExecutionError, match="no tables"):
            await migrating.downgrade(database)


async def test_every_database_starts_with_a_project_and_types(empty_database: Database) -> None:
    async with empty_database.reading() as connection:
        found = [
            set(await connection.scalars(select(tables.metadata.tables[name].c.name)))
            for name in ("projects", "requirement_types", "relationship_types")
        ]
    assert found == [
        {"Default"},
        {"Functional", "Non-Functional", "Business Rule", "Interface", "Data"},
        {"depends_on", "blocks", "relates_to", "conflicts_with", "derives_from"},
    ]


def status(capsys: pytest.CaptureFixture[str], *, well: bool) -> dict[str, object]:
    capsys.readouterr()
    assert main(["requirements", "status", "--json"]) == (0 if well else 1)
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_migrate_and_status(
    settings_without_tables: Settings,
    dialect: str,
    use: Callable[[Settings], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    use(settings_without_tables)
    before = status(capsys, well=False)
    assert (before["state"], before["rows"]) == ("empty", {})
    assert str(before["database"]).startswith("/" if dialect == "sqlite" else "postgresql:///tmp/pg-")
    assert main(["requirements", "migrate"]) == 0
    assert "was migrated from nothing; its schema is 0002." in capsys.readouterr().out
    assert main(["requirements", "migrate"]) == 0
    assert "is up to date; its schema is 0002." in capsys.readouterr().out
    after = status(capsys, well=True)
    assert (after["state"], after["revision"]) == ("current", "0002")
    assert after["rows"] == {
        "users": 0,
        "projects": 1,
        "project_members": 0,
        "requirement_types": 5,
        "relationship_types": 5,
        "epics": 0,
        "user_stories": 0,
        "acceptance_criteria": 0,
        "requirements": 0,
        "requirement_relationships": 0,
    }
    assert main(["requirements", "status"]) == 0
    assert "requirement_types" in capsys.readouterr().out


def test_the_earlier_system_is_shown_exported_and_never_written(
    existing_settings: Settings,
    use: Callable[[Settings], None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    use(existing_settings)
    found = status(capsys, well=True)
    assert found["state"] == "existing"
    assert main(["requirements", "migrate"]) == 1
    assert "never migrated" in capsys.readouterr().err
    assert main(["requirements", "export", str(tmp_path / "all.jsonl")]) == 0
    assert main(["requirements", "import", str(tmp_path / "all.jsonl")]) == 1
    assert "only read" in capsys.readouterr().err
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert sorted(set(kinds)) == [
        "acceptance_criteria",
        "epic",
        "relationship_type",
        "requirement",
        "requirement_type",
        "user",
        "user_story",
    ]


def test_status_of_a_server_that_is_not_there(
    use: Callable[[Settings], None], capsys: pytest.CaptureFixture[str]
) -> None:
    use(Settings(database_url=SecretStr(f"postgresql://me:{PASSWORD}@127.0.0.1:1/db")))
    assert main(["requirements", "status"]) == 1
    out, err = capsys.readouterr()
    assert "cannot be reached" in err
    assert "requirements status" not in err  # to run it again would tell the same
    assert PASSWORD not in out + err


def test_status_names_no_user_and_no_password(
    use: Callable[[Settings], None],
    make_settings: Callable[..., Settings],
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = make_settings("postgresql", "tables").database_url
    assert url
    use(Settings(database_url=SecretStr(url.get_secret_value().replace("tests@", f"tests:{PASSWORD}@"))))
    assert main(["requirements", "status"]) == 0
    out, err = capsys.readouterr()
    assert PASSWORD not in out + err
    assert "tests" not in out + err
