"""What a claim about all arguments needs: exact models, all values of the types, and no dependence on the process."""

import ast
from typing import cast

import pytest
from crosshair.util import PathTimeout

from quilt_mcp.analysis.engine.exploration import End
from quilt_mcp.analysis.engine.stability import find_reason, observes_order
from quilt_mcp.analysis.gate.admit import admit
from quilt_mcp.analysis.gate.changes import find_changes
from quilt_mcp.analysis.gate.reduction import find_imports
from quilt_mcp.analysis.messages import Request
from tests.analysis.engine_runs import POLICY, analyse, check, check_reduced, compare, load, search
from tests.analysis.programs import OPEN, Program
from tests.analysis.programs.states import STATES

pytestmark = pytest.mark.filterwarnings("ignore")  # CrossHair uses deprecated parts of the standard library
SHORT = 2.0


ALONE = [
    ("s: str", 're.match("a$", s) is None or len(s) == 1'),  # a line feed can follow
    ("n: int", "len(range(n)) >= 0"),  # OverflowError from 2**63 on
]


@pytest.mark.parametrize(("parameter", "claim"), ALONE)
def test_wrong_claims_of_the_paths_alone_are_refuted(
    parameter: str, claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    explorer = "quilt_mcp.analysis.engine.search.Explorer"
    monkeypatch.setattr(f"{explorer}._try_boundaries", lambda _: None)
    monkeypatch.setattr(f"{explorer}._try_random", lambda *_: None)
    monkeypatch.setattr(f"{explorer}._challenge_claim", lambda _: End.ALL_PATHS)  # it would hide what is wrong
    size = "pre: len(s) <= 2\n    " if "str" in parameter else ""
    code = f'import re\ndef f({parameter}) -> bool:\n    """\n    {size}post: _\n    """\n    return {claim}\n'
    assert check(code, seconds=SHORT)["status"] == "counterexample"


# Without the correction of its model, each of these is verified in less than half a second
INEXACT = [
    *("s.capitalize()", "s.casefold()", "s.expandtabs()", "s.isalnum()", "s.isalpha()", "s.isascii()", "s.isdecimal()"),
    *("s.isdigit()", "s.islower()", "s.isnumeric()", "s.isprintable()", "s.isspace()", "s.istitle()", "s.isupper()"),
    *("s.lower()", "s.upper()", "s.splitlines()", "s.swapcase()", "s.title()", "s.translate({97: 98})", "s.zfill(4)"),
    *(
        "s.encode()",
        "s.split()",
        "s.rsplit()",
        "s.strip()",
        "s.lstrip()",
        "s.rstrip()",
        "'{}'.format(s)",
        "chr(len(s))",
    ),
    *("re.sub('^a', '', s)", "re.subn('a', '', s)", "re.split('a', s)", "list(re.finditer('a', s))"),
    *("re.search('x*', s)", "statistics.fmean([len(s), 1])", "statistics.stdev([len(s), 1])"),
]


@pytest.mark.soak
@pytest.mark.parametrize("operation", INEXACT)
def test_path_with_an_inexact_model_is_undecided(operation: str) -> None:
    code = f'''
import re, statistics
def f(s: str) -> bool:
    """
    pre: len(s) <= 1
    post: _
    """
    try:
        {operation}
    except ValueError:
        pass
    return True
'''
    assert check(code, seconds=SHORT)["status"] in {"unknown", "timeout"}


@pytest.mark.parametrize(
    "annotation",
    ["Iterable[int]", "Collection[int]", "Sequence[int]", "Hashable", "Sized", "object", "Any"],
)
def test_nothing_is_claimed_about_an_abstract_type(annotation: str) -> None:
    code = (
        "from collections.abc import Collection, Hashable, Iterable, Sequence, Sized\nfrom typing import Any\n"
        f"def f(x: {annotation}):\n    return 1\n"
    )
    answer = search(code, "ValueError")
    assert answer["status"] == "not_found"
    assert "type" in answer["message"]


def take_too_long(_: object) -> None:
    raise PathTimeout


@pytest.mark.soak
def test_undecided_path_does_not_hide_what_prevents_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quilt_mcp.analysis.engine.crosshair.gen_args", take_too_long)
    code = "from collections.abc import Hashable\ndef f(x: Hashable):\n    return 1\n"
    answer = search(code, "ValueError", seconds=20)
    assert answer["status"] == "not_found"
    assert "the type of a parameter" in answer["message"]
    assert [one["reason"][:8] for one in answer["undecided"]] == ["One path", "The solv"]
    assert answer["coverage"]["all_paths"] is False


@pytest.mark.soak
def test_message_about_a_path_that_took_too_long_says_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quilt_mcp.analysis.engine.crosshair.gen_args", take_too_long)
    answer = search("def f(x: int):\n    return 1\n", "ValueError")
    assert answer["status"] == "not_found"
    assert "timeout_seconds" in answer["message"]
    assert "undecided" in answer["message"]


@pytest.mark.parametrize(
    ("annotation", "found"),
    [
        ("Iterable[int]", "hasattr"),
        ("Iterable[str]", "text"),
        ("Collection[int]", "frozenset"),
        ("Sequence[int]", "tuple"),
    ],
)
def test_abstract_type_has_values_of_several_kinds(annotation: str, found: str) -> None:
    tests = {
        "hasattr": "not isinstance(x, (list, tuple, set, frozenset, dict, str, bytes))",
        "text": "isinstance(x, str)",
        "frozenset": "isinstance(x, frozenset)",
        "tuple": "isinstance(x, tuple)",
    }
    code = (
        f"from collections.abc import Collection, Iterable, Sequence\ndef f(x: {annotation}):\n"
        f"    if {tests[found]}: raise KeyError\n"
    )
    assert search(code, "KeyError")["status"] == "found"


def test_flag_has_all_combinations() -> None:
    code = '''
from enum import Flag
class Right(Flag):
    READ = 1
    WRITE = 2
    RUN = 4
def f(r: Right) -> int:
    """post: _ < 7"""
    return r.value
'''
    answer = check(code)
    assert answer["counterexamples"][0]["call"] == "f(Right.READ | Right.WRITE | Right.RUN)"
    holds = check(code.replace("< 7", "<= 7"))
    assert (holds["status"], holds["coverage"]["all_arguments"], holds["paths_explored"]) == ("verified", True, 8)


@pytest.mark.soak
def test_solver_finds_large_numbers_that_keep_the_condition_of_a_path() -> None:
    code = "def f(x: int):\n    return float(x) if x % 100003 == 5 else 0.0\n"
    assert search(code, "OverflowError")["status"] == "found"


@pytest.mark.parametrize(
    "code",
    [
        "def f(x): return list({'a', 'b'})",
        "def f(s: set[str]): return [x for x in s]",
        "def f(s: set[str]): return ','.join(s)",
        "def f(s: frozenset[str]): return next(iter(s))",
        "def f(s: set[str]): return f'{s}'",
        "def f(s: set[str]): return max(s, key=len)",
        "def f(s: set[str]):\n    first, *rest = s\n    return first",
        "def f(s: set[str]): return s.pop()",
        "def words(): return {'a', 'b'}\ndef f(x: int):\n    for word in words(): return word",
        "class C:\n    def __init__(self): self.words = {'a', 'b'}\ndef f(x: int): return list(C().words)",
        "def f(d: dict[str, int], e: dict[str, int]): return list(d.keys() - e.keys())",
        "def show(x): return str(x)\ndef f(s: set[str]): return show(s)",
        "def f(s: list[str]):\n    found = []\n    found.append(set(s))\n    return str(found)",
        "def f(s: set[int]): return list(s)",
        "def f(xs: list[int]): return list(set(xs))",
        "def f(x: int): return list({1, 2, x})",
        "def f(d: dict[int, int]):\n    shared = d.keys() & {1, 2}\n    return [*shared]",
        "from collections import defaultdict\ndef f(x: int):\n    d = defaultdict(set)\n    return list(d[x])",
        "def f(xs: list[int]): return list(map(str, {*xs}))",
    ],
)
def test_order_of_a_set_is_observed(code: str) -> None:
    assert observes_order(load(code).tree)


@pytest.mark.parametrize(
    "code",
    [
        "def f(s: set[str]): return sorted(s)",
        "def f(s: set[str]): return len(s), 'a' in s, s == {'a'}, s | {'b'}",
        "def f(s: set[str]): return any(s)",
        "def f(s: str): return list(s)",
        "def f(d: dict[str, int]): return list(d)",
        "def f(d: dict[str, int]):\n    for k, v in d.items():\n        yield abs(v - 1)",
        (
            "def f(xs: list[int]):\n    seen = set()\n    for x in xs:\n        if x in seen: return x\n"
            "        seen.add(x)"
        ),
        "def f(xs: list[str]): return sorted({x.strip() for x in xs}), len(set(xs)) / 2",
        "def f(x: set[int]): return sum(sorted(x)) / len(x) if x else 0",
    ],
)
def test_order_is_not_observed(code: str) -> None:
    assert not observes_order(load(code).tree)


@pytest.mark.parametrize(
    "call", ["datetime.fromtimestamp(0)", "datetime(2024, 1, 1).timestamp()", "datetime.min.astimezone()", "[*{'a'}]"]
)
def test_nothing_is_claimed_about_code_that_uses_the_time_zone_or_the_order_of_a_set(call: str) -> None:
    assert find_reason(load(f"from datetime import datetime\ndef f(x: int): return {call}").tree)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("def f(x: int) -> set[str]:\n    'post: len(list(_)[0]) == 1'\n    return {'a', 'b'}", "unknown"),
        ("def f(x: int) -> str:\n    'post: hash(_) != 77'\n    return 'a'", "unknown"),
        ("def f(x: int) -> int:\n    'post: _ != 123456789'\n    return x", "counterexample"),
        ("from datetime import timezone\ndef f(z: timezone) -> bool:\n    'post: _'\n    return True", "unknown"),
        ("def f(x: 'Unknown[int]', y: int) -> bool:\n    'post: _'\n    return True", "error"),
    ],
)
def test_contract_is_a_part_of_the_code(code: str, status: str) -> None:
    wanted = {"unknown", "timeout"} if status == "unknown" else {status}
    assert check(code, seconds=5 if status == "unknown" else 60)["status"] in wanted


