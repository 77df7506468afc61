"""Which URIs are valid, and which one an error suggests."""

import pytest

from quilt_mcp.core import uris
from quilt_mcp.core.errors import InvalidTemplateVariable, InvalidURI, MissingTemplateVariable
from quilt_mcp.core.registry import define
from quilt_mcp.resources import RESOURCE_REGISTRY
from tests.support.toys import toy, toy_manager

TEMPLATE = define("shop://items/{item}", lambda item: {"item": item}, name="Item", description="An item.")


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("auth://statsu", "auth://status"),
        ("AUTH://STATUS", "auth://status"),
        ("auth:/status", "auth://status"),
        ("auth/status", "auth://status"),
        ("auth://status/", "auth://status"),
        ("auth:\\\\status", "auth://status"),
        ("athena://query-history", "athena://query/history"),
        ("athena://database", "athena://databases"),
        ("metadata://template", "metadata://templates"),
        ("workflow://workflow", "workflow://workflows"),
        ("admin://user", "admin://users"),
        ("permission://discover", "permissions://discover"),
        ("admin://sso", "admin://config/sso"),
        ("auth://info", "auth://catalog/info"),
        ("athena://history", "athena://query/history"),
        ("workflow://workflows/", "workflow://workflows"),
    ],
)
def test_a_near_miss_suggests_the_right_uri_first(asked: str, meant: str) -> None:
    assert uris.find_nearest(asked, RESOURCE_REGISTRY)[0] == meant


def test_a_uri_that_resembles_nothing_gets_no_suggestion() -> None:
    assert uris.find_nearest("nope://x", RESOURCE_REGISTRY) == []


@pytest.mark.parametrize("value", ["a", "standard", "x" * 128, "A-z0.9_~", "...", "%41"])
def test_a_valid_value_is_decoded_once(value: str) -> None:
    assert uris.decode_value(TEMPLATE, "item", value) == value.replace("%41", "A")


@pytest.mark.parametrize("raw", ["", "{item}", "%7Bitem%7D"])
def test_a_missing_value_is_an_error(raw: str) -> None:
    with pytest.raises(MissingTemplateVariable):
        uris.decode_value(TEMPLATE, "item", raw)


@pytest.mark.parametrize(
    "raw", [".", "..", "%2e%2E", "x" * 129, "a b", "%2F", "%2541", "%", "%4", "%zz", "%ff", "{}", "{other}", "a\n", "é"]
)
def test_an_invalid_value_is_an_error(raw: str) -> None:
    with pytest.raises(InvalidTemplateVariable):
        uris.decode_value(TEMPLATE, "item", raw)


def test_a_quoted_uri_is_one_short_line() -> None:
    quoted = uris.quote("auth://\n\x1b[31m" + "x" * 500)
    assert quoted.isprintable()
    assert len(quoted) < 100


@pytest.mark.parametrize("uri", ["orders://7", "order://7", "ORDERS://"])
async def test_a_scheme_that_is_a_segment_of_known_uris_leads_to_them(uri: str) -> None:
    manager = toy_manager(toy("shop://orders", lambda: {"n": 1}), toy("shop://customers", lambda: {"n": 1}))
    with pytest.raises(InvalidURI) as caught:
        await manager.get_resource(uri)
    assert caught.value.suggested_actions[0] == "Did you mean shop://orders?"
