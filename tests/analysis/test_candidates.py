"""Concrete arguments: they have the types of the parameters, and the same seed makes the same ones."""

from collections.abc import Iterable
from decimal import Decimal
from itertools import islice
from typing import Any

import pytest

from quilt_mcp.analysis.engine.candidates import Candidates, is_harmless
from quilt_mcp.analysis.engine.scalars import STRIDE, find_literals
from quilt_mcp.analysis.engine.source_text import write_source
from quilt_mcp.analysis.engine.subjects import resolve_types
from tests.analysis.engine_runs import load

CODE = """
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from typing import Annotated, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, TypeVar
class Colour(Enum):
    RED = 1
    BLUE = 2
class Many(Flag):
    A = 1
    B = 2
    C = 4
@dataclass
class Even:
    '''inv: self.x % 2 == 0'''
    x: int
class Small:
    def __init__(self, x: int):
        if not 0 <= x < 10: raise ValueError
        self.x = x
class Node:
    def __init__(self, after: Optional["Node"]): self.after = after
class Pair(NamedTuple):
    left: int
    right: str
class User(TypedDict):
    name: str
    age: NotRequired[int]
Age = NewType("Age", int)
"""
KINDS: dict[str, str] = {
    "int": "type(x) is int",
    "Literal['a', 'b']": "x in ('a', 'b')",
    "Literal['a', 'b'] | int": "x in ('a', 'b') or type(x) is int",
    "list[Literal[1, 2]]": "all(one in (1, 2) for one in x)",
    "Colour": "type(x) is Colour",
    "Many": "type(x) is Many",
    "Even": "x.x % 2 == 0",
    "Small": "0 <= x.x < 10",
    "Node": "isinstance(x.after, (Node, type(None)))",
    "Pair": "type(x) is Pair and type(x.right) is str",
    "Age": "type(x) is int",
    "User": "type(x['name']) is str and {*x} <= {'name', 'age'}",
    "Annotated[str, 1]": "type(x) is str",
    "tuple[int, str]": "len(x) == 2 and type(x[1]) is str",
    "tuple[int, ...]": "all(type(one) is int for one in x)",
    "set[tuple[int, int]]": "all(len(one) == 2 for one in x)",
    "dict[str, list[int]]": "all(type(one) is list for one in x.values())",
    "Counter[str]": "type(x) is Counter",
    "OrderedDict[int, int]": "type(x) is OrderedDict",
    "defaultdict[int, int]": "type(x) is defaultdict",
    "deque[int]": "type(x) is deque",
    "float | None": "x is None or type(x) is float",
    "Decimal": "type(x) is Decimal",
    "Fraction": "type(x) is Fraction",
    "date": "type(x) is date",
    "datetime": "type(x) is datetime",
    "time": "type(x) is time",
    "timedelta": "type(x) is timedelta",
    "complex": "type(x) is complex",
    "bytes": "type(x) is bytes",
    "range": "type(x) is range",
    "Iterable[int]": "hasattr(x, '__iter__')",
}


def make_all(annotations: Iterable[str], seed: int = 0) -> tuple[dict[str, Candidates], dict[str, Any]]:
    """Return candidates for a parameter of each type, and the names of the module that has the types."""
    functions = {f"f{number}": annotation for number, annotation in enumerate(annotations)}
    loaded = load(CODE + "".join(f"def {name}(x: {annotation}): pass\n" for name, annotation in functions.items()))
    names, literals = vars(loaded.module), find_literals(loaded.tree)
    found = {}
    for name, annotation in functions.items():
        signature = resolve_types(names[name])
        assert signature is not None
        found[annotation] = Candidates(signature, literals, seed)
    return found, names


def make(annotation: str, seed: int = 0) -> tuple[Candidates, dict[str, Any]]:
    found, names = make_all([annotation], seed)
    return found[annotation], names


