"""Definitions, their validation, and finding one by URI."""

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quilt_mcp.core.registry import Match, ResourceDefinition, UriIndex, build_registry, define, validate_registry
from tests.support.examples import count_examples
from tests.support.toys import toy, toy_manager


def status() -> dict[str, Any]:
    """Return the status.

    More details.
    """
    return {}


async def item(name: str) -> dict[str, Any]:
    """Return an item."""
    return {"name": name}


def pair(left: str, right: str) -> dict[str, Any]:
    """Return a pair."""
    return {"left": left, "right": right}


def test_define_derives_values_from_the_uri_and_the_function() -> None:
    assert define("shop://status", status, name="Status") == {
        "uri": "shop://status",
        "name": "Status",
        "description": "Return the status.",
        "service_function": status,
        "is_async": False,
        "is_template": False,
        "template_variables": [],
        "requires_admin": False,
        "category": "shop",
        "parameter_mapping": {},
    }


def test_define_derives_a_templates_variables_and_applies_the_mapping() -> None:
    definition = define("shop://items/{id}", item, name="Item", parameter_mapping={"id": "name"}, requires_admin=True)
    assert definition["is_async"]
    assert definition["is_template"]
    assert definition["template_variables"] == ["id"]
    assert definition["parameter_mapping"] == {"id": "name"}
    assert definition["requires_admin"]


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "another uri": ({"uri": "shop://other"}, "URI mismatch"),
    "no name": ({"name": ""}, "lacks a name"),
    "no description": ({"description": ""}, "lacks a name or a description"),
    "another category": ({"category": "other"}, "Category is not the URI's scheme"),
    "not a template": ({"is_template": True}, "Template flag inconsistent with URI"),
    "other variables": ({"template_variables": ["x"]}, "Template variables inconsistent with URI"),
    "other mapping": ({"parameter_mapping": {"x": "y"}}, "names variables that the URI does not have: x"),
    "no function": ({"service_function": "status"}, "Service function not callable"),
    "no signature": ({"service_function": dict}, "Service function does not match the URI"),
    "not async": ({"is_async": True}, "Async flag inconsistent"),
    "other parameters": ({"service_function": pair}, "Service function does not match the URI"),
}


@pytest.mark.parametrize("change", BROKEN)
def test_an_inconsistent_definition_is_refused(change: str) -> None:
    fields, complaint = BROKEN[change]
    broken: Any = {**define("shop://status", status, name="Status"), **fields}
    with pytest.raises(ValueError, match=rf"{complaint}.*shop://status"):
        validate_registry({"shop://status": broken})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"template_variables": []}, "Template URI missing variable list: shop://items/{id}"),
        ({"parameter_mapping": {}}, "Template variable not in parameter mapping: id in shop://items/{id}"),
        ({"is_template": False}, "Template flag inconsistent with URI: shop://items/{id}"),
    ],
)
def test_an_inconsistent_template_is_refused_in_the_promised_words(fields: dict[str, Any], message: str) -> None:
    row = define("shop://items/{id}", item, name="Item", parameter_mapping={"id": "name"})
    broken: Any = {**row, **fields}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        validate_registry({"shop://items/{id}": broken})


def test_a_definition_that_lacks_a_key_is_refused() -> None:
    broken: Any = define("shop://status", status, name="Status")
    del broken["category"]
    with pytest.raises(ValueError, match="lacks keys: category in shop://status"):
        validate_registry({"shop://status": broken})