def test_finding_that_can_depend_on_the_order_of_a_set_is_left_to_other_processes() -> None:
    code = "def f(x: int) -> str:\n    'post: _ == \"?\"'\n    return list({'a', 'b'})[0]"
    assert check(code)["status"] == "counterexample"
    small = "def f(s: set[str]) -> str:\n    'post: True'\n    return list(s)[0]"
    assert check(small)["counterexamples"][0]["call"] == "f(set())"


@pytest.mark.soak
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("lambda: x", "lambda: x + 1"),
        ("partial(max, x, 1)", "partial(min, x, 2)"),
        ("Box(x).get", "Box(x + 1).get"),
        ("iter([x])", "iter([x + 1])"),
        ("(y for y in [x])", "(y for y in [x + 1])"),
        ("max", "min"),
        ("Box", "Exception"),
    ],
)
def test_comparison_of_callables_and_iterators_is_undecided(left: str, right: str) -> None:
    code = (
        "from functools import partial\n"
        "class Box:\n    def __init__(self, x): self.x = x\n    def get(self): return self.x\n"
        f"def a(x: int): return {left}\ndef b(x: int): return {right}\n"
    )
    assert compare(code, seconds=SHORT)["status"] in {"unknown", "timeout"}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("ValueError(x)", "ValueError(x + 1)"),
        ("Random(1)", "Random(2)"),
        ("Labelled([x], 'left')", "Labelled([x], 'right')"),
        ("Box(x)", "Box(x + 1)"),
        ("[1]", "[True]"),
        ("{1}", "{True}"),
        ("{1: x}", "{True: x}"),
        ("complex(x)", "complex(x, 1)"),
        ("deque([x], 1)", "deque([x], 2)"),
        ("Slotted(x)", "Slotted(x + 1)"),
    ],
)
def test_comparison_finds_differences_of_content(left: str, right: str) -> None:
    assert compare(f"{CLASSES}def a(x: int): return {left}\ndef b(x: int): return {right}\n")["status"] == "different"


