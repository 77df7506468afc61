"""A search that finds little says what it looked for besides, and finds nothing that the caller may not see."""

from collections.abc import Iterable

import pytest

from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.search_relaxed import relax
from quilt_mcp.requirements.search_text import Term, parse_query
from tests.requirements.changing import create_project, create_user
from tests.requirements.client import connect, read, read_all
from tests.requirements.searching import write_epics
from tests.support.settings import Settings

CORPUS = [
    ("Deletion of samples", "The registry deletes what is old."),
    ("The train brakes", "Emergency braking follows the loss of the connection to the balise group."),
    ("Sicherheitsanforderungen", "Die Anforderungen an das System sind geprüft."),
    ("Exigences de sécurité", "Les systèmes sécurisés sont vérifiés."),
    ("Transmitted data", "A movement authority is transmitted by radio."),
]
QUERIES: dict[str, tuple[str | None, str, list[tuple[str, list[str]]]]] = {
    # the relaxation, the numbers of the epics in any order, and the missing words
    "deletion": (None, "1", []),
    "deleting": ("stems", "1", []),
    "delete sample": ("stems", "1", []),
    "transmitting": ("stems", "5", []),
    "anforderung": ("stems", "3", []),
    "exigence": ("stems", "4", []),
    "systeme": ("stems", "34", []),
    "ballise": (None, "", [("ballise", ["balise"])]),
    "movment authority": ("some_words", "5", [("movment", ["movement"])]),
    "what happens if the radio connection is lost": (
        "some_words",
        "125",
        [("happens", []), ("if", []), ("lost", ["loss"])],
    ),
    "balise OR nothing": (None, "2", []),
    '"group balise"': (None, "", []),
    "xyzzy": (None, "", [("xyzzy", [])]),
    "EP2": (None, "", [("EP2", ["EP-002"])]),
    "bali*": (None, "2", []),
    "zz*": (None, "", []),
    "deletes -registry": (None, "", []),
}


@pytest.mark.parametrize("query", QUERIES)
async def test_what_a_query_finds_besides(query: str, settings_with_tables: Settings, empty_database: Database) -> None:
    write_epics(empty_database, CORPUS)
    relaxed, numbers, missing = QUERIES[query]
    async with connect(settings_with_tables) as client:
        found = await read(client, f"search/{query}")
        pages = await read_all(client, f"search/{query}?limit=1")
    assert "".join(sorted(one["reference_id"][-1] for one in found["results"])) == numbers
    assert found["relaxed"] == relaxed
    has_exact = any(one["match"] not in {"stems", "some_words"} for one in found["results"])
    assert (found["missing_words"] is None) == has_exact
    assert [(one["word"], one["nearest"]) for one in found["missing_words"] or []] == missing
    one_by_one = [one["reference_id"] for page in pages for one in page["results"]]
    assert one_by_one == [one["reference_id"] for one in found["results"]]


def test_words_that_say_little_are_left_out_first() -> None:
    def show(query: str, *missing: str) -> list[tuple[str, str]]:
        def group(terms: Iterable[Term]) -> str:
            return " ".join(f"{one.tokens[0]}{'*' if one.prefix else ''}" for one in terms)

        return [
            (how, " | ".join(group(one.required) for one in found.groups))
            for how, found in relax(parse_query(query), missing)
        ]

    assert show("consent of participants") == [
        ("stems", "consent* of particip*"),
        ("some_words", "consent* particip*"),
        ("some_words", "consent* | particip*"),
    ]
    assert show("safety") == [("stems", "safet*")]
    assert show("id") == []
    assert show("word7") == []
    assert show("a b") == [("some_words", "a | b")]
    assert show("ballise group", "ballise") == [("some_words", "group*")]
    assert show("one two OR three")[0][0] == "stems"


async def test_no_word_of_hidden_entities_is_named(settings_with_tables: Settings, empty_database: Database) -> None:
    with empty_database.writing() as connection:
        one, other = (create_project(connection, name) for name in ("One", "Other"))
        create_user(connection, "one", "one@example.com", projects=[one])
    write_epics(empty_database, [("Confidential merger", "")], project_id=other)
    write_epics(empty_database, [("Public matter", "")], project_id=one)
    for user, nearest in ((None, ["confidential"]), ("one", [])):
        async with connect(settings_with_tables, user) as client:
            found = await read(client, "search/confidentail")
            assert [one["nearest"] for one in found["missing_words"]] == [nearest]
            found = await read(client, "search/confidentially merged?limit=1")
            assert bool(found["results"]) == (user is None)
