"""Programs with decorators, context managers, digests, and attributes by their name."""

from tests.analysis.programs.rows import read_programs

WRAPPING = read_programs(r'''
## decided check: a decorator that retries | f(0)
import functools
def retry(times: int):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            last = None
            for _ in range(times):
                try:
                    return function(*args, **kwargs)
                except ValueError as error:
                    last = error
            raise last
        return wrapper
    return decorate
@retry(2)
def f(x: int) -> float:
    """
    post: True
    raises: ValueError
    """
    if x < 0:
        raise ValueError(x)
    return 1 / x
## decided check: a decorator that clamps the result
from functools import wraps
def clamp(function):
    @wraps(function)
    def wrapper(*args):
        return max(0, min(100, function(*args)))
    return wrapper
@clamp
def f(x: int) -> int:
    """post: 0 <= _ <= 100"""
    return x
## decided raises ZeroDivisionError: a decorator without wraps divides | f(3)
def divide(function):
    def wrapper(x):
        return 1 / (function(x) - 3)
    return wrapper
@divide
def f(x: int) -> int:
    return x
## decided check: a cached function itself | f(12)
from functools import lru_cache
@lru_cache(maxsize=None)
def f(x: int) -> int:
    """post: _ != 144"""
    return x * x
## decided raises ZeroDivisionError: a decorated method | f(0, 0)
from functools import wraps
def logged(function):
    @wraps(function)
    def wrapper(self, *args):
        return function(self, *args)
    return wrapper
class C:
    def __init__(self, n: int) -> None:
        self.n = n
    @logged
    def ratio(self, x: int) -> float:
        return x / self.n
def f(x: int, n: int) -> float:
    return C(n).ratio(x)
## decided check: an error is suppressed
from contextlib import suppress
def f(x: int) -> int:
    """post: _ >= 0"""
    result = 0
    with suppress(ZeroDivisionError):
        result = abs(10 // x)
    return result
## decided check: the wrong error is suppressed | f(0)
from contextlib import suppress
def f(x: int) -> int:
    """post: True"""
    with suppress(ValueError):
        return 10 // x
    return 0
## decided check: a context manager counts | f(3)
from contextlib import contextmanager
@contextmanager
def opened(log: list[str]):
    log.append("open")
    try:
        yield log
    finally:
        log.append("close")
def f(x: int) -> int:
    """post: _ == 2"""
    log: list[str] = []
    with opened(log) as one:
        if x == 3:
            one.append("three")
    return len(log)
## decided check: a context manager closes
from contextlib import contextmanager
@contextmanager
def opened(log: list[str]):
    log.append("open")
    try:
        yield log
    finally:
        log.append("close")
def f(x: int) -> bool:
    """post: _"""
    log: list[str] = []
    with suppress_all(), opened(log):
        if x == 3:
            raise ValueError
    return log[-1] == "close"
@contextmanager
def suppress_all():
    try:
        yield
    except ValueError:
        pass
## decided check: an exit stack | f(1)
from contextlib import ExitStack, closing, nullcontext
class Door:
    closed = 0
    def close(self) -> None:
        self.closed += 1
def f(x: int) -> int:
    """post: _ == 1"""
    door = Door()
    with ExitStack() as stack:
        stack.enter_context(closing(door) if x != 1 else nullcontext(door))
    return door.closed
## decided check: a digest has 64 digits | f('')
import hashlib
def f(s: str) -> str:
    """post: len(_) == 32"""
    return hashlib.sha256(s.encode("utf-8", "ignore")).hexdigest()
## check: a bucket by a digest
import hashlib
def f(s: str) -> int:
    """post: 0 <= _ < 16"""
    return int(hashlib.md5(s.encode("utf-8", "ignore")).hexdigest()[0], 16)
## decided check: an attribute by its literal name | f(P(3))
from dataclasses import dataclass
@dataclass
class P:
    x: int
def f(p: P) -> int:
    """post: _ != 3"""
    return getattr(p, "x", 0) + getattr(p, "missing", 0)
## decided raises AttributeError: an attribute that is missing | f(P(3))
from dataclasses import dataclass
@dataclass
class P:
    x: int
def f(p: P) -> int:
    return getattr(p, "y")
## decided check: an attribute of a number
def f(x: int) -> int:
    """post: _ == x"""
    return getattr(x, "real", 7)
## decided raises KeyError: a typed dict without totality | f({})
from typing import TypedDict
class Options(TypedDict, total=False):
    depth: int
def f(o: Options) -> int:
    return o["depth"]
## decided check: BaseException is cleaned up and raised again | f(5)
def f(x: int) -> int:
    """
    post: True
    """
    done = []
    try:
        done.append(1)
        if x == 5:
            raise KeyError(x)
    except BaseException:
        done.clear()
        raise
    return len(done)
## refused UnsupportedSignature check: a match as parameter
import re
def f(m: re.Match[str]) -> str:
    """post: _"""
    return m.group()
''')
