"""Programs of everyday code: statements, numbers, dates, decimals and texts."""

from tests.analysis.programs.rows import read_programs

EVERYDAY = read_programs(r'''
## check: dataclass order compares fields in order | f(V(1, 0), V(1, 1))
from dataclasses import dataclass
@dataclass(order=True)
class V:
    major: int
    minor: int
def f(a: V, b: V) -> bool:
    """post: _ == (a.major < b.major)"""
    return a < b
## check: dataclass method total is never negative for clamped items | f(Cart(0, -1))
from dataclasses import dataclass
@dataclass
class Cart:
    items: int
    price: int
    def total(self) -> int:
        return max(self.items, 0) * self.price + self.price
def f(c: Cart) -> int:
    """post: _ >= 0"""
    return c.total()
## check: walrus keeps the last match | f([2, 3])
def f(xs: list[int]) -> int:
    """post: _ == 0 or _ % 2 == 0"""
    last = 0
    if any((last := x) > 2 for x in xs):
        return last
    return 0
## check: walrus in a while loop
def f(n: int) -> int:
    """pre: 0 <= n <= 12
    post: _ <= 1"""
    while (n := n - 2) > 1:
        pass
    return n
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
## check: match treats a truth value as an integer
def f(x: int) -> str:
    """post: _ in ("one", "other")"""
    match x:
        case 1:
            return "one"
        case _:
            return "other"
## check: slice with a negative step | f("ab")
def f(s: str) -> str:
    """pre: len(s) <= 6
    post: _ == s or len(s) < 2"""
    return s[::-1]
## check: every second item | f([1, 2, 3])
def f(xs: list[int]) -> int:
    """post: _ == len(xs) // 2"""
    return len(xs[::2])
## check: every second item, rounded up
def f(xs: list[int]) -> int:
    """pre: len(xs) <= 5
    post: _ == (len(xs) + 1) // 2"""
    return len(xs[::2])
## check: rounding to even | f(2.5)
def f(x: float) -> int:
    """pre: 0 <= x <= 1000
    post: _ >= x or x - _ < 0.5"""
    return round(x)
## check: addition of floats is associative | f(0.1, 0.2, 0.3)
def f(a: float, b: float, c: float) -> bool:
    """pre: 0 <= a <= 1 and 0 <= b <= 1 and 0 <= c <= 1
    post: _"""
    return (a + b) + c == a + (b + c)
## check: a float equals itself | f(float("nan"))
def f(x: float) -> bool:
    """post: _"""
    return x == x
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
## unstable check: a mutable default keeps state
def f(x: int, seen: list[int] = []) -> int:
    """post: _ == 1"""
    seen.append(x)
    return len(seen)
## unstable raises ValueError: a mutable default between calls
def g(x: int, seen: list[int] = []) -> int:
    seen.append(x)
    return len(seen)
def f(x: int) -> int:
    g(x)
    if g(x) == 2:
        raise ValueError
    return 0
## check: closures share the loop variable | f(0)
def f(n: int) -> int:
    """pre: 0 <= n < 3
    post: _ == n"""
    functions = [lambda: i for i in range(3)]
    return functions[n]()
## check: closures with a default keep their value
def f(n: int) -> int:
    """pre: 0 <= n < 3
    post: _ == n"""
    functions = [lambda i=i: i for i in range(3)]
    return functions[n]()
## check: recursion of gcd | f(0, 0)
def f(a: int, b: int) -> int:
    """pre: 0 <= a <= 20 and 0 <= b <= 20
    post: _ > 0"""
    return a if b == 0 else f(b, a % b)
## raises RecursionError: recursion without an end for odd numbers | f(1)
def f(n: int) -> int:
    if n == 0:
        return 0
    return f(n - 2)
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
## check: quantize rounds half to even | f(Decimal("0.125"))
from decimal import Decimal
def f(x: Decimal) -> Decimal:
    """pre: x in (Decimal("0.125"), Decimal("0.135"))
    post: _ > x"""
    return x.quantize(Decimal("0.01"))
## raises ValueError: the day after a month later | f(date(2024, 1, 31))
from datetime import date
def f(d: date) -> date:
    return d.replace(month=d.month % 12 + 1)
## raises OverflowError: the day after | f(date.max)
from datetime import date, timedelta
def f(d: date) -> date:
    return d + timedelta(days=1)
## check: weeks have seven days
from datetime import date
def f(d: date) -> int:
    """post: 0 <= _ <= 6"""
    return d.weekday()
## check: ISO year is the year | f(date(2024, 12, 30))
from datetime import date
def f(d: date) -> int:
    """post: _ == d.year"""
    return d.isocalendar()[0]
## check: ignoring case in a pattern | f("\u212a")
import re
def f(s: str) -> bool:
    """pre: len(s) == 1
    post: _ == (s in "kK")"""
    return re.fullmatch("k", s, re.IGNORECASE) is not None
## check: digits of a pattern are ASCII | f("\u0661")
import re
def f(s: str) -> bool:
    """
    pre: len(s) == 1
    post: not _ or s in "0123456789"
    """
    return re.fullmatch(r"\d", s) is not None
## check: a dot matches every character | f("\n")
import re
def f(s: str) -> bool:
    """pre: len(s) == 1
    post: _"""
    return re.fullmatch(".", s) is not None
## check: a dot with the flag matches every character
import re
def f(s: str) -> bool:
    """pre: len(s) == 1
    post: _"""
    return re.fullmatch(".", s, re.DOTALL) is not None
## raises UnicodeDecodeError: bytes that are no UTF-8 | f(b"\xff")
def f(b: bytes) -> str:
    return b.decode()
## check: bytes are numbers
def f(b: bytes) -> int:
    """pre: len(b) == 1
    post: 0 <= _ < 256"""
    return b[0]
## raises UnicodeEncodeError: a text with a surrogate | f("\ud800")
def f(s: str) -> bytes:
    return s.encode("utf-8")
## check: an alias of a member is not another member
from enum import Enum
class Color(Enum):
    RED = 1
    CRIMSON = 1
    BLUE = 2
def f(c: Color) -> str:
    """post: _ in ("RED", "BLUE")"""
    return c.name
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