def test_values_have_the_type_of_the_parameter() -> None:
    found, names = make_all(KINDS)
    for annotation, candidates in found.items():
        assert candidates.usable, annotation
        edges = list(candidates.make_boundaries())
        drawn = [one for _ in range(60) if (one := candidates.draw())]
        varied = [one for known in (*edges, *drawn) if (one := candidates.vary(known))]
        assert edges, annotation
        assert drawn, annotation
        assert varied, annotation
        for arguments in (*edges, *drawn, *varied):
            values = names | {"hasattr": hasattr} | dict(arguments.arguments)
            assert eval(KINDS[annotation], values), arguments  # noqa: S307 - of this file


@pytest.mark.parametrize("annotation", ["int", "str", "float", "list[str]", "Decimal", "datetime"])
def test_same_seed_makes_the_same_values(annotation: str) -> None:
    def draw(seed: int) -> list[str]:
        candidates, _ = make(annotation, seed)
        return [write_source(one.arguments["x"]) for _ in range(30) if (one := candidates.draw())]

    assert draw(1) == draw(1) != draw(2)


@pytest.mark.parametrize(
    ("annotation", "number"), [("bool", 2), ("Colour", 2), ("Many", 8), ("Literal[1, 2, 3]", 3), ("bool | None", 3)]
)
def test_small_domains_are_listed_completely(annotation: str, number: int) -> None:
    candidates, _ = make(annotation)
    assert len({write_source(one.arguments["x"]) for one in candidates.list_all(100) or []}) == number
    assert candidates.list_all(1) is None


@pytest.mark.parametrize("annotation", ["int", "list[bool]", "Small", "timezone"])
def test_other_domains_are_not_listed(annotation: str) -> None:
    candidates, _ = make(annotation if annotation != "timezone" else "datetime")
    assert candidates.list_all(10_000) is None


def test_constants_of_the_code_are_drawn() -> None:
    loaded = load("def f(x: int, s: str):\n    return x == 987654 and s == 'sesame'")
    signature = resolve_types(vars(loaded.module)["f"])
    assert signature is not None
    candidates = Candidates(signature, find_literals(loaded.tree), 0)
    drawn = [one.arguments for _ in range(300) if (one := candidates.draw())]
    assert {987653, 987654, 987655} <= {one["x"] for one in drawn}
    assert "sesame" in {one["s"] for one in drawn}


def test_large_numbers_are_not_harmless() -> None:
    candidates, _ = make("list[int]")
    edges = list(islice(candidates.make_boundaries(), 40))
    assert {is_harmless(one) for one in edges} == {True, False}


def test_stride_keeps_remainders_and_low_bits() -> None:
    assert all(STRIDE % divisor == 0 for divisor in range(1, 41))
    assert STRIDE > 1 << 1024


@pytest.mark.parametrize(
    ("annotation", "code", "wanted"),
    [
        ("int", "x == 4711", {4711, 4712, 4710, -4711, 2355}),
        ("float", "x < 47.5", {47.5, 23.75}),
        ("Decimal", "x == Decimal('1.2345')", {Decimal("1.2345")}),
    ],
)
def test_boundaries_contain_the_constants_of_the_code_and_their_neighbours(
    annotation: str, code: str, wanted: set[object]
) -> None:
    loaded = load(f"from decimal import Decimal\ndef f(x: {annotation}): return {code}")
    signature = resolve_types(vars(loaded.module)["f"])
    assert signature
    candidates = Candidates(signature, find_literals(loaded.tree), 0)
    assert wanted <= {one.arguments["x"] for one in candidates.make_boundaries()}


def test_typed_dict_is_tried_without_the_keys_that_are_not_required() -> None:
    candidates, _ = make("User")
    assert {frozenset(one.arguments["x"]) for one in candidates.make_boundaries()} == {
        frozenset({"name"}),
        frozenset({"name", "age"}),
    }
    assert not candidates.modelled


def test_mixed_arguments_have_each_value_of_one_or_the_other() -> None:
    loaded = load("def f(x: int, y: int = 5): return x")
    signature = resolve_types(vars(loaded.module)["f"])
    assert signature
    candidates = Candidates(signature, find_literals(loaded.tree), 0)
    one, other = signature.bind(1, 2), signature.bind(3)
    mixed = {tuple(candidates.mix(one, other).arguments.items()) for _ in range(50)}
    assert mixed == {(("x", 1), ("y", 2)), (("x", 3), ("y", 2))}
