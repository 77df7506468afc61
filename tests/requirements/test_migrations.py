"""The migrations, and the commands `migrate` and `status`."""

import asyncio
import inspect
import json
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pydantic import SecretStr
from sqlalchemy import Connection, select
from sqlalchemy import inspect as inspect_database

from quilt_mcp.app.pools import Pools
from quilt_mcp.commands.cli import main
from quilt_mcp.requirements import tables
from quilt_mcp.requirements.database import MIGRATE, MIGRATIONS, Database
from quilt_mcp.workflows import store
from tests.requirements.conftest import opened
from tests.requirements.reading import PASSWORD, epics
from tests.support.settings import Settings
from tests.support.waiting import SECONDS, until

ROOT = Path(__file__).parents[2]


EXPRESSIONS = ("_by_title", "_by_number")
"""The names of the indexes of expressions, which SQLAlchemy does not read. Other tests check that they are used."""


def names(connection: Connection) -> set[str]:
    return set(inspect_database(connection).get_table_names())


def differences(connection: Connection) -> list[object]:
    """Return the differences between the tables of the database and `tables.py`."""
    context = MigrationContext.configure(
        connection,
        opts={
            "version_table": MIGRATIONS.version_table,
            "compare_type": True,
            "include_name": lambda name, kind, _: (
                not str(name).startswith("search_") and not (kind == "index" and str(name).endswith(EXPRESSIONS))
            ),
        },
    )
    return [one for one in compare_metadata(context, tables.metadata) if "search_" not in repr(one)]


def constraints(connection: Connection) -> set[tuple[str, str]]:
    """Return the check constraints, which compare_metadata ignores."""
    inspector = inspect_database(connection)
    return {
        (table, str(constraint["name"]))
        for table in tables.metadata.tables
        for constraint in inspector.get_check_constraints(table)
    }


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
def test_the_migrations_create_the_tables_of_the_statements(empty_database: Database) -> None:
    with empty_database.reading() as connection:
        assert differences(connection) == []
        found = constraints(connection)
    assert found == {
        (table.name, str(constraint.name))
        for table in tables.metadata.tables.values()
        for constraint in table.constraints
        if type(constraint).__name__ == "CheckConstraint"
    }


def test_a_release_keeps_what_its_migrations_make() -> None:
    """A change of the tables must not change what a released migration creates."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    is_released = re.search(r"^## \[?[0-9]", changelog, re.MULTILINE) is not None
    for migrations in (MIGRATIONS, store.MIGRATIONS):
        for revision, step in migrations.steps.items():
            is_frozen = "create_all" not in inspect.getsource(step)
            assert is_frozen or not is_released, f"copy the tables into the step {revision}"


def test_a_migration_that_fails_changes_nothing(
    settings_without_tables: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = Connection.exec_driver_sql

    def fail(connection: Connection, statement: str, *arguments: Any) -> object:
        if "search_entries" in statement:
            raise ZeroDivisionError
        return execute(connection, statement, *arguments)

    with opened(settings_without_tables) as database:
        with monkeypatch.context() as patch:
            patch.setattr(Connection, "exec_driver_sql", fail)
            with pytest.raises(ZeroDivisionError):
                database.upgrade()
        with database.migrating() as connection:
            assert names(connection) == set()
        database.upgrade()
        assert epics(database) == 0


async def test_a_migration_continues_after_the_read_that_started_it_was_cancelled(
    make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    started, may_continue = threading.Event(), threading.Event()
    runs = 0
    upgrade = Database.upgrade

    def wait_and_upgrade(database: Database) -> object:
        nonlocal runs
        runs += 1
        started.set()
        may_continue.wait(SECONDS)
        return upgrade(database)

    monkeypatch.setattr(Database, "upgrade", wait_and_upgrade)
    with opened(make_settings("sqlite", "nothing")) as database:
        first = asyncio.create_task(Pools().run("database", partial(epics, database)))
        await until(started.is_set)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(Pools().run("database", partial(epics, database)))
        may_continue.set()
        assert await second == 0
        assert runs == 1
        assert database.schema().revision == MIGRATIONS.newest


def test_every_database_starts_with_a_project_and_types(empty_database: Database) -> None:
    with empty_database.reading() as connection:
        found = [
            set(connection.scalars(select(tables.metadata.tables[name].c.name)))
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
    set_settings: Callable[[Settings], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_settings(settings_without_tables)
    before = status(capsys, well=False)
    assert (before["state"], before["rows"]) == ("empty", {})
    step = {"sqlite": "Nothing: the first read or import creates the tables.", "postgresql": MIGRATE}[dialect]
    assert before["next_steps"] == [step]
    assert main(["requirements", "status"]) == 1
    assert f"next step {step}" in " ".join(capsys.readouterr().out.split())
    assert str(before["database"]).startswith("/" if dialect == "sqlite" else "postgresql:///")
    assert main(["requirements", "migrate"]) == 0
    assert "was migrated from nothing; its schema is 0008." in capsys.readouterr().out
    assert main(["requirements", "migrate"]) == 0
    assert "is up to date; its schema is 0008." in capsys.readouterr().out
    after = status(capsys, well=True)
    assert (after["state"], after["revision"], after["next_steps"]) == ("current", "0008", [])
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
    set_settings: Callable[[Settings], None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    set_settings(existing_settings)
    found = status(capsys, well=True)
    assert found["state"] == "existing"
    assert main(["requirements", "migrate"]) == 1
    assert "does not migrate it" in capsys.readouterr().err
    assert main(["requirements", "export", str(tmp_path / "all.jsonl")]) == 0
    assert main(["requirements", "import", str(tmp_path / "all.jsonl")]) == 1
    assert "read-only" in capsys.readouterr().err
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


def test_status_of_a_server_that_does_not_exist(
    set_settings: Callable[[Settings], None], capsys: pytest.CaptureFixture[str]
) -> None:
    set_settings(Settings(database_url=SecretStr(f"postgresql://me:{PASSWORD}@127.0.0.1:1/db")))
    assert main(["requirements", "status"]) == 1
    out, err = capsys.readouterr()
    assert "cannot be reached" in err
    assert "requirements status" not in err  # another run would show the same
    assert PASSWORD not in out + err


@pytest.mark.soak
def test_status_names_no_user_and_no_password(
    set_settings: Callable[[Settings], None], make_settings: Callable[..., Settings], capsys: pytest.CaptureFixture[str]
) -> None:
    url = make_settings("postgresql", "tables").database_url
    assert url
    set_settings(Settings(database_url=SecretStr(url.get_secret_value().replace("tests@", f"tests:{PASSWORD}@"))))
    assert main(["requirements", "status"]) == 0
    out, err = capsys.readouterr()
    assert PASSWORD not in out + err
    assert "tests" not in out + err
