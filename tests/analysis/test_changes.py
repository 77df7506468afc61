"""What code changes, and claims that need that nothing changes.

The lists of methods and functions are judged by what Python does: each one is called.
"""

import ast
import builtins
import collections
import copy
import importlib
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from quilt_mcp.analysis.gate.changes import CHANGING_FUNCTIONS, CHANGING_METHODS, find_changes
from quilt_mcp.analysis.policy import ALLOWED_MODULES, PERMITTED_BUILTINS
from tests.analysis.engine_runs import check_reduced
from tests.support.samples import choose_every

OBJECTS: list[Callable[[], Any]] = [
    lambda: [[3], [1]],
    lambda: [3, 1, 2],
    lambda: {3: 1, 1: 2},
    lambda: {3, 1, 2},
    lambda: bytearray(b"cab"),
    lambda: collections.deque([3, 1, 2]),
    lambda: collections.OrderedDict({3: 1, 1: 2}),
    lambda: collections.Counter("aab"),
    lambda: collections.ChainMap({3: 1}, {1: 2}),
    lambda: collections.UserDict({3: 1}),
    lambda: collections.UserList([3, 1, 2]),
]
ARGUMENTS = [
    (),
    (1,),
    (3,),
    ("a",),
    ([1],),
    ([(1, 5)],),
    ({1: 2},),
    (0, 5),
    ("a", 5),
    (1, [2]),
    ({3},),
    (b"a",),
    (slice(0, 1),),
]
ARGUMENTS += [(slice(0, 1), [9]), (3, False), (ord("c"),), (collections.Counter("a"),), (collections.deque([7]),)]


def is_changed_by(make: Callable[[], Any], call: Callable[..., object]) -> bool:
    for arguments in ARGUMENTS:
        one = make()
        try:
            call(one, *copy.deepcopy(arguments))
        except Exception:  # noqa: BLE001, S112 - any error of a call with wrong arguments
            continue
        if repr(one) != repr(make()):
            return True
    return False


@pytest.mark.parametrize("make", OBJECTS)
def test_methods_that_change_an_object_are_known(make: Callable[[], Any]) -> None:
    names = {name for name in dir(make()) if callable(getattr(make(), name))} - CHANGING_METHODS
    assert [name for name in names if is_changed_by(make, getattr(type(make()), name))] == []


def list_functions() -> Iterator[tuple[str, Callable[..., object]]]:
    for module in {*ALLOWED_MODULES} - {"__future__", "logging"}:
        for name in dir(importlib.import_module(module)):
            if callable(one := getattr(importlib.import_module(module), name)) and not name.startswith("_"):
                yield name, one
    yield from ((name, one) for name in PERMITTED_BUILTINS if callable(one := getattr(builtins, name, None)))


def test_functions_that_change_their_argument_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    functions = [(name, one) for name, one in list_functions() if name not in CHANGING_FUNCTIONS]
    assert len(functions) > 500
    state = random.getstate()  # `random.seed` is one of them
    changing = [name for name, one in functions for make in OBJECTS if is_changed_by(make, one)]
    random.setstate(state)
    assert changing == []
    capsys.readouterr()  # what `print` and `pow` wrote


def find_depth(value: object, sought: object) -> int | None:
    """Return how deep in a value an object is, to a depth of 2."""
    level = [value]
    for depth in range(3):
        if any(one is sought for one in level):
            return depth
        parts = [one for one in level if isinstance(one, Iterable) and not isinstance(one, str)]
        level = [part for one in parts for part in one]
    return None


CALLS = ["{}(N)", "{}(N, M)", "{}(M, N)", "{}(N, 1)", "{}([], N)", "{}(k=N)", "{}([], start=N)", "{}([], default=N)"]


