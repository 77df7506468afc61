"""SQLite reads filtered and sorted pages by the indexes that the migration creates for them.

SQLite chooses by rules, so its plans are the same for every number of rows. PostgreSQL chooses by statistics.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import event

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements import answers, model
from quilt_mcp.requirements.parameters import parse_filters
from quilt_mcp.requirements.selecting import DEFAULT, Thresholds
from quilt_mcp.requirements.settings import FILE_NAME
from quilt_mcp.requirements.store import RequirementsStore
from tests.support.settings import Settings

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


class Choice(NamedTuple):
    """A list, and how the pages of it are read.

    Attributes:
        query: its filters and its order.
        used: the index of each search for rows, as SQLite describes it.
        sorts: whether all rows are found first, and sorted.
        searches: the number of searches, whose results are merged.
        thresholds: the numbers that count as few.
        user: the caller; None for an administrator.
        of_story: whether it is the list of a user story.
    """

    query: str
    used: str
    sorts: bool = False
    searches: int = 1
    thresholds: Thresholds = DEFAULT
    user: str | None = None
    of_story: bool = False


MEMBER = VALUES["assignee"]
KEY = "sqlite_autoindex_requirements_1"
PLACE = "by_position"
CHOICES = [
    Choice("assignee&status=Draft,Active&sort=title", "by_assignee (assignee_id=?)", sorts=True),
    Choice("assignee&status=Draft,Active&sort=-updated_at", "by_assignee (assignee_id=?)", sorts=True),
    Choice("assignee&status=Draft,Active&sort=reference_id", "by_assignee (assignee_id=?)", sorts=True),
    Choice("assignee&updated_since", "by_assignee (assignee_id=?)", sorts=True),
    Choice("assignee&sort=title", "by_title", thresholds=MANY),
    Choice("priority&sort=priority", "by_priority (priority=?"),
    Choice("sort=title", "by_parent (user_story_id=?)", sorts=True, thresholds=MANY, of_story=True),
    Choice("status=Draft,Active&priority=1,2", "by_status (status=? AND priority=?", searches=4, thresholds=MANY),
    Choice("status=Draft,Active", "by_status (status=?)", sorts=True, thresholds=Thresholds(most_values=1)),
    Choice("status=Draft,Active", PLACE, thresholds=Thresholds(few_rows=0, most_values=1)),
    Choice(f"assignee=none,{MEMBER},jonas_lindqvist", PLACE),
    Choice("assignee", "by_assignee (assignee_id=?", thresholds=MANY, user=MEMBER),
    Choice("priority", "by_project (project_id=?", thresholds=MANY, user=MEMBER),
]


def find_plans(settings: Settings, choice: Choice) -> list[list[str]]:
    """Return the plans of the statements that read the first two pages of a list, after that of its count."""
    store = RequirementsStore(settings.model_copy(update={"requirements_user": choice.user}), choice.thresholds)
    plans: list[list[str]] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if f"FROM {TABLE} " in statement.replace("\n", " ") + " " and not statement.startswith("SELECT users."):
            with closing(sqlite3.connect(settings.data_dir / FILE_NAME)) as connection:
                rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            plans.append([row[3] for row in rows])

    event.listen(store.database.storage.engine, "before_cursor_execute", note)
    try:
        texts: Any = {name: value or VALUES[name] for name, _, value in map(split, choice.query.split("&"))}
        filters, parent = parse_filters(texts), (model.USER_STORY, "US-001") if choice.of_story else None
        page = store.read_page(answers.REQUIREMENTS, None, "1", filters, parent)
        assert page.next_cursor
        store.read_page(answers.REQUIREMENTS, page.next_cursor, "1", filters, parent)
    finally:
        store.close()
    return plans


def split(text: str) -> tuple[str, str, str]:
    return text.partition("=")


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings("sqlite", "sample")


def test_a_page_reads_the_index_of_its_filter_or_order(settings: Settings) -> None:
    for query, index in INDEXES.items():
        count, *pages = find_plans(settings, Choice(query, index, thresholds=MANY))
        if "sort" not in query:
            assert f"ix_{TABLE}_{index} " in count[0], query
        assert len(pages) == 2
        for plan in pages:
            assert any(f"ix_{TABLE}_{index}" in step for step in plan), plan
            assert f"SCAN {TABLE}" not in plan
            if "sort" in query:  # only the rows of the page are sorted
                assert plan.count("USE TEMP B-TREE FOR ORDER BY") <= 1, plan


def test_a_page_is_read_in_the_order_of_an_index_or_all_rows_are_found_and_sorted(settings: Settings) -> None:
    for choice in CHOICES:
        _, *pages = find_plans(settings, choice)
        assert len(pages) == 2, choice
        for plan in pages:
            of_rows = [step for step in plan if f" {TABLE} USING" in step and not step.endswith(f"{KEY} (id=?)")]
            assert len(of_rows) == choice.searches, (choice, plan)
            assert all(choice.used in step for step in of_rows), (choice, plan)
            assert ("CO-ROUTINE anon_1" in plan) is choice.sorts, (choice, plan)


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
    assert len([name for name, _ in before if "_by_" in name]) == 36
    for number in (1, 2):  # the second time, entities exist
        file = tmp_path / f"{number}.csv"
        file.write_text(f"kind,reference_id,title,priority,parent\nepic,EP-00{number},Title,1,\n", encoding="utf-8")
        assert main(["requirements", "import", str(file)]) == 0
        assert read_indexes() == before
