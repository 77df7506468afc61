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
## shared check: two parts of a tuple | f((z := [], z))
def f(t: tuple[list[int], list[int]]) -> bool:
    """post: _"""
    n = len(t[1]); t[0].append(1); return len(t[1]) == n
## shared check: a named tuple with another argument | f(Row(z := [], 1), z)
from typing import NamedTuple
class Row(NamedTuple):
    items: list[int]
    n: int
def f(r: Row, xs: list[int]) -> bool:
    """post: _"""
    n = len(xs); r.items.append(1); return len(xs) == n
## shared check: a frozen class with a list | f(Frozen(z := []), z)
from dataclasses import dataclass
@dataclass(frozen=True)
class Frozen: items: list[int]
def f(b: Frozen, xs: list[int]) -> bool:
    """post: _"""
    n = len(xs); b.items.append(1); return len(xs) == n
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
## shared check: a list of lists and a list | f([z := []], z)
def f(a: list[list[int]], b: list[int]) -> bool:
    """post: _"""
    n = len(b)
    for one in a: one.append(1)
    return len(b) == n
## shared check: values of a dict and a list | f({1: (z := [])}, z)
def f(a: dict[int, list[int]], b: list[int]) -> bool:
    """post: _"""
    n = len(b)
    for one in a.values(): one.append(1)
    return len(b) == n
## shared check: two lists with a common item | f([z := []], [z])
def f(a: list[list[int]], b: list[list[int]]) -> bool:
    """post: _"""
    before = [len(one) for one in b]
    for one in a: one.append(1)
    return [len(one) for one in b] == before
## shared check: an ordinary class with a common part | f(Node(z := Leaf(0)), Node(z))
class Leaf:
    def __init__(self, n: int) -> None: self.n = n
class Node:
    def __init__(self, leaf: Leaf) -> None: self.leaf = leaf
def f(a: Node, b: Node) -> bool:
    """post: _"""
    n = b.leaf.n; a.leaf.n += 1; return b.leaf.n == n
## shared check: a class with slots | f(Slotted(z := []), z)
class Slotted:
    __slots__ = ("items",)
    def __init__(self, items: list[int]) -> None: self.items = items
def f(s: Slotted, xs: list[int]) -> bool:
    """post: _"""
    n = len(xs); s.items.append(1); return len(xs) == n
## shared check: a dict twice | f(z := {}, z)
from typing import Dict
def f(a: Dict[int, int], b: dict[int, int]) -> bool:
    """post: _"""
    n = len(b); a[len(a) - 10**6] = 1; return len(b) == n
## shared check: a set twice below fields | f(Tag(z := set()), Tag(z))
from dataclasses import dataclass
@dataclass
class Tag: names: set[int]
def f(a: Tag, b: Tag) -> bool:
    """post: _"""
    n = len(b.names); a.names.clear(); a.names.add(n); a.names.add(n + 1); return len(b.names) == n
## shared check: the item of the items | f([[z := [], z]])
def f(a: list[list[list[int]]]) -> bool:
    """pre: len(a) == 1 and len(a[0]) == 2
    post: _"""
    n = len(a[0][1]); a[0][0].append(1); return len(a[0][1]) == n
## shared check: a default object is one of the arguments | f(Cart(z := []), items=z)
from dataclasses import dataclass
@dataclass
class Cart: items: list[int]
def f(c: Cart, *, items: list[int]) -> bool:
    """post: _"""
    n = len(items); c.items.extend([1, 2]); return len(items) == n
## shared check: a method and its own part | f(Acc([], z := Acc([], None)), z)
from dataclasses import dataclass
from typing import Optional
@dataclass
class Acc:
    seen: list[int]
    parent: "Optional[Acc]"
def f(a: Acc, b: Acc) -> bool:
    """post: _"""
    n = len(b.seen)
    if a.parent is not None: a.parent.seen.append(1)
    return len(b.seen) == n
## shared check: a subclass in place of its base | f(z := Sub([]), z)
from dataclasses import dataclass
@dataclass
class Base: items: list[int]
@dataclass
class Sub(Base): pass
def f(a: Sub, b: Base) -> bool:
    """post: _"""
    n = len(b.items); a.items.append(1); return len(b.items) == n
## shared check: a union of two lists | f(z := [], z)
from typing import Union
def f(a: Union[list[int], int], b: Union[list[int], str]) -> bool:
    """post: _"""
    if isinstance(a, list) and isinstance(b, list):
        n = len(b); a.append(1); return len(b) == n
    return True
## shared pair: through a field, compared | a(Box(z := [0]), z)
from dataclasses import dataclass
@dataclass
class Box: items: list[int]
def a(b: Box, xs: list[int]) -> int:
    b.items.append(1); return len(xs)
def b(b: Box, xs: list[int]) -> int:
    n = len(xs); b.items.append(1); return n
## shared pair: the order of two clears | a(Pair(z := [1], z))
from dataclasses import dataclass
@dataclass
class Pair: left: list[int]; right: list[int]
def a(p: Pair) -> int:
    p.left.clear(); return len(p.right)
def b(p: Pair) -> int:
    n = len(p.right); p.left.clear(); return n
## shared raises IndexError: emptied through a field | f(Box(z := [1]), z)
from dataclasses import dataclass
@dataclass
class Box: items: list[int]
def f(b: Box, xs: list[int]) -> int:
    if not xs: return 0
    b.items.clear()
    return xs[0]
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
## check: a seeded generator
import random
def f(x: int) -> float:
    """post: 0 <= _ < 1"""
    return random.Random(7).random()
## check: a class with its own text
class Thing:
    def __repr__(self) -> str: return "thing"
def f(x: int) -> str:
    """post: _ == 'thing'"""
    return repr(Thing())
''')
