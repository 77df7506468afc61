"""Paths of analysed code are those of the library, without what leads to files."""

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quilt_mcp.analysis.gate import paths
from quilt_mcp.analysis.gate.facades import make_facade
from quilt_mcp.analysis.gate.rules import Refused
from tests.analysis.engine_runs import check

texts = st.text(alphabet="ab./\\: *?C", max_size=8)
KINDS: dict[type[pathlib.PurePath], type[paths.PurePath]] = {
    pathlib.PurePath: paths.PurePath,
    pathlib.PurePosixPath: paths.PurePosixPath,
    pathlib.PureWindowsPath: paths.PureWindowsPath,
}
PROPERTIES = ("drive", "root", "anchor", "name", "stem", "suffix", "suffixes", "parts", "parent", "parents")
METHODS = ("joinpath", "relative_to", "is_relative_to", "with_name", "with_stem", "with_suffix", "match")
OPERATORS: dict[str, Callable[[Any, Any], object]] = {
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
    "==": lambda one, other: one == other,
    "/": lambda one, other: one / other,
    "/ text": lambda one, other: str(other) / one,
    "hash": lambda one, other: hash(one) == hash(other),
}


def _outcome(call: Callable[..., object], *arguments: object) -> str:
    try:
        value: Any = call(*arguments)
    except Exception as error:  # noqa: BLE001 - any exception is an outcome
        return f"{type(error).__name__}: {error}"
    return repr([*value]) if type(value).__name__ == "_PathParents" else repr(value)


@pytest.mark.parametrize("kind", KINDS)
@given(text=texts, other=texts)
def test_results_are_those_of_the_library(kind: type[pathlib.PurePath], text: str, other: str) -> None:
    real, shown = kind(text), KINDS[kind](text)
    assert (repr(shown), str(shown), shown.as_posix()) == (repr(real), str(real), real.as_posix())
    assert shown.is_absolute() == real.is_absolute()
    for name in PROPERTIES:
        assert _outcome(getattr, shown, name) == _outcome(getattr, real, name)
    for name in METHODS:
        assert _outcome(getattr(shown, name), other) == _outcome(getattr(real, name), other)
    for operator in OPERATORS.values():
        assert _outcome(operator, shown, KINDS[kind](other)) == _outcome(operator, real, kind(other))
    assert _outcome(KINDS[kind], other, shown) == _outcome(kind, other, real)


def test_parents_are_a_sequence() -> None:
    real, shown = pathlib.PurePosixPath("/a/b/c").parents, paths.PurePosixPath("/a/b/c").parents
    assert repr(shown) == repr(real)
    assert [str(shown[index]) for index in (0, -1, 2)] == [str(real[index]) for index in (0, -1, 2)]
    assert repr(shown[1:]) == repr(real[1:])
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"^{index}$"):
            shown[index]
        with pytest.raises(IndexError, match=f"^{index}$"):
            real[index]


def test_names_of_the_library_are_shown_or_refused() -> None:
    shown = paths.PurePath("a")
    for name in dir(pathlib.PureWindowsPath):
        if name.startswith("__"):
            continue
        if name in {*PROPERTIES, *METHODS, "as_posix", "is_absolute"}:
            assert not isinstance(getattr(shown, name), Exception)
        else:
            with pytest.raises(Refused, match=f"^pathlib.PurePath.{name}: "):
                getattr(shown, name)


def test_refusal_says_what_to_use_instead() -> None:
    with pytest.raises(
        Refused, match=r"Use pathlib\.PurePath, PurePosixPath or PureWindowsPath, which open no files\."
    ):
        make_facade("pathlib").Path  # noqa: B018 - it raises


@pytest.mark.parametrize("value", [3, None, b"a", 1.5, object])
def test_other_types_get_the_error_of_the_library(value: object) -> None:
    assert _outcome(paths.PurePath, value) == _outcome(pathlib.PurePath, value)
    joined = _outcome(paths.PurePath("a").joinpath, value)
    assert joined == _outcome(pathlib.PurePath("a").joinpath, value)


def test_a_test_imports_the_class_that_an_argument_has() -> None:
    code = "import pathlib\ndef f(p: pathlib.PurePath) -> bool:\n    'post: _'\n    return p.suffix != '.b'"
    [found] = check(code)["counterexamples"]
    assert found["call"].startswith("f(pathlib.PurePosixPath(")
    assert "from pathlib import PurePosixPath\n" in found["test"]


CALLS = """
from functools import singledispatch, singledispatchmethod
@singledispatch
def g(x: object) -> str:
    return "object"
@g.register
def of_int(x: int) -> str:
    return "int"
@g.register(list)
@g.register(tuple)
def of_list(x) -> str:
    return "list"
g.register(str | bytes, lambda x: "text")
class A:
    h = g
    @singledispatchmethod
    def i(self, x): return "object"
    @i.register
    def _(self, x: int): return "int"
    @singledispatchmethod
    @classmethod
    def j(cls, x): return "object"
    @j.register
    @classmethod
    def _(cls, x: int): return "int"
def f(x: int) -> list[str]:
    '''post: _ == []'''
    a = A()
    kinds = [g(x), g([x]), g((x,)), g("a"), g(None), g(True), a.h(), A.h(1), a.i(x), a.i(""), a.j(x), A.j("")]
    return kinds + [g.__name__, of_int(None)]
"""


def test_functions_are_chosen_as_the_library_chooses_them() -> None:
    names: dict[str, Any] = {}
    exec(CALLS, names)  # noqa: S102 - the code above
    [found] = check(CALLS)["counterexamples"]
    assert found["actual_result"] == repr(names["f"](found["args"]["x"]))
