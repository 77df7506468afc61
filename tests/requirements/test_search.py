"""Search results, their order and their authorization: the same on SQLite and PostgreSQL."""

import pytest
from sqlalchemy import select

from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.requirements import tables
from quilt_mcp.requirements.conditions import Scope
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.model import ACCEPTANCE_CRITERIA, REQUIREMENT, USER_STORY
from quilt_mcp.requirements.search_candidates import ANYWHERE, EXACT_REFERENCE, IN_TITLE
from tests.requirements.changing import create_entity, create_project
from tests.requirements.searching import find_references, search, write_epics

CORPUS = [
    ("Login page", "The session times out."),
    ("Session handling", "A login is asked for again, in the café."),
    ("Ends with alpha", "beta begins the text, alpha comes later"),
    ("naïve Straße ﬁne Ⅻ", "don't stop v1.2.3 user@example.com foo_bar-baz C++ & C#"),
    ("日本語の画面", "ログイン画面でログインする"),
    ("ЁЖИК ёлка", "مَرْحَبًا بالعالم שָׁלוֹם"),
    ("Launch 🚀", "हिन्दी भाषा; OR and not NEAR the title"),
    ("See EP-001", "and us-1, but not EP-002"),
]


@pytest.fixture
def corpus(empty_database: Database) -> Database:
    write_epics(empty_database, CORPUS)
    return empty_database


QUERIES = {
    "login": "12",
    "LOGIN": "12",
    "login session": "12",
    "login page": "1",
    "login AND page": "1",
    "login -page": "2",
    'login -"session handling"': "1",
    "login -session -page": "",
    "page OR alpha": "13",
    "page OR alpha -beta": "1",
    '"login page"': "1",
    '"page login"': "",
    '"page the"': "",
    '"alpha beta"': "",
    '"alpha comes"': "3",
    '"beta beg"*': "3",
    "log*": "12",
    "sess* tim*": "1",
    "cafe": "2",
    "CAFÉ": "2",
    "strasse": "4",
    "STRASSE fine xii": "4",
    '"don\'t stop"': "4",
    "don t": "4",
    "v1.2.3": "4",
    "v1.3": "",
    "user@example.com": "4",
    "foo-bar": "4",
    "foo_b*": "4",
    "c++": "4",
    "日本": "5",
    "本日": "",
    "画面": "5",
    "日本* ログ*": "5",
    "ログイン": "5",
    "ежик": "6",
    "ёж*": "6",
    "مرحبا": "6",
    "שלום": "6",
    "हिन्दी": "7",
    "🚀 launch": "7",
    '"or and not near"': "7",
    "title : x": "",
    "the": "1237",
    "zebra": "",
    "EP-001": "18",
    "ep-2": "2",
    "EP-1 OR ep-0003": "13",
    "ep-001 -see": "",
    "us-1": "8",
    "EP-999999": "",
}


def test_both_databases_find_the_same(corpus: Database) -> None:
    answers = {query: sorted(find_references(corpus, query)) for query in QUERIES}
    assert answers == {query: [f"EP-00{number}" for number in numbers] for query, numbers in QUERIES.items()}


HOSTILE = [
    "x') OR 1=1 --",
    "x%' OR '1'='1",
    "'; DROP TABLE search_entries; --",
    "title:login",
    "{title body}: login",
    "login^2",
    "NEAR(login page, 2)",
    "login NOT page",
    "login + page",
    "^login",
    "foo &",
    "a:b&c|!d",
    "<-> login",
    "login:*",
    "login:ABCD",
    "'login",
    "login\\",
    "\\' login",
    ":query $1 ? %s login",
    "login\x00page",
    "login \udfff",
    "\u202elogin\u202c",
    "\uff2c\uff4f\uff47\uff49\uff4e",
    "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * 30,
    '"' + "a " * 128 + '"',
    "ﬃ" * 512,
    "a" * 512,
    " OR ".join("abcdefghijklmnop"),
    " ".join(f"{letter}*" for letter in "abcdefghijklmnop"),
]


REFUSED = [
    "%' OR '1'='1",
    "') OR 1=1 --",
    "\x00",
    "\ud800",
    "* " * 256,
    "-" * 512,
    '"' * 512,
    "(" * 512,
    "OR " * 100,
    "x" * 65_536,
    "\\",
    "🚀👩‍👩‍👧‍👦",
]


def test_special_characters_do_not_break_the_search(corpus: Database) -> None:
    for query in HOSTILE:
        answer = search(corpus, query)
        assert answer.total == len(answer.hits)
    for query in REFUSED:
        with pytest.raises(InvalidTemplateVariable):
            search(corpus, query)
    assert find_references(corpus, '"login page"') == ["EP-001"]