@pytest.mark.soak
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("ValueError(x)", "ValueError(x + 0)"),
        ("Random(1)", "Random(1)"),
        ("Labelled([x], 'left')", "Labelled([x + 0], 'left')"),
        ("[Box(x)]", "[Box(x)]"),
        ("Decimal('NaN')", "Decimal('NaN')"),
        ("complex('nan')", "complex('nan')"),
        ("defaultdict(int, {1: x})", "defaultdict(int, {1: x})"),
    ],
)
def test_comparison_finds_no_difference_of_equal_content(left: str, right: str) -> None:
    code = f"{CLASSES}def a(x: int): return {left}\ndef b(x: int): return {right}\n"
    assert compare(code, seconds=SHORT)["status"] in {"equivalent", "unknown", "timeout"}


CLASSES = """
from collections import defaultdict, deque
from decimal import Decimal
from random import Random
class Labelled(list):
    def __init__(self, values, label):
        super().__init__(values)
        self.label = label
class Box:
    def __init__(self, x): self.x = x
class Slotted:
    def __init__(self, x): self.x = x
"""


@pytest.mark.parametrize(
    ("left", "right", "status"),
    [
        ("step: int = 1", "step: int = 2", "different"),
        ("step: int = 1", "step: int", "different"),
        ("*, step: int = 1", "*, step: int = 2", "different"),
        ("step: int = 1", "step: int = 1", "equivalent"),
    ],
)
def test_comparison_includes_calls_without_arguments_that_have_a_default_value(
    left: str, right: str, status: str
) -> None:
    answer = compare(f"def a(x: int, {left}): return x + step\ndef b(x: int, {right}): return x + step\n")
    assert answer["status"] == status
    if status == "different":
        assert list(answer["distinguishing_input"]["args"]) == ["x"]


