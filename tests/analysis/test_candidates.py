"""Concrete arguments have the types of the parameters, also after a variation."""

from quilt_mcp.analysis.engine.candidates import Candidates
from quilt_mcp.analysis.engine.scalars import find_literals
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


def test_values_have_the_type_of_the_parameter() -> None:
    functions = {f"f{number}": annotation for number, annotation in enumerate(KINDS)}
    loaded = load(CODE + "".join(f"def {name}(x: {annotation}): pass\n" for name, annotation in functions.items()))
    names = vars(loaded.module)
    for name, annotation in functions.items():
        signature = resolve_types(names[name])
        assert signature is not None
        candidates = Candidates(signature, find_literals(loaded.tree), 0)
        assert candidates.usable, annotation
        edges = list(candidates.make_boundaries())
        drawn = [one for _ in range(60) if (one := candidates.draw())]
        varied = [one for known in (*edges, *drawn) if (one := candidates.vary(known))]
        assert all([edges, drawn, varied]), annotation
        for arguments in (*edges, *drawn, *varied):
            values = names | {"hasattr": hasattr} | dict(arguments.arguments)
            assert eval(KINDS[annotation], values), arguments  # noqa: S307 - of this file
