"""Programs about protocols of Python: abstract classes, generators, contexts, descriptors, sort keys, class bodies."""

from tests.analysis.programs.rows import read_programs

PROTOCOLS = read_programs('''
## check: an abstract class whose subclass breaks the promise | f(Odd(), 3)
from abc import ABC, abstractmethod
class Shape(ABC):
    @abstractmethod
    def area(self, n: int) -> int: ...
class Even(Shape):
    def area(self, n: int) -> int: return n * n
class Odd(Shape):
    def area(self, n: int) -> int: return -1 if n == 3 else n * n
def f(s: Shape, n: int) -> int:
    """post: _ >= 0"""
    return s.area(n)
## check: an abstract class with one good subclass
from abc import ABC, abstractmethod
class Shape(ABC):
    @abstractmethod
    def area(self, n: int) -> int: ...
class Square(Shape):
    def area(self, n: int) -> int: return n * n
def f(s: Square, n: int) -> int:
    """post: _ >= 0"""
    return s.area(n)
## check: a protocol and a wrong class | f(Bad(), 5)
from typing import Protocol
class Sized(Protocol):
    def size(self, n: int) -> int: ...
class Bad:
    def size(self, n: int) -> int: return 0 - n
def f(s: Bad, n: int) -> int:
    """pre: n > 0
    post: _ >= 0"""
    return s.size(n)
## check: values sent to a generator | f(7)
def running():
    total = 0
    while True:
        got = yield total
        total += got
def f(x: int) -> int:
    """post: _ == x + 1"""
    g = running(); next(g); g.send(x); return g.send(2)
## check: sends add up
def running():
    total = 0
    while True:
        got = yield total
        total += got
def f(x: int) -> int:
    """post: _ == x + 1"""
    g = running(); next(g); g.send(x); return g.send(1)
## check: the value of a finished generator | f(4)
def inner(x):
    yield x
    return x * 2
def outer(x):
    got = yield from inner(x)
    yield got
def f(x: int) -> int:
    """post: _ < 8 or x != 4"""
    return list(outer(x))[1]
## check: a generator is closed early | f(True)
def steps(log):
    try:
        yield 1
        yield 2
    finally:
        log.append("closed")
def f(stop: bool) -> int:
    """post: _ == 0"""
    log = []
    g = steps(log)
    next(g)
    if stop: g.close()
    return len(log)
## check: throw into a generator | f(3)
def catcher():
    try:
        yield 1
    except ValueError:
        yield 2
def f(x: int) -> int:
    """post: _ == 1"""
    g = catcher(); next(g)
    return g.throw(ValueError()) if x == 3 else 1
## raises KeyError: an exit that raises another error | f(0)
class Changes:
    def __enter__(self): return self
    def __exit__(self, kind, error, trace):
        if kind is ZeroDivisionError: raise KeyError("x")
        return False
def f(x: int) -> int:
    with Changes():
        return 1 // x
## check: a sort key that counts its calls
def f(xs: list[int]) -> bool:
    """pre: len(xs) <= 3
    post: _"""
    calls = []
    def key(x):
        calls.append(x)
        return x
    sorted(xs, key=key)
    return len(calls) == len(xs)
## check: a sort key that changes an item | f([[1], [2]])
def f(xs: list[list[int]]) -> int:
    """pre: len(xs) == 2
    post: _ == len(xs[0]) + len(xs[1]) - 1 or len(xs[0]) > 2"""
    xs.sort(key=lambda one: (one.append(0), len(one))[1])
    return len(xs[0]) + len(xs[1])
## check: the maximum with a key takes the first | f([-1, 1])
def f(xs: list[int]) -> int:
    """pre: len(xs) == 2
    post: _ >= 0 or max(xs) < 0"""
    return max(xs, key=abs)
## check: a comparison that changes its object | f(5)
class Tricky:
    def __init__(self, n: int) -> None: self.n = n
    def __lt__(self, other) -> bool:
        self.n += 1
        return self.n < other.n
def f(x: int) -> int:
    """post: _ == x"""
    t = Tricky(x)
    t < Tricky(0)
    return t.n
## check: a property that rejects
class Temp:
    def __init__(self) -> None: self._c = 0
    @property
    def c(self) -> int: return self._c
    @c.setter
    def c(self, value: int) -> None:
        if value < -273: raise ValueError
        self._c = value
def f(x: int) -> int:
    """raises: ValueError
    post: _ >= -273"""
    t = Temp(); t.c = x; return t.c
## check: a property that rejects too little | f(-273)
class Temp:
    def __init__(self) -> None: self._c = 0
    @property
    def c(self) -> int: return self._c
    @c.setter
    def c(self, value: int) -> None:
        if value < -273: raise ValueError
        self._c = value
def f(x: int) -> int:
    """raises: ValueError
    post: _ > -273"""
    t = Temp(); t.c = x; return t.c
## check: a cached property is computed once
from functools import cached_property
class Box:
    def __init__(self, n: int) -> None: self.n = n
    @cached_property
    def double(self) -> int: return self.n * 2
def f(x: int) -> int:
    """post: _ == 2 * x"""
    b = Box(x); b.double; b.n = 0; return b.double
## check: a class body with a loop | f(2)
class Table:
    values = []
    for n in range(4): values.append(n * n)
def f(i: int) -> int:
    """pre: 0 <= i < 4
    post: _ != 4"""
    return Table.values[i]
## check: a class body does not see itself in a comprehension
class Table:
    n = 3
    squares = [k * k for k in range(n)]
def f(i: int) -> int:
    """pre: 0 <= i < 3
    post: _ <= 4"""
    return Table.squares[i]
## check: recursion through an argument | f(3)
def walk(n, visit):
    visit(n)
    if n > 0: walk(n - 1, visit)
def f(n: int) -> int:
    """pre: 0 <= n < 4
    post: _ < 6"""
    total = []
    walk(n, total.append)
    return sum(total)
## check: a list that grows while it is read | f([1])
def f(xs: list[int]) -> int:
    """pre: len(xs) <= 2
    post: _ <= 2"""
    n = 0
    for x in xs:
        n += 1
        if n == 1 and x == 1: xs.extend([2, 2])
        if n > 5: break
    return n
## check: re-entrancy of a method | f(1)
class Account:
    def __init__(self) -> None: self.n = 10; self.listeners = []
    def take(self, k: int) -> None:
        if self.n >= k:
            for one in self.listeners: one()
            self.n -= k
def f(x: int) -> int:
    """post: _ >= 0"""
    a = Account()
    if x == 1:
        def again():
            a.listeners.clear()
            a.take(7)
        a.listeners.append(again)
    a.take(7)
    return a.n
## check: the last name of an exception is gone | f(0)
def f(x: int) -> int:
    """post: True"""
    error = 1
    try:
        x // x
    except ZeroDivisionError as error:
        pass
    return error
## check: equality without a hash | f(1)
class Point:
    def __init__(self, x: int) -> None: self.x = x
    def __eq__(self, other) -> bool: return self.x == other.x
def f(x: int) -> bool:
    """post: True"""
    return Point(x) in {Point(1)}
## check: __bool__ and __len__ | f(0)
class Bag:
    def __init__(self, n: int) -> None: self.n = n
    def __len__(self) -> int: return abs(self.n)
def f(x: int) -> bool:
    """post: _"""
    return bool(Bag(x))
## raises ValueError: a negative length | f(-1)
class Bag:
    def __init__(self, n: int) -> None: self.n = n
    def __len__(self) -> int: return self.n
def f(x: int) -> int:
    if abs(x) > 1000: return 0
    return len(Bag(x))
## check: __contains__ decides | f(13)
class Lucky:
    def __contains__(self, x: int) -> bool: return x != 13
def f(x: int) -> bool:
    """post: _"""
    return x in Lucky()
## check: reversed operands | f(2)
class Sub:
    def __init__(self, n: int) -> None: self.n = n
    def __rsub__(self, other: int) -> int: return self.n - other
def f(x: int) -> int:
    """post: _ != 3"""
    return x - Sub(5)
## pair: += on a list and + | a([0])
def a(xs: list[int]) -> list[int]:
    xs += [1]; return xs
def b(xs: list[int]) -> list[int]:
    xs = xs + [1]; return xs
## pair: a generator and a list inside
def a(x: int) -> int: return sum(k for k in (x, 1, 2))
def b(x: int) -> int: return sum([x, 1, 2])
## pair: late binding in lambdas | a(1)
def a(x: int) -> int:
    fs = [lambda: i * x for i in range(3)]
    return fs[0]()
def b(x: int) -> int:
    fs = [lambda i=i: i * x for i in range(3)]
    return fs[0]()
## pair: a loop with else | a(3)
def a(x: int) -> int:
    for i in range(4):
        if i == x: break
    else:
        return -1
    return i
def b(x: int) -> int:
    for i in range(3):
        if i == x: break
    else:
        return -1
    return i
## check: nonlocal state in a closure | f(3)
def make():
    n = 0
    def step(k):
        nonlocal n
        n += k
        return n
    return step
def f(x: int) -> int:
    """post: _ == x"""
    step = make(); step(x); return step(0) if x != 3 else step(1)
## unstable check: an object with __call__ that remembers
class Counter:
    def __init__(self) -> None: self.n = 0
    def __call__(self) -> int:
        self.n += 1
        return self.n
count = Counter()
def f(x: int) -> bool:
    """post: _"""
    return count() < 500
## unstable check: a closure in a module name
def make():
    seen = []
    def step(k):
        seen.append(k)
        return len(seen)
    return step
step = make()
def f(x: int) -> bool:
    """post: _"""
    return step(x) < 500
## unstable check: a chain that is used up
from itertools import chain
numbers = chain(range(499), [-1])
def f(x: int) -> bool:
    """post: _"""
    return next(numbers, 0) >= 0
## unstable check: a defaultdict in a class
from collections import defaultdict
class Hits:
    seen = defaultdict(int)
def f(x: int) -> bool:
    """post: _"""
    Hits.seen["n"] += 1; return Hits.seen["n"] < 500
## unstable check: a singledispatch function with a hidden list
from functools import reduce
hidden = (lambda xs: lambda x: (xs.append(x), len(xs))[1])([])
def f(x: int) -> bool:
    """post: _"""
    return reduce(lambda a, b: hidden(b), [x, x]) < 500
## check: weak and strong | f(2)
class Node:
    def __init__(self, n: int) -> None: self.n = n
def f(x: int) -> int:
    """post: _ != 4"""
    node = Node(x)
    other = node
    del node
    return other.n * 2
## check: a match on classes | f(Circle(-1))
from dataclasses import dataclass
@dataclass
class Circle: r: int
@dataclass
class Square: a: int
def f(s: Circle | Square) -> int:
    """post: _ >= 0"""
    match s:
        case Circle(r=r) if r < 0: return r
        case Circle(r=r): return r
        case Square(a=a): return a * a
    return 0
## check: a walrus leaks from a comprehension | f([3])
def f(xs: list[int]) -> int:
    """pre: len(xs) == 1
    post: _ != 4"""
    y = 0
    [y := x + 1 for x in xs]
    return y
## check: a namedtuple replaced | f(Row(1, 2))
from typing import NamedTuple
class Row(NamedTuple):
    a: int
    b: int
def f(r: Row) -> int:
    """post: _ != 4"""
    s = r._replace(a=r.b)
    return s.a + s.b
## check: super in two bases | f(1)
class A:
    def go(self, n: int) -> int: return n
class B(A):
    def go(self, n: int) -> int: return super().go(n) + 1
class C(A):
    def go(self, n: int) -> int: return super().go(n) * 2
class D(B, C): pass
def f(x: int) -> int:
    """post: _ != 3"""
    return D().go(x)
## check: the order of class attributes and instances | f(2)
class Shared:
    items = ()
    def add(self, n: int) -> None: self.items += (n,)
def f(x: int) -> int:
    """post: _ == 0"""
    a, b = Shared(), Shared()
    a.add(x)
    return len(b.items) + (len(a.items) if x == 2 else 0)
''')