def test_too_many_different_default_values_are_refused() -> None:
    names = "vwyz"
    left, right = (", ".join(f"{name}: int = {value}" for name in names) for value in (1, 2))
    answer = compare(f"def a({left}): return 1\ndef b({right}): return 1\n")
    assert answer["error_type"] == "UnsupportedSignature"


def test_default_value_of_another_type_prevents_a_claim() -> None:
    assert check("def f(x: int, s: str = None) -> bool:\n    'post: _'\n    return True")["status"] == "unknown"
    assert check("def f(x: int, s: str = None) -> bool:\n    'post: _'\n    return len(s) >= 0")["counterexamples"]


@pytest.mark.soak
def test_undecided_answer_about_a_float_names_the_model() -> None:
    code = "def f(x: int) -> float:\n    return float(x) if -1000 < x < 1000 else 0.0\n"
    answer = search(code, "KeyError", seconds=SHORT)
    assert answer["status"] in {"not_found", "timeout"}
    reasons = [one["reason"] for one in answer["undecided"]]
    assert reasons or answer["coverage"]["undecided_paths"] == 0
    assert set(reasons) <= {"The analyser's model of a float is not exact.", "One path took too long."}


def test_run_with_a_shared_object_that_does_not_end_is_not_a_different_result() -> None:
    code = """
def f(x: list[int], y: list[int]) -> int:
    length = len(x)
    y.append(1)
    while len(x) != length:
        pass
    return 0
"""
    answer = search(code, "KeyError")
    assert answer["status"] == "not_found"
    assert {one["reason"] for one in answer["undecided"]} == {"A run with concrete values took too long."}
    assert search(code, "KeyError", seconds=0.2)["status"] == "timeout"  # the call never ends


_HELD = [(tool, program) for tool, programs in STATES.items() for program in programs if program.right == OPEN]


@pytest.mark.soak
@pytest.mark.parametrize(("tool", "program"), _HELD, ids=[f"{tool}: {program.name}" for tool, program in _HELD])
def test_nothing_is_claimed_about_states_that_no_new_object_has(tool: str, program: Program) -> None:
    request = {"tool": tool, "code": program.code, **program.arguments}
    answer = analyse(cast("Request", request), seconds=5)
    assert answer["status"] in OPEN
    reasons = {one["reason"] for one in answer["undecided"]}
    words = ("can have a state", "of the module", "the same object is given twice", "took too long", "in time")
    if answer["status"] != "timeout":  # then no claim was prevented
        assert [one for one in reasons if any(word in one for word in words)]


