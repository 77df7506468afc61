"""Programs about what outlives a call and no name shows: generators, caches, addresses, and invariants."""

from tests.analysis.programs.rows import read_programs

OUTLIVING = read_programs('''
## unstable check: a renamed random generator
from random import Random as Rng
def f(x: int) -> bool:
    """post: _"""
    return Rng().random() < 0.999
## unstable check: a subclass of a random generator
import random
class Dice(random.Random): pass
def f(x: int) -> bool:
    """post: _"""
    return Dice().random() < 0.999
## unstable check: a subclass of a random generator that seeds nothing
import random
class Dice(random.Random):
    def __init__(self, sides: int = 6) -> None:
        self.sides = sides
def f(x: int) -> bool:
    """post: _"""
    return Dice().random() < 0.999
## unstable check: no seed in starred arguments
import random
def f(x: int) -> bool:
    """post: _"""
    return random.Random(*()).random() < 0.999
## unstable check: an unseeded generator in a default factory
import random
from dataclasses import dataclass, field
@dataclass
class Game:
    rng: random.Random = field(default_factory=random.Random)
def f(x: int) -> bool:
    """post: _"""
    return Game().rng.random() < 0.999
## unstable check: a method of seed under another name
import random
def f(x: int) -> bool:
    """post: _"""
    rng = random.Random(1)
    again = rng.seed
    again()
    return rng.random() < 0.999
## unstable check: a number that is drawn when the module starts
import random
LIMIT = random.Random().random()
def f(x: int) -> bool:
    """post: _"""
    return LIMIT < 0.999
## unstable check: a number of the shared generator when the module starts
import random
LIMIT = random.random()
def f(x: int) -> bool:
    """post: _"""
    return LIMIT < 0.999
## check: a roll of a generator with a seed
import random
def f(x: bool) -> bool:
    """post: _"""
    return random.Random(7).randint(1, 6) <= 6 or x
## check: a generator with a named seed when the module starts
import random
RNG = random.Random(x=7)
FIRST = RNG.randint(1, 6)
def f(x: bool) -> bool:
    """post: _"""
    return FIRST <= 6 or x
## unstable check: a list in an lru_cache
from functools import lru_cache
@lru_cache
def registry(): return []
def f(x: int) -> bool:
    """post: _"""
    registry().append(x); return len(registry()) < 500
## unstable check: a dict in a cache of a class
from functools import cache
class Store:
    @staticmethod
    @cache
    def get(): return {}
def f(x: int) -> bool:
    """post: _"""
    store = Store.get(); store[len(store)] = x; return len(store) < 500
## unstable check: a cached object with an attribute
from functools import lru_cache
class Counter:
    def __init__(self) -> None: self.n = 0
    def next(self) -> int:
        self.n += 1; return self.n
@lru_cache(maxsize=None)
def counter(): return Counter()
def f(x: int) -> bool:
    """post: _"""
    return counter().next() < 500
## unstable check: a cached generator
from functools import lru_cache
def numbers():
    n = 0
    while True:
        n += 1
        yield n
@lru_cache
def shared(): return numbers()
def f(x: int) -> bool:
    """post: _"""
    return next(shared()) < 500
## unstable check: a list inside a cached tuple
from functools import lru_cache
@lru_cache
def pair(): return ([], 1)
def f(x: int) -> bool:
    """post: _"""
    pair()[0].append(x); return len(pair()[0]) < 500
## unstable check: a list in a partial
from functools import partial
def add(seen, x):
    seen.append(x); return len(seen)
count = partial(add, [])
def f(x: int) -> bool:
    """post: _"""
    return count(x) < 500
## unstable check: a keyword of a partial
from functools import partial
def add(x, seen):
    seen[len(seen)] = x; return len(seen)
count = partial(add, seen={})
def f(x: int) -> bool:
    """post: _"""
    return count(x) < 500
## unstable check: a list in a cached property of one object
from functools import cached_property
class Box:
    @cached_property
    def items(self) -> list[int]: return []
BOX = Box()
def f(x: int) -> bool:
    """post: _"""
    BOX.items.append(x); return len(BOX.items) < 500
## unstable check: a list in the default of a static method
class Log:
    @staticmethod
    def lines(seen=[]): return seen
def f(x: int) -> bool:
    """post: _"""
    Log.lines().append(x); return len(Log.lines()) < 500
## unstable check: a list in the default of a property
class Log:
    def read(self, seen=[]): return seen
    lines = property(read)
    del read
LOG = Log()
def f(x: int) -> bool:
    """post: _"""
    LOG.lines.append(x); return len(LOG.lines) < 500
## unstable check: a list that a chain of maps holds
from collections import ChainMap
names = ChainMap({}, {"seen": []})
def f(x: int) -> bool:
    """post: _"""
    names["seen"].append(x); return len(names["seen"]) < 500
## check: a cached function of a bool is called
from functools import lru_cache
@lru_cache
def double(x: int) -> int: return 2 * x
def f(x: bool) -> bool:
    """post: _"""
    return double(x) == x + x
## check: a partial with plain arguments is called
from functools import partial
def add(x: int, y: int) -> int: return x + y
def f(x: int) -> bool:
    """post: _"""
    return partial(add, 1)(x) == x + 1
## unstable check: the address in a text
def f(x: int) -> bool:
    """post: _"""
    return repr(object())[-4] != "7"
## unstable check: the address of an object of a class
class Thing: pass
def f(x: int) -> bool:
    """post: _"""
    return str(Thing())[-4] != "7"
## unstable check: addresses below a list
def f(x: int) -> bool:
    """post: _"""
    return str([object()])[-5] != "7"
## unstable check: the address in a formatted text
class Thing: pass
def f(x: int) -> bool:
    """post: _"""
    return f"{Thing()}"[-4] != "7"
## unstable check: the address of a generator
def f(x: int) -> bool:
    """post: _"""
    return ascii(y for y in [x])[-4] != "7"
## unstable check: the address of a function in a text
def f(x: int) -> bool:
    """post: _"""
    return "%s" % (lambda: x,) != "" and "{}".format(lambda: x)[-4] != "7"
## unstable check: objects sorted by their text
class Thing: pass
def f(x: int) -> bool:
    """post: _"""
    a, b = Thing(), Thing()
    return sorted([a, b], key=str)[0] is a
## check: an object with a text of its own
class Thing:
    def __repr__(self) -> str: return "Thing()"
def f(x: bool) -> bool:
    """post: _"""
    return f"{Thing()} {x}".startswith("Thing()")
## check Acc.take: take breaks the invariant | Acc.take(Acc(0), 1)
class Acc:
    """inv: self.n >= 0"""
    def __init__(self, n: int) -> None: self.n = n
    def take(self, k: int) -> int:
        """post: _ == self.n"""
        self.n -= k
        return self.n
## check: an argument breaks its invariant | f(Acc(0), 1)
class Acc:
    """inv: self.n >= 0"""
    def __init__(self, n: int) -> None: self.n = n
def f(a: Acc, k: int) -> int:
    """post: _ == k"""
    a.n -= k
    return k
## check: an item breaks its invariant | f([Acc(0)])
class Acc:
    """inv: self.n >= 0"""
    def __init__(self, n: int) -> None: self.n = n
def f(a: list[Acc]) -> int:
    """pre: len(a) == 1
    post: _ == 1"""
    a[0].n = -1
    return 1
## check: a part of an object breaks its invariant | f(Account(Acc(0)))
from dataclasses import dataclass
@dataclass
class Acc:
    """inv: self.n >= 0"""
    n: int
@dataclass
class Account:
    acc: Acc
def f(a: Account) -> int:
    """post: _ == 1"""
    a.acc.n = -1
    return 1
## check Sub.take: the invariant of a base | Sub.take(Sub(0), 3)
class Base:
    """inv: self.n >= 0"""
    def __init__(self, n: int) -> None: self.n = n
class Sub(Base):
    def take(self, k: int) -> int:
        """post: _ == k"""
        self.n -= k
        return k
## check: an invariant that raises after the call | f(Half(1))
from dataclasses import dataclass
@dataclass
class Half:
    """inv: 1 // self.n >= 0"""
    n: int
def f(h: Half) -> int:
    """post: _ == 0"""
    h.n = 0
    return 0
## check Acc.add: a method that keeps its invariant
class Acc:
    """inv: self.n >= 0"""
    def __init__(self, n: int) -> None: self.n = n
    def add(self, k: int) -> int:
        """pre: k >= 0
        post: _ >= k"""
        self.n += k
        return self.n
''')