@pytest.mark.parametrize(
    "uri",
    ["shop:status", "shop://", "Shop://status", "shop://a//b", "shop://a b", "shop://a?b", "shop://a#b", "shop://a/"],
)
def test_an_invalid_uri_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="is not of the form"):
        build_registry([define(uri, status, name="Status")])


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        *(
            (f"shop://{path}", "not a whole segment")
            for path in ("{name}", "items/x-{name}", "items/{}", "items/{Name}")
        ),
        ("shop://items/{name}/{name}", "variables inconsistent"),
    ],
)
def test_a_variable_is_a_whole_segment_not_the_first_and_there_once(uri: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        build_registry([define(uri, item, name="Item")])


def test_a_duplicate_uri_is_refused() -> None:
    with pytest.raises(ValueError, match="URI defined twice: shop://status"):
        build_registry([define("shop://status", status, name="A"), define("shop://status", status, name="B")])


def test_two_templates_that_differ_in_names_only_are_refused() -> None:
    first = define("shop://items/{name}", item, name="A")
    second = define("shop://items/{other}", item, name="B", parameter_mapping={"other": "name"})
    with pytest.raises(ValueError, match=r"match the same resources: shop://items/\{other\} and shop://items/\{name\}"):
        build_registry([first, second])


def index_of(*uris: str) -> UriIndex:
    functions: dict[int, Callable[..., Any]] = {0: status, 1: item, 2: pair}
    definitions = []
    for uri in uris:
        variables = [segment[1:-1] for segment in uri.split("/") if segment.startswith("{")]
        parameters = [[], ["name"], ["left", "right"]][len(variables)]
        mapping = dict(zip(variables, parameters, strict=True))
        definitions.append(define(uri, functions[len(variables)], name=uri, parameter_mapping=mapping))
    return UriIndex(build_registry(definitions))


def found(match: Match | None) -> tuple[str, dict[str, str]] | None:
    return match and (match.definition["uri"], match.values)


def test_a_static_uri_is_found_before_a_template_that_matches_it_too() -> None:
    index = index_of("shop://items/{name}", "shop://items/best")
    assert found(index.find("shop://items/best")) == ("shop://items/best", {})
    assert found(index.find("shop://items/other")) == ("shop://items/{name}", {"name": "other"})


def test_the_template_with_the_earlier_literal_wins() -> None:
    index = index_of("shop://{a}/x".replace("{a}", "a") + "/{v}/y", "shop://a/{v}/{w}/z", "shop://a/{v}/b")
    assert found(index.find("shop://a/x/1/y")) == ("shop://a/x/{v}/y", {"v": "1"})
    assert found(index.find("shop://a/x/1/z")) == ("shop://a/{v}/{w}/z", {"v": "x", "w": "1"})
    assert found(index.find("shop://a/x/b")) == ("shop://a/{v}/b", {"v": "x"})


@pytest.mark.parametrize(
    "uri",
    ["", "shop", "shop:/status", "shop://", "shop://status/", "shop://items", "shop://items/a/b", "SHOP://status"],
)
def test_a_uri_without_a_match_is_not_found(uri: str) -> None:
    assert index_of("shop://status", "shop://items/{name}").find(uri) is None


def test_an_empty_segment_matches_a_variable() -> None:
    assert found(index_of("shop://items/{name}").find("shop://items/")) == ("shop://items/{name}", {"name": ""})


# A few segments in every combination, so that several patterns match the same URI.
PATTERNS = [
    "shop://r/" + "/".join(segments)
    for length in (1, 2, 3)
    for segments in product(["a", "b", "{v}", "{w}"], repeat=length)
]
REGISTRIES = st.builds(lambda order, size: order[:size], st.permutations(PATTERNS), st.integers(0, 25))
# "A", "%41" and the empty segment show that the URI is not changed.
ASKED = st.builds(
    lambda start, segments: start + "/".join(segments),
    st.sampled_from(["shop://r/"] * 8 + ["SHOP://r/", "shop://R/", "shop:/r/", "lab://r/"]),
    st.lists(st.sampled_from(["a", "a", "b", "b", "", "A", "%41"]), min_size=1, max_size=4),
)


def _distinct(patterns: list[str]) -> list[str]:
    """Patterns that a registry accepts together: at most one a shape, none with a variable twice."""
    shapes: dict[str, str] = {}
    for pattern in patterns:
        if pattern.count("{v}") <= 1 and pattern.count("{w}") <= 1:
            shapes.setdefault(pattern.replace("{v}", "{}").replace("{w}", "{}"), pattern)
    return list(shapes.values())


def _reference(patterns: list[str], uri: str) -> tuple[str, dict[str, str]] | None:
    """Plain matching: compare all patterns segment by segment; the earliest literal wins."""
    asked = uri.split("/")

    def matches(pattern: str) -> bool:
        segments = pattern.split("/")
        return len(segments) == len(asked) and all(
            segment in ("{v}", "{w}") or segment == given for segment, given in zip(segments, asked, strict=True)
        )

    candidates = [pattern for pattern in patterns if matches(pattern)]
    if not candidates:
        return None
    best = min(candidates, key=lambda pattern: [part.startswith("{") for part in pattern.split("/")])
    pairs = zip(best.split("/"), asked, strict=True)
    return best, {segment[1:-1]: given for segment, given in pairs if segment.startswith("{")}


@pytest.mark.soak
@settings(deadline=None, derandomize=True, max_examples=count_examples(300))
@given(REGISTRIES.map(_distinct), ASKED)
def test_the_index_agrees_with_plain_matching(patterns: list[str], uri: str) -> None:
    definitions: list[ResourceDefinition] = []
    for pattern in patterns:
        variables = [part[1:-1] for part in pattern.split("/") if part.startswith("{")]
        mapping = dict(zip(variables, ("left", "right"), strict=False))
        functions: dict[int, Callable[..., Any]] = {0: status, 1: lambda left: {"left": left}, 2: pair}
        function = functions[len(variables)]
        definitions.append(define(pattern, function, name=pattern, description=pattern, parameter_mapping=mapping))
    assert found(UriIndex(build_registry(definitions)).find(uri)) == _reference(patterns, uri)


SEGMENT = st.sampled_from(["a", "b", "{x}"])


@given(st.lists(st.lists(SEGMENT, min_size=1, max_size=4).map(tuple), unique=True, max_size=12), st.data())
def test_a_lookup_finds_what_a_search_through_all_templates_finds(
    paths: list[tuple[str, ...]], data: st.DataObject
) -> None:
    """The first template in an order in which literals come before variables, segment by segment."""
    uris = [
        "shop://s/" + "/".join(f"{{x{at}}}" if one == "{x}" else one for at, one in enumerate(path)) for path in paths
    ]
    registry = build_registry([define(uri, lambda **_: {}, name=uri, description="x") for uri in uris])
    asked = data.draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4))
    matching = [
        path
        for path in paths
        if len(path) == len(asked) and all(one in ("{x}", given) for one, given in zip(path, asked, strict=True))
    ]
    best = min(matching, key=lambda path: [one == "{x}" for one in path], default=None)
    match = UriIndex(registry).find("shop://s/" + "/".join(asked))
    assert (match and match.definition["uri"]) == (best and uris[paths.index(best)])
    if match and best:
        assert match.values == {f"x{at}": asked[at] for at, one in enumerate(best) if one == "{x}"}


async def test_a_resource_can_have_parameters_that_its_uri_does_not_name() -> None:
    manager = toy_manager(toy("toy://list", lambda limit=None: {"limit": limit}, parameters=("limit",)))
    assert manager.registry["toy://list"]["is_template"] is False
    assert (await manager.get_resource("toy://list?limit=5"))["data"] == {"limit": "5"}
    assert (await manager.get_resource("toy://list"))["data"] == {"limit": None}
    with pytest.raises(KeyError, match="not recognized"):
        await manager.get_resource("toy://list?page=2")