@pytest.mark.parametrize(
    ("constructor", "status"),
    [
        ("self.x = x; self.y = y", "verified"),
        ("self.x: int = x\n        self.y: int = y", "verified"),
        ("self.x = x", "unknown"),
        ("self.x = x; self.y = y + 1", "unknown"),
        ("self.x = x; self.y = x", "unknown"),
        ("self.x = x; self.y = y; y = 1", "unknown"),
        ("pass", "unknown"),
    ],
)
def test_claim_about_an_object_needs_a_constructor_that_only_stores(constructor: str, status: str) -> None:
    code = f"""
class C:
    def __init__(self, x: int, y: int) -> None:
        {constructor}
def f(c: C) -> int:
    'post: _ == 1'
    return 1
"""
    assert check(code)["status"] == status


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ("self.x += 1", "verified"),
        ("del self.x", "unknown"),
        ("class D(C): seen = 1", "unknown"),
        ("self.y = 1", "unknown"),
        ("self.seen.append(1)", "unknown"),
        ("del self.seen[0]", "unknown"),
        ("other.seen = []", "unknown"),
    ],
)
def test_claim_about_an_object_needs_that_methods_change_only_fields(change: str, status: str) -> None:
    code = f"""
from dataclasses import dataclass
@dataclass
class C:
    x: int
    def change(self, other: "C") -> None:
        {change}
def f(c: C) -> bool:
    'post: _'
    return not hasattr(c, "seen")
"""
    assert check(code)["status"] == status


FROZEN = """
@dataclass(frozen=True)
class C:
    x: list[int] = field(init=False, default_factory=list)
    def change(self) -> None:
        self.x.append(1)
"""
NESTED = """
class B:
    n = 0
    def __init__(self, x: int) -> None:
        self.x = x
class C:
    def __init__(self, x: B) -> None:
        self.x = x
    def change(self) -> None:
        self.x.n = 1
"""


DERIVED = """
@dataclass(frozen=True)
class B:
    x: int
class C(B):
    z = 0
    def change(self) -> None:
        self.z = 1
"""
TUPLE = """
class B(NamedTuple):
    x: int
class C(B):
    z = 0
    def change(self) -> None:
        self.z = 1
"""


MADE = """
class C:
    def __init__(self, x: int) -> None:
        self.x = x
def make() -> C:
    c = C(1)
    c.seen = 1
    return c
"""


@pytest.mark.parametrize(
    ("classes", "read"),
    [
        *[(FROZEN, "len(c.x)"), (NESTED, "c.x.n"), (DERIVED, "c.z"), (TUPLE, "c.z")],
        (MADE, "hasattr(c, 'seen')"),
    ],
)
def test_claim_about_an_object_needs_that_no_function_changes_a_part_of_it(classes: str, read: str) -> None:
    claim = f"def f(c: C) -> int:\n    'post: _ == 0'\n    return {read}\n"
    imports = "from dataclasses import dataclass, field\nfrom typing import NamedTuple\n"
    assert check_reduced(f"{imports}{classes}\n{claim}")["status"] == "unknown"


@pytest.mark.parametrize(
    ("annotation", "test", "status"),
    [
        ("int", "isinstance(x, bool)", "unknown"),
        ("int", "x is True", "unknown"),
        ("int", "type(x) is not int", "unknown"),
        ("int | bool", "isinstance(x, bool) and x is None", "verified"),
        ("int", "isinstance(x, str)", "verified"),
        ("int", "x == 5 and x == 6", "verified"),
        ("int", "x in (0, 1, 2) and str(x) == 'True'", "unknown"),
        ("list[int]", "x == [1] and str(x[0]) == 'True'", "unknown"),
        ("tuple[str, int]", "x == ('', 1) and repr(x[1]) == 'True'", "unknown"),
        ("bool", "x in (0, 1) and x > 1", "verified"),
        ("NewType('N', int)", "x in (0, 1, 2) and str(x) == 'True'", "unknown"),
        ("NewType('N', int)", "isinstance(x, bool)", "unknown"),
        ("int", "isinstance(x, E)", "unknown"),
        ("int", "type(x) is E", "unknown"),
        ("tuple[int, int]", "isinstance(x, P)", "unknown"),
        ("P", "isinstance(x, P) and x is None", "verified"),
        ("K", "x.n in (0, 1, 2) and str(x.n) == 'True'", "unknown"),
        ("K", "x is None", "verified"),
    ],
)
def test_claim_needs_that_the_code_does_not_tell_subclasses_from_the_type_of_a_parameter(
    annotation: str, test: str, status: str
) -> None:
    code = f"""
from enum import IntEnum
from typing import NamedTuple, NewType
class E(IntEnum): A = 1
class P(NamedTuple):
    a: int
    b: int
class K:
    def __init__(self, n: int) -> None:
        self.n = n
    def __copy__(self): raise KeyError
T = {annotation}
def f(x: T) -> bool:
    'post: not _'
    return {test}
"""
    assert check(code)["status"] == status


