"""Programs for which the analyser's model of Python and Python itself differ, and ways to hide an interruption."""

from tests.analysis.programs.rows import read_programs

EVIDENCE = read_programs(r'''
## check: limits of C behind a residue | f(77 + 1009 * 10**30)
from datetime import time
def f(x: int) -> bool:
    """
    pre: x >= 0
    post: _
    """
    if x % 1009 != 77:
        return True
    try:
        time(x)
    except (ValueError, IndexError, TypeError):
        return True
    return True
## check: a limit of C in replace of a date | f(77 + 1009 * 10**30)
from datetime import datetime
def f(x: int) -> bool:
    """
    pre: x >= 0
    post: _
    """
    if x % 1009 != 77:
        return True
    try:
        datetime(2000, 1, 1).replace(microsecond=x)
    except (ValueError, IndexError, TypeError):
        return True
    return True
## check: a limit of C in replace of a text | f(77 + 1009 * 10**30)
def f(x: int) -> bool:
    """
    pre: x >= 0
    post: _
    """
    if x % 1009 != 77:
        return True
    try:
        'ab'.replace('a', 'b', x)
    except (ValueError, IndexError, TypeError):
        return True
    return True
## pair: a limit of C behind a residue in one of two functions | a(77 + 1009 * 10**30)
def a(x: int) -> bool:
    if x % 1009 != 77:
        return True
    try:
        'ab'.replace('a', 'b', x)
    except (ValueError, IndexError, TypeError):
        return True
    return True
def b(x: int) -> bool:
    return True
## check: a deque with a length that C does not hold | f(77 + 1009 * 10**30)
from collections import deque
def f(x: int) -> bool:
    """
    pre: x >= 0
    post: _
    """
    if x % 1009 != 77:
        return True
    try:
        deque([1], x)
    except (ValueError, IndexError, TypeError):
        return True
    return True
## check: bytes are no sequence in a pattern | f(bytes([90, 70, 191, 100]))
def f(v: bytes) -> bool:
    'post: _'
    match v:
        case [*_]:
            return True
        case _:
            return not (len(v) == 4 and v[0] * 3 == v[1] + 200 and v[2] - v[3] == 91)
## check: text is no sequence in a pattern | f('kk@%~')
def f(s: str) -> bool:
    'post: _'
    match s:
        case [*_]:
            return True
        case _:
            return not (len(s) == 5 and s[0] == s[1] and ord(s[2]) * 7 - ord(s[3]) == 411 and s[4] == '~')
## check: a finally that raises | f('kk@%~')
import logging
def f(s: str) -> bool:
    'post: _'
    good = True
    try:
        try:
            logging.getLogger().isEnabledFor(10)
            good = not (len(s) == 5 and s[0] == s[1] and ord(s[2]) * 7 - ord(s[3]) == 411 and s[4] == '~')
        finally:
            raise ValueError
    except ValueError:
        pass
    return good
## check: an exit that raises | f('kk@%~')
import logging
class Guard:
    def __enter__(self): return self
    def __exit__(self, *error): raise ValueError
def f(s: str) -> bool:
    'post: _'
    good = True
    try:
        with Guard():
            logging.getLogger().isEnabledFor(10)
            good = not (len(s) == 5 and s[0] == s[1] and ord(s[2]) * 7 - ord(s[3]) == 411 and s[4] == '~')
    except ValueError:
        pass
    return good
## check: a product behind a finally that raises | f(1299709, 15485863)
def f(x: int, y: int) -> bool:
    'post: _'
    good = True
    try:
        try:
            good = not (x * y == 20127115513867 and 1 < x < y)
        finally:
            raise ValueError
    except ValueError:
        pass
    return good
## check: the order of a frozenset of numbers | f(2095, 2096)
def f(x: int, y: int) -> bool:
    """
    pre: x >= 0
    post: _
    """
    if x % 1009 != 77 or y != x + 1:
        return True
    return next(iter(frozenset([x, y]))) == x
## check: the order of a set of numbers | f(100, 99)
def f(x: int, y: int) -> bool:
    'post: _'
    if x % 1009 != 100 or y != x - 1:
        return True
    first, *_ = {x, y}
    return first == x
## check: a precondition above a long integer | f(10**5200)
def f(v: int) -> bool:
    """
    pre: v > 10**5100
    post: v < 0
    """
    return True
## check: a comparison with a long integer | f(10**6000)
LIMIT = 10**6000
def f(v: int) -> bool:
    'post: _'
    try:
        return v < LIMIT
    except ValueError:
        return True
## check: a bare except hides a division by zero | f(3)
def f(x: int) -> int:
    'post: _ >= 0'
    try:
        return 1 // (x - 3) and 1
    except:
        return -1
## check: a bare except catches everything
def f(x: int) -> int:
    'post: _ <= 100'
    try:
        if x > 100:
            raise ValueError
        return x
    except:
        return 0
## check: BaseException is caught and raised again | f(5)
def f(x: int) -> int:
    'post: True'
    try:
        if x == 5:
            raise KeyError
    except BaseException as e:
        raise
    return x
## check: a finally that returns hides an error
def f(x: int) -> int:
    'post: _ == 2'
    try:
        return 1 // x
    finally:
        return 2
## check: a finally that returns hides a hard condition | f(1299709, 15485863)
def f(x: int, y: int) -> bool:
    'post: _'
    good = True
    try:
        good = not (x * y == 20127115513867 and 1 < x < y)
    finally:
        return good
## check: an exit that swallows
class Quiet:
    def __enter__(self): return self
    def __exit__(self, kind, error, trace): return kind is ValueError
def f(x: int) -> int:
    'post: _ == 2'
    with Quiet():
        if x > 3:
            raise ValueError
    return 2
## check: an exit that swallows everything is not always what one wants | f(0)
class Quiet:
    def __enter__(self): return self
    def __exit__(self, *error): return True
def f(x: int) -> int:
    'post: _ == 1'
    found = 0
    with Quiet():
        found = x // x
    return found
## check: a group of exceptions | f(3)
def f(x: int) -> int:
    'post: _ != 3'
    try:
        if x == 4:
            raise ExceptionGroup('several', [ValueError(1), KeyError(2)])
    except* ValueError:
        x = 3
    except* KeyError:
        x = 3
    return x
## check: is in a chain
def f(x: bool) -> bool:
    'post: _ or not x'
    y = x is x is x
    return y
## check: is behind a comparison
def f(x: int) -> bool:
    'post: _ == (x > 0)'
    return 0 < x is x
## check: is in a chain of three | f(True, False)
def f(x: bool, y: bool) -> bool:
    'post: _ or x == y or y'
    return x is x is y
''')
