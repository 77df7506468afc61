"""Programs with objects and modules in states that no new object has, shared objects, and nested objects."""

from tests.analysis.programs.rows import read_programs

STATES = read_programs(r'''
## decided check: a precondition that changes its argument | f([])
def f(x: list[int]) -> int:
    """
    pre: x.append(1) is None
    post: True
    """
    return 1 // len(x)
## decided check: an invariant that changes its object | f(A([]))
from dataclasses import dataclass
@dataclass
class A:
    """inv: self.x.append(1) is None"""
    x: list[int]
def f(a: A) -> int:
    """post: True"""
    return 1 // len(a.x)
## raises ZeroDivisionError: an invariant that calls what sets an attribute | f(A(-5))
class A:
    """inv: self.normalize()"""
    def __init__(self, x: int) -> None:
        self.x = x
    def normalize(self) -> bool:
        self.x = abs(self.x)
        return True
def f(a: A) -> int:
    return 1 // (a.x + 5)
## raises ZeroDivisionError: an invariant that pushes into a heap | f(A([]))
from heapq import heappush
class A:
    """inv: heappush(self.x, 1) is None"""
    def __init__(self, x: list[int]) -> None:
        self.x = x
def f(a: A) -> int:
    return 1 // len(a.x)
## check: an invariant that resets its object
class A:
    """inv: self.reset()"""
    def __init__(self, x: int) -> None:
        self.x = x
    def reset(self) -> bool:
        self.x = 0
        return True
def f(a: A) -> int:
    """post: _ == a.x"""
    return a.x
## unstable check: a counter that another method increments
class Counter:
    def __init__(self) -> None:
        self.count = 0
    def increment(self) -> None:
        self.count += 1
def f(c: Counter) -> int:
    """post: _ == 0"""
    return c.count
## unstable check: a balance that a constructor clamps and a method changes
class Account:
    def __init__(self, balance: int) -> None:
        self.balance = max(balance, 0)
    def withdraw(self, amount: int) -> None:
        self.balance -= amount
def f(a: Account) -> bool:
    """post: _"""
    return a.balance >= 0
## unstable raises ValueError: a list that a method fills
class Stack:
    def __init__(self, size: int) -> None:
        self.size = size
        self.items: list[int] = []
    def push(self, item: int) -> None:
        self.items.append(item)
def f(s: Stack) -> int:
    if len(s.items) > 2:
        raise ValueError
    return s.size
## unstable raises ValueError: a range with a check that can be avoided later
from dataclasses import dataclass
@dataclass
class Range:
    low: int
    high: int
    def __post_init__(self) -> None:
        if self.low > self.high:
            raise TypeError
def f(r: Range) -> int:
    if r.high < r.low:
        raise ValueError
    return r.high - r.low
## unstable raises ValueError: a class attribute that a class method changes
class Switch:
    on = False
    @classmethod
    def turn(cls) -> None:
        cls.on = True
def f(x: int) -> int:
    if Switch.on:
        raise ValueError
    return x
## check: a constructor that only stores
class Box:
    def __init__(self, value: int) -> None:
        self.value = value
    def double(self) -> None:
        self.value *= 2
def f(b: Box) -> bool:
    """post: _"""
    return b.value == b.value
## check: a constructor that only stores, with a violation | f(Box(3))
class Box:
    def __init__(self, value: int) -> None:
        self.value = value
def f(b: Box) -> bool:
    """post: _"""
    return b.value != 3
## check: an immutable range
from dataclasses import dataclass
@dataclass(frozen=True)
class Range:
    low: int
    high: int
    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError
def f(r: Range) -> bool:
    """post: _"""
    return r.low <= r.high
## unstable raises ValueError: a registry that another function fills
registry: dict[str, int] = {}
def register(name: str, value: int) -> None:
    registry[name] = value
def f(name: str) -> int:
    if name in registry:
        raise ValueError
    return 0
## unstable raises ValueError: a switch that another function turns
on = False
def turn() -> None:
    global on
    on = True
def f(x: int) -> int:
    if on:
        raise ValueError
    return x
## raises ValueError: a module name that another function uses as a local name
limits = (1, 2)
def read(x: int) -> int:
    limits = [x]
    limits.append(x)
    return len(limits)
def f(x: int) -> int:
    if len(limits) > 2:
        raise ValueError
    return x
## unstable check: one list for two parameters
def f(x: list[int], y: list[int]) -> int:
    """post: _ == len(__old__.x)"""
    y.append(1)
    return len(x)
## unstable check: one object for two parameters
class Value:
    def __init__(self, x: int) -> None:
        self.x = x
def f(a: Value, b: Value) -> bool:
    """post: not _"""
    return a is b
## unstable raises ValueError: one instance for two parameters
from dataclasses import dataclass
@dataclass
class Cell:
    value: int
def f(p: Cell, q: Cell) -> int:
    before = p.value
    q.value += 1
    if p.value != before:
        raise ValueError
    return 0
## unstable raises ValueError: one row twice
def f(rows: list[list[int]]) -> int:
    if len(rows) == 2:
        count = len(rows[0])
        rows[1].append(1)
        if len(rows[0]) != count:
            raise ValueError
    return 0
## unstable pair: one list for two parameters
def a(x: list[int], y: list[int]) -> int:
    count = len(x)
    y.append(1)
    return count
def b(x: list[int], y: list[int]) -> int:
    y.append(1)
    return len(x)
## check: the sum of a chain of objects | f(Link(900719))
class Link:
    def __init__(self, value: int, after: "Link | None" = None) -> None:
        self.value = value
        self.after = after
def f(one: Link) -> int:
    """post: _ < 900719"""
    return one.value + (f(one.after) if one.after else 0)
## raises ValueError: a value in a tree | f(Node(5))
from dataclasses import dataclass
from typing import Optional
@dataclass
class Node:
    value: int
    left: Optional["Node"] = None
    right: Optional["Node"] = None
def f(one: Node | None) -> int:
    if one is None:
        return 0
    if one.value == 5:
        raise ValueError
    return 1 + max(f(one.left), f(one.right))
''')