@pytest.mark.parametrize(
    ("method", "invariant", "status"),
    [
        ("__eq__(self, other: object) -> bool: self.x = 1; return True", "self == self", "unknown"),
        ("large(self) -> int: return 1", "change(self) == [0]", "unknown"),
        ("large(self) -> int: return 1", "[0 for self.x in (1,)] == [0]", "unknown"),
        ("large(self) -> int: a = []; a.append(1); return self.x + a[0]", "self.large() > 5", "verified"),
        ("large(self) -> int: return 1", "[one for one in (1, self.x)] != []", "verified"),
    ],
)
def test_claim_about_an_object_needs_that_its_invariant_does_not_change_it(
    method: str, invariant: str, status: str
) -> None:
    code = f"""
{"change = lambda item: [0 for item.x in (1,)]" if "large" not in invariant else ""}
class A:
    "inv: {invariant}"
    def __init__(self, x: int) -> None:
        self.x = x
    def {method}
def f(a: A) -> int:
    "post: _ == 0"
    return a.x * 0
"""
    assert check(code)["status"] == status


CACHED = """
from functools import cache, cached_property
class C:
    def __init__(self, n: int) -> None:
        self.n = n
    @cached_property
    def k(self) -> int:
        return self.n
def f(c: C) -> bool:
    'post: _'
    return c.k == c.n
"""


@pytest.mark.parametrize("clause", ["K.n == 3", "K().x == []", "not isinstance(x, bool)"])
def test_claim_needs_what_its_clauses_use(clause: str) -> None:
    code = f"""
class K:
    n = 3
    def __init__(self, x: list[int] = []) -> None:
        self.x = x
def change() -> None:
    K.n = 0
    K().x.append(1)
def f(x: int) -> int:
    'post: {clause}'
    return x
"""
    assert check_reduced(code)["status"] == "unknown"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (CACHED, "verified"),
        (CACHED + "def change(c): c.n = 1\n", "unknown"),
        (CACHED.replace("@cached_property", "@cache").replace("c.k ==", "c.k() ==") + "def g(c): c.n = 1\n", "unknown"),
    ],
)
def test_claim_needs_that_no_object_changes_after_a_result_was_kept(code: str, status: str) -> None:
    assert check(code)["status"] == status


@pytest.mark.parametrize("parameter", ["list[C]", pytest.param("dict[str, C]", marks=pytest.mark.soak)])
def test_objects_in_containers_satisfy_the_invariants_of_their_class(parameter: str) -> None:
    items = "xs.values()" if "dict" in parameter else "xs"
    code = f"""
class C:
    "inv: self.n > 0"
    def __init__(self, n: int) -> None:
        self.n = n
def f(xs: {parameter}) -> int:
    if any(one.n < 1 for one in {items}):
        raise KeyError
    return 1
"""
    answer = search(code, "KeyError", seconds=1)  # a slow machine tries less, and finds nothing either
    assert answer["status"] in {"not_found", "timeout"}


def test_class_method_changes_its_class() -> None:
    code = "class C:\n    @classmethod\n    def f(cls):\n        cls.n = 1\n"
    assert find_changes(ast.parse(code)).names == {"C"}


@pytest.mark.soak
@pytest.mark.parametrize("annotation", ["list[int]", "dict[str, int]", "list[int] | None"])
def test_claim_about_two_parameters_of_a_type_includes_the_same_object(annotation: str) -> None:
    code = f"def f(x: {annotation}, y: {annotation}) -> bool:\n    'post: _'\n    return x is not y or x is None\n"
    answer = check(code, seconds=5)
    assert answer["status"] in OPEN


