"""Programs with a violation in a first call, although the result can differ between calls or processes."""

from tests.analysis.programs.rows import read_programs

FINDINGS = read_programs(r'''
## decided check: weights are normalised | f({'': 0.0})
def f(weights: dict[str, float]) -> dict[str, float]:
    """
    pre: all(0 <= w <= 1000 for w in weights.values())
    post: not _ or abs(sum(_.values()) - 1) < 1e-6
    """
    total = sum(weights.values())
    return {k: v / total for k, v in weights.items()}
## decided check: a difference beside the items of a dict | f({'': 0})
def f(d: dict[str, int]) -> float:
    """post: True"""
    total = 0.0
    for k, v in d.items():
        total += 1 / abs(v)
    return total
## decided check: a change in percent | f(Sale(0, 0))
from dataclasses import dataclass
@dataclass
class Sale:
    before: int
    after: int
def f(s: Sale) -> float:
    """post: True"""
    return round((s.after - s.before) / s.before, 2)
## decided check: the share of a tag | f([], 0)
def f(tags: list[str], n: int) -> float:
    """post: _ >= 0"""
    return len([t for t in set(tags)]) / n
## decided raises ZeroDivisionError: a difference in an average | f({})
def f(prices: dict[str, float]) -> float:
    return sum(abs(v - 1) for k, v in prices.items()) / len(prices)
## decided pair: differences of the items | a({'': 1})
def a(d: dict[str, int]) -> list[int]:
    return [abs(v - 1) for k, v in d.items()]
def b(d: dict[str, int]) -> list[int]:
    return [v - 1 if v > 1 else 1 - v for k, v in d.items() if v != 1]
## decided check: a duration is logged | f(3)
from datetime import datetime
import logging
def f(x: int) -> float:
    """post: True"""
    start = datetime.now()
    result = 1 / (x - 3)
    logging.info("took %s", datetime.now() - start)
    return result
## decided raises ZeroDivisionError: a time is printed | f(0)
from datetime import datetime
def f(x: int) -> float:
    print(datetime.now())
    return 1 / x
## decided raises ZeroDivisionError: a random pause | f(7)
import random
def f(x: int) -> float:
    pause = random.random()
    return pause / (x - 7)
## decided check: calls are counted | f(5)
calls = 0
def f(x: int) -> int:
    """post: _ != 5"""
    global calls
    calls += 1
    return x
## decided raises ZeroDivisionError: calls are counted in a dict | f(0)
counts = {"calls": 0}
def f(x: int) -> float:
    counts["calls"] += 1
    return 1 / x
## decided check: a mutable default of a helper | f(9)
def add(x: int, seen: list[int] = []) -> list[int]:
    seen.append(x)
    return seen
def f(x: int) -> int:
    """post: _ != 9"""
    return add(x)[-1]
## decided check: a default list is shared by two calls | f(1)
def add(x: int, seen: list[int] = []) -> list[int]:
    seen.append(x)
    return seen
def f(x: int) -> bool:
    """post: _"""
    add(x)
    return add(x) == [x]
## decided check: a cache in a dict | f(4)
cache = {}
def f(x: int) -> int:
    """post: _ != 16"""
    if x not in cache:
        cache[x] = x * x
    return cache[x]
## decided check: a counter in a class | f(2)
class Counter:
    total = 0
    def add(self, x: int) -> int:
        Counter.total += x
        return Counter.total
def f(x: int) -> int:
    """post: _ != 2"""
    return Counter().add(x)
## decided check: a class attribute is shared | f('')
class Cart:
    items = []
    def add(self, item: str) -> None:
        self.items.append(item)
def f(item: str) -> bool:
    """post: _"""
    one, other = Cart(), Cart()
    one.add(item)
    return other.items == []
## decided check: a counter in a closure | f(8)
def make():
    count = 0
    def add(x: int) -> int:
        nonlocal count
        count += x
        return count
    return add
add = make()
def f(x: int) -> int:
    """post: _ != 8"""
    return add(x)
## decided pair: only one of them counts | a(2)
calls = 0
def a(x: int) -> int:
    global calls
    calls += 1
    return x * x
def b(x: int) -> int:
    return x + x if x != 2 else 5
## unstable check: a lottery
import random
def f(x: int) -> bool:
    """post: _"""
    return random.random() < 0.5
## unstable check: a counter that only later calls see
calls = 0
def f(x: int) -> bool:
    """post: _"""
    global calls
    calls += 1
    return calls < 3
## unstable check: a default that only later calls see
def f(x: int, seen: list[int] = []) -> bool:
    """
    pre: len(seen) == 0
    post: _
    """
    seen.append(x)
    return len(seen) == 1
## unstable check: a lottery when the module starts
import random
LUCKY = random.random() < 0.5
def f(x: int) -> bool:
    """post: _"""
    return LUCKY
## unstable check: the first of a set of texts
def f(x: int) -> bool:
    """post: _"""
    return next(iter({"a", "b", "c", "d"})) != "a"
''')
