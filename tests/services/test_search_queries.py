"""quilt://search: the guide, its examples, and the queries that search for nothing."""

import json
from urllib.parse import quote

import pytest

from quilt_mcp.core.registry import path_of
from quilt_mcp.demo.query_strings import QueryString, Term
from quilt_mcp.demo.world import World
from quilt_mcp.resources import RESOURCE_REGISTRY
from tests.services.stack_calls import list_calls
from tests.support.python_caller import read, read_error
from tests.support.worlds import in_world

INSTEAD = (
    "quilt://search",
    "quilt://buckets/{bucket}/packages",
    "quilt://buckets/{bucket}/objects",
    "quilt://buckets/{bucket}.",
)
FOR_NOTHING = [
    *("*", "**", "* *", "?", "?*", "*?*", "*:*", "(*)", "+*", "-*", "!*", '"*"', "*.*", "*/*", "* AND *", "* OR **"),
    *("NOT *", "(* OR *) AND *", "[* TO *]", "{* TO *}", "*^2", "*~1", "*^0.5 OR ?", "AND", "OR", "NOT", "&&", "||"),
    *(" ", "   ", ".", "...", "-", "--", "\\*", "()", '""', "~", "^"),
]
FOR_SOMETHING = [
    *("*.csv", "a", "7", "*a*", "TO", "NOT a", "a OR *", "*AND*", "ext:*", "_exists_:key", "C++", "_", "ß", "基"),
    *("AND a", "#", "a-b", "x.y", "and", "or", "ORDER", "*2", "ptr_name:*", "size:>0", "10^2", "@"),
]
OF_ANOTHER_KIND = {"quilt://buckets/{bucket}/objects"}
"""What the guide names and this test does not find in the registry yet."""


@in_world("admin")
async def test_the_stack_finds_something_for_every_example(world: World) -> None:
    guide = await read("quilt://search")
    assert 5 <= len(guide["examples"]) <= 8
    for example in guide["examples"]:
        found = await read(example["uri"])
        assert found["count"] > 0, example
        rows = found["packages"] or found["objects"]
        assert rows, example
    assert {"packages", "objects"} == {(await read(one["uri"]))["kind"] for one in guide["examples"]}


@in_world("signed_out")
async def test_the_guide_sends_no_request_and_names_what_exists(world: World) -> None:
    world.stack.calls.clear()
    guide = await read("quilt://search")
    assert list_calls(world) == []
    paths = {path_of(uri) for uri in RESOURCE_REGISTRY} | OF_ANOTHER_KIND
    named = [row["instead"] for row in guide["instead"] if row["instead"].startswith("quilt://")]
    assert len(named) >= 4
    assert set(named) <= paths
    [definition] = [row for uri, row in RESOURCE_REGISTRY.items() if uri == guide["uri"]]
    assert guide["parameters"].keys() == set(definition["template_variables"])
    for word in ("elasticsearch", "AND", "ptr_name", "last_modified"):
        assert word.lower() in json.dumps(guide).lower()
    guide["examples"].clear()
    assert (await read("quilt://search"))["examples"]


@in_world("admin")
async def test_a_query_for_everything_is_refused_before_the_stack_is_asked(world: World) -> None:
    world.stack.calls.clear()
    for query in FOR_NOTHING:
        error = await read_error(f"quilt://search/{quote(query, safe='')}?kind=objects")
        assert (query, error.error) == (query, "InvalidTemplateVariable")
        assert error.message == f"The query {query!a} has nothing to search for."
        for uri in INSTEAD:
            assert uri in " ".join(error.suggested_actions), query
    assert list_calls(world) == []


@in_world("admin")
@pytest.mark.parametrize("uri", ["quilt://search/", "quilt://search/{query}", "quilt://search/%7Bquery%7D"])
async def test_without_a_query_the_error_says_what_to_read(uri: str, world: World) -> None:
    error = await read_error(uri)
    assert error.error == "MissingTemplateVariable"
    for named in INSTEAD:
        assert named in " ".join(error.suggested_actions)
    assert any(action.startswith("Example: ") for action in error.suggested_actions)


@in_world("admin")
async def test_a_query_for_something_is_sent(world: World) -> None:
    for query in FOR_SOMETHING:
        world.stack.calls.clear()
        await read(f"quilt://search/{quote(query, safe='')}")
        assert list_calls(world) == ["searchPackages"], query


@in_world("admin")
async def test_a_long_query_without_a_word_is_refused_at_once(world: World) -> None:
    for part in ("^1.", "* AND ", "(", "~", "\\"):
        query = (part * 200)[:512]
        assert (await read_error(f"quilt://search/{quote(query, safe='')}")).error == "InvalidTemplateVariable"


DOCUMENT: list[tuple[str, str | int]] = [
    ("ptr_name", "runs/250519"),
    ("mnfst_message", "Metrics of lane 1"),
    ("mnfst_metadata", '{"instrument": "novaseq-01"}'),
    ("size", 5000),
]
QUERIES = {
    **dict.fromkeys(["metrics", "Lane 1", '"of lane"', "lane AND novaseq", "kidney OR lane", "lane NOT kidney"], True),
    **dict.fromkeys(["ptr_name:runs*", "ptr_name:runs\\/250519", "mnfst_message:lane", "mnfst_metadata:nova*"], True),
    **dict.fromkeys(["size:>=5000", "(kidney OR lane) AND size:<6000", "nova?eq-01", "NOT kidney", ""], True),
    **dict.fromkeys(["kidney", "lane AND kidney", "NOT lane", "ptr_name:runs", "ptr_name:lane", "size:>5000"], False),
    **dict.fromkeys(["size:<=4999", "lane AND NOT (metrics OR kidney)", "mnfst_message:novaseq", "5000"], False),
}


def test_the_demo_understands_the_syntax_of_the_examples() -> None:
    def has(term: Term) -> bool:
        return any(term.fits(field, value) for field, value in DOCUMENT)

    assert {query: QueryString(query).fits(has) for query in QUERIES} == QUERIES
    assert [term.text for term in QueryString("a OR b NOT (c OR d)").terms] == ["a", "b"]
