"""Programs with dataclasses, inheritance, mutation, enumerations, dates and exceptions."""

from tests.analysis.programs.rows import read_programs

CLASSES = read_programs(r'''
## check: a point on a diagonal | f(Point(3, 3))
from dataclasses import dataclass
@dataclass
class Point:
    x: int
    y: int
def f(p: Point) -> bool:
    """post: _"""
    return p.x != p.y or p.x < 3
## check: moving a point
from dataclasses import dataclass
@dataclass
class Point:
    x: int
    y: int
def f(p: Point) -> bool:
    """post: _"""
    return Point(p.x + 1, p.y).x == p.x + 1
## check: a frozen instance in a set
from dataclasses import dataclass
@dataclass(frozen=True)
class Key:
    a: int
def f(x: int) -> bool:
    """post: _"""
    return len({Key(x), Key(x)}) == 1
## check: ordered instances compare by the first field | f(Version(1, 9), Version(2, 0))
from dataclasses import dataclass
@dataclass(order=True)
class Version:
    major: int
    minor: int
def f(a: Version, b: Version) -> bool:
    """post: _"""
    return (a < b) == (a.minor < b.minor)
## check: a derived class overrides | f(Square(2))
class Shape:
    def __init__(self, size: int):
        self.size = size
    def area(self):
        return 0
class Square(Shape):
    def area(self):
        return self.size * self.size
def f(s: Shape) -> int:
    """post: _ == 0"""
    return s.area()
## check: a derived class adds an exception | f(Locked(1))
class Account:
    def __init__(self, amount: int):
        self.amount = amount
    def take(self, n):
        self.amount -= n
        return self.amount
class Locked(Account):
    def take(self, n):
        raise ValueError
def f(a: Account) -> bool:
    """post: _"""
    return a.take(1) is not None
## check: the method resolution order
class A:
    def name(self): return "A"
class B(A):
    def name(self): return "B"
class C(A):
    def name(self): return "C"
class D(B, C):
    pass
def f(x: int) -> str:
    """post: _ == "B" """
    return D().name()
## check: an account is overdrawn | f(Account(0), 1)
from dataclasses import dataclass
@dataclass
class Account:
    amount: int
def f(a: Account, n: int) -> int:
    """pre: n > 0 and a.amount >= 0
    post: _ >= 0"""
    a.amount -= n
    return a.amount
## check: an account is guarded
from dataclasses import dataclass
@dataclass
class Account:
    amount: int
def f(a: Account, n: int) -> int:
    """pre: n > 0 and a.amount >= 0
    post: _ >= 0"""
    if n <= a.amount:
        a.amount -= n
    return a.amount
## check: an optional field is None | f(Node(1, None))
from dataclasses import dataclass
from typing import Optional
@dataclass
class Node:
    value: int
    after: Optional["Node"]
def f(n: Node) -> int:
    """post: True"""
    return n.after.value
## check: the length of a linked list is positive
from dataclasses import dataclass
from typing import Optional
@dataclass
class Node:
    value: int
    after: Optional["Node"]
def f(n: Optional[Node]) -> bool:
    """post: _"""
    return n is None or n.value == n.value
## check: an invariant that is too weak | f(Interval(1, 1))
from dataclasses import dataclass
@dataclass
class Interval:
    """inv: self.low <= self.high"""
    low: int
    high: int
def f(i: Interval) -> int:
    """post: _ > 0"""
    return i.high - i.low
## check: a constructor that refuses
class Positive:
    def __init__(self, value: int):
        if value <= 0:
            raise ValueError
        self.value = value
def f(p: Positive) -> int:
    """post: _ > 0"""
    return p.value
## check: a constructor that clamps | f(Small(0))
class Small:
    def __init__(self, value: int):
        self.value = max(0, min(9, value))
def f(s: Small) -> int:
    """post: 0 < _ < 10"""
    return s.value
## check: equality of a class without __eq__ | f(1)
class Box:
    def __init__(self, value):
        self.value = value
def f(x: int) -> bool:
    """post: _"""
    return Box(x) == Box(x)
## check: an addition of vectors
from dataclasses import dataclass
@dataclass
class Vector:
    x: int
    y: int
    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)
def f(a: Vector, b: Vector) -> bool:
    """post: _"""
    return a + b == b + a
## check: a subtraction of vectors | f(Vector(1, 0), Vector(0, 0))
from dataclasses import dataclass
@dataclass
class Vector:
    x: int
    y: int
    def __sub__(self, other):
        return Vector(self.x - other.x, self.y - other.y)
def f(a: Vector, b: Vector) -> bool:
    """post: _"""
    return a - b == b - a
## check: two names of one list | f([1])
def f(xs: list[int]) -> bool:
    """post: _"""
    ys = xs
    ys.append(0)
    return len(xs) < len(ys) or not xs[:-1]
## check: rows of a repeated list | f(1)
def f(x: int) -> bool:
    """pre: x != 0
    post: _"""
    rows = [[0]] * 2
    rows[0][0] = x
    return rows[1][0] == 0
## check: a copy is changed
def f(xs: list[int]) -> list[int]:
    """post: xs == __old__.xs"""
    ys = xs.copy()
    ys.append(1)
    return ys
## check: a shallow copy is changed inside | f([[1]])
def f(xs: list[list[int]]) -> bool:
    """post: xs == __old__.xs"""
    ys = list(xs)
    if ys:
        ys[0].append(1)
    return True
## check: a slice assignment | f([1, 2])
def f(xs: list[int]) -> bool:
    """post: len(xs) == len(__old__.xs)"""
    xs[:1] = []
    return not xs
## check: removing while iterating | f([1, 1])
def f(xs: list[int]) -> list[int]:
    """post: 1 not in _"""
    for x in xs:
        if x == 1:
            xs.remove(x)
    return xs
## check: no flag | f(Right(0))
from enum import Flag
class Right(Flag):
    READ = 1
    WRITE = 2
def f(r: Right) -> bool:
    """post: _"""
    return bool(r)
## check: flags and a number | f(Right.READ | Right.WRITE, 7)
from enum import Flag
class Right(Flag):
    READ = 1
    WRITE = 2
def f(r: Right, n: int) -> bool:
    """post: _"""
    return not (Right.READ in r and Right.WRITE in r and n == 7)
## check: members of an enumeration differ
from enum import Enum
class Colour(Enum):
    RED = 1
    BLUE = 2
def f(a: Colour, b: Colour) -> bool:
    """post: _"""
    return (a is b) == (a.value == b.value)
## check: a member is forgotten | f(Colour.GREEN)
from enum import Enum
class Colour(Enum):
    RED = 1
    BLUE = 2
    GREEN = 3
def f(c: Colour) -> int:
    """post: _ > 0"""
    return {Colour.RED: 1, Colour.BLUE: 2}.get(c, 0)
## check: an alias of a member
from enum import Enum
class Level(Enum):
    LOW = 1
    SMALL = 1
    HIGH = 2
def f(x: Level) -> bool:
    """post: _"""
    return x in (Level.LOW, Level.HIGH)
## check: an ordered enumeration | f(Level.HIGH)
from enum import IntEnum
class Level(IntEnum):
    LOW = 1
    HIGH = 2
def f(x: Level) -> bool:
    """post: _"""
    return x < 2
## raises KeyError: a state machine without a rule | f(State.STOPPED)
from enum import Enum
class State(Enum):
    RUNNING = "r"
    STOPPED = "s"
def f(s: State) -> State:
    return {State.RUNNING: State.STOPPED}[s]
## check: adding a day at the end of time | f(date.max)
from datetime import date, timedelta
def f(d: date) -> bool:
    """post: _"""
    return d + timedelta(days=1) > d
## check: a month later | f(date(2024, 1, 31))
from datetime import date
def f(d: date) -> date:
    """pre: d.month < 12
    post: True"""
    return d.replace(month=d.month + 1)
## check: a year later | f(date(2024, 2, 29))
from datetime import date
def f(d: date) -> date:
    """pre: d.year < 9999
    post: _.year == d.year + 1"""
    return d.replace(year=d.year + 1)
## check: a week has seven days
from datetime import date
def f(d: date) -> int:
    """post: 0 <= _ < 7"""
    return d.weekday()
## check: a year has 365 days | f(date(2024, 12, 31))
from datetime import date
def f(d: date) -> int:
    """post: _ <= 365"""
    return d.timetuple().tm_yday
## check: the ISO year is the year | f(date(2023, 1, 1))
from datetime import date
def f(d: date) -> bool:
    """post: _"""
    return d.isocalendar()[0] == d.year
## check: a duration is positive | f(timedelta(-1))
from datetime import timedelta
def f(t: timedelta) -> bool:
    """post: _"""
    return t >= timedelta(0)
## check: the seconds of a duration are all of it | f(timedelta(1))
from datetime import timedelta
def f(t: timedelta) -> bool:
    """pre: timedelta(0) <= t < timedelta(days=30)
    post: _"""
    return t.seconds == int(t.total_seconds())
## check: a naive and an aware time | f(datetime(2024, 3, 31, 2, 30, tzinfo=UTC))
from datetime import datetime, UTC
def f(t: datetime) -> bool:
    """post: _"""
    return t < datetime(9999, 12, 31, 23, 59, 59) or True
## check: the hour of a time
from datetime import time
def f(t: time) -> int:
    """post: 0 <= _ < 24"""
    return t.hour
## raises OverflowError: a date before the first | f(date.min)
from datetime import date, timedelta
def f(d: date) -> date:
    return d - timedelta(days=1)
## unstable check: the time zone of the process
from datetime import datetime
def f(x: int) -> bool:
    """post: _"""
    return datetime.fromtimestamp(0).hour == 0
## unstable check: seeding from the system
import random
def f(x: int) -> bool:
    """post: _"""
    random.seed()
    return random.random() < 0.999999
## check: a generator with a seed
from random import Random
def f(x: int) -> bool:
    """post: _"""
    return Random(1).random() == Random(1).random()
## check: finally runs
def f(x: int) -> list[int]:
    """post: _ == [1, 2]"""
    found = []
    try:
        found.append(1)
    finally:
        found.append(2)
    return found
## check: else runs without an exception | f(0)
def f(x: int) -> int:
    """post: _ == 1"""
    try:
        y = 1 // x
    except ZeroDivisionError:
        return 0
    else:
        return 1
## raises ValueError: a nested exception is replaced | f(0)
def f(x: int) -> int:
    try:
        return 1 // x
    except ZeroDivisionError as error:
        raise ValueError from error
## raises LookupError: a subclass is caught first
def f(d: dict[int, int], k: int) -> int:
    try:
        return d[k]
    except KeyError:
        return 0
## raises Exception: an exception in a handler | f(5)
def f(x: int) -> int:
    try:
        raise KeyError
    except KeyError:
        return 1 // (x - 5)
## raises AssertionError: an assert between bounds | f(50)
def f(x: int) -> int:
    if 40 < x < 60:
        assert x != 50
    return x
## raises AttributeError: an attribute of None | f(0)
class Box:
    def __init__(self, value):
        self.value = value
def find(x):
    return Box(x) if x else None
def f(x: int) -> int:
    return find(x).value
## raises NotImplementedError: an abstract method | f(1)
class Base:
    def run(self):
        raise NotImplementedError
class Done(Base):
    def run(self):
        return 1
def f(x: int) -> int:
    return (Base() if x == 1 else Done()).run()
## pair: dataclasses
from dataclasses import dataclass
@dataclass
class P:
    x: int
    y: int
def a(x: int): return P(x, 0)
def b(x: int): return P(y=0, x=x)
## pair: a field that equality ignores | a(1).note
from dataclasses import dataclass, field
@dataclass
class P:
    x: int
    note: str = field(compare=False, default="")
def a(x: int): return P(x, "one")
def b(x: int): return P(x, "two")
## pair: an argument is changed | a([1, 3, 2])
def a(xs: list[int]): xs.sort()
def b(xs: list[int]): xs.reverse()
## pair: a field is changed | a(P(1))
from dataclasses import dataclass
@dataclass
class P:
    x: int
def a(p: P): p.x = 0
def b(p: P): p.x = p.x * 2
## pair: enumerations by name or value
from enum import Enum
class C(Enum):
    A = 1
    B = 2
def a(c: C): return c.value
def b(c: C): return 1 if c.name == "A" else 2
## pair: flags | a(F.A | F.B)
from enum import Flag
class F(Flag):
    A = 1
    B = 2
def a(c: F): return c.value
def b(c: F): return 1 if c is F.A else 2 if c is F.B else 0
''')
