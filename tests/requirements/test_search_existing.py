"""The search in a database of the earlier requirements system."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from quilt_mcp.requirements.conditions import Scope, Selection
from quilt_mcp.requirements.search import SearchHits, rank
from quilt_mcp.requirements.search_candidates import ANYWHERE, EXACT_REFERENCE, IN_TITLE
from quilt_mcp.requirements.search_existing import select_existing
from quilt_mcp.requirements.search_text import parse_query
from tests.requirements.conftest import opened
from tests.requirements.graphs import make_tree, write_graph
from tests.requirements.test_search import HOSTILE
from tests.support.settings import Settings

TEXTS = [
    ("EP-001", "Login page", "The session times out."),
    ("EP-002", "Café", "A login, for user@example.com in v1.2.3; don't stop"),
    ("EP-003", "Ends with alpha", "beta begins"),
    ("EP-004", "No description", None),
    ("US-001", "Story", "mentions EP-001 and login"),
    ("REQ-1000", "Login", None),
    ("AC-001", "", "WHEN login fails THEN it tells"),
]


@pytest.fixture
def connection(existing_settings: Settings) -> Iterator[Connection]:
    """A connection to a database with few texts."""
    graph = make_tree([(1, 1)], epics=4)
    rows = {row["reference_id"]: row for kind in graph.entities.values() for row in kind}
    rows["REQ-1000"] = rows["REQ-001"]
    for reference, title, description in TEXTS:
        rows[reference] |= {"reference_id": reference, "description": description} | ({"title": title} if title else {})
    write_graph(existing_settings, graph)
    with opened(existing_settings) as database, database.reading() as connected:
        yield connected


def search(connection: Connection, query: str, *, cap: int = 2000, limit: int = 50, offset: int = 0) -> SearchHits:
    candidates = select_existing(parse_query(query), Scope("test"), Selection(), most=cap + 1)
    return rank(connection, candidates, limit=limit, offset=offset, cap=cap)


QUERIES = {
    "login": ["AC-001", "EP-001", "EP-002", "REQ-1000", "US-001"],
    "LOGIN session": ["EP-001"],
    "login -session": ["AC-001", "EP-002", "REQ-1000", "US-001"],
    '"login page" OR story': ["EP-001", "US-001"],
    '"alpha beta"': [],
    '"with alpha"': ["EP-003"],
    "begi*": ["EP-003"],
    '"with alp"*': ["EP-003"],
    "CAFÉ": ["EP-002"],
    "cafe": [],
    "user@example.com": ["EP-002"],
    '"don\'t stop"': ["EP-002"],
    "descriptions": [],
    "description": ["EP-004"],
    "ep-1": ["EP-001"],
    "EP-001": ["EP-001", "US-001"],
    "req-1000": ["REQ-1000"],
    "ac-1 OR story": ["AC-001", "US-001"],
    "EP-9": [],
    "example": ["EP-002"],
    "exampl": [],
    "㎏": [],
}


def test_a_query_finds_words_as_our_own_index_splits_them(connection: Connection) -> None:
    answers = {}
    for query in QUERIES:
        answers[query] = sorted(hit.reference_id for hit in search(connection, query).hits)
    assert answers == QUERIES


def test_hits_are_sorted_by_tier(connection: Connection) -> None:
    hits = search(connection, "us-1 OR login OR café").hits
    assert [hit.tier for hit in hits] == [EXACT_REFERENCE, *[IN_TITLE] * 3, *[ANYWHERE]]
    assert hits[0].reference_id == "US-001"
    assert {hit.reference_id for hit in hits[1:4]} == {"EP-001", "EP-002", "REQ-1000"}
    criterion = hits[4]
    assert (criterion.kind, criterion.title, criterion.priority, criterion.status) == (
        "acceptance_criteria",
        None,
        None,
        None,
    )
    assert criterion.description == "WHEN login fails THEN it tells"
    assert criterion.created_at
    assert criterion.created_at.utcoffset() is not None


def test_a_total_above_the_cap_is_not_exact(connection: Connection) -> None:
    capped = search(connection, "login", cap=3, limit=2)
    assert (capped.total, capped.total_is_exact, len(capped.hits), capped.next_offset) == (3, False, 2, 2)
    last = search(connection, "login", cap=3, limit=2, offset=2)
    assert (len(last.hits), last.next_offset) == (1, None)


def test_special_characters_do_not_break_the_search(connection: Connection) -> None:
    for query in HOSTILE:
        answer = search(connection, query)
        assert answer.total == len(answer.hits)
    assert [hit.reference_id for hit in search(connection, '"login page"').hits] == ["EP-001"]
