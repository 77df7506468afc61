"""Programs of many kinds: bits, calendars, money, state machines, parsers, iterators, copies, classes and graphs."""

from tests.analysis.programs.rows import read_programs

FAMILIES = read_programs(r'''
## check: gray codes differ in one bit
def f(n: int) -> bool:
    """
    pre: 0 <= n < 64
    post: _
    """
    return bin((n ^ n >> 1) ^ ((n + 1) ^ (n + 1) >> 1)).count("1") == 1
## check: gray code with the wrong shift | f(1)
def f(n: int) -> bool:
    """
    pre: 0 <= n < 64
    post: _
    """
    return bin((n ^ n >> 2) ^ ((n + 1) ^ (n + 1) >> 2)).count("1") == 1
## check: lowest set bit | f(0)
def f(n: int) -> bool:
    """
    pre: n >= 0
    post: _
    """
    return n & -n > 0
## check: parity by folding
def f(n: int) -> bool:
    """
    pre: 0 <= n < 256
    post: _
    """
    m = n
    m ^= m >> 4
    m ^= m >> 2
    m ^= m >> 1
    return m & 1 == bin(n).count("1") % 2
## check: rotation of a byte | f(129, 1)
def f(n: int, k: int) -> int:
    """
    pre: 0 <= n < 256 and 0 <= k < 8
    post: 0 <= _ < 256
    """
    return n << k | n >> 8 - k
## check: the digits of a number in base 7 | f(0)
def f(n: int) -> list[int]:
    """
    pre: n >= 0
    post: len(_) > 0
    """
    digits = []
    while n:
        n, digit = divmod(n, 7)
        digits.append(digit)
    return digits
## check: roman numbers below 40 begin with the largest | f(9)
def f(n: int) -> str:
    """
    pre: 0 < n < 40
    post: len(_) <= 4 or "X" in _
    """
    text = ""
    for value, letter in ((10, "X"), (5, "V"), (1, "I")):
        while n >= value:
            text += letter
            n -= value
    return text
## check: binary search goes past the end | f([1], 2)
def f(xs: list[int], wanted: int) -> int:
    """
    pre: len(xs) > 0 and all(a < b for a, b in zip(xs, xs[1:]))
    post: xs[_] >= wanted or _ == len(xs) - 1
    """
    low, high = 0, len(xs)
    while low < high:
        middle = (low + high) // 2
        if xs[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
## check: bisect on the left of equals | f([2, 2], 2)
from bisect import bisect_right
def f(xs: list[int], x: int) -> int:
    """
    pre: xs == sorted(xs)
    post: all(one < x for one in xs[:_])
    """
    return bisect_right(xs, x)
## check: intervals that touch are merged | f([(0, 1), (1, 2)])
def f(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """
    pre: all(a < b for a, b in spans)
    post: all(one[1] < other[0] for one, other in zip(_, _[1:]))
    """
    merged: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if merged and low < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
## check: run lengths are decoded again
def f(s: str) -> bool:
    """
    pre: len(s) <= 3
    post: _
    """
    from itertools import groupby
    return "".join(letter * len(list(run)) for letter, run in groupby(s)) == s
## check: groups without sorting | f([1, 2, 1])
from itertools import groupby
def f(xs: list[int]) -> list[int]:
    """post: len(_) == len(set(xs))"""
    return [key for key, _group in groupby(xs)]
## check: zip forgets the rest | f([1], [])
def f(a: list[int], b: list[int]) -> int:
    """
    pre: all(x > 0 for x in a)
    post: _ >= sum(a)
    """
    return sum(x + abs(y) for x, y in zip(a, b))
## check: a generator is used twice | f([1])
def f(xs: list[int]) -> int:
    """
    pre: all(x > 0 for x in xs)
    post: _ == 2 * len(xs)
    """
    positive = (x for x in xs if x > 0)
    return sum(1 for _x in positive) + sum(1 for _x in positive)
## check: late binding in a loop | f(3)
def f(n: int) -> int:
    """
    pre: 2 <= n <= 5
    post: _ == 0
    """
    functions = [lambda: i for i in range(n)]
    return functions[0]()
## check: early binding by a default
def f(n: int) -> int:
    """
    pre: 2 <= n <= 5
    post: _ == 0
    """
    functions = [lambda i=i: i for i in range(n)]
    return functions[0]()
## check: rows of one list | f(2)
def f(n: int) -> int:
    """
    pre: 1 <= n <= 4
    post: _ == 1
    """
    grid = [[0] * n] * n
    grid[0][0] = 1
    return sum(map(sum, grid))
## check: a shallow copy | f([[1]])
import copy
def f(rows: list[list[int]]) -> bool:
    """
    pre: len(rows) > 0 and len(rows[0]) > 0
    post: _
    """
    other = copy.copy(rows)
    other[0][0] += 1
    return rows[0][0] != other[0][0]
## check: removing ones while iterating | f([1, 1])
def f(xs: list[int]) -> list[int]:
    """post: 1 not in _"""
    kept = list(xs)
    for x in kept:
        if x == 1:
            kept.remove(x)
    return kept
## check: transposing a ragged table | f([[1], []])
def f(rows: list[list[int]]) -> int:
    """
    pre: len(rows) <= 3
    post: _ == sum(len(row) for row in rows)
    """
    return sum(len(column) for column in zip(*rows))
## check: a path around a circle | f(0, 7)
def f(a: int, b: int) -> int:
    """
    pre: 0 <= a < 12 and 0 <= b < 12
    post: 0 <= _ <= 6
    """
    return abs(a - b)
## check: the shorter way around a clock
def f(a: int, b: int) -> int:
    """
    pre: 0 <= a < 12 and 0 <= b < 12
    post: 0 <= _ <= 6
    """
    return min((a - b) % 12, (b - a) % 12)
## check: the day after | f(date.max)
from datetime import date, timedelta
def f(d: date) -> date:
    """post: _ > d"""
    return d + timedelta(days=1)
## check: the same day a year later | f(date(2024, 2, 29))
from datetime import date
def f(d: date) -> date:
    """
    pre: d.year < 9999
    post: _ > d
    """
    return d.replace(year=d.year + 1)
## check: the last of a month has no month before | f(date(2023, 3, 31))
from datetime import date
def f(d: date) -> date:
    """
    pre: d.month > 1
    post: _ < d
    """
    return d.replace(month=d.month - 1)
## check: weekends are two of seven days
from datetime import date
def f(n: int) -> bool:
    """
    pre: 700000 <= n <= 700003
    post: _
    """
    return sum(date.fromordinal(n + i).weekday() >= 5 for i in range(7)) == 2
## check: a span in whole minutes | f(timedelta(seconds=59))
from datetime import timedelta
def f(span: timedelta) -> int:
    """
    pre: timedelta(0) < span < timedelta(hours=1)
    post: _ > 0
    """
    return span.seconds // 60
## check: a negative span has positive seconds | f(timedelta(seconds=-1))
from datetime import timedelta
def f(span: timedelta) -> bool:
    """
    pre: timedelta(days=-2) < span < timedelta(days=2)
    post: _
    """
    return (span.seconds < 0) == (span < timedelta(0))
## check: cents are rounded half to even | f(5)
def f(tenths: int) -> int:
    """
    pre: 0 <= tenths < 100
    post: _ == (tenths + 5) // 10
    """
    return round(tenths / 10)
## check: shares of money add up | f(100, 3)
def f(cents: int, people: int) -> int:
    """
    pre: 0 <= cents <= 1000 and 1 <= people <= 7
    post: _ * people == cents
    """
    return cents // people
## check: the rest of the money goes to the first
def f(cents: int) -> bool:
    """
    pre: 0 <= cents <= 1000
    post: _
    """
    share, rest = divmod(cents, 3)
    return sum(share + (1 if i < rest else 0) for i in range(3)) == cents
## check: tokens of a bucket | f(1, 0, 1)
def f(size: int, used: int, refill: int) -> int:
    """
    pre: 0 <= used <= size <= 50 and 0 <= refill <= 10
    post: 0 <= _ <= size
    """
    return size - used + refill
## check: a check digit finds swapped neighbours | f(0, 9)
def f(a: int, b: int) -> bool:
    """
    pre: 0 <= a <= 9 and 0 <= b <= 9 and a != b
    post: _
    """
    def double(d: int) -> int:
        return 2 * d - 9 if d > 4 else 2 * d
    return (double(a) + b) % 10 != (double(b) + a) % 10
## check: weights three and one find one wrong digit
def f(a: int, b: int) -> bool:
    """
    pre: 0 <= a <= 9 and 0 <= b <= 9 and a != b
    post: _
    """
    return 3 * a % 10 != 3 * b % 10 and a % 10 != b % 10
## check: weights three and one and swapped digits | f(0, 5)
def f(a: int, b: int) -> bool:
    """
    pre: 0 <= a <= 9 and 0 <= b <= 9 and a != b
    post: _
    """
    return (3 * a + b) % 10 != (3 * b + a) % 10
## check: a state machine leaves the door | f([2])
def f(events: list[int]) -> str:
    """
    pre: all(0 <= e <= 2 for e in events)
    post: _ != "broken"
    """
    state = "closed"
    for event in events:
        match state, event:
            case "closed", 0:
                state = "open"
            case "open", 1:
                state = "closed"
            case "closed", 2:
                state = "broken"
    return state
## check: a turnstile counts coins | f([True, True])
def f(events: list[bool]) -> int:
    """
    pre: len(events) <= 4
    post: _ <= 1
    """
    coins = 0
    for coin in events:
        coins = coins + 1 if coin else max(0, coins - 1)
    return coins
## check: brackets that close before they open | f(")(")
def f(s: str) -> bool:
    """post: not _ or s.find(")") == -1 or s.find("(") < s.find(")")"""
    return s.count("(") == s.count(")")
## check: brackets of depth are balanced | f("(()")
def f(s: str) -> int:
    """
    pre: len(s) <= 4 and all(c in "()" for c in s)
    post: _ <= 0
    """
    depth = 0
    for c in s:
        depth += 1 if c == "(" else -1
    return depth
## check: numbers with signs | f("-")
def f(s: str) -> int:
    """
    pre: len(s) > 0 and all(c in "-0123456789" for c in s) and "-" not in s[1:]
    post: True
    """
    return int(s)
## check: a key and its value | f("a=b=c")
def f(line: str) -> tuple[str, str]:
    """
    pre: "=" in line
    post: len(_) == 2
    """
    key, value = line.split("=")
    return key, value
## check: a key and its value by partition
def f(line: str) -> str:
    """
    pre: "=" in line and len(line) <= 2
    post: len(_) < len(line)
    """
    return line.partition("=")[2]
## check: the extension of a file | f("a")
def f(name: str) -> str:
    """post: not _ or name.endswith("." + _)"""
    return name[name.rfind(".") + 1:]
## check: a text without its prefix | f("aab")
def f(s: str) -> str:
    """
    pre: s.startswith("a")
    post: _ == s[1:]
    """
    return s.replace("a", "")
## check: stripping more than a suffix | f("hahaha")
def f(s: str) -> str:
    """
    pre: len(s) > 2 and s.endswith("ha")
    post: len(_) == len(s) - 2
    """
    return s.rstrip("ha")
## check: two spaces in a row | f("a  b")
def f(s: str) -> list[str]:
    """
    pre: s.startswith("a") and s.endswith("b")
    post: "" not in _
    """
    return s.split(" ")
## check: swapping cases twice | f("ß")
def f(s: str) -> bool:
    """post: _"""
    return s.swapcase().swapcase() == s
## check: the length of upper case | f("ŉ")
def f(s: str) -> bool:
    """post: _"""
    return len(s.upper()) == len(s)
## check: digits of other scripts | f("²")
def f(s: str) -> int:
    """
    pre: s.isdigit()
    post: True
    """
    return int(s)
## check: equality without regard to type | f(True)
def f(x: bool) -> bool:
    """post: _"""
    seen = {1: "one", 0: "zero"}
    return x not in seen
## check: merged settings keep the default | f({"a": None})
def f(given: dict[str, int | None]) -> int:
    """post: True"""
    settings = {"a": 1, **given}
    return settings["a"] + 1
## check: the most frequent of equal ones | f(["a", "b"])
from collections import Counter
def f(xs: list[str]) -> str:
    """
    pre: len(xs) > 0
    post: _ == max(xs)
    """
    return Counter(xs).most_common(1)[0][0]
## check: a difference of counters is not negative | f([1], [1, 1])
from collections import Counter
def f(a: list[int], b: list[int]) -> bool:
    """post: _"""
    count = Counter(a)
    count.subtract(b)
    return count == Counter(a) - Counter(b)
## check: a default dict has what was asked for | f("a")
from collections import defaultdict
def f(key: str) -> int:
    """post: _ == 0"""
    d: defaultdict[str, int] = defaultdict(int)
    d[key]
    return len(d)
## check: a ring of three | f([1, 2, 3, 4])
from collections import deque
def f(xs: list[int]) -> int:
    """
    pre: len(xs) > 0
    post: _ == xs[0]
    """
    return deque(xs, maxlen=3)[0]
## check: heads of a heap are sorted
import heapq
def f(a: int, b: int, c: int) -> bool:
    """post: _"""
    heap = [a, b, c]
    heapq.heapify(heap)
    return heapq.heappop(heap) <= heapq.heappop(heap) <= heapq.heappop(heap)
## check: a heap is not sorted | f(1, 3, 2)
import heapq
def f(a: int, b: int, c: int) -> bool:
    """post: _"""
    heap = [a, b, c]
    heapq.heapify(heap)
    return heap == sorted(heap)
## check: a flag with a part of it | f(Right.READ)
from enum import Flag
class Right(Flag):
    READ = 1
    WRITE = 2
def f(right: Right) -> bool:
    """post: _ == (Right.READ in right and Right.WRITE in right)"""
    return bool(right & (Right.READ | Right.WRITE))
## check: the area of a square that is a rectangle | f(Square(2), 3)
class Rectangle:
    def __init__(self, width: int) -> None:
        self.width = width
        self.height = 1
    def set_width(self, width: int) -> None:
        self.width = width
class Square(Rectangle):
    def set_width(self, width: int) -> None:
        self.width = self.height = width
def f(r: Rectangle, width: int) -> int:
    """
    pre: r.height == 1
    post: _ == width
    """
    r.set_width(width)
    return r.width * r.height
## check: an equality without symmetry | f(Base(1), Part(1, 2))
class Base:
    def __init__(self, n: int) -> None:
        self.n = n
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Base) and self.n == other.n
class Part(Base):
    def __init__(self, n: int, m: int) -> None:
        self.n = n
        self.m = m
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and self.n == other.n and self.m == other.m
def f(a: Base, b: Part) -> bool:
    """post: _"""
    return a == b or a.n != b.n
## check: frozen with a list inside
from dataclasses import dataclass, replace
@dataclass(frozen=True)
class Point:
    x: int
    y: int
def f(p: Point) -> bool:
    """post: _"""
    return replace(p, x=p.y, y=p.x) == Point(p.y, p.x)
## check: a walrus keeps the last | f([1, 20])
def f(xs: list[int]) -> int:
    """
    pre: len(xs) > 0
    post: _ <= 10
    """
    last = 0
    if any((last := x) > 10 for x in xs):
        return last
    return min(last, 10)
## check: all of nothing | f([])
def f(xs: list[int]) -> bool:
    """post: not _ or len(xs) > 0"""
    return all(x > 0 for x in xs)
## check: a negative step | f([1, 2, 3], 1)
def f(xs: list[int], n: int) -> list[int]:
    """
    pre: 0 <= n < len(xs)
    post: len(_) == n
    """
    return xs[n::-1]
## check: minus zero as an index | f([1, 2], 0)
def f(xs: list[int], n: int) -> list[int]:
    """
    pre: 0 <= n <= len(xs)
    post: len(_) == n
    """
    return xs[-n:]
## raises ZeroDivisionError: a mean of selected ones | f([1])
def f(xs: list[int]) -> float:
    even = [x for x in xs if x % 2 == 0]
    return sum(even) / len(even) if xs else 0.0
## raises IndexError: the second largest | f([1, 1])
def f(xs: list[int]) -> int:
    return sorted(set(xs))[-2] if len(xs) > 1 else 0
## raises RecursionError: a list that ends in another way | f(-1)
def f(n: int) -> int:
    return 0 if n == 0 else 1 + f(n - 2 if n > 1 else n - 1)
## raises StopIteration: the first above a limit | f([], 1)
def f(xs: list[int], limit: int) -> int:
    return next(x for x in xs if x > limit)
## raises UnboundLocalError: the last of a loop | f([])
def f(xs: list[int]) -> int:
    for x in xs:
        last = x
    return last
## raises KeyError: a graph with a node outside | f({0: [1]})
def f(graph: dict[int, list[int]]) -> int:
    seen, waiting = [], [0] if 0 in graph else []
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.append(node)
            waiting += graph[node]
    return len(seen)
## pair: floor and truncation | a(-1, 2)
def a(x: int, y: int) -> int:
    return x // y if y else 0
def b(x: int, y: int) -> int:
    return int(x / y) if y and abs(x) < 1000 and abs(y) < 1000 else x // y if y else 0
## pair: modulo of negative numbers | a(-1)
def a(x: int) -> int:
    return x % 4
def b(x: int) -> int:
    return x & 3 if x >= 0 else -(-x & 3)
## pair: modulo four by a mask
def a(x: int) -> int:
    return x % 4
def b(x: int) -> int:
    return x - x // 4 * 4
## pair: or and a default | a(0)
def a(x: int | None) -> int:
    return x or 7
def b(x: int | None) -> int:
    return 7 if x is None else x
## pair: sorting by two keys | a([(1, 2), (1, 1)])
def a(xs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(xs)
def b(xs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(sorted(xs, key=lambda one: -one[1]), key=lambda one: one[0])
## pair: unique in order | a([1, 2, 1])
def a(xs: list[int]) -> list[int]:
    return list(dict.fromkeys(xs))
def b(xs: list[int]) -> list[int]:
    return list(dict.fromkeys(reversed(xs)))[::-1]
## check: ISBN-10 with a check digit of ten | f("597990199")
def f(body: str) -> str:
    """
    pre: len(body) == 9 and all(c in "0123456789" for c in body)
    post: len(_) == 1
    """
    total = sum((10 - i) * int(c) for i, c in enumerate(body))
    return str((11 - total % 11) % 11)
## check: ISBN-13 with a check digit of zero | f("000000000000")
def f(body: str) -> int:
    """
    pre: len(body) == 12 and all(c in "0123456789" for c in body)
    post: 0 <= _ <= 9
    """
    total = sum((1 if i % 2 == 0 else 3) * int(c) for i, c in enumerate(body))
    return 10 - total % 10
## check: days of February 2000 | f(2000, 2)
def f(year: int, month: int) -> int:
    """
    pre: 1900 <= year <= 2100 and 1 <= month <= 12
    post: _ != 28 or year % 4 != 0 or year in (1900, 2100)
    """
    if month == 2:
        return 29 if year % 4 == 0 and year % 100 != 0 else 28
    return 30 if month in (4, 6, 9, 11) else 31
## check: an address with leading zeros | f("01.1.1.1")
def f(s: str) -> bool:
    """post: not _ or all(str(int(p)) == p for p in s.split("."))"""
    parts = s.split(".")
    return len(parts) == 4 and all(p.isdigit() and p.isascii() and 0 <= int(p) <= 255 for p in parts)
## check: a word of Unicode | f("Ⅷ")
import re
def f(s: str) -> bool:
    """post: not _ or s.isalpha() or s == "_" or s.isdecimal()"""
    return re.fullmatch(r"\w", s) is not None
## check: two letters mu | f("µ", "μ")
def f(a: str, b: str) -> bool:
    """
    pre: len(a) == 1 and len(b) == 1 and a != b
    post: not _ or a.lower() == b.lower() or a.upper() == b.upper() and "µ" not in a + b
    """
    return a.casefold() == b.casefold()
## check: a final sigma | f("Σ")
def f(s: str) -> bool:
    """post: _"""
    return ("a" + s).lower() == "a" + s.lower()
## check: a capital sharp s | f("ẞ")
def f(s: str) -> bool:
    """post: _"""
    return s.lower().upper() == s.upper()
## check: a numeric fraction | f("¼")
def f(s: str) -> bool:
    """
    pre: len(s) == 1
    post: not _ or s.isdigit()
    """
    return s.isnumeric()
## check: letters in order ignoring case | f("À", "ß")
def f(a: str, b: str) -> bool:
    """
    pre: len(a) == 1 and len(b) == 1 and a.isalpha() and b.isalpha()
    post: _
    """
    return (a < b) == (a.lower() < b.lower()) or a.lower() == a and b.lower() == b or a.isascii() or b.isascii()
## check: a dot product | f([1, 0, 0, 0], [4711, 0, 0, 0])
def f(a: list[int], b: list[int]) -> bool:
    """
    pre: len(a) == 4 and len(b) == 4
    post: _
    """
    return sum(x * y for x, y in zip(a, b)) != 4711
''')
