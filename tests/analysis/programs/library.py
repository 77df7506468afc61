"""Programs of everyday code: types, classes and functions of the standard library."""

from tests.analysis.programs.rows import read_programs

LIBRARY = read_programs(r'''
## unstable check: a typed dict has its keys
from typing import TypedDict
class User(TypedDict):
    name: str
    age: int
def f(u: User) -> int:
    """post: _ == 2"""
    return len(u)
## check: a union of int and str
from typing import Union
def f(x: Union[int, str]) -> str:
    """post: _ in ("number", "text")"""
    return "number" if isinstance(x, int) else "text"
## check: a set of tuples | f({(1, 2), (2, 1)})
def f(edges: set[tuple[int, int]]) -> int:
    """post: _ == len(edges)"""
    return len({(min(a, b), max(a, b)) for a, b in edges})
## check: `in` consumes a generator | f(1)
def f(x: int) -> bool:
    """pre: 0 <= x <= 2
    post: _"""
    g = (i for i in range(3))
    return x in g and x in g
## pair: two ways to swap a pair
def a(p: tuple[int, int]):
    x, y = p
    return y, x
def b(p: tuple[int, int]):
    return p[1], p[0]
## pair: or with a default and None | a(0)
from typing import Optional
def a(x: Optional[int]):
    return x or 10
def b(x: Optional[int]):
    return x if x is not None else 10
## pair: dict.get and in | a({"k": 0})
def a(d: dict[str, int]):
    return d.get("k") or -1
def b(d: dict[str, int]):
    return d["k"] if "k" in d else -1
## raises ZeroDivisionError: the mean of a non-empty list
def f(xs: list[int]) -> int:
    return sum(xs) // len(xs) if xs else 0
## raises AttributeError: a match that is None | f("b")
import re
def f(s: str) -> str:
    return re.match("a", s).group()
## raises UnboundLocalError: a name that one branch binds | f(0)
def f(x: int) -> int:
    if x > 0:
        y = 1
    return y
## raises ValueError: zip strict | f([1], [])
def f(a: list[int], b: list[int]) -> int:
    return len(list(zip(a, b, strict=True)))
## check: int of a text is written the same way | f("+0")
def f(s: str) -> int:
    """raises: ValueError
    post: str(_) == s.strip()"""
    return int(s)
## check: bit operations
def f(x: int) -> bool:
    """post: _"""
    return x & -x >= 0
## check: shift left and right
def f(x: int) -> int:
    """post: _ == x"""
    return (x << 3) >> 3
## check: power of a negative exponent is a float | f(-1)
def f(n: int) -> bool:
    """pre: -3 <= n <= 3
    post: _"""
    return isinstance(2 ** n, int)
## check: a decimal context that the module sets
from decimal import Decimal, getcontext
getcontext().prec = 3
def f(x: int) -> str:
    """
    pre: x == 1
    post: _ == "0.333"
    """
    return str(Decimal(x) / 3)
## check: a decimal context that the module sets, other | f(1)
import decimal
decimal.getcontext().prec = 3
def f(x: int) -> str:
    """
    pre: x == 1
    post: _ != "0.333"
    """
    return str(decimal.Decimal(x) / 3)
## unstable check: a decimal context that another function sets
from decimal import Decimal, getcontext
def setup() -> None:
    getcontext().prec = 2
def f(x: int) -> bool:
    """pre: 1 <= x <= 3
    post: _"""
    return Decimal(100) + 1 == Decimal(101)
''')
