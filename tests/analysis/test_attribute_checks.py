"""What code can set, delete, read and compare at run time."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from crosshair import core_and_libs  # noqa: F401 - it defines the proxies of library types
from crosshair.core import proxy_for_type, standalone_statespace
from crosshair.tracers import NoTracing

from quilt_mcp.analysis.gate.inspection import admit
from quilt_mcp.analysis.gate.loading import (
    check_formats,
    check_owned,
    load_module,
)
from quilt_mcp.analysis.gate.rules import Refused
from quilt_mcp.analysis.messages import MODULE_NAME
from quilt_mcp.analysis.policy import PERMITTED_BUILTINS, Policy

BUILTINS = [getattr(sys.modules["builtins"], name, None) for name in PERMITTED_BUILTINS]


@pytest.fixture(autouse=True)
def _module_is_removed() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE_NAME, None)


def _load(code: str) -> dict[str, Any]:
    admitted = admit(code, Policy())
    return vars(load_module(admitted.source, Policy(), admitted.tree))


@pytest.mark.parametrize(
    "statement",
    [
        "class A: x = 1\nA.x = 2\nA().x = 3\ndel A.x",
        "class A:\n    def __init__(self): self.x: int = 1; self.x += 1\nA()",
        "def f(): pass\nf.calls = 1",
        "import decimal\ndecimal.getcontext().prec = 5",
        "e = ValueError()\ne.code = 5",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\na = A(1)\na.x = 2",
        "from json import JSONEncoder\nclass A(JSONEncoder): pass\nA().x = 1",
    ],
)
def test_code_can_change_what_it_defines(statement: str) -> None:
    _load(statement)


@pytest.mark.parametrize(
    "target", ["json.JSONEncoder", "json.dumps", "json", "re.I", "typing.List", "json.JSONEncoder()", "(1).real"]
)
def test_code_cannot_change_anything_else(target: str) -> None:
    with pytest.raises(Refused) as caught:
        _load(f"import json, re, typing\n\n# the third line\n{target}.x = 1")
    assert (caught.value.rule, caught.value.line) == ("store", 4)


def test_code_cannot_catch_a_refusal() -> None:
    with pytest.raises(Refused):
        _load("import json\ntry:\n    json.JSONEncoder.x = 1\nexcept Exception:\n    pass")


def test_own_method_format_can_be_called() -> None:
    names = _load("class A:\n    def format(self, x): return x + 1\ny = A().format(1)\nz = '{}'.format(2)")
    assert (names["y"], names["z"]) == (2, "2")


@pytest.mark.parametrize("value", ["'{0.a}'[:]", "str", "UserString('x')", "S('x')", "S"])
def test_format_of_a_text_is_refused(value: str) -> None:
    with pytest.raises(Refused) as caught:
        _load(f"from collections import UserString\nclass S(str): pass\n{value}.format(1)")
    assert caught.value.rule == "format"


def test_identity_is_compared_as_in_python() -> None:
    names = _load(
        "a, b = [], []\nx = a is a, a is b, a is not b, a is None, not a is b\nimport operator\n"
        "y = operator.is_(a, a), operator.is_not(a, a)"
    )
    assert names["x"] == (True, False, True, False, True)
    assert names["y"] == (True, False)


@pytest.fixture
def proxies() -> Iterator[tuple[int, str]]:
    """Return a symbolic number and a symbolic text. The test runs as a symbolic run does."""
    with standalone_statespace:
        with NoTracing():  # type: ignore[no-untyped-call] # CrossHair's own context manager
            both = proxy_for_type(int, "x"), proxy_for_type(str, "y")
        yield both


def test_text_of_a_proxy_has_no_format(proxies: tuple[int, str]) -> None:
    with pytest.raises(Refused):
        check_formats(proxies[1], 1)
    assert check_formats(proxies[0], 1) is proxies[0]


def test_attribute_of_a_proxy_cannot_be_set(proxies: tuple[int, str]) -> None:
    with pytest.raises(Refused):
        check_owned(proxies[0], 1)
