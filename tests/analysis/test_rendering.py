"""Values of analysed code in answers."""

import ast
import json
import math
from enum import Enum, Flag
from inspect import Signature, signature
from types import FunctionType

import pytest

from quilt_mcp.analysis.engine.source_text import TEXT_LENGTH, make_counterexample, to_json_value, write_source
from quilt_mcp.analysis.engine.subjects import Subject


class Colour(Enum):
    RED = 1


class Access(Flag):
    READ = 1
    WRITE = 2


class Loud:
    def __repr__(self) -> str:
        raise KeyError("a secret")


class Silent(Loud):
    def __init__(self, seed: int) -> None:
        self.hidden = seed + 1


JSON_VALUES = [0, -1, 2**53 - 1, 1 - 2**53, True, None, "", "é", "\x00", 0.5, -0.0]


def test_json_values_stay_unchanged() -> None:
    for value in JSON_VALUES:
        assert (to_json_value(value), type(to_json_value(value))) == (value, type(value))
        assert json.loads(json.dumps(to_json_value(value))) == value


OTHER_VALUES: list[object] = [
    [(1,), "a"],
    (1,),
    (1, 2),
    (),
    {1: [None]},
    {1, 2},
    b"\xff",
    "\ud800",
    math.inf,
    [math.nan],
    2**53,
    -(2**53),
    10**400,
    1 << 4200,
    [1 << 4200],
]


@pytest.mark.parametrize("value", [[], {}, [1, "a", None, 0.5], {"a": [{"b": [True]}]}])
def test_lists_and_dicts_of_json_types_are_json(value: object) -> None:
    assert to_json_value(value) == value
    assert to_json_value(str(value)) == str(value)  # a text that looks like one stays a text


@pytest.mark.parametrize("value", [{1: 2}, [(1,)], [[[[[[1]]]]]], ["\ud800"], [True, 2**53], {"a": {1}}, [0] * 1_000])
def test_lists_and_dicts_with_other_values_are_source_text(value: object) -> None:
    assert isinstance(to_json_value(value), str)


def test_other_values_become_source_text_that_evaluates_to_them() -> None:
    for value in OTHER_VALUES:
        text = to_json_value(value)
        assert isinstance(text, str)
        assert text.isascii()
        assert repr(eval(text)) == repr(value)  # noqa: S307 - values of this file
        json.dumps(text, allow_nan=False).encode()


def test_very_long_integers_are_hexadecimal() -> None:
    assert write_source(10**5000 + 1).startswith("0x")
    assert write_source([10**5000 + 1]).startswith("[0x")
    assert write_source(-(3 << 9000)) == "(-0x3 << 9000)"


def test_enum_members_are_written_by_name() -> None:
    assert write_source([Colour.RED], globals()) == "[Colour.RED]"
    assert write_source(Colour.RED) == f"{__name__}.Colour.RED"


def test_failing_reprs_and_addresses_are_replaced() -> None:
    assert write_source(Loud(), globals()) == "Loud()"
    assert write_source(Silent(1), globals()) == "<Silent without a repr>"
    assert write_source(iter({1: 2}.items())) == "<dict_itemiterator object>"


def test_texts_have_a_maximum_length() -> None:
    assert len(write_source("xy" * 10**6)) == TEXT_LENGTH
    assert len(str(to_json_value("xy" * 10**6))) == TEXT_LENGTH
    assert write_source(["x" * 10**6, b"y" * 999]) == "['x' * 1000000, b'y' * 999]"


def test_flags_and_iterators_are_written_as_python() -> None:
    assert write_source([Access.READ | Access.WRITE, Access.READ, Access(0)], globals()) == (
        "[Access.READ | Access.WRITE, Access.READ, Access(0)]"
    )
    assert write_source(iter([1, "a"])) == "iter([1, 'a'])"


def test_positional_and_keyword_arguments_are_separate() -> None:
    def f(a: int, *rest: int, k: str, **more: int) -> None: ...

    bound = signature(f).bind(1, 2, k="x", z=3)
    assert isinstance(bound.signature, Signature)
    (node,) = ast.parse("def f(): ...").body
    assert isinstance(node, ast.FunctionDef)
    assert isinstance(f, FunctionType)
    subject = Subject(f, bound.signature, node, f, "f")
    found = make_counterexample(subject, bound, {}, "v", "r")
    assert found["call"] == "f(1, 2, k='x', z=3)"
    assert (found["args"], found["kwargs"]) == ({"a": 1, "rest": "(2,)"}, {"k": "x", "more": {"z": 3}})
