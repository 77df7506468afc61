"""Definitions, their validation, and finding one by URI."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quilt_mcp.registry import Match, ResourceDefinition, UriIndex, define, registry_of, validate_registry


def status() -> dict[str, Any]:
    """Tells the status.

    In more words.
    """
    return {}


async def item(name: str) -> dict[str, Any]:
    """Gives an item."""
    return {"name": name}


def pair(left: str, right: str) -> dict[str, Any]:
    """Gives a pair."""
    return {"left": left, "right": right}


def test_define_derives_what_the_uri_and_the_function_tell() -> None:
    assert define("shop://status", status, name="Status") == {
        "uri": "shop://status",
        "name": "Status",
        "description": "Tells the status.",
        "service_function": status,
        "is_async": False,
        "is_template": False,
        "template_variables": [],
        "requires_admin": False,
        "category": "shop",
        "parameter_mapping": {},
    }


def test_define_derives_a_templates_variables_and_maps_them_as_told() -> None:
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
    "another category": ({"category": "other"}, "is not the URI's scheme"),
    "not a template": ({"is_template": True}, "is_template does not agree"),
    "other variables": ({"template_variables": ["x"]}, "template_variables do not agree"),
    "other mapping": ({"parameter_mapping": {"x": "y"}}, "parameter_mapping does not name"),
    "no function": ({"service_function": "status"}, "not callable"),
    "no signature": ({"service_function": dict}, "does not take these parameters"),
    "not async": ({"is_async": True}, "is_async does not agree"),
    "other parameters": ({"service_function": pair}, "does not take these parameters"),
}


@pytest.mark.parametrize("change", BROKEN)
def test_a_definition_that_contradicts_itself_is_refused(change: str) -> None:
    fields, complaint = BROKEN[change]
    broken: Any = {**define("shop://status", status, name="Status"), **fields}
    with pytest.raises(ValueError, match=rf"^shop://status: .*{complaint}"):
        validate_registry({"shop://status": broken})


def test_a_definition_that_lacks_a_key_is_refused() -> None:
    broken: Any = define("shop://status", status, name="Status")
    del broken["category"]
    with pytest.raises(ValueError, match=r"lacks \['category'\]"):
        validate_registry({"shop://status": broken})


@pytest.mark.parametrize(
    "uri",
    ["shop:status", "shop://", "Shop://status", "shop://a//b", "shop://a b", "shop://a?b", "shop://a#b", "shop://a/"],
)
def test_what_is_no_uri_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="is not of the form"):
        registry_of([define(uri, status, name="Status")])


@pytest.mark.parametrize("uri", ["shop://{name}", "shop://items/x-{name}", "shop://items/{}", "shop://items/{Name}"])
def test_a_variable_is_a_whole_segment_and_not_the_first(uri: str) -> None:
    with pytest.raises(ValueError, match="a variable must be a whole segment"):
        registry_of([define(uri, item, name="Item")])


def test_a_uri_stands_once() -> None:
    with pytest.raises(ValueError, match="shop://status: defined twice"):
        registry_of([define("shop://status", status, name="A"), define("shop://status", status, name="B")])


def test_two_templates_that_differ_in_names_only_are_refused() -> None:
    first = define("shop://items/{name}", item, name="A")
    second = define("shop://items/{other}", item, name="B", parameter_mapping={"other": "name"})
    with pytest.raises(ValueError, match=r"matches the same URIs as shop://items/\{name\}"):
        registry_of([first, second])


def index_of(*uris: str) -> UriIndex:
    functions: dict[int, Callable[..., Any]] = {0: status, 1: item, 2: pair}
    definitions = []
    for uri in uris:
        variables = [segment[1:-1] for segment in uri.split("/") if segment.startswith("{")]
        parameters = [[], ["name"], ["left", "right"]][len(variables)]
        mapping = dict(zip(variables, parameters, strict=True))
        definitions.append(define(uri, functions[len(variables)], name=uri, parameter_mapping=mapping))
    return UriIndex(registry_of(definitions))


def found(match: Match | None) -> tuple[str, dict[str, str]] | None:
    return match and (match.definition["uri"], match.values)


def test_a_static_uri_is_found_before_a_template_that_matches_it_too() -> None:
    index = index_of("shop://items/{name}", "shop://items/best")
    assert found(index.find("shop://items/best")) == ("shop://items/best", {})
    assert found(index.find("shop://items/other")) == ("shop://items/{name}", {"name": "other"})


def test_the_template_with_the_earlier_literal_wins_and_the_search_turns_back_where_it_must() -> None:
    index = index_of("shop://{a}/x".replace("{a}", "a") + "/{v}/y", "shop://a/{v}/{w}/z", "shop://a/{v}/b")
    assert found(index.find("shop://a/x/1/y")) == ("shop://a/x/{v}/y", {"v": "1"})
    assert found(index.find("shop://a/x/1/z")) == ("shop://a/{v}/{w}/z", {"v": "x", "w": "1"})
    assert found(index.find("shop://a/x/b")) == ("shop://a/{v}/b", {"v": "x"})


@pytest.mark.parametrize(
    "uri",
    ["", "shop", "shop:/status", "shop://", "shop://status/", "shop://items", "shop://items/a/b", "SHOP://status"],
)
def test_what_matches_nothing_is_not_found(uri: str) -> None:
    assert index_of("shop://status", "shop://items/{name}").find(uri) is None


def test_an_empty_segment_is_found_so_that_it_can_be_told_missing() -> None:
    assert found(index_of("shop://items/{name}").find("shop://items/")) == ("shop://items/{name}", {"name": ""})


# A few segments in every combination, so that several patterns match the same URI.
PATTERNS = [
    "shop://r/" + "/".join(segments)
    for length in (1, 2, 3)
    for segments in product(["a", "b", "{v}", "{w}"], repeat=length)
]
REGISTRIES = st.builds(lambda order, size: order[:size], st.permutations(PATTERNS), st.integers(0, 25))
# "A", "%41" and the empty segment tell whether what is asked is left as it is.
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


@settings(deadline=None, derandomize=True, max_examples=300)
@given(REGISTRIES.map(_distinct), ASKED)
def test_the_index_agrees_with_plain_matching(patterns: list[str], uri: str) -> None:
    definitions: list[ResourceDefinition] = []
    for pattern in patterns:
        variables = [part[1:-1] for part in pattern.split("/") if part.startswith("{")]
        mapping = dict(zip(variables, ("left", "right"), strict=False))
        functions: dict[int, Callable[..., Any]] = {0: status, 1: lambda left: {"left": left}, 2: pair}
        function = functions[len(variables)]
        definitions.append(define(pattern, function, name=pattern, description=pattern, parameter_mapping=mapping))
    assert found(UriIndex(registry_of(definitions)).find(uri)) == _reference(patterns, uri)
