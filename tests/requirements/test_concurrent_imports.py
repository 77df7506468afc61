"""Imports at the same time: they run one after the other, and none loses what another has written."""

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import select

from quilt_mcp.core.errors import Unavailable
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.tables import epics
from quilt_mcp.requirements.transfer.files import Numbered
from quilt_mcp.requirements.transfer.importing import Mode, Report, import_records
from quilt_mcp.requirements.transfer.records import parse_change, parse_record
from tests.requirements.conftest import opened
from tests.requirements.transferring import ADA, EPIC
from tests.support.settings import Settings
from tests.support.waiting import SECONDS, until


def read_epics(database: Database) -> dict[str, tuple[str, datetime]]:
    """Return the titles and times of the epics by reference ID."""
    with database.reading() as connection:
        rows = connection.execute(select(epics.c.reference_id, epics.c.title, epics.c.updated_at))
        return {row.reference_id: (row.title, row.updated_at) for row in rows}


class Import:
    """An import of some records.

    Attributes:
        has_read: whether it has read all records, so that it waits for its transaction or runs it.
    """

    def __init__(self, *records: dict[str, Any], updates: bool = False) -> None:
        self._records = records
        self._updates = updates
        self.has_read = False

    def run(self, database: Database) -> Report:
        return import_records(database, self._read(), mode=Mode(updates=self._updates))

    def _read(self) -> Iterator[Numbered]:
        parse = parse_change if self._updates else parse_record
        for line, record in enumerate(self._records, 1):
            yield Numbered(line, parse(json.loads(json.dumps(record, default=str))))
        self.has_read = True


@pytest.fixture
def settings(settings_with_tables: Settings) -> Settings:
    return settings_with_tables.model_copy(update={"database_timeout_seconds": SECONDS})


async def run_together(settings: Settings, *imports: Import) -> list[Report]:
    """Run imports that all wait for the end of the same transaction."""
    async with asyncio.TaskGroup() as tasks:
        with opened(settings) as holder, holder.writing():
            running = [tasks.create_task(asyncio.to_thread(_run, settings, one)) for one in imports]
            await until(lambda: all(one.has_read for one in imports))
            assert not any(one.done() for one in running)
        return [await one for one in running]


def _run(settings: Settings, one: Import) -> Report:
    with opened(settings) as database:
        return one.run(database)


async def test_an_update_beside_other_imports_loses_nothing(settings: Settings) -> None:
    with opened(settings) as database:
        Import(ADA, EPIC).run(database)
        [(_, time)] = read_epics(database).values()
        new = {"kind": "epic", "title": "New", "creator_id": "ada"}
        reports = await run_together(
            settings,
            Import(*[new] * 30),
            Import({"kind": "epic", "reference_id": "EP-001", "title": "Changed", "updated_at": time}, updates=True),
            Import(*[new] * 30, updates=True),
        )
        assert [report.rejected for report in reports] == [[], [], []]
        found = read_epics(database)
    assert sorted(found) == [f"EP-{number:03d}" for number in range(1, 62)]
    assert found["EP-001"][0] == "Changed"


async def test_of_two_updates_of_one_record_the_later_one_is_rejected_as_a_whole(settings: Settings) -> None:
    with opened(settings) as database:
        Import(ADA, EPIC).run(database)
        [(_, time)] = read_epics(database).values()

        def change(title: str) -> Import:
            changed = {"kind": "epic", "reference_id": "EP-001", "title": title, "updated_at": time}
            return Import({**EPIC, "reference_id": None, "title": f"{title} too"}, changed, updates=True)

        reports = await run_together(settings, change("First"), change("Second"))
        found = read_epics(database)
    [refused] = [report for report in reports if report.rejected_count]
    [(line, field, reason)] = refused.rejected
    assert (line, field) == (2, "updated_at")
    assert reason.startswith("The record was changed in the database at ")
    written = "Second" if refused is reports[0] else "First"
    assert sorted(title for title, _ in found.values()) == [written, f"{written} too"]


def test_an_import_that_waits_too_long_says_so_and_writes_nothing(settings_with_tables: Settings, dialect: str) -> None:
    # the other one never ends; PostgreSQL must see the lock before a tenth of this is over
    seconds = {"sqlite": 0.5, "postgresql": 5.0}[dialect]
    hasty = settings_with_tables.model_copy(update={"database_timeout_seconds": seconds})
    with opened(settings_with_tables) as database, opened(hasty) as second:
        Import(ADA, EPIC).run(database)
        with database.writing(), pytest.raises(Unavailable) as failed:
            Import({"kind": "epic", "title": "New", "creator_id": "ada"}).run(second)
        assert "Another process is writing" in failed.value.message
        assert failed.value.suggested_actions
        assert list(read_epics(database)) == ["EP-001"]
