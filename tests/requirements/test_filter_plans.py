"""SQLite reads filtered and sorted pages by the indexes that the migration creates for them.

SQLite chooses by rules, so its plans are the same for every number of rows. PostgreSQL chooses by statistics.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements import answers
from quilt_mcp.requirements.parameters import parse_filters
from quilt_mcp.requirements.selecting import DEFAULT, Thresholds
from quilt_mcp.requirements.settings import FILE_NAME
from quilt_mcp.requirements.store import RequirementsStore
from quilt_mcp.settings import Settings

TABLE = "requirements"
INDEXES = {
    "status": "by_status",
    "priority": "by_priority",
    "assignee": "by_assignee",
    "type": "by_type",
    "project&status": "by_project",
    "updated_since": "by_updated",
    "sort=title": "by_title",
    "sort=-title": "by_title",
    "sort=reference_id": "by_number",
    "sort=-reference_id": "by_number",
    "sort=priority": "by_priority",
    "sort=created_at": "by_created",
    "sort=-updated_at": "by_updated",
}
"""The index that a parameter or an order uses."""
VALUES = {
    "status": "Draft",
    "priority": "1",
    "assignee": "emma_johansson",
    "type": "Functional",
    "project": "Sequencing Platform",
    "updated_since": "2024-09-20",
}
MANY = Thresholds(few_rows=0)
"""The rows of the sample are treated as many."""


def find_plans(settings: Settings, texts: Any, thresholds: Thresholds = DEFAULT) -> list[list[str]]:
    """Return the plans of the statements that read the second page of a list, after its count."""
    store = RequirementsStore(settings, thresholds)
    plans: list[list[str]] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if f"FROM {TABLE} " in statement.replace("\n", " ") + " ":
            with closing(sqlite3.connect(settings.data_dir / FILE_NAME)) as connection:
                rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            plans.append([row[3] for row in rows])

    event.listen(store.database.storage.engine, "before_cursor_execute", note)
    try:
        filters = parse_filters(texts)
        page = store.read_page(answers.REQUIREMENTS, None, "1", filters)
        if page.next_cursor:
            store.read_page(answers.REQUIREMENTS, page.next_cursor, "1", filters)
    finally:
        store.close()
    return plans


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings("sqlite", "sample")


def test_a_page_reads_the_index_of_its_filter_or_order(settings: Settings) -> None:
    for query, index in INDEXES.items():
        texts = {name: value or VALUES[name] for name, _, value in (one.partition("=") for one in query.split("&"))}
        count, *pages = find_plans(settings, texts, MANY)
        if "sort" not in texts:
            assert f"ix_{TABLE}_{index} " in count[0], query
        assert len(pages) == 2
        for plan in pages:
            assert any(f"ix_{TABLE}_{index}" in step for step in plan), plan
            assert f"SCAN {TABLE}" not in plan
            if "sort" in texts:  # only the rows of the page are sorted
                assert plan.count("USE TEMP B-TREE FOR ORDER BY") <= 1, plan


def test_few_rows_are_found_by_their_filter_and_sorted(settings: Settings) -> None:
    for sort in ("title", "-updated_at", "reference_id"):
        plans = find_plans(settings, {"assignee": VALUES["assignee"], "status": "Draft,Active", "sort": sort})
        assert len(plans) == 3
        for plan in plans:
            assert any(f"ix_{TABLE}_by_assignee (assignee_id=?)" in step for step in plan), plan


def test_many_rows_are_read_in_the_order_of_an_index(settings: Settings) -> None:
    _, *pages = find_plans(settings, {"assignee": VALUES["assignee"], "sort": "title"}, MANY)
    assert len(pages) == 2
    for plan in pages:
        assert any(f"ix_{TABLE}_by_title" in step for step in plan), plan


def test_several_values_are_merged_in_order(settings: Settings) -> None:
    [_, *pages] = find_plans(settings, {"status": "Draft,Active", "priority": "1,2"}, MANY)
    assert pages
    for plan in pages:
        steps = [step for step in plan if f"ix_{TABLE}_by_status" in step]
        assert len(steps) == 4
        assert all("(status=? AND priority=?" in step for step in steps)


def test_an_import_leaves_the_indexes_as_they_were(
    make_settings: Callable[..., Settings], set_settings: Callable[[Settings], None], tmp_path: Path
) -> None:
    settings = make_settings("sqlite", "tables")
    set_settings(settings)

    def read_indexes() -> list[tuple[str, str]]:
        with closing(sqlite3.connect(settings.data_dir / FILE_NAME)) as connection:
            return connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'index' ORDER BY name"
            ).fetchall()

    before = read_indexes()
    assert len([name for name, _ in before if "_by_" in name]) == 28
    for number in (1, 2):  # the second time, entities exist
        file = tmp_path / f"{number}.csv"
        file.write_text(f"kind,reference_id,title,priority,parent\nepic,EP-00{number},Title,1,\n", encoding="utf-8")
        assert main(["requirements", "import", str(file)]) == 0
        assert read_indexes() == before