@pytest.mark.soak
@pytest.mark.parametrize("annotation", ["list[list[int]]", "tuple[list[int], list[int]]", "dict[int, list[int]]"])
def test_claim_about_a_container_includes_the_same_item_twice(annotation: str) -> None:
    items = "list(xs.values())" if annotation.startswith("dict") else "list(xs)"
    code = f"""
def f(xs: {annotation}) -> bool:
    'post: _'
    items = {items}
    return len(items) != 2 or items[0] is not items[1]
"""
    assert check(code, seconds=5)["status"] in OPEN


def test_integer_flag_has_values_with_bits_that_no_member_has() -> None:
    code = """
from enum import IntFlag
class Right(IntFlag):
    READ = 4
    WRITE = 2
def f(r: Right) -> int:
    'post: _ < 8'
    return r.value
"""
    answer = check(code)
    assert answer["status"] == "counterexample"
    assert answer["counterexamples"][0]["call"] == "f(Right(8))"
    assert check(code.replace("_ < 8", "_ >= 0"))["status"] in OPEN


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ("x: int\n    y: int = field(init=False, default=1)", "unknown"),
        ("x: int\n    def __post_init__(self) -> None: self.x = abs(self.x)", "unknown"),
        ("x: int", "verified"),
    ],
)
def test_claim_about_a_dataclass_needs_that_its_parameters_are_its_fields(members: str, status: str) -> None:
    code = f"""
from dataclasses import dataclass, field
@dataclass
class C:
    {members}
def f(c: C) -> int:
    'post: _ == 1'
    return 1
"""
    assert check(code)["status"] == status


def test_claim_about_a_named_tuple_is_possible() -> None:
    code = (
        "from typing import NamedTuple, NewType\nclass P(NamedTuple):\n    x: int\nQ = NewType('Q', P)\n"
        "def f(p: P, q: Q) -> int:\n    'post: _ == 1'\n    return 1\n"
    )
    assert check(code)["status"] == "verified"


@pytest.mark.parametrize(
    ("code", "line", "operation"),
    [
        (
            "def g(x, seen=[]):\n    seen.append(x)\ndef f(x: int) -> None:\n    'post: True'\n    g(x)",
            None,
            "g",
        ),
        ("from datetime import datetime\ndef f(x: int) -> bool:\n    'post: _'\n    return datetime.now()", 4, "now"),
        ("import random\ndef f(x: int) -> bool:\n    'post: _ < 1'\n    return random.random()", None, "random"),
        ("n = 0\ndef f(x: int) -> int:\n    'post: True'\n    global n\n    n += 1\n    return n", None, "n"),
    ],
)
def test_answer_about_unstable_code_names_what_changes(code: str, line: int | None, operation: str) -> None:
    answer = check(code)
    assert answer["status"] == "unknown"
    first, *_ = answer["undecided"]
    assert (first["line"], first["operation"]) == (line, operation)


@pytest.mark.soak
def test_answer_about_few_arguments_names_the_line_that_takes_too_long() -> None:
    code = "def f(x: bool) -> int:\n    'post: _ >= 0'\n    n = 1\n    while n > 0:\n        n += 1\n    return n\n"
    answer = check(code, seconds=8)
    assert answer["status"] in {"unknown", "timeout"}
    reasons = {one["reason"] for one in answer["undecided"]}
    assert reasons <= {"A run with concrete values took too long."}
    assert reasons or answer["coverage"]["concrete_runs"] < 2  # a busy machine ends the analysis earlier
    assert {one["line"] for one in answer["undecided"]} <= {4, 5}


def test_decimal_context_counts_only_if_the_code_uses_decimal_numbers() -> None:
    code = "from decimal import getcontext\ndef g() -> None:\n    getcontext().prec = 2\ndef f(x: int) -> bool:\n"
    request: Request = {"tool": "symbolic_check", "code": code + "    'post: _'\n    return x == x\n"}
    reduced = admit(request["code"], POLICY, functions=["f"])
    assert (reduced.changes.context, find_imports(reduced.tree)) == (True, set())
