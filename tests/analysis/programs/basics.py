"""Functions with contracts, functions that raise, pairs, and functions with different results for the same call."""

from tests.analysis.programs.rows import read_programs

BASICS = read_programs(r'''
## decided check: doubling reaches 42 | f(21)
def f(x: int) -> int:
    """post: _ != 42"""
    return x * 2
## decided check: doubling a positive stays positive
def f(x: int) -> int:
    """pre: x > 0
    post: _ > x"""
    return x * 2
## refused PreconditionNeverMet check: preconditions that exclude each other
def f(x: int) -> int:
    """pre: x > 0
    pre: x < 0
    post: False"""
    return x
## refused ContractError check: a result with an unknown name
def f(n: int) -> int:
    """post: result >= 0"""
    return abs(n)
## refused ContractError check: a precondition with an undefined name
def f(n: int) -> int:
    """pre: m > 0
    post: True"""
    return n
## decided check: every kind of name in a clause
LIMIT = 3

def f(n: int) -> int:
    """pre: all(one != n for one in range(LIMIT))
    post: (lambda m: m == _)(__return__) and f is not None and __old__.n == n"""
    return n
## decided check: asserts that hold
def f(x: int) -> int:
    assert x > 0
    y = x + 1
    assert y > 1
    return y
## decided check: leading asserts after lines that are not in the canonical source
# a comment

# and another
limit = (
    0
)

def f(x: int) -> int:
    # a comment
    assert x > limit
    # a comment
    assert x < 100
    return 1 // x
## decided check: an assert after a statement that the canonical source writes in one line | f(6)
def f(x: int) -> int:
    y = (
        x
        +
        1
    )
    assert y != 7
    return y
## decided check: a parameter with the name of a builtin
def f(id: int) -> int:
    """post: _ >= id"""
    return id + 1
## decided check: an assert that fails | f(1)
def f(x: int) -> int:
    assert x > 0
    y = x + 1
    assert y > 2
    return y
## decided check: the assert of a called function fails | f(1)
def g(x):
    assert x > 5
    return x
def f(x: int) -> int:
    assert x > 0
    return g(x)
## refused NoContract check: no contract
def f(x: int) -> int:
    return x
## decided check: the violated contract of a called function is not assumed | f(0)
def g(x: int) -> int:
    """post: _ > 0"""
    return x
def f(x: int) -> int:
    """post: _ > 0"""
    return g(x)
## decided check: a declared exception
def f(x: int) -> int:
    """post: True
    raises: ZeroDivisionError"""
    return 1 // x
## decided check: an exception that is not declared | f(0)
def f(x: int) -> int:
    """post: True"""
    return 1 // x
## decided check: a comment that would disable CrossHair | f(0)
def f(x: int) -> int:
    """post: False"""
    # crosshair: off
    return x
## decided check: an argument is changed | f([])
def f(xs: list[int]) -> list[int]:
    """post: xs == __old__.xs"""
    xs.append(1)
    return xs
## decided check: three postconditions of a maximum
def f(a: int, b: int) -> int:
    """post: _ >= a
    post: _ >= b
    post: _ in (a, b)"""
    return a if a > b else b
## decided check: the last of three postconditions fails | f(-1, 0)
def f(a: int, b: int) -> int:
    """post: _ >= a
    post: _ >= b
    post: _ == a"""
    return a if a > b else b
## decided check: a square is not negative
def f(x: int) -> int:
    """post: _ >= 0"""
    return x * x
## decided check: a bounded loop
def f(n: int) -> int:
    """pre: 0 <= n <= 5
    post: _ == n * (n + 1) // 2"""
    total = 0
    for i in range(n + 1):
        total += i
    return total
## unstable check: an unbounded loop
def f(n: int) -> int:
    """pre: n >= 0
    post: _ == n * (n + 1) // 2"""
    total = 0
    for i in range(n + 1):
        total += i
    return total
## decided check: de Morgan
def f(a: bool, b: bool) -> bool:
    """post: _ == (not a or not b)"""
    return not (a and b)
## decided check: lengths add up
def f(a: str, b: str) -> str:
    """post: len(_) == len(a) + len(b)"""
    return a + b
## decided check: None is not handled | f(None)
from typing import Optional
def f(x: Optional[int]) -> int:
    """post: True"""
    return x + 1
## decided check: all members of an enumeration
from enum import Enum
class Colour(Enum):
    RED = 1
    GREEN = 2
def f(c: Colour) -> int:
    """post: _ in (1, 2)"""
    if c is Colour.RED:
        return 1
    if c is Colour.GREEN:
        return 2
## decided check: the invariant of an argument's class holds
from dataclasses import dataclass
@dataclass
class Point:
    """inv: self.x > 0"""
    x: int
def f(p: Point) -> int:
    """post: _ > 0"""
    return p.x
## check: adding one to a float | f(float('inf'))
def f(x: float) -> float:
    """post: _ > x"""
    return x + 1
## check: NaN | f(float('nan'))
def f(x: float) -> bool:
    """post: _"""
    return x == x
## check: an integer through a float | f(9007199254740993)
def f(x: int) -> bool:
    """post: _"""
    return int(x / 1) == x
## decided check: a bounded recursion
def f(n: int) -> int:
    """pre: 0 <= n <= 4
    post: _ >= 1"""
    return 1 if n < 2 else n * f(n - 1)
## decided check: a postcondition that raises | f(0)
def f(n: int) -> int:
    """post: 1 // n != 2"""
    return n
## decided check: an implication
def f(n: int) -> int:
    """post: implies(n > 0, _ > 0)"""
    return n
## check: digits that are not decimal digits | f('\xb2')
def f(s: str) -> int:
    """post: True"""
    return int(s) if s.isdigit() else 0
## refused UnsupportedFunction check: a decorator that forgets the function
def forget(function):
    return abs
@forget
def f(n: int) -> int:
    """post: _ > 0"""
    return n
## decided check: a cached function is called
from functools import lru_cache
@lru_cache
def g(n):
    return n * 2
def f(n: int) -> int:
    """post: _ == n * 2"""
    return g(n)
## refused UnsupportedFunction check: a generator
def f(n: int):
    """post: True"""
    yield n
## unknown check: the result depends on module data
calls = []
def f(x: int) -> int:
    """post: _ == 0"""
    calls.append(1)
    return 0 if len(calls) < 1000 else 1
## unknown check: a mutable default value
def g(x, seen=[]):
    seen.append(x)
    return len(seen)
def f(x: int) -> int:
    """post: _ == 1"""
    return g(x)
## unknown check: random numbers
import random
def f(x: int) -> bool:
    """post: _"""
    return random.random() < 0.999999
## unknown check: the clock
from datetime import datetime
def f(x: int) -> bool:
    """post: _"""
    return datetime.now().year > 1
## unknown check: object identities
def f(x: int) -> bool:
    """post: _"""
    return id(object()) % 4096 != 16
## unknown check: a counter on a class
class Count:
    value = 0
def f(x: int) -> bool:
    """post: _"""
    Count.value += 1
    return Count.value < 500
## unknown check: an iterator in the module
from itertools import count
numbers = count()
def f(x: int) -> bool:
    """post: _"""
    return next(numbers) < 500
## decided raises KeyError: an equation | f(7, 5)
def f(x: int, y: int):
    if 5 < x < 10 and x * y == 35: raise KeyError
## decided raises KeyError: named only in the message of another exception
def f(x: int):
    raise ValueError('KeyError')
## decided raises LookupError: a subclass | f(77)
def f(x: int):
    if x == 77: raise KeyError(x)
## decided raises KeyError: caught inside
def f(x: int):
    try:
        if x > 3: raise KeyError(x)
    except KeyError:
        return 0
## decided raises Refusal: a class of the code | f(77)
class Refusal(Exception):
    pass
def f(x: int):
    if x == 77: raise Refusal
## decided raises ValueError: a contradiction
def f(x: int):
    if x > 0 and x < 0: raise ValueError
## decided raises ZeroDivisionError: a guarded division
def f(x: int, y: int):
    return x // y if y else 0
## decided raises ZeroDivisionError: a division | f(0, 0)
def f(x: int, y: int):
    return x // y
## decided raises IndexError: an empty list | f([])
def f(xs: list[int]):
    return xs[0]
## decided raises KeyError: a string that matches a pattern | f('cb-000')
import re
def f(s: str):
    if re.fullmatch('cb-[0-9]{3}', s): raise KeyError
## decided raises TypeError: correct types
def f(x: int):
    return x + 1
## unstable raises ValueError: an unbounded loop
def f(x: int):
    while x > 0: x -= 1
    if x == 5: raise ValueError
## decided raises RecursionError: infinite recursion | f(0)
def f(x: int):
    return f(x)
## raises OverflowError: an integer too large for a float | f(2**1500)
def f(x: int):
    return float(x)
## raises OverflowError: a quotient too large for a float | f(2**1500)
def f(x: int):
    return x / 2
## raises OverflowError: a length that is too large | f(9223372036854775808)
def f(x: int):
    return len(range(x))
## raises ValueError: an integer with too many digits | f((0x1 << 16670))
def f(x: int):
    return str(x)
## raises UnicodeEncodeError: a lone surrogate | f('\ud800')
def f(s: str):
    return s.encode()
## refused UnknownExceptionType raises print: a builtin that is not an exception
def f(x: int):
    return x
## decided raises Outer.Refusal: a class in a class | f(5)
class Outer:
    class Refusal(Exception): ...
def f(x: int):
    if x == 5: raise Outer.Refusal
## refused UnknownExceptionType raises Nothing: an unknown exception
def f(x: int):
    return x
## refused UnsupportedSignature raises ValueError: an unknown type
def f(x: 'nothing'):
    return x
## refused UnsupportedSignature raises ValueError: a number as annotation
def f(x: 5):
    return x
## refused AmbiguousFunction raises ValueError: two definitions
def f(x: int):
    return x
def f(x: str):
    return x
## refused FunctionNotFound raises ValueError: no such function
def g(x: int):
    return x
## decided pair: doubled and added
def a(x: int): return x * 2
def b(x: int): return x + x
## pair: doubled and shifted
def a(x: int): return x * 2
def b(x: int): return x << 1
## decided pair: five, and five at five | a(0)
def a(x: int): return 5
def b(x: int): return 5 if x == 5 else x
## decided pair: one number differs | a(12345)
def a(x: int): return x * 2
def b(x: int): return x * 2 if x != 12345 else 0
## decided pair: sorted in place or not | a([0, -1])
def a(xs: list[int]): xs.sort()
def b(xs: list[int]): sorted(xs)
## decided pair: true and one | a(0)
def a(x: int): return x == 1
def b(x: int): return 1 if x == 1 else 0
## pair: integer and float | a(0)
def a(x: int): return x
def b(x: int): return float(x)
## pair: halves | a(-1)
def a(x: int): return int(x / 2)
def b(x: int): return x // 2
## decided pair: two parameters
def a(x: int, y: int): return x + y
def b(x: int, y: int): return y + x
## decided pair: absolute
def a(x: int): return abs(x)
def b(x: int): return x if x > 0 else -x
## decided pair: different exceptions | a(0)
def a(x: int): raise KeyError
def b(x: int): raise ValueError
## decided pair: different messages of the same exception
def a(x: int): raise KeyError(x)
def b(x: int): raise KeyError
## decided pair: raised or returned | a(0)
def a(x: int): return 1 // x
def b(x: int): return 1 // x if x else 0
## pair: NaN equals NaN
def a(x: float): return x
def b(x: float): return x
## pair: NaN is not equal to itself in Python | a(float('nan'))
def a(x: float): return x == x
def b(x: float): return True
## decided pair: order of keys
def a(x: int): return {1: x, 2: x}
def b(x: int): return {2: x, 1: x}
## pair: a loop and its formula
def a(n: int): return sum(range(n + 1)) if n > 0 else 0
def b(n: int): return n * (n + 1) // 2 if n > 0 else 0
## pair: a wrong __eq__ | a(0).x
class Box:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return True
def a(x: int): return Box(x)
def b(x: int): return Box(x + 1)
## refused SignatureMismatch pair: different parameter names
def a(x: int): return x
def b(y: int): return y
## refused SignatureMismatch pair: different parameter types
def a(x: int): return x
def b(x: str): return x
## unknown pair: module data
n = []
def a(x: int): n.append(x); return len(n)
def b(x: int): return 1
''')
