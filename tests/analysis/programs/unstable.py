"""Functions with different results for the same call. The tools must leave them undecided."""

from tests.analysis.programs.rows import check

UNSTABLE_CHECKS = [
    check(
        "the result depends on module data",
        '''
        calls = []
        def f(x: int) -> int:
            """post: _ == 0"""
            calls.append(1)
            return 0 if len(calls) < 1000 else 1
        ''',
        "unknown",
    ),
    check(
        "a mutable default value",
        '''
        def g(x, seen=[]):
            seen.append(x)
            return len(seen)
        def f(x: int) -> int:
            """post: _ == 1"""
            return g(x)
        ''',
        "unknown",
    ),
    check(
        "random numbers",
        '''
        import random
        def f(x: int) -> bool:
            """post: _"""
            return random.random() < 0.999999
        ''',
        "unknown",
    ),
    check(
        "the clock",
        '''
        from datetime import datetime
        def f(x: int) -> bool:
            """post: _"""
            return datetime.now().year > 1
        ''',
        "unknown",
    ),
    check(
        "object identities",
        '''
        def f(x: int) -> bool:
            """post: _"""
            return id(object()) % 4096 != 16
        ''',
        "unknown",
    ),
    check(
        "a counter on a class",
        '''
        class Count:
            value = 0
        def f(x: int) -> bool:
            """post: _"""
            Count.value += 1
            return Count.value < 500
        ''',
        "unknown",
    ),
    check(
        "an iterator in the module",
        '''
        from itertools import count
        numbers = count()
        def f(x: int) -> bool:
            """post: _"""
            return next(numbers) < 500
        ''',
        "unknown",
    ),
]