def test_hits_are_sorted_by_tier(corpus: Database) -> None:
    hits = search(corpus, "EP-001").hits
    assert [(hit.reference_id, hit.tier) for hit in hits] == [("EP-001", EXACT_REFERENCE), ("EP-008", IN_TITLE)]
    hits = search(corpus, "login").hits
    assert [(hit.reference_id, hit.tier) for hit in hits] == [("EP-001", IN_TITLE), ("EP-002", ANYWHERE)]
    hits = search(corpus, "login session").hits
    assert {hit.tier for hit in hits} == {ANYWHERE}
    hits = search(corpus, "login -beta OR alpha -comes OR session").hits
    assert {hit.reference_id: hit.tier for hit in hits} == {"EP-001": IN_TITLE, "EP-002": IN_TITLE}


def test_excluded_words_do_not_change_the_score(empty_database: Database) -> None:
    write_epics(empty_database, [("x", "login once, and other words"), ("y", "login and login and login")])
    hits = search(empty_database, "login -page").hits
    assert [hit.title for hit in hits] == ["y", "x"]
    assert hits[0].score > hits[1].score


def test_a_hit_contains_its_entity(empty_database: Database) -> None:
    [epic] = write_epics(empty_database, [("Epic word", "About")])
    user = epic["creator_id"]
    with empty_database.writing() as connection:
        story = create_entity(
            connection, USER_STORY, title="Story word", creator_id=user, epic_id=epic["id"], priority=1
        )
        of_story = {"user_story_id": story["id"]}
        create_entity(connection, ACCEPTANCE_CRITERIA, description="A word", author_id=user, **of_story)
        type_id = connection.scalar(select(tables.requirement_types.c.id).limit(1))
        create_entity(connection, REQUIREMENT, title="Requirement word", creator_id=user, type_id=type_id, **of_story)
    hits = {hit.kind: hit for hit in search(empty_database, "word").hits}
    shown = {
        kind: (hit.reference_id, hit.title, hit.description, hit.priority, hit.status) for kind, hit in hits.items()
    }
    assert shown == {
        "epic": ("EP-001", "Epic word", "About", 3, "Backlog"),
        "user_story": ("US-001", "Story word", None, 1, "Backlog"),
        "acceptance_criteria": ("AC-001", None, "A word", None, None),
        "requirement": ("REQ-001", "Requirement word", None, 3, "Draft"),
    }
    assert hits["epic"].entity_id == epic["id"]
    assert hits["epic"].created_at == epic["created_at"]


def test_a_total_above_the_cap_is_not_exact(empty_database: Database) -> None:
    write_epics(empty_database, [(f"Number {number}", "word") for number in range(11)] + [("word", "")])
    exact = search(empty_database, "word", cap=12)
    assert (exact.total, exact.total_is_exact, len(exact.hits)) == (12, True, 12)
    capped = search(empty_database, "word", cap=10)
    assert (capped.total, capped.total_is_exact, len(capped.hits)) == (10, False, 10)
    assert capped.hits[0].title == "word"  # the last one in the index and the best
    assert capped.next_offset is None


def test_the_last_page_has_no_next_one(empty_database: Database) -> None:
    write_epics(empty_database, [(f"Number {number}", "word" + " word" * (number % 3)) for number in range(25)])
    for offset, found in ((15, (10, 25, None)), (14, (10, 25, 24)), (20, (5, 25, None)), (25, (0, 25, None))):
        page = search(empty_database, "word", limit=10, offset=offset)
        assert (len(page.hits), page.total, page.next_offset) == found
        assert page.total_is_exact


def test_the_scope_limits_the_hits(empty_database: Database) -> None:
    with empty_database.writing() as connection:
        one, two = [create_project(connection, name) for name in ("One", "Two")]
    write_epics(empty_database, [("word", "")], project_id=one)
    write_epics(empty_database, [("Other", "word")], project_id=two)
    for query, in_one, in_two in [
        ("word", ["EP-001"], ["EP-002"]),
        ("ep-1", ["EP-001"], []),
        ("w*", ["EP-001"], ["EP-002"]),
    ]:
        assert find_references(empty_database, query, Scope("test", (one,))) == in_one
        assert find_references(empty_database, query, Scope("test", (two,))) == in_two
        assert find_references(empty_database, query, Scope("test", ())) == []
        assert find_references(empty_database, query, Scope("test", tuple(sorted((one, two))))) == in_one + in_two
        assert find_references(empty_database, query) == in_one + in_two
