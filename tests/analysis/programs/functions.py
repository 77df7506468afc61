"""Programs with recursion, default values, closures, generators, matching and special annotations."""

from tests.analysis.programs.rows import read_programs

FUNCTIONS = read_programs(r'''
## pair: other default values without effect
def a(x: int, unused: int = 1): return x
def b(x: int, unused: int = 2): return x
## pair: one of two default values differs | a(0)
def a(x: int, y: int = 1, z: int = 2): return x + y * z
def b(x: int, y: int = 1, z: int = 3): return x + y * z
## pair: default values of other types | a(0)
def a(x: int, y: int = 1): return [x, y]
def b(x: int, y: int = True): return [x, y]
## check: a mutable default value is shared | f(1)
def f(x: int, seen: list[int] = [1, 2, 3]) -> int:
    """post: _ < 3"""
    return len(seen)
## check: a default value that fits
def f(x: int, y: int = 0) -> int:
    """post: _ >= x"""
    return x + abs(y)
## check: a keyword is required | f(1, y=-2)
def f(x: int, *, y: int) -> int:
    """post: _ >= x"""
    return x + y
## check: more arguments | f(1, 2, 3)
def f(*xs: int) -> int:
    """post: _ < 3"""
    return len(xs)
## check: named arguments | f(a=1)
def f(**named: int) -> bool:
    """post: _"""
    return not named
## check: Fibonacci numbers grow | f(2)
def f(n: int) -> bool:
    """pre: 0 < n < 10
    post: _"""
    def fib(k):
        return k if k < 2 else fib(k - 1) + fib(k - 2)
    return fib(n) > fib(n - 1)
## check: a recursive sum
def f(xs: list[int]) -> int:
    """pre: len(xs) < 4
    post: _ == sum(xs)"""
    return xs[0] + f(xs[1:]) if xs else 0
## decided raises RecursionError: recursion as deep as the argument | f(2000)
def f(n: int) -> int:
    return 0 if n <= 0 else f(n - 1)
## decided pair: a loop that was a recursion | a(2000)
def a(n: int) -> int:
    return 0 if n <= 0 else n + a(n - 1)
def b(n: int) -> int:
    return sum(range(1, n + 1))
## check: Collatz steps | f(27)
def f(n: int) -> int:
    """pre: 0 < n < 30
    post: _ < 50"""
    steps = 0
    while n != 1 and steps < 200:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps
## check: even and odd call each other
def even(n):
    return True if n == 0 else odd(n - 1)
def odd(n):
    return False if n == 0 else even(n - 1)
def f(n: int) -> bool:
    """pre: 0 <= n < 8
    post: _ == (n % 2 == 0)"""
    return even(n)
## check: closures bind late | f(0)
def f(x: int) -> int:
    """post: _ == x"""
    calls = [lambda: x + i for i in range(3)]
    return calls[0]()
## check: closures with a default value
def f(x: int) -> int:
    """post: _ == x"""
    calls = [lambda i=i: x + i for i in range(3)]
    return calls[0]()
## check: a function of functions
def twice(g):
    return lambda x: g(g(x))
def f(x: int) -> int:
    """post: _ == x + 2"""
    return twice(lambda y: y + 1)(x)
## check: a decorator without wraps
def doubled(g):
    def inner(x):
        return g(x) * 2
    return inner
@doubled
def g(x):
    return x + 1
def f(x: int) -> int:
    """post: _ == 2 * x + 2"""
    return g(x)
## check: a generator with state | f(3)
def count(n):
    i = 0
    while i < n:
        yield i
        i += 1
def f(n: int) -> int:
    """pre: 0 <= n < 5
    post: _ < 3"""
    return sum(count(n))
## check: yield from
def both(xs, ys):
    yield from xs
    yield from ys
def f(xs: list[int], ys: list[int]) -> bool:
    """pre: len(xs) < 3 and len(ys) < 3
    post: _"""
    return list(both(xs, ys)) == xs + ys
## check: map is lazy | f([0])
def f(xs: list[int]) -> bool:
    """post: _"""
    ys = map(lambda x: 1 // x, xs)
    return len(list(ys)) == len(xs)
## check: a match with a guard | f(13)
def f(x: int) -> str:
    """post: _ != "unlucky" """
    match x:
        case 0:
            return "zero"
        case n if n % 13 == 0:
            return "unlucky"
        case _:
            return "other"
## check: a match of a list | f([5, 5])
def f(xs: list[int]) -> bool:
    """post: _"""
    match xs:
        case [x, y] if x == y:
            return x != 5
        case _:
            return True
## check: a match of strings
def f(s: str) -> int:
    """post: _ in (0, 1, 2)"""
    match s:
        case "go":
            return 1
        case "stop":
            return 2
    return 0
## check: a conditional chain | f(60)
def f(score: int) -> str:
    """pre: 0 <= score <= 100
    post: _ != "pass" or score > 60"""
    return "fail" if score < 60 else "pass"
## check: or returns an operand | f(0)
def f(x: int) -> bool:
    """post: _"""
    return (x or 5) == x
## check: chained comparisons
def f(x: int, y: int, z: int) -> bool:
    """post: _"""
    return (x < y < z) == (x < y and y < z)
## check: a walrus
def f(x: int) -> int:
    """post: _ > x"""
    return y if (y := x + 1) > x else 0
## check: a union of types | f("a")
def f(x: int | str) -> bool:
    """post: _"""
    return isinstance(x, int)
## check: a literal | f("off")
from typing import Literal
def f(x: Literal["on", "off"]) -> bool:
    """post: _"""
    return x == "on"
## check: both literals
from typing import Literal
def f(x: Literal["on", "off"]) -> int:
    """post: _ > 0"""
    return {"on": 1, "off": 2}[x]
## check: a new type | f(-1)
from typing import NewType
Age = NewType("Age", int)
def f(x: Age) -> bool:
    """post: _"""
    return x >= 0
## check: an annotated type | f(0)
from typing import Annotated
def f(x: Annotated[int, "positive"]) -> bool:
    """post: _"""
    return x != 0
## check: a named tuple | f(Pair(1, 1))
from typing import NamedTuple
class Pair(NamedTuple):
    left: int
    right: int
def f(p: Pair) -> bool:
    """post: _"""
    return p.left != p.right or p.left == 0
## check: sorting by a key | f([(1, 2), (1, 1)])
def f(xs: list[tuple[int, int]]) -> bool:
    """post: _"""
    return sorted(xs, key=lambda one: one[0]) == sorted(xs)
## check: reduce of an empty list | f([])
from functools import reduce
def f(xs: list[int]) -> int:
    """post: True"""
    return reduce(lambda x, y: x + y, xs)
## raises ValueError: a loop that reaches a number | f(10)
def f(n: int) -> int:
    total = 0
    for i in range(min(n, 20)):
        total += i
    if total == 45:
        raise ValueError
    return total
## raises ValueError: a parser of signs | f("--")
def f(s: str) -> int:
    depth = 0
    for c in s:
        depth += 1 if c == "+" else -1 if c == "-" else 0
    if depth == -2:
        raise ValueError
    return depth
## pair: a loop and a formula differ at one | a(1)
def a(n: int): return sum(range(n)) if n < 50 else 0
def b(n: int): return n * (n + 1) // 2 if 0 < n < 50 else 0
## pair: and or conditional | a(0)
def a(x: int): return x and 1
def b(x: int): return 1 if x else None
## pair: two ways to round | a(0.5)
def a(x: float): return round(x) if abs(x) < 100 else 0
def b(x: float): return int(x + 0.5) if abs(x) < 100 else 0
## pair: modulo and fmod | a(-1)
import math
def a(x: int): return x % 3 if abs(x) < 100 else 0
def b(x: int): return int(math.fmod(x, 3)) if abs(x) < 100 else 0
## pair: a swapped comparison | a(5, 5)
def a(x: int, y: int): return x < y
def b(x: int, y: int): return not y < x
''')
