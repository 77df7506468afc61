"""Databases of every revision that a version has written: migrated, or refused with the same steps everywhere."""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from quilt_mcp.app.checks import Check
from quilt_mcp.app.database.engines import make_file
from quilt_mcp.commands.cli import main
from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.requirements.database import EARLIER, MIGRATE, MIGRATIONS
from quilt_mcp.requirements.resources import REQUIREMENTS
from quilt_mcp.requirements.settings import FILE_NAME
from tests.contract.surfaces import ask
from tests.requirements.client import connect, read, read_failure
from tests.requirements.conftest import opened
from tests.requirements.test_changed_databases import set_revision
from tests.support.settings import Settings

FILES = {path.stem: path for path in (Path(__file__).parent / "revisions").glob("*.sql")}
"""A dump of each revision, with one user and one epic where the version could import. 0001 had two schemas."""
MIGRATED = ["0001-second", "0005", "0006", "0007", "0008"]
REFUSED = sorted(set(FILES) - set(MIGRATED))
STEPS = [
    "Upgrade quilt-mcp, if a newer version wrote it.",
    "If a version before the first release wrote it, export the data with that version.",
    "Or use another database: set QUILT_MCP_DATABASE_URL.",
]


@pytest.fixture
def open_revision(first_settings: Settings, tmp_path: Path) -> Callable[[str], Settings]:
    """Makes a file of a revision, and answers the settings that lead to it."""

    def make(name: str) -> Settings:
        make_file(tmp_path / FILE_NAME)
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
            connection.execute("PRAGMA journal_mode = wal")  # as every version sets it
            connection.executescript(FILES[name].read_text(encoding="utf-8"))
        return first_settings.model_copy(update={"data_dir": tmp_path})

    return make


def list_statements(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return the names and statements of all tables, indexes and triggers, in one form of blanks and quotes."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return sorted((name, re.sub(r"\s|[\"']search_words", "", sql.replace('"', "'"))) for name, sql in found)


def test_each_number_has_a_file_and_is_used_once() -> None:
    assert {name[:4] for name in FILES} == {*EARLIER, *MIGRATIONS.steps}
    assert not {*EARLIER} & {*MIGRATIONS.steps}
    assert sorted(MIGRATIONS.others) == list(EARLIER)


def test_the_file_of_the_newest_number_has_the_tables_that_it_creates(tmp_path: Path, first_settings: Settings) -> None:
    """A change of the tables needs a new number, and a file of it."""
    with opened(first_settings.model_copy(update={"data_dir": tmp_path})) as database:
        database.upgrade()
    with (
        closing(sqlite3.connect(tmp_path / FILE_NAME)) as created,
        closing(sqlite3.connect(":memory:")) as stored,
    ):
        stored.executescript(FILES[MIGRATIONS.newest].read_text(encoding="utf-8"))
        assert list_statements(created) == list_statements(stored)


async def diagnose(settings: Settings) -> list[Check]:
    async with connect(settings) as client:

        async def ask_body(uri: str) -> dict[str, object]:
            return (await ask(client, uri)).body

        return [*await REQUIREMENTS.diagnose(ask_body)]


def read_status(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    main(["requirements", "status", "--json"])
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", MIGRATED)
async def test_a_revision_with_the_same_tables_is_migrated_by_the_first_read(
    name: str,
    open_revision: Callable[[str], Settings],
    set_settings: Callable[[Settings], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = open_revision(name)
    set_settings(settings)
    before = read_status(capsys)
    is_newest = name == MIGRATIONS.newest
    assert (before["state"], before["revision"]) == ("current" if is_newest else "outdated", name[:4])
    assert before["next_steps"] == ([] if is_newest else [MIGRATE])
    async with connect(settings) as client:
        [epic] = (await read(client, "epics"))["epics"]
        assert epic["reference_id"] == "EP-001"
        [found] = (await read(client, "search/faster?status=Draft"))["results"]
        assert found["reference_id"] == "EP-001"
    after = read_status(capsys)
    assert (after["state"], after["revision"], after["next_steps"]) == ("current", MIGRATIONS.newest, [])
    assert [check["state"] for check in await diagnose(settings)] == ["ok"]


@pytest.mark.parametrize("name", REFUSED)
async def test_another_revision_is_refused_with_the_same_steps_and_left_as_it_is(
    name: str,
    open_revision: Callable[[str], Settings],
    set_settings: Callable[[Settings], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = open_revision(name)
    set_settings(settings)
    before = (settings.data_dir / FILE_NAME).read_bytes()
    status = read_status(capsys)
    assert (status["state"], status["revision"], status["next_steps"]) == ("unsupported", name[:4], STEPS)
    async with connect(settings) as client:
        for path in ("epics", "epics/EP-001", "search/faster"):
            body = (await read_failure(client, path)).body
            assert "does not know" in body["message"]
            assert f"schema {name[:4]}, without " in body["details"]
            assert body["suggested_actions"] == STEPS
    [check] = await diagnose(settings)
    assert (check["state"], check["fix"]) == ("failed", " ".join(STEPS))
    with opened(settings) as database, pytest.raises(ResourceExecutionError, match="does not know"):
        database.upgrade()
    assert (settings.data_dir / FILE_NAME).read_bytes() == before


async def test_a_database_without_a_file_has_no_line_in_the_checklist(
    first_settings: Settings, tmp_path: Path, set_settings: Callable[[Settings], None]
) -> None:
    settings = first_settings.model_copy(update={"data_dir": tmp_path / "nothing"})
    set_settings(settings)
    assert await diagnose(settings) == []


@pytest.mark.parametrize("number", EARLIER)
def test_earlier_numbers_of_postgresql_are_decided_by_the_tables(
    number: str, make_settings: Callable[..., Settings]
) -> None:
    settings = make_settings("postgresql", "tables")
    set_revision(settings, number)
    with opened(settings) as database:
        assert database.schema().state == "outdated"
        with database.migrating() as connection:
            connection.exec_driver_sql("DROP INDEX ix_epics_by_status")
        found = database.schema()
        assert (found.state, found.revision, found.problem) == ("unsupported", number, "ix_epics_by_status")
        with pytest.raises(ResourceExecutionError, match="does not know") as failure:
            database.upgrade()
    assert list(failure.value.suggested_actions) == STEPS
