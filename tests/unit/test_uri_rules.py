"""What a URI may hold, and which one is named where it is nearly right."""

import pytest

from quilt_mcp import uri_rules
from quilt_mcp.errors import InvalidTemplateVariable, MissingTemplateVariable
from quilt_mcp.registry import define
from quilt_mcp.resources import RESOURCE_REGISTRY

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
def test_a_near_miss_names_the_right_uri_first(asked: str, meant: str) -> None:
    assert uri_rules.nearest(asked, RESOURCE_REGISTRY)[0] == meant


def test_what_resembles_nothing_names_nothing() -> None:
    assert uri_rules.nearest("nope://x", RESOURCE_REGISTRY) == []


@pytest.mark.parametrize("value", ["a", "standard", "x" * 128, "A-z0.9_~", "...", "%41"])
def test_a_good_value_is_decoded_once(value: str) -> None:
    assert uri_rules.checked_value(TEMPLATE, "item", value) == value.replace("%41", "A")


@pytest.mark.parametrize("raw", ["", "{item}", "%7Bitem%7D"])
def test_a_missing_value_is_told(raw: str) -> None:
    with pytest.raises(MissingTemplateVariable):
        uri_rules.checked_value(TEMPLATE, "item", raw)


@pytest.mark.parametrize(
    "raw", [".", "..", "%2e%2E", "x" * 129, "a b", "%2F", "%2541", "%", "%4", "%zz", "%ff", "{}", "{other}", "a\n", "é"]
)
def test_a_bad_value_is_told(raw: str) -> None:
    with pytest.raises(InvalidTemplateVariable):
        uri_rules.checked_value(TEMPLATE, "item", raw)


def test_a_shown_uri_is_one_short_line() -> None:
    shown = uri_rules.shown("auth://\n\x1b[31m" + "x" * 500)
    assert shown.isprintable()
    assert len(shown) < 100
