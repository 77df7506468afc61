"""What code can set, delete, read and compare at run time."""

import ast
import dataclasses
import dis
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from crosshair import core_and_libs  # noqa: F401 - it defines the proxies of library types
from crosshair.core import proxy_for_type, standalone_statespace
from crosshair.tracers import NoTracing
from crosshair.util import CrosshairUnsupported, CrossHairValue

from quilt_mcp.analysis.gate.attributes import (
    check_formats,
    check_owned,
    check_shown,
    guard_attributes,
    is_identical,
)
from quilt_mcp.analysis.gate.facades import make_facade
from quilt_mcp.analysis.gate.inspection import admit
from quilt_mcp.analysis.gate.loading import load_module
from quilt_mcp.analysis.gate.proxies import PROXY_ATTRIBUTES
from quilt_mcp.analysis.gate.rules import Refused
from quilt_mcp.analysis.messages import MODULE_NAME
from quilt_mcp.analysis.policy import ALLOWED_MODULES, PERMITTED_BUILTINS, Policy

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


def test_attributes_of_proxies_are_listed() -> None:
    assert _find_proxy_names() - PROXY_ATTRIBUTES == set()


def _find_proxy_names() -> set[str]:
    """Return the attributes that proxies of the installed CrossHair have and values that code can name do not."""
    real: set[str] = {name for cls in _find_real_classes() for name in dir(cls)}
    found = set()
    for cls in _find_below(CrossHairValue):
        for base in cls.__mro__:
            if "crosshair" in str(base.__module__) and not _stands_for_hidden(cls):
                found |= {*vars(base), *_find_stored_names(base)}
    return {name for name in found - real if not (name.startswith("__") and name.endswith("__"))}


def _find_real_classes() -> Iterator[type]:
    shown = [value for name in ALLOWED_MODULES for value in vars(make_facade(name)).values()]
    yield from (one for one in [*shown, *BUILTINS] if isinstance(one, type))


def _stands_for_hidden(cls: type) -> bool:
    """Whether values of this class come only from modules and builtins that code cannot use."""
    return cls.__name__ in {"BackedStringIO", "SymbolicArray", "SymbolicMemoryView"}


def _find_below(cls: type) -> set[type]:
    below: list[type] = type.__subclasses__(cls)
    return {cls}.union(*map(_find_below, below))


def _find_stored_names(cls: type) -> set[str]:
    functions = [one for one in vars(cls).values() if isinstance(one, types.FunctionType)]
    return {step.argval for one in functions for step in dis.get_instructions(one) if step.opname == "STORE_ATTR"}


def test_fields_of_a_dataclass_are_copies() -> None:
    names = _load(
        "from dataclasses import dataclass, field, fields\n@dataclass\nclass A:\n"
        "    x: int = field(default=3, metadata={'a': 1})\n    y: list = field(default_factory=list)\nz = fields(A)"
    )
    real = dataclasses.fields(names["A"])
    assert [(one.name, one.type, one.default, one.metadata) for one in names["z"]] == [
        (one.name, one.type, one.default, one.metadata) for one in real
    ]
    assert not {id(one) for one in real} & {id(one) for one in names["z"]}


@pytest.fixture
def proxies() -> Iterator[tuple[int, str]]:
    """Return a symbolic number and a symbolic text. The test runs as a symbolic run does."""
    with standalone_statespace:
        with NoTracing():  # type: ignore[no-untyped-call] # CrossHair's own context manager
            both = proxy_for_type(int, "x"), proxy_for_type(str, "y")
        yield both


def test_proxy_shows_the_attributes_of_its_value_only(proxies: tuple[int, str]) -> None:
    number, text = proxies
    assert check_shown(number, "real") is number
    for proxy, name in ((number, "var"), (text, "_codepoints")):
        with pytest.raises(AttributeError):
            check_shown(proxy, name)


def test_identity_of_a_symbolic_number_is_undecided(proxies: tuple[int, str]) -> None:
    number, text = proxies
    other = object()
    assert not is_identical(number, other)
    for value in (number, 5, text):
        with pytest.raises(CrosshairUnsupported):
            is_identical(number, value)


def test_text_of_a_proxy_has_no_format(proxies: tuple[int, str]) -> None:
    with pytest.raises(Refused):
        check_formats(proxies[1], 1)
    assert check_formats(proxies[0], 1) is proxies[0]


def test_attribute_of_a_proxy_cannot_be_set(proxies: tuple[int, str]) -> None:
    with pytest.raises(Refused):
        check_owned(proxies[0], 1)


@pytest.mark.parametrize(
    ("body", "decided"),
    [
        ("raise ValueError('x')", True),
        ("g()", True),
        ("1 // 0", False),
        ("[].index(1)", False),
    ],
)
@pytest.mark.usefixtures("proxies")
def test_text_of_an_exception_is_undecided_unless_the_code_raised_it(body: str, decided: bool) -> None:  # noqa: FBT001 - pytest passes parameters by name
    with NoTracing():  # type: ignore[no-untyped-call] # CrossHair's own context manager
        names = _load(
            f"def g(): raise ValueError('y')\ndef f():\n    try:\n        {body}\n"
            "    except Exception as e:\n        return str(e)\n    return ''"
        )
    if decided:
        assert names["f"]() in {"x", "y"}
    else:
        with pytest.raises(CrosshairUnsupported):
            names["f"]()


@pytest.mark.parametrize("parameters", ["t, e, trace", "t, e, /, trace", "*e", "t, *e"])
@pytest.mark.usefixtures("proxies")
def test_exit_that_uses_its_exception_is_undecided_too(parameters: str) -> None:
    with NoTracing():  # type: ignore[no-untyped-call] # CrossHair's own context manager
        names = _load(
            f"class A:\n    def __enter__(self): pass\n    def __exit__(self, {parameters}):\n"
            "        'post: True'\n        self.text = str(e)\ndef f():\n    with A():\n        1 // 0"
        )
    assert "post: True" in names["A"].__exit__.__doc__
    with pytest.raises(CrosshairUnsupported):
        names["f"]()


@pytest.mark.parametrize("handler", ["raise", "raise KeyError from e", "raise e", "x = 1"])
def test_handler_that_does_not_use_the_text_has_no_check(handler: str) -> None:
    tree = guard_attributes(ast.parse(f"try:\n    f()\nexcept ValueError as e:\n    {handler}"))
    assert "__caught__" not in ast.unparse(tree)
