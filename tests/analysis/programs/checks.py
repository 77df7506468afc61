"""Functions with contracts, and whether they satisfy them."""

from tests.analysis.programs.rows import OPEN, check, left_open

CHECKS = [
    check(
        "doubling reaches 42",
        '''
        def f(x: int) -> int:
            """post: _ != 42"""
            return x * 2
        ''',
        "counterexample",
    ),
    check(
        "doubling a positive stays positive",
        '''
        def f(x: int) -> int:
            """pre: x > 0
            post: _ > x"""
            return x * 2
        ''',
        "verified",
    ),
    check(
        "preconditions that exclude each other",
        '''
        def f(x: int) -> int:
            """pre: x > 0
            pre: x < 0
            post: False"""
            return x
        ''',
        "error",
        error_type="PreconditionNeverMet",
    ),
    check(
        "a result with an unknown name",
        '''
        def f(n: int) -> int:
            """post: result >= 0"""
            return abs(n)
        ''',
        "error",
        error_type="ContractError",
    ),
    check(
        "a precondition with an undefined name",
        '''
        def f(n: int) -> int:
            """pre: m > 0
            post: True"""
            return n
        ''',
        "error",
        error_type="ContractError",
    ),
    check(
        "every kind of name in a clause",
        '''
        LIMIT = 3

        def f(n: int) -> int:
            """pre: all(one != n for one in range(LIMIT))
            post: (lambda m: m == _)(__return__) and f is not None and __old__.n == n"""
            return n
        ''',
        "verified",
    ),
    check(
        "asserts that hold",
        """
        def f(x: int) -> int:
            assert x > 0
            y = x + 1
            assert y > 1
            return y
        """,
        "verified",
    ),
    check(
        "leading asserts after lines that are not in the canonical source",
        """
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
        """,
        "verified",
    ),
    check(
        "an assert after a statement that the canonical source writes in one line",
        """
        def f(x: int) -> int:
            y = (
                x
                +
                1
            )
            assert y != 7
            return y
        """,
        "counterexample",
    ),
    check(
        "a parameter with the name of a builtin",
        '''
        def f(id: int) -> int:
            """post: _ >= id"""
            return id + 1
        ''',
        "verified",
    ),
    check(
        "an assert that fails",
        """
        def f(x: int) -> int:
            assert x > 0
            y = x + 1
            assert y > 2
            return y
        """,
        "counterexample",
    ),
    check(
        "the assert of a called function fails",
        """
        def g(x):
            assert x > 5
            return x
        def f(x: int) -> int:
            assert x > 0
            return g(x)
        """,
        "counterexample",
    ),
    check("no contract", "def f(x: int) -> int:\n    return x", "error", error_type="NoContract"),
    check(
        "the violated contract of a called function is not assumed",
        '''
        def g(x: int) -> int:
            """post: _ > 0"""
            return x
        def f(x: int) -> int:
            """post: _ > 0"""
            return g(x)
        ''',
        "counterexample",
    ),
    check(
        "a declared exception",
        '''
        def f(x: int) -> int:
            """post: True
            raises: ZeroDivisionError"""
            return 1 // x
        ''',
        "verified",
    ),
    check(
        "an exception that is not declared",
        '''
        def f(x: int) -> int:
            """post: True"""
            return 1 // x
        ''',
        "counterexample",
    ),
    check(
        "a comment that would disable CrossHair",
        '''
        def f(x: int) -> int:
            """post: False"""
            # crosshair: off
            return x
        ''',
        "counterexample",
    ),
    check(
        "an argument is changed",
        '''
        def f(xs: list[int]) -> list[int]:
            """post: xs == __old__.xs"""
            xs.append(1)
            return xs
        ''',
        "counterexample",
    ),
    check(
        "three postconditions of a maximum",
        '''
        def f(a: int, b: int) -> int:
            """post: _ >= a
            post: _ >= b
            post: _ in (a, b)"""
            return a if a > b else b
        ''',
        "verified",
    ),
    check(
        "the last of three postconditions fails",
        '''
        def f(a: int, b: int) -> int:
            """post: _ >= a
            post: _ >= b
            post: _ == a"""
            return a if a > b else b
        ''',
        "counterexample",
    ),
    check(
        "upper case has another length",
        '''
        def f(s: str) -> str:
            """post: len(_) == len(s)"""
            return s.upper()
        ''',
        *left_open("counterexample"),
    ),
    check(
        "a square is not negative",
        '''
        def f(x: int) -> int:
            """post: _ >= 0"""
            return x * x
        ''',
        "verified",
    ),
    check(
        "a bounded loop",
        '''
        def f(n: int) -> int:
            """pre: 0 <= n <= 5
            post: _ == n * (n + 1) // 2"""
            total = 0
            for i in range(n + 1):
                total += i
            return total
        ''',
        "verified",
    ),
    check(
        "an unbounded loop",
        '''
        def f(n: int) -> int:
            """pre: n >= 0
            post: _ == n * (n + 1) // 2"""
            total = 0
            for i in range(n + 1):
                total += i
            return total
        ''',
        *OPEN,
    ),
    check(
        "de Morgan",
        '''
        def f(a: bool, b: bool) -> bool:
            """post: _ == (not a or not b)"""
            return not (a and b)
        ''',
        "verified",
    ),
    check(
        "lengths add up",
        '''
        def f(a: str, b: str) -> str:
            """post: len(_) == len(a) + len(b)"""
            return a + b
        ''',
        "verified",
    ),
    check(
        "None is not handled",
        '''
        from typing import Optional
        def f(x: Optional[int]) -> int:
            """post: True"""
            return x + 1
        ''',
        "counterexample",
    ),
    check(
        "all members of an enumeration",
        '''
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
        ''',
        "verified",
    ),
    check(
        "the invariant of an argument's class holds",
        '''
        from dataclasses import dataclass
        @dataclass
        class Point:
            """inv: self.x > 0"""
            x: int
        def f(p: Point) -> int:
            """post: _ > 0"""
            return p.x
        ''',
        "verified",
    ),
    check(
        "adding one to a float",
        '''
        def f(x: float) -> float:
            """post: _ > x"""
            return x + 1
        ''',
        *left_open("counterexample"),
    ),
    check(
        "adding floats is not associative",
        '''
        def f(a: float, b: float, c: float) -> bool:
            """post: _"""
            return (a + b) + c == a + (b + c)
        ''',
        *left_open("counterexample"),
    ),
    check(
        "NaN",
        '''
        def f(x: float) -> bool:
            """post: _"""
            return x == x
        ''',
        *left_open("counterexample"),
    ),
    check(
        "an integer through a float",
        '''
        def f(x: int) -> bool:
            """post: _"""
            return int(x / 1) == x
        ''',
        *left_open("counterexample"),
    ),
    check(
        "a bounded recursion",
        '''
        def f(n: int) -> int:
            """pre: 0 <= n <= 4
            post: _ >= 1"""
            return 1 if n < 2 else n * f(n - 1)
        ''',
        "verified",
    ),
    check(
        "a postcondition that raises",
        '''
        def f(n: int) -> int:
            """post: 1 // n != 2"""
            return n
        ''',
        "counterexample",
    ),
    check(
        "an implication",
        '''
        def f(n: int) -> int:
            """post: implies(n > 0, _ > 0)"""
            return n
        ''',
        "verified",
    ),
    check(
        "digits that are not decimal digits",
        '''
        def f(s: str) -> int:
            """post: True"""
            return int(s) if s.isdigit() else 0
        ''',
        *left_open("counterexample"),
    ),
    check(
        "a decorated function",
        '''
        from functools import lru_cache
        @lru_cache
        def f(n: int) -> int:
            """post: _ > 0"""
            return n
        ''',
        "error",
        error_type="UnsupportedFunction",
    ),
    check(
        "a cached function is called",
        '''
        from functools import lru_cache
        @lru_cache
        def g(n):
            return n * 2
        def f(n: int) -> int:
            """post: _ == n * 2"""
            return g(n)
        ''',
        "verified",
    ),
    check(
        "a generator", 'def f(n: int):\n    """post: True"""\n    yield n', "error", error_type="UnsupportedFunction"
    ),
]
