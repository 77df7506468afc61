"""Programs about arguments that share an object, about invariants of classes, and about state that no name shows."""

from tests.analysis.programs.rows import read_programs

SHARING = read_programs('''
## shared check: a field is another argument | f(Box(z := []), z)
from dataclasses import dataclass
@dataclass
class Box: items: list[int]
def f(b: Box, xs: list[int]) -> bool:
    """post: _"""
    n = len(xs); b.items.append(1); return len(xs) == n
## shared check: two boxes with one list | f(Box(z := []), Box(z))
from dataclasses import dataclass
@dataclass
class Box: items: list[int]
def f(a: Box, b: Box) -> bool:
    """post: _"""
    n = len(b.items); a.items.append(1); return len(b.items) == n
## shared check: two fields share a list | f(Pair(z := [], z))
from dataclasses import dataclass
@dataclass
class Pair: left: list[int]; right: list[int]
def f(p: Pair) -> bool:
    """post: _"""
    n = len(p.right); p.left.append(1); return len(p.right) == n
## shared check: a part of a tuple is another argument | f((z := [], 1), z)
def f(t: tuple[list[int], int], xs: list[int]) -> bool:
    """post: _"""
    n = len(xs); t[0].append(1); return len(xs) == n
## shared check: a named tuple with another argument | f(Row(z := [], 1), z)
from typing import NamedTuple
class Row(NamedTuple):
    items: list[int]
    n: int
def f(r: Row, xs: list[int]) -> bool:
    """post: _"""
    n = len(xs); r.items.append(1); return len(xs) == n
## shared check: two spellings of one type | f(z := [], z)
from typing import List
def f(a: List[int], b: list[int]) -> bool:
    """post: _"""
    n = len(b); a.append(1); return len(b) == n
## shared check: a list and a list of anything | f(z := [], z)
from typing import Optional
def f(a: Optional[list[int]], b: list[int]) -> bool:
    """post: _"""
    n = len(b)
    if a is not None: a.append(1)
    return len(b) == n
## shared check: a class with slots | f(Slotted(z := []), z)
class Slotted:
    __slots__ = ("items",)
    def __init__(self, items: list[int]) -> None: self.items = items
def f(s: Slotted, xs: list[int]) -> bool:
    """post: _"""
    n = len(xs); s.items.append(1); return len(xs) == n
## shared check: a subclass in place of its base | f(z := Sub([]), z)
from dataclasses import dataclass
@dataclass
class Base: items: list[int]
@dataclass
class Sub(Base): pass
def f(a: Sub, b: Base) -> bool:
    """post: _"""
    n = len(b.items); a.items.append(1); return len(b.items) == n
## check: separate parts that are only read
from dataclasses import dataclass
@dataclass
class Box: items: list[int]
def f(b: Box, xs: list[int]) -> bool:
    """post: _"""
    return len(b.items) + len(xs) >= 0
## check: two dataclasses of numbers
from dataclasses import dataclass
@dataclass
class Point: x: int; y: int
def f(a: Point, b: Point) -> int:
    """post: _ == a.x - b.x"""
    return a.x - b.x
''')
