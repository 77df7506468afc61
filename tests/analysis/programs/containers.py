"""Programs with lists, tuples, sets, dicts, and what iterates over them."""

from tests.analysis.programs.rows import read_programs

CONTAINERS = read_programs(r'''
## raises IndexError: an index up to the length | f([], 0)
def f(xs: list[int], i: int) -> int:
    return xs[i] if 0 <= i <= len(xs) else 0
## raises IndexError: an index below the length
def f(xs: list[int], i: int) -> int:
    return xs[i] if 0 <= i < len(xs) else 0
## raises IndexError: a negative index | f([], -1)
def f(xs: list[int], i: int) -> int:
    return xs[i] if i < len(xs) else 0
## raises KeyError: a missing key | f({}, 1)
def f(d: dict[int, int], k: int) -> int:
    return d[k]
## raises KeyError: a key that is there
def f(d: dict[int, int], k: int) -> int:
    return d[k] if k in d else 0
## raises StopIteration: the first that fits | f([0])
def f(xs: list[int]) -> int:
    return next(x for x in xs if x > 0)
## raises ValueError: the minimum of nothing | f([])
def f(xs: list[int]) -> int:
    return min(xs)
## raises ValueError: unpacking two | f([1])
def f(xs: list[int]) -> int:
    x, y = xs
    return x
## raises TypeError: unpacking a pair
def f(xs: tuple[int, int]) -> int:
    x, y = xs
    return x + y
## raises ZeroDivisionError: the average of nothing | f([])
def f(xs: list[int]) -> float:
    return sum(xs) / len(xs)
## raises ZeroDivisionError: zero among the elements | f([0])
def f(xs: list[int]) -> list[int]:
    return [1 // x for x in xs]
## raises TypeError: comparing None | f([None, 1])
def f(xs: list[int | None]) -> list[int | None]:
    return sorted(xs)
## raises RuntimeError: changing a dict while iterating | f({1: 1})
def f(d: dict[int, int]) -> None:
    for key in d:
        d[key + 1] = 0
## raises RuntimeError: changing a copy while iterating
def f(d: dict[int, int]) -> None:
    for key in list(d):
        d[key + 1] = 0
## check: sorting keeps the length
def f(xs: list[int]) -> list[int]:
    """post: len(_) == len(xs)"""
    return sorted(xs)
## check: removing duplicates keeps the length | f([1, 1])
def f(xs: list[int]) -> list[int]:
    """post: len(_) == len(xs)"""
    return sorted(set(xs))
## check: reversing keeps the order of equal elements | f([1, 2])
def f(xs: list[int]) -> bool:
    """post: _"""
    return xs[::-1] == xs
## check: the maximum is an element
def f(xs: list[int]) -> int:
    """pre: 0 < len(xs) < 4
    post: _ in xs"""
    return max(xs)
## check: a slice is shorter | f([1])
def f(xs: list[int]) -> list[int]:
    """post: len(_) < len(xs) or not xs"""
    return xs[:2]
## check: the second largest | f([2, 2])
def f(xs: list[int]) -> bool:
    """pre: len(xs) >= 2
    post: _"""
    ordered = sorted(xs)
    return ordered[-2] < ordered[-1]
## check: three in ascending order | f([1, 2, 3])
def f(xs: list[int]) -> bool:
    """post: _"""
    return not (len(xs) == 3 and xs[0] < xs[1] < xs[2])
## check: a certain list | f([7, 8, 9])
def f(xs: list[int]) -> bool:
    """post: _"""
    return xs != [7, 8, 9]
## check: a sum that is too large | f([60, 60])
def f(xs: list[int]) -> bool:
    """pre: all(0 <= x <= 60 for x in xs)
    post: _"""
    return sum(xs) < 100 or len(xs) > 3
## check: the index of the first occurrence | f([1, 1])
def f(xs: list[int]) -> bool:
    """post: _"""
    return all(xs.index(x) == i for i, x in enumerate(xs))
## check: concatenation is not commutative | f([1], [2])
def f(xs: list[int], ys: list[int]) -> bool:
    """post: _"""
    return xs + ys == ys + xs
## check: lengths of a concatenation
def f(xs: list[int], ys: list[int]) -> bool:
    """post: _"""
    return len(xs + ys) == len(xs) + len(ys)
## check: binary search finds | f([2, 1], 1)
import bisect
def f(xs: list[int], x: int) -> bool:
    """pre: x in xs
    post: _"""
    at = bisect.bisect_left(xs, x)
    return at < len(xs) and xs[at] == x
## check: a heap gives the smallest
import heapq
def f(xs: list[int]) -> bool:
    """pre: 0 < len(xs) < 4
    post: _"""
    ys = list(xs)
    heapq.heapify(ys)
    return heapq.heappop(ys) == min(xs)
## check: pairs of zip | f([1], [])
def f(xs: list[int], ys: list[int]) -> bool:
    """post: _"""
    return len(list(zip(xs, ys))) == len(xs)
## check: a nested list | f([[1], [1]])
def f(xs: list[list[int]]) -> bool:
    """post: _"""
    return len(xs) < 2 or xs[0] != xs[1] or not xs[0]
## check: NaN in a list is found by identity | f([float("nan")])
def f(xs: list[float]) -> bool:
    """post: _"""
    return all(any(x == y for y in xs) for x in xs)
## check: NaN breaks sorting | f([3.0, float("nan"), 1.0])
def f(xs: list[float]) -> bool:
    """post: _"""
    ys = sorted(xs)
    return all(not ys[i] > ys[i + 1] for i in range(len(ys) - 1)) and (len(ys) < 3 or not ys[0] > ys[-1])
## check: tuples compare by element
def f(x: tuple[int, int], y: tuple[int, int]) -> bool:
    """post: _"""
    return (x < y) == (x[0] < y[0] or (x[0] == y[0] and x[1] < y[1]))
## check: any number of a tuple | f((1, 2, 3, 4))
def f(xs: tuple[int, ...]) -> bool:
    """post: _"""
    return len(xs) != 4
## check: a set has no duplicates
def f(xs: list[int]) -> bool:
    """post: _"""
    return len(set(xs)) <= len(xs)
## check: symmetric difference | f({1}, {1})
def f(xs: set[int], ys: set[int]) -> bool:
    """post: _"""
    return bool(xs ^ ys) or not xs
## check: union is larger | f(set(), set())
def f(xs: set[int], ys: set[int]) -> bool:
    """post: _"""
    return len(xs | ys) > len(xs & ys)
## check: a subset of a union
def f(xs: set[int], ys: set[int]) -> bool:
    """post: _"""
    return xs <= xs | ys
## check: sets compare partially | f({1}, {2})
def f(xs: set[int], ys: set[int]) -> bool:
    """post: _"""
    return xs <= ys or ys <= xs
## check: a frozen set of two | f(frozenset({1, 2}))
def f(xs: frozenset[int]) -> bool:
    """post: _"""
    return len(xs) != 2
## check: a set of text has a certain member | f({"b"})
def f(xs: set[str]) -> bool:
    """post: _"""
    return "b" not in xs
## check: numbers equal in a set | f(1)
def f(x: int) -> int:
    """post: _ == 2"""
    return len({x, 1})
## check: keys are unique
def f(d: dict[int, int]) -> bool:
    """post: _"""
    return len(d) == len(d.keys())
## check: inverting a dict keeps its length | f({1: 0, 2: 0})
def f(d: dict[int, int]) -> bool:
    """post: _"""
    return len({value: key for key, value in d.items()}) == len(d)
## check: merging prefers the right | f({1: 1}, {1: 2})
def f(d: dict[int, int], e: dict[int, int]) -> bool:
    """post: _"""
    return all((d | e)[key] == d[key] for key in d)
## check: get of a missing key | f({}, 1)
def f(d: dict[int, int], k: int) -> bool:
    """post: _"""
    return d.get(k) is not None
## check: setdefault keeps a value | f({1: 0}, 1)
def f(d: dict[int, int], k: int) -> int:
    """post: _ == 5"""
    return d.setdefault(k, 5)
## check: a word count | f("a a")
def f(s: str) -> bool:
    """post: _"""
    counts = {}
    for word in s.split(" "):
        counts[word] = counts.get(word, 0) + 1
    return all(one == 1 for one in counts.values())
## check: a counter has no negative counts | f([1])
from collections import Counter
def f(xs: list[int]) -> bool:
    """post: _"""
    return Counter(xs)[1] == 0
## check: a deque forgets | f([1, 2, 3])
from collections import deque
def f(xs: list[int]) -> bool:
    """post: _"""
    return list(deque(xs, maxlen=2)) == xs
## check: groups of equal elements | f([1, 2, 1])
from itertools import groupby
def f(xs: list[int]) -> bool:
    """post: _"""
    return len([key for key, _ in groupby(xs)]) == len(set(xs))
## check: an iterable has a length | f(iter([1]))
from collections.abc import Iterable
def f(xs: Iterable[int]) -> int:
    """post: _ >= 0"""
    return len(xs)
## check: an iterable is read twice | f(iter([1]))
from collections.abc import Iterable
def f(xs: Iterable[int]) -> bool:
    """post: _"""
    return list(xs) == list(xs)
## check: an iterable has an order | f({1: 0})
from collections.abc import Iterable
def f(xs: Iterable[int]) -> bool:
    """post: _"""
    return not isinstance(xs, dict)
## check: a collection can be indexed | f({1})
from collections.abc import Collection
def f(xs: Collection[int]) -> bool:
    """post: _"""
    return not xs or xs[0] is not None
## check: a sequence can be appended to | f((1,))
from collections.abc import Sequence
def f(xs: Sequence[int]) -> int:
    """post: _ >= 0"""
    xs.append(1)
    return len(xs)
## check: a sequence of text can be text | f("ab")
from collections.abc import Sequence
def f(xs: Sequence[str]) -> bool:
    """post: _"""
    return isinstance(xs, (list, tuple)) or len(xs) < 2
## check: a hashable can be added to one | f("a")
from collections.abc import Hashable
def f(x: Hashable) -> bool:
    """post: _"""
    return x is None or x + 1 is not None
## check: a mapping has a length
from collections.abc import Mapping
def f(d: Mapping[int, int]) -> bool:
    """post: _"""
    return len(d) >= 0
## check: an iterable of text can be a frozen set | f(frozenset({"a"}))
from collections.abc import Iterable
def f(xs: Iterable[str]) -> bool:
    """post: _"""
    return not isinstance(xs, frozenset)
## check: any value is truthy | f(0)
from typing import Any
def f(x: Any) -> bool:
    """post: _"""
    return bool(x)
## check: an object has a length | f(None)
def f(x: object) -> int:
    """post: _ >= 0"""
    return len(x) if x is not None else -1
## raises TypeError: adding elements of any type | f("a")
def f(x) -> int:
    return x + 1
## unstable check: the first of a set of words
def f(x: int) -> str:
    """post: _ == "a" """
    return list({"a", "b", "c"})[0]
## unstable check: a dict from a set
def f(x: int) -> bool:
    """post: _"""
    words = {"a", "b", "c"}
    return next(iter({word: 1 for word in words})) == "b"
## check: a sorted set of words
def f(x: int) -> bool:
    """post: _"""
    return sorted({"b", "a"}) == ["a", "b"]
## decided pair: an OrderedDict with its items in another order | a(0)
from collections import OrderedDict
def a(x: int) -> OrderedDict:
    return OrderedDict([(1, x), (2, x)])
def b(x: int) -> OrderedDict:
    return OrderedDict([(2, x), (1, x)])
## pair: sorted and sort
def a(xs: list[int]): return sorted(xs)
def b(xs: list[int]):
    ys = list(xs)
    ys.sort()
    return ys
## pair: first duplicates | a([1, 1])
def a(xs: list[int]): return list(dict.fromkeys(xs))
def b(xs: list[int]): return xs
## pair: unique in order or sorted | a([2, 1])
def a(xs: list[int]): return list(dict.fromkeys(xs))
def b(xs: list[int]): return sorted(set(xs))
## pair: reversed copies
def a(xs: list[int]): return xs[::-1]
def b(xs: list[int]): return list(reversed(xs))
## pair: any and all | a([])
def a(xs: list[bool]): return all(xs)
def b(xs: list[bool]): return any(xs)
## pair: extend and append | a([1], [2])
def a(xs: list[int], ys: list[int]):
    return [*xs, *ys]
def b(xs: list[int], ys: list[int]):
    return [*xs, ys]
## pair: list and tuple | a([1])
def a(xs: list[int]): return xs
def b(xs: list[int]): return tuple(xs)
## pair: a filter with another bound | a([0])
def a(xs: list[int]): return [x for x in xs if x >= 0]
def b(xs: list[int]): return [x for x in xs if x > 0]
## pair: max by loop | a([])
def a(xs: list[int]): return max(xs)
def b(xs: list[int]):
    best = 0
    for x in xs:
        best = max(best, x)
    return best
## pair: defaultdicts with other factories | a([1])
from collections import defaultdict
def a(xs: list[int]):
    d = defaultdict(int)
    for x in xs: d[x] += 1
    return dict(d)
def b(xs: list[int]):
    return {x: 1 + (len(xs) > 0) for x in xs}
## pair: numbers of other types in a list | a(1)
def a(x: int): return [x]
def b(x: int): return [float(x)] if x == 1 else [x]
## pair: a set with other types | a(0)
def a(x: int): return {1, x}
def b(x: int): return {True, x} if x == 0 else {1, x}
''')