@pytest.mark.parametrize("call", CALLS)
def test_results_that_are_an_argument_or_hold_it_are_known(call: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in {*PERMITTED_BUILTINS, "Counter", "OrderedDict", "deque"} - {"__name__", "super"}:
        code = call.format(name)
        for make in OBJECTS[:6]:
            known = {**vars(collections), "N": make(), "M": make()}
            try:
                result = eval(code, known)  # noqa: S307 - the code of the test
                found = find_depth(result, known["N"]), find_items(result, known["N"])
            except Exception:  # noqa: BLE001, S112 - no call of this function, or an iterator of one
                continue
            changes = find_changes(ast.parse(f"def f():\n    a = {code}\n    a.append(1)\n"))
            if result is known["N"]:
                assert changes.others, code
            for kept in (depth for depth in found if depth is not None):
                assert any(shared == "N" and depth <= kept for shared, depth in changes.shared), code
    capsys.readouterr()


def find_items(result: object, sought: Any) -> int | None:
    """Return 1 if the result has a changeable item of the object."""
    return (
        1
        if type(sought) is list and isinstance(sought[0], list) and find_depth(result, sought[0]) is not None
        else None
    )


SHARED = r"""
a = N; a.append(1)                      | N = []                                | len(N)     | unknown
heappush(N, 1)                          | N = []                                | len(N)     | unknown
list(map(N.append, p))                  | N = []                                | len(N)     | unknown
change(N)                               | N = []; change = list.clear           | len(N)     | unknown
get().append(1)                         | N = []; get = lambda: N               | len(N)     | unknown
pass                                    | N = []; put = lambda: N.append(1)     | len(N)     | unknown
put(1)                                  | N = []; put = N.append                | len(N)     | unknown
p.append(1)                             | N = []; M = [N]                       | len(N)     | unknown
a, b = N; a.append(1)                   | N = ([], [])                          | len(N[0])  | unknown
for a in N.values(): a.append(1)        | N = {1: []}                           | len(N[1])  | unknown
a = N.get(1); a.append(1)               | N = {1: []}                           | len(N[1])  | unknown
N.add()                                 | N = Box()                             | N.x        | unknown
N.get(1).append(1)                      | N = {1: []}                           | len(N[1])  | unknown
N.copy()[0].append(1)                   | N = [[]]                              | len(N[0])  | unknown
N.with_traceback(None).args[0].append(1) | N = ValueError([])                   | len(N.args[0]) | unknown
change(p)                               | N = Box(); change = lambda item: N + 1 | N.x        | unknown
p.x = 1                                 | N = Box(); M = [N]                    | N.x        | unknown
type(p).y = 1                           | N = 0                                 | Box.y      | unknown
a = Box; a.y = 1                        | N = 0                                 | Box.y      | unknown
a = keep; a.n = 1                       | keep.n = 0                            | keep.n     | unknown
keep().append(1)                        | N = 0                                 | len(keep()) | unknown
add()                                   | get, add = count()                    | get()      | unknown
append(1)                               | get, append = make()                  | get()      | unknown
[N for N in p]; N.append(1)             | N = []                                | len(N)     | unknown
f = lambda N: N; N.append(1)            | N = []                                | len(N)     | unknown
c.prec = 2                              | N = Context(); c = N                  | N.prec * 0 | unknown
p.value.append(1)                       | N = Kind.A                            | len(N.value) | unknown
a = N; a.random()                       | N = random.Random(5)                  | int(N.getstate() == 0) | unknown
min(N, [9]).append(1)                   | N = []                                | len(N)     | unknown
sum([], N).append(1)                    | N = []                                | len(N)     | unknown
a = sum([], start=N)\na.append(1)       | N = []                                | len(N)     | unknown
a = [N]\na[0] += [1]                    | N = []                                | len(N)     | unknown
a = [N]\na[0] *= 2                      | N = []                                | len(N)     | unknown
a = []\nmatch N:\n case a: pass\na.append(1) | N = []                           | len(N)     | unknown
a = []\ndef g():\n nonlocal a\n a = N\ng()\na.append(1) | N = []                | len(N)     | unknown
class A:\n N = []\nN.append(1)          | N = []                                | len(N)     | unknown
list = keep\na = list(N)\na.append(1)   | N = []                                | len(N)     | unknown
a = Given() % N\na.append(1)            | N = []                                | len(N)     | unknown
N in Given()                            | N = []                                | len(N)     | unknown
Given()[N]                              | N = []                                | len(N)     | unknown
Given() in N                            | N = [[]]                              | len(N[0])  | unknown
N.index(Given())                        | N = [[]]                              | len(N[0])  | unknown
list.__init__(N, [1])                   | N = []                                | len(N)     | unknown
N.__iadd__([1])                         | N = []                                | len(N)     | unknown
attrgetter("append")(N)(1)              | N = []; from operator import attrgetter | len(N)   | unknown
pass                                    | N = Box(); put, N = N.add, N.read     | N()        | unknown
methodcaller("append", 1)(N)            | N = []; from operator import methodcaller | len(N) | unknown
reduce(operator.iadd, [[1]], N)         | N = []; import operator; from functools import reduce | len(N) | unknown
N[1]                                    | N = defaultdict(int)                  | len(N)     | unknown
N[0][1]                                 | N = [defaultdict(int)]                | len(N[0])  | unknown
N.x[1]                                  | N = Box(); N.x = defaultdict(int)     | len(N.x)   | unknown
global N\nmatch p:\n case N: pass        | N = 0                                 | N          | unknown
global N\ndef N(): pass                 | N = 0                                 | N          | unknown
global N\nimport re as N                | N = 0                                 | N          | unknown
globals()["N"] = 1                      | N = 0                                 | N          | unknown
exec("global N; N = 1")                 | N = 0                                 | N          | unknown
a = sys.modules["m"]\na.N = 1           | N = 0; import sys                     | N          | unknown
setattr(Box, "y", 1)                    | N = 0                                 | Box.y      | unknown
a = vars(N)\na["x"] = 1                 | N = Box()                             | N.x        | unknown
p in N                                  | N = {}                                | len(N)     | verified
a = {}\na[p] = 1\na[p] += 1             | N = {}                                | N.get(x, 0) | verified
p.append(1)                             | N = []                                | len(N)     | verified
p.append(1)                             | N = {}                                | N.get(x, 0) | verified
p.append(1)                             | N = [0]                               | max(N)     | verified
p.append(1)                             | N = [0]                               | sum(a for a in N) | verified
p.append(1)                             | N = {1: {1: 0}}                       | N[1][1]    | verified
p.append(1)                             | N = {1: 0}                            | N[1]       | verified
p.append(1)                             | N = []                                | len([a for a in N if a]) | verified
p.append(1)                             | N = (0, "a"); M = [N]                 | N[0]       | verified
p.append(1)                             | N = (Plain,)                          | N[0].A.value | verified
p.append(1)                             | N = partial(sorted, [])               | len(N())   | unknown
p.append(1)                             | N = Plain.A; M = [N]                  | N.value    | verified
"""


DEFAULTS = {
    "__init__": "class C:\n    def __init__(self, x: list[int] = []): self.x = x",
    "of a base": "class B:\n    def __init__(self, x: list[int] = []): self.x = x\nclass C(B): pass",
    "named tuple": "class C(NamedTuple):\n    x: list[int] = []",
    "closure": "def make(x=[]):\n    class C:\n        def __init__(self): self.x = x\n    return C\nC = make()",
    "factory": "def keep(x=[]): return lambda: x\n@dataclass\nclass C:\n    x: list = field(default_factory=keep())",
    "no default": "@dataclass\nclass C:\n    x: list[int] = field(default_factory=list)",
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_claim_about_new_objects_needs_that_they_share_no_default(name: str) -> None:
    code = f"""
from dataclasses import dataclass, field
from typing import NamedTuple
{DEFAULTS[name]}
def add(): C().x.append(1)
def f(x: int) -> bool:
    'post: _'
    return not C().x
"""
    assert check_reduced(code)["status"] == ("verified" if name == "no default" else "unknown")


@pytest.mark.parametrize("row", choose_every(2, SHARED.strip().splitlines()))
def test_claim_about_a_value_of_the_module_needs_that_the_file_cannot_change_it(row: str) -> None:
    change, value, read, status = (part.strip() for part in row.split("|"))
    change = change.replace(r"\n", "\n    ")
    code = f"""
import random, re
from collections import defaultdict
from enum import Enum
from decimal import Context
from functools import partial
from heapq import heappush
class Box:
    y = 0
    def __init__(self) -> None:
        self.x = 0
    def add(self) -> None:
        self.x = 1
    def read(self) -> int:
        return self.x
    def __add__(self, other: int) -> int:
        self.x = 1
        return 1
class Given:
    def __mod__(self, other):
        return other
    def __contains__(self, other):
        return other.append(1) is None
    def __getitem__(self, other):
        return other.append(1)
    def __eq__(self, other):
        return other.append(1) is None
class Kind(Enum):
    A = []
class Plain(Enum):
    A = 0
def make():
    n = []
    return lambda: len(n), lambda item: n.append(item)
def count():
    n = 0
    def add() -> None:
        nonlocal n
        n += 1
    return lambda: n, add
def keep(x: list[int] = []) -> list[int]:
    return x
{value}
def other(p):
    {change}
def f(x: int) -> int:
    'post: _ == 0'
    return {read}
"""
    assert check_reduced(code)["status"] == status


@pytest.mark.parametrize(
    ("body", "others"),
    [
        ("p.append(1); p = []", True),
        ("a = [p]; a[0] += p", True),
        ("a = [p]; a[0] -= 1", False),
        ("a = [p]; a[0] *= 1", True),
        ("a = []; a += p", False),
        ("a = 0; a += p", False),
        ("class A:\n        def __init__(self): super().__init__()", False),
        ("a = []\n    for a in p: a.append(1)", True),
        ("a = p + []; a.append(1)", False),
        ("a: list = list(p); a.append(1)", False),
        ("a = lambda: setdefault(p)", False),
        ("a = p.setdefault", True),
        ("p.x = 1", True),
        ("class A:\n        def __init__(self, a): a.append(1)", True),
        ("from operator import setitem as a", True),
        ("from math import floor as a", False),
    ],
)
def test_changes_of_values_that_a_function_did_not_make(body: str, others: bool) -> None:  # noqa: FBT001 - of the table
    assert find_changes(ast.parse(f"def f(p):\n    {body}\n")).others == others


USES: dict[int | None, list[str]] = {
    None: [
        *(
            "N",
            "N()",
            "N == p",
            "not N",
            "f'{N}'",
            "p[N]",
            "len(N)",
            "','.join(N)",
            "assert N",
            "raise N",
            "N = 1",
            "N.b = 1",
        ),
        *("if N: pass", "while N: pass", "[0 for a in p if N]", "a = 1 if N else 2", "a: N = 1", "def g(a: N): pass"),
        *("N.copy().clear()", "N.copy()[0] = 1"),
        *("class A(N): pass", "@N\n    def g(): pass", "try: pass\n    except N: pass"),
    ],
    0: [
        *(
            "a = N",
            "return N",
            "p(N)",
            "p(a=N)",
            "a = [N]",
            "a = N or p",
            "a = N if p else 1",
            "a: int = N",
            "a = N.add",
        ),
        *("def len(a): pass\n    len(N)", "def put(self): pass\n    N.put()"),
        *("import m\n    a = m.N", "from m import N as b\n    a = b"),
    ],
    1: [
        *("for a in N: pass", "[a for a in N]", "list(N)", "max(N)", "p(*N)", "a = N + p", "a = N[0]", "a = N.b"),
        *("a = N.get(1)", "a = N.copy()", "a = N.copy()[0]", "a = N.copy().get(1)"),
        *("N.get(1).clear()", "N.copy()[0].clear()", "N.copy().pop().clear()", "N.get(1)[0] = 2", "del N.copy()[0].b"),
    ],
    2: ["for a in N[0]: pass", "list(N.b)", "a = N[0].b", "a = N[0].copy()"],
}


@pytest.mark.parametrize(("depth", "uses"), USES.items())
def test_depth_of_the_part_of_a_value_that_a_use_gives_another_name(depth: int | None, uses: list[str]) -> None:
    shared = {use: find_changes(ast.parse(f"def f(p):\n    {use}\n")).shared for use in uses}
    found = {use: {at for name, at in shared[use] if name == "N"} for use in uses}
    assert found == dict.fromkeys(uses, set() if depth is None else {depth})
