"""Free text in a URI: spaces and every script work on both surfaces, as they are or percent-encoded."""

from typing import Any
from urllib.parse import quote

from quilt_mcp.requirements.parameters import SEARCH_FILTERS
from tests.contract.surfaces import ask
from tests.requirements.client import connect, read, read_failure
from tests.requirements.conftest import opened
from tests.requirements.searching import write_epics
from tests.support.settings import Settings

ALLOWED = " and ".join((*SEARCH_FILTERS, "view", "cursor", "limit"))

TEXTS = [
    "session timeout",
    "платежами",
    "数据 处理",
    "שלום",
    "naïve café",
    '"session timeout" OR платежами',
    "🚀 launch",
]


async def test_a_search_for_any_text_is_the_same_as_for_the_encoded_text(settings_with_tables: Settings) -> None:
    with opened(settings_with_tables) as database:
        write_epics(database, [("Session timeout", "launch"), ("Задача: платежами", "数据处理, שלום, naive cafe")])
    async with connect(settings_with_tables) as client:
        for text in TEXTS:
            # `read` sends both as raw JSON-RPC on the resource surface, and as an argument of the tool
            as_it_is = await read(client, f"search/{text}")
            assert as_it_is == await read(client, f"search/{quote(text)}")
            assert as_it_is["query"] == text
            assert (text, as_it_is["count"] >= 1) == (text, True)
            contents: list[Any] = await client.read_resource(f"requirements://search/{text}")  # FastMCP encodes it
            assert f'"count":{as_it_is["count"]}' in contents[0].text


async def test_a_text_has_the_same_limit_in_every_script(settings_with_tables: Settings) -> None:
    async with connect(settings_with_tables) as client:
        for text in ("a" * 500, "я" * 500, "🚀" * 499 + "a"):
            assert (await read(client, f"search/{text}"))["count"] == 0
            assert (await read(client, f"search/{quote(text)}"))["count"] == 0
        for text in ("я" * 513, quote("я" * 513)):
            assert (await read_failure(client, f"search/{text}")).body["error"] == "InvalidTemplateVariable"
        for text in ("я" * 2049, quote("я" * 2049)):
            assert (await read_failure(client, f"search/{text}")).body["error"] == "InvalidURI"


REFUSED = [
    ("search/a\nb", "InvalidURI"),
    ("search/a\x00b", "InvalidURI"),
    ("search/a\x7fb", "InvalidURI"),
    ("search/a%C2%85b", "InvalidTemplateVariable"),
    ("search/a%FFb", "InvalidTemplateVariable"),
    ("search/this/that", "InvalidURI"),
    ("search/why?", "InvalidURI"),
    ("search/x?limit=\N{FULLWIDTH DIGIT ONE}", "InvalidTemplateVariable"),
    ("epics/ÉP-001", "InvalidURI"),
    ("epics?cursor=a b", "InvalidTemplateVariable"),
    ("épics", "InvalidURI"),
]


async def test_other_variables_than_free_text_stay_refused(settings_with_tables: Settings) -> None:
    async with connect(settings_with_tables) as client:
        for path, error in REFUSED:
            body = (await read_failure(client, path)).body
            assert (path, body["error"]) == (path, error)
            assert ("valid_uris" in body) is (error == "InvalidURI")


OF_SEARCHES = (*SEARCH_FILTERS, "view", "cursor", "limit")


ALLOWED_ONES = [
    ("projects?offset=1", ("cursor", "limit")),
    ("projects?limit=1&limit=2", ("cursor", "limit")),
    ("projects?", ("cursor", "limit")),
    ("search/why?", OF_SEARCHES),
    ("search/why?sort=title", OF_SEARCHES),
]


async def test_an_unknown_parameter_lists_the_allowed_ones(settings_with_tables: Settings) -> None:
    async with connect(settings_with_tables) as client:
        for path, allowed in ALLOWED_ONES:
            body = (await read_failure(client, path)).body
            assert body["details"].startswith(f"Parameters after ? can be {' and '.join(allowed)}, each once."), path
        none = (await ask(client, "auth://status?limit=1")).body
    assert none["details"].startswith("Parameters after ? are not allowed.")


SLASHES = [
    ("search/a?b", "search/a%3Fb", f"Parameters after ? can be {ALLOWED}, each once. In a text, write ? as %3F."),
    ("search/a/b c", "search/a%2Fb%20c", "In the text at the end of this URI, write / as %2F and ? as %3F."),
    ("search/a/ü?", "search/a%2F%C3%BC%3F", "In the text at the end of this URI, write / as %2F and ? as %3F."),
    ("search/and/or", "search/and%2For", "In the text at the end of this URI, write / as %2F and ? as %3F."),
    ("search/a%20b/c", "search/a%20b%2Fc", "In the text at the end of this URI, write / as %2F and ? as %3F."),
]


async def test_a_text_with_a_slash_or_a_question_mark_names_the_right_uri(settings_with_tables: Settings) -> None:
    async with connect(settings_with_tables) as client:
        for path, meant, details in SLASHES:
            body = (await read_failure(client, path)).body
            assert (path, body["error"]) == (path, "InvalidURI")
            assert body["message"].endswith("not recognized.")
            assert body["details"] == details
            assert body["suggested_actions"][0] == f"Did you mean requirements://{meant}?"
            assert (await read(client, meant))["count"] == 0
        for other in ("search/", "search/a/\nb", "épics", f"search/{'a/' * 300}", "search/a?limt=1"):
            assert "%" not in str((await read_failure(client, other)).body["suggested_actions"])
