"""For any texts and query, SQLite and PostgreSQL find the same: what the query language defines."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quilt_mcp.requirements.database import Database, open_database
from quilt_mcp.requirements.model import DEFAULT_PROJECT_ID, EPIC
from quilt_mcp.requirements.search_text import Group, Term, parse_query, tokenize
from quilt_mcp.requirements.writing import index_entities
from tests.requirements.searching import search_connection
from tests.support.settings import Settings

OTHER = {"project_id": DEFAULT_PROJECT_ID, "updated_at": datetime(2026, 1, 1, tzinfo=UTC)}
"""The other indexed columns of the entities."""
# few words, so that texts and queries share some; from many scripts, with the special characters of both databases
LATIN = ["a", "ab", "abc", "Ab", "é", "Éa", "e", "ﬁ", "fi", "ß", "ss", "x²", "½", "Ⅻ", "\u0130", "\u0131", "i\u0307"]
PUNCTUATED = [
    "1",
    "12",
    "1.2",
    "a-b",
    "a_b",
    "a@b.c",
    "don't",
    "--",
    "&",
    "\\",
    "'",
    "🚀",
    "\ud800",
    "OR",
    "AND",
    "not",
]
OTHERS = [
    "ёж",
    "ЕЖ",
    "日本",
    "本",
    "ログ",
    "שלום",
    "שָׁ",
    "हिन्दी",
    "한국",
    "한",
    "\u19b0",
    "\ua7af",
    "\u1c90",
    "\u13a0",
    "\uab70",
]
RARE = ["\u19b0", "\ua7af", "\u1c90", "\u13a0", "\uab70", "\U00010fb0"]
WORDS = st.sampled_from([*LATIN, *PUNCTUATED, *OTHERS, *RARE])
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
CORPORA = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5)
PHRASES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join).map('"{}"'.format)
TERMS = st.tuples(st.sampled_from(["", "", "", "-"]), WORDS | PHRASES, st.sampled_from(["", "", "*"])).map("".join)
QUERIES = st.lists(TERMS | st.just("OR"), min_size=1, max_size=5).map(" ".join)


def occurs(term: Term, tokens: list[str]) -> bool:
    *before, last = term.tokens
    for start in range(len(tokens) - len(before)):
        at_end = tokens[start + len(before)]
        if tokens[start : start + len(before)] == before and (
            at_end.startswith(last) if term.prefix else at_end == last
        ):
            return True
    return False


def matches(group: Group, title: str, body: str) -> bool:
    texts = tokenize(title), tokenize(body)

    def is_there(term: Term) -> bool:
        return any(occurs(term, tokens) for tokens in texts)

    return all(map(is_there, group.required)) and not any(map(is_there, group.excluded))


def id_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def find_numbers(database: Database, corpus: list[tuple[str, str]], query: str) -> set[int]:
    """Return the numbers of the texts that the query finds in an index of only these texts."""
    with database.storage.transaction(writes=True) as connection:
        rows = [
            {"id": id_of(number), "reference_id": f"EP-{number:03d}", "title": title, "description": body} | OTHER
            for number, (title, body) in enumerate(corpus)
        ]
        index_entities(connection, EPIC, rows)
        hits = search_connection(connection, query, cap=100).hits
        connection.rollback()
    return {int(hit.entity_id[-12:]) for hit in hits}


@pytest.fixture
def both_settings(make_settings: Callable[[str, Any], Settings]) -> list[Settings]:
    return [make_settings("sqlite", "tables"), make_settings("postgresql", "tables")]


@pytest.fixture
def both(both_settings: list[Settings]) -> Iterator[list[Database]]:
    databases = [open_database(one) for one in both_settings]
    yield databases
    for database in databases:
        database.close()


@pytest.mark.soak
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(corpus=CORPORA, query=QUERIES)
def test_both_databases_find_what_the_query_language_defines(
    both: list[Database], corpus: list[tuple[str, str]], query: str
) -> None:
    try:
        parsed = parse_query(query)
    except ValueError:
        return
    expected = {number for number, texts in enumerate(corpus) if any(matches(group, *texts) for group in parsed.groups)}
    assert [find_numbers(database, corpus, query) for database in both] == [expected, expected]
