"""A search reads what its caller may see and what matches, not the entries of everyone."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import String
from sqlalchemy.dialects.postgresql import TSQUERY

from quilt_mcp.requirements.conditions import Scope, Selection
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.search import EXAMINED
from quilt_mcp.requirements.search_candidates import Reach, make_facets, select_candidates
from quilt_mcp.requirements.search_text import parse_query
from quilt_mcp.requirements.selecting import DEFAULT
from tests.requirements.changing import create_project
from tests.requirements.conftest import Contents, opened
from tests.requirements.searching import explain_each, search_connection, write_epics
from tests.support.settings import Settings

OWN, OTHERS = 5, 400


@pytest.fixture
def file(make_settings: Callable[[str, Contents], Settings]) -> Iterator[Database]:
    """A file with tables."""
    with opened(make_settings("sqlite", "tables")) as database:
        yield database


@pytest.fixture
def server(make_settings: Callable[[str, Contents], Settings]) -> Iterator[Database]:
    """A database of PostgreSQL with tables."""
    with opened(make_settings("postgresql", "tables")) as database:
        yield database


def count_steps(database: Database, scope: Scope, selection: Selection) -> int:
    """Return how many steps SQLite needs for a search that finds few entities."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with database.reading() as connection:
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(count, 10)
        found = search_connection(connection, "word", scope=scope, selection=selection)
        driver.set_progress_handler(None, 10)
    assert found.total == OWN
    return steps


def test_entries_of_others_cost_a_search_in_sqlite_nothing(file: Database) -> None:
    with file.writing() as connection:
        own, other = [create_project(connection, name) for name in ("Own", "Other")]
    epics = write_epics(file, [("word", f"word {number}") for number in range(OWN)], project_id=own, priority=1)
    write_epics(file, [("word", "")] * OWN, project_id=other, priority=2)
    everyone, member = Scope("test"), Scope("test", (own,))
    questions = [
        (member, Selection()),
        (everyone, Selection(project_ids=(own,))),
        (everyone, Selection(priority=(1,), assignee_ids=(str(epics[0]["assignee_id"]),))),
    ]
    before = [count_steps(file, *question) for question in questions]
    write_epics(file, [("word", f"word {number}") for number in range(OTHERS)], project_id=other, priority=2)
    after = [count_steps(file, *question) for question in questions]
    assert all(late < 1.5 * early for early, late in zip(before, after, strict=True)), (before, after)


def explain(database: Database, query: str, selection: Selection) -> list[str]:
    """Return the plans of the selects of a query, if PostgreSQL scans no table and no index alone."""
    statements = select_candidates(parse_query(query), Scope("test"), selection, "postgresql", most=2001)
    return explain_each(database, statements, "seqscan", "indexscan")


def test_postgresql_looks_up_words_and_facets_in_one_index(server: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    # SQLAlchemy does not annotate it
    monkeypatch.setattr(TSQUERY, "literal_processor", lambda _, dialect: String().literal_processor(dialect))  # type: ignore[no-untyped-call]  # of SQLAlchemy
    with server.writing() as connection:
        own = create_project(connection, "Own")
    write_epics(server, [("word", f"word {number}") for number in range(OTHERS)], project_id=own)
    in_title, anywhere = explain(server, '"a word"', Selection())
    assert "ix_search_entries_title_words" in in_title  # not the texts of all that contain the words
    assert "ix_search_entries_words" in anywhere
    for selection in (Selection(status=("Draft",)), Selection(status=("Draft", "Active"), priority=(1, 2))):
        for plan in explain(server, "word -other", selection):
            assert "facets &&" in plan.partition("Index Cond:")[2], plan


@pytest.mark.soak
def test_postgresql_reads_no_entries_without_a_word_that_occurs_nowhere(
    server: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes each beginning of a word for a frequent one, and would read all entries in their order."""
    monkeypatch.setattr(TSQUERY, "literal_processor", lambda _, dialect: String().literal_processor(dialect))  # type: ignore[no-untyped-call]  # of SQLAlchemy
    with server.writing() as connection:
        own = create_project(connection, "Own")
    write_epics(server, [("word", f"word {number} " * 40) for number in range(20_000)], project_id=own)
    with server.writing() as connection:
        connection.exec_driver_sql("ANALYZE search_entries")
    reaches: list[tuple[Reach, bool]] = [("first", True), ("matches", False)]
    for within, is_bounded in reaches:
        statements = select_candidates(
            parse_query("zzz*"), Scope("test"), Selection(), "postgresql", most=EXAMINED, within=within
        )
        for plan in explain_each(server, statements, "seqscan"):
            if "Index Scan using pk_search_entries" in plan:
                assert is_bounded, plan
                assert "id <= " in plan, plan


def test_the_projects_of_a_member_of_many_are_compared() -> None:
    ids = tuple(f"00000000-0000-4000-8000-{number:012x}" for number in range(DEFAULT.most_projects + 1))
    few, many = (make_facets(Scope("test", some), Selection(), DEFAULT.most_projects) for some in (ids[1:], ids))
    assert [len(several) for several in few] == [DEFAULT.most_projects]
    assert many == []


@pytest.mark.soak
def test_postgresql_makes_a_plan_for_each_search(make_settings: Callable[[str, Contents], Settings]) -> None:
    """A plan that it keeps for all words is bad for common ones. It keeps plans of prepared statements only."""
    with opened(make_settings("postgresql", "sample")) as database, database.reading() as connection:
        for _ in range(12):
            search_connection(connection, "sample")
        assert connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar() == 0
