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
## raises TypeError: an optional number is added | f(None)
from typing import Optional
def f(x: Optional[int] = None) -> int:
    return x + 1
## check: a union of int and str
from typing import Union
def f(x: Union[int, str]) -> str:
    """post: _ in ("number", "text")"""
    return "number" if isinstance(x, int) else "text"
## raises KeyError: a literal without a branch | f("del")
from typing import Literal
def f(op: Literal["get", "put", "del"]) -> int:
    return {"get": 1, "put": 2}[op]
## check: a set of tuples | f({(1, 2), (2, 1)})
def f(edges: set[tuple[int, int]]) -> int:
    """post: _ == len(edges)"""
    return len({(min(a, b), max(a, b)) for a, b in edges})
## check: a chained comparison
def f(a: int, b: int, c: int) -> bool:
    """post: not _ or a < c"""
    return a < b < c
## check: a chained comparison with unequal signs | f(1, 2, 1)
def f(a: int, b: int, c: int) -> bool:
    """post: not _ or a != c"""
    return a != b != c
## check: `in` consumes a generator | f(1)
def f(x: int) -> bool:
    """pre: 0 <= x <= 2
    post: _"""
    g = (i for i in range(3))
    return x in g and x in g
## check: upper and lower of a text | f("ß")
def f(s: str) -> bool:
    """pre: len(s) <= 2
    post: _"""
    return len(s.upper()) == len(s)
## check: swapcase twice | f("ß")
def f(s: str) -> str:
    """pre: len(s) <= 2
    post: _ == s"""
    return s.swapcase().swapcase()
## check: isdigit accepts what int accepts | f("²")
def f(s: str) -> int:
    """post: True"""
    return int(s) if s.isdigit() else 0
## check: strip removes ordinary spaces only | f("\u2003a")
def f(s: str) -> str:
    """pre: len(s) <= 3
    post: _ == s.strip(" ")"""
    return s.strip()
## check: split and join give the text back | f(" a")
def f(s: str) -> str:
    """post: _ == s"""
    return " ".join(s.split())
## check: splitlines and split differ | f("a\x1cb")
def f(s: str) -> list[str]:
    """pre: s.isprintable() or s == chr(28).join("ab")
    post: len(_) <= 1"""
    return s.splitlines()
## pair: integer division and int of a quotient | a(-1, 2)
def a(x: int, y: int):
    return x // y if y else 0
def b(x: int, y: int):
    return int(x / y) if y and abs(x) < 100 and abs(y) < 100 else (x // y if y else 0)
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
## pair: extend and plus | a([], [1])
def a(xs: list[int], ys: list[int]):
    xs += ys
    return xs
def b(xs: list[int], ys: list[int]):
    xs = xs + ys
    return xs
## pair: the type of the result | a(1)
def a(x: int):
    return x * 1.0 if x < 5 else x
def b(x: int):
    return x
## raises StopIteration: next of an empty filter | f([])
def f(xs: list[int]) -> int:
    return next(x for x in xs if x > 0)
## raises IndexError: a deque that is empty | f([])
from collections import deque
def f(xs: list[int]) -> int:
    d = deque(xs, maxlen=2)
    return d.popleft()
## raises ZeroDivisionError: the mean of positive numbers | f([-1])
def f(xs: list[int]) -> float:
    chosen = [x for x in xs if x > 0]
    return sum(chosen) / len(chosen)
## raises ZeroDivisionError: the mean of a non-empty list
def f(xs: list[int]) -> int:
    return sum(xs) // len(xs) if xs else 0
## check: a property with a setter clamps | f(-1)
class T:
    def __init__(self, v: int) -> None:
        self._v = v
    @property
    def v(self) -> int:
        return self._v
    @v.setter
    def v(self, value: int) -> None:
        self._v = max(0, value)
def f(x: int) -> int:
    """post: _ >= 0"""
    t = T(x)
    return t.v
## check: super and inheritance | f(0)
class A:
    def size(self) -> int:
        return 1
class B(A):
    def size(self) -> int:
        return super().size() + 1
def f(x: int) -> int:
    """post: _ == 2"""
    return (A() if x == 0 else B()).size()
## check: any of an empty list
def f(xs: list[int]) -> bool:
    """post: _ == (len(xs) > 0)"""
    return any(True for _ in xs)
## check: finally overrides nothing
def f(x: int) -> int:
    """post: _ == x + 1"""
    y = x
    try:
        y += 1
        return y
    finally:
        y = 100
## check: else of a loop | f([3])
def f(xs: list[int]) -> int:
    """post: _ == -1 or _ in xs"""
    for x in xs:
        if x == 3:
            break
    else:
        return -1
    return x + (len(xs) == 1)
## raises AttributeError: a match that is None | f("b")
import re
def f(s: str) -> str:
    return re.match("a", s).group()
## check: groups that did not take part are None | f("b")
import re
def f(s: str) -> bool:
    """post: _"""
    m = re.fullmatch("(a)?(b)", s)
    return m is None or m.group(1) is not None
## raises UnboundLocalError: a name that one branch binds | f(0)
def f(x: int) -> int:
    if x > 0:
        y = 1
    return y
## raises TypeError: sorting numbers and None | f([None, 1])
def f(xs: list[int | None]) -> list[int | None]:
    return sorted(xs)
## check: zip stops at the shorter | f([1], [])
def f(a: list[int], b: list[int]) -> int:
    """post: _ == len(a)"""
    return len(list(zip(a, b)))
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
## check: abs of the smallest | f(0)
def f(x: int) -> int:
    """post: _ > 0"""
    return abs(x)
## check: divmod
def f(a: int, b: int) -> bool:
    """pre: b != 0
    post: _"""
    q, r = divmod(a, b)
    return q * b + r == a
## check: the sign of a remainder | f(5, -3)
def f(a: int, b: int) -> int:
    """pre: b != 0
    post: _ >= 0"""
    return a % b
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
