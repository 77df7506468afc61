"""Programs of everyday code: statements, numbers, dates, decimals and texts."""

from tests.analysis.programs.rows import read_programs

EVERYDAY = read_programs(r'''
## raises ValueError: match on a sequence with a star | f([1, 5, 1])
def f(xs: list[int]) -> int:
    match xs:
        case [first, *middle, last] if first == last and len(middle) == 1:
            if middle[0] > 4:
                raise ValueError
            return 1
        case _:
            return 0
## raises ValueError: match on a mapping | f({"kind": 3})
def f(d: dict[str, int]) -> int:
    match d:
        case {"kind": 3, **rest}:
            raise ValueError
        case _:
            return 0
## check: every second item | f([1, 2, 3])
def f(xs: list[int]) -> int:
    """post: _ == len(xs) // 2"""
    return len(xs[::2])
## check: every second item, rounded up
def f(xs: list[int]) -> int:
    """pre: len(xs) <= 5
    post: _ == (len(xs) + 1) // 2"""
    return len(xs[::2])
## check: modulo of floats stays below the divisor | f(-1e-20)
def f(x: float) -> float:
    """pre: -10 < x < 10
    post: 0 <= _ < 3.0"""
    return x % 3.0
## check: an f-string with a width | f(12345678901)
def f(n: int) -> str:
    """pre: n >= 0
    post: len(_) == 10"""
    return f"{n:010d}"
## check: str.format with precision | f(2.675)
def f(x: float) -> str:
    """
    pre: x == 2.675
    post: _ == "2.68"
    """
    return "{:.2f}".format(x)
## check: order of a dict is that of insertion | f({"b": 1, "a": 2})
def f(d: dict[str, int]) -> list[str]:
    """post: _ == sorted(_)"""
    return list(d)
## pair: sorted is stable in reverse too | a([(1, 1), (1, 2)])
def a(xs: list[tuple[int, int]]):
    return sorted(xs, key=lambda p: p[0], reverse=True)
def b(xs: list[tuple[int, int]]):
    return sorted(xs, key=lambda p: p[0])[::-1]
## check: a truth value is added like a number
def f(x: bool, y: bool) -> int:
    """post: 0 <= _ <= 2"""
    return x + y
## pair: identity with True | a(1)
def a(x: int):
    return x == True
def b(x: int):
    return x is True
## check: recursion of gcd | f(0, 0)
def f(a: int, b: int) -> int:
    """pre: 0 <= a <= 20 and 0 <= b <= 20
    post: _ > 0"""
    return a if b == 0 else f(b, a % b)
## check: precision of a local decimal context | f(Decimal("1.2345"))
from decimal import Decimal, localcontext
def f(x: Decimal) -> Decimal:
    """pre: x == Decimal("1.2345")
    post: _ == x"""
    with localcontext() as c:
        c.prec = 3
        return +x
## unstable check: the context of the caller of decimals
from decimal import Decimal, getcontext
def f(x: int) -> int:
    """pre: 1 <= x <= 3
    post: _ == 28"""
    return getcontext().prec
## check: the name of an alias | f(Color.CRIMSON)
from enum import Enum
class Color(Enum):
    RED = 1
    CRIMSON = 1
    BLUE = 2
def f(c: Color) -> str:
    """post: _ != "RED" """
    return c.name
## check: a named tuple is equal to a tuple
from typing import NamedTuple
class Point(NamedTuple):
    x: int
    y: int
def f(p: Point) -> bool:
    """post: _"""
    return p == (p.x, p.y)
## raises ValueError: a named tuple with a default | f(Point(7))
from typing import NamedTuple
class Point(NamedTuple):
    x: int
    y: int = 7
def f(p: Point) -> int:
    if p.x == p.y == 7:
        raise ValueError
    return 0
## raises KeyError: a typed dict without an optional key | f({"name": "a"})
from typing import TypedDict, NotRequired
class User(TypedDict):
    name: str
    age: NotRequired[int]
def f(u: User) -> int:
    return u["age"]
''')
