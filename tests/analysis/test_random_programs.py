"""Random programs about values of a module, judged by plain Python: claims hold after calls of each function."""

import contextlib
import itertools
import random
import re
from collections.abc import Iterable
from typing import Any

import pytest

from tests.analysis.engine_runs import check_reduced

PROGRAMS = 1000
# Expressions with the value of another one, or with one that refers to it, of which there is one to a line or between ·
SAME = r"""
ident(@) · (lambda v: v)(@) · [@][0] · (@, 1)[0] · {1: @}[1] · next(iter([@])) · max([@]) · min(@, [9, 9]) · (@ or [7])
(@ if x else [7]) · (x >= 0 and @) · Box(@).value · Box(@).get() · Box(@)[0] · partial(ident, @)() · next(each(@))
next(itertools.chain([@])) · reduce(lambda a, b: a, [@, []]) · dict(q=@)["q"] · list(map(ident, [@]))[0] · [*[@]][0]
sum([], @) · max([], default=@) · (Box(@) + 1) · abs(Box(@)) · (@ % Box(1)) · sorted([@])[0] · (w := @) · [@].pop()
"""
NEW = r"[*@] · list(@) · @[:] · copy.deepcopy(@) · sorted(@) · (@ + [])"
CHANGES = r"""
@.append(5) · @.clear() · a = @; a[:1] = [6] · a = @; a += [6] · a = @; del a[:] · list.append(@, 6) · put(@) · print(@)
list(map(@.append, [6])) · [@.append(6) for _ in "a"] · for a in [@]: a.append(6) · for a in each(@): a.append(6)
a, *b = [1, @]; b[0].append(6) · (lambda v: v.append(6))(@) · a = @.append; a(6) · a = []; a = @; a.append(6)
a = [@]; a[0] += [6] · a = [@]; a[0] *= 2 · a = Box(0); a.value = @; a.value.append(6) · a = {}; a[1] = @; put(a[1])
a = []\nmatch [@]:\n case [a]: a.append(6) · a = []\nwith Box(@) as a: a.append(6) · a = []\nfor a in [@]: pass\nput(a)
a = []\ndef inner():\n nonlocal a\n a = @\ninner(); a.append(6) · try: raise E(@)\nexcept E as a: a.args[0].append(6)
list = ident; a = list(@); put(a) · class In: N0 = []\nN0.append(6) · global N0; N0 = [1, 2, 3] · a = Box(@); a += 6
@.__init__([1, 2, 3]) · heapq.heappush(@, 6) · @ in Box(1)
"""
READS = ["len(@)", "sum(@)", "len(str(@))", "max(@, default=0)", "len([*@])", "(@ or [0])[0]"]
OPERATORS = """
    def __add__(self, other): return self.value
    def __abs__(self): return self.value
    def __rmod__(self, other): return other
    def __contains__(self, other): return other.append(3) is None
    def __iadd__(self, other):
        self.value += [other]
        return self
"""
HEAD = f"""
import copy, heapq, itertools
from functools import partial, reduce
class E(Exception):
    pass
class Box:
    def __init__(self, value): self.value = value
    def get(self): return self.value
    def __getitem__(self, key): return self.value
    def __enter__(self): return self.value
    def __exit__(self, *error): return None{OPERATORS}def ident(v): return v
def each(v): yield v
def put(v): v.append(9)
"""


def write_program(chosen: random.Random) -> str:
    """Write a file whose functions can change values of the module, which `f` reads."""
    names, lines = ["N0"], [f"N0 = [{chosen.randint(1, 3)}]"]

    def choose(table: str) -> str:
        return chosen.choice(re.split(r" · |\n", table.strip())).replace(r"\n", "\n")

    def write_value() -> str:
        value = chosen.choice(names)
        for _ in range(chosen.randint(0, 2)):
            value = choose(SAME if chosen.random() < 0.8 else NEW).replace("@", value)
        return value

    for number in range(1, chosen.randint(1, 4)):
        lines.append(f"N{number} = {write_value() if chosen.random() < 0.7 else '[2]'}".replace(" x ", " 1 "))
        names.append(f"N{number}")
    for number in range(chosen.randint(1, 2)):
        value = write_value() if chosen.random() < 0.7 else choose(NEW).replace("@", "N0")
        body = choose(CHANGES).replace("@", value)
        lines.append(f"def g{number}(x: int):\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    read = chosen.choice(READS).replace("@", write_value())
    claim = "    '''\n    pre: 0 <= x < 3\n    post: _ in (ALLOWED)\n    '''\n"
    lines.insert(chosen.choice([1, len(lines)]), f"def f(x: int) -> int:\n{claim}    return {read}\n")
    head = HEAD if chosen.random() < 0.5 else HEAD.replace(OPERATORS, "")
    return head + "\n".join(lines)


def find_results(code: str, calls: Iterable[tuple[str, int]]) -> set[object]:
    """Return the results of `f` in plain Python, after calls of other functions."""
    module: dict[str, Any] = {}
    exec(code, module)  # noqa: S102 - the code of the test
    for name, x in calls:
        with contextlib.suppress(Exception):
            module[name](x)
    return {module["f"](x) for x in range(3)}


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_what_is_verified_about_a_value_of_the_module_holds_after_calls_of_each_function() -> None:
    verified = 0
    for number in range(PROGRAMS):
        code = write_program(random.Random(number))  # noqa: S311 - the same programs each time
        try:
            allowed = find_results(code, [])
        except Exception:  # noqa: BLE001, S112 - a program that does not run has no claim
            continue
        code = code.replace("ALLOWED", f"{allowed}"[1:-1] + ",")
        if check_reduced(code)["status"] != "verified":
            continue
        verified += 1
        functions = [(name, x) for name in re.findall(r"def (g\d|f)\(", code) for x in (0, 1)]
        for calls in itertools.product(functions, repeat=2):
            assert find_results(code, calls) <= allowed, code
    assert verified > PROGRAMS / 50
