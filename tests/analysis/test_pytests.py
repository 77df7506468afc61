"""The field `test` of counterexamples: a pytest that fails beside the code, and passes after the correction."""

import subprocess
import sys
from decimal import DecimalException
from pathlib import Path
from textwrap import dedent
from typing import Any
from weakref import ref

import pytest
from crosshair import type_repo
from crosshair.core import iter_types

from quilt_mcp.analysis.engine.domains import create
from quilt_mcp.analysis.engine.source_text import Code, write_violation
from quilt_mcp.analysis.engine.subjects import find_subject
from quilt_mcp.analysis.messages import MODULE_NAME
from quilt_mcp.analysis.policy import ALLOWED_MODULES
from quilt_mcp.analysis.sandbox import Sandbox
from tests.analysis.engine_runs import load
from tests.analysis.pasted import check_form, run_pasted
from tests.analysis.sandboxes import ask

SECONDS = 30


async def find(sandbox: Sandbox, code: str, **request: Any) -> dict[str, Any]:
    """Return the only counterexample of an analysis."""
    answer = await ask(sandbox, dedent(code), seconds=SECONDS, **request)
    found = [*answer.get("counterexamples", []), *answer.get("triggering_inputs", [])]
    found += [answer["distinguishing_input"]] if answer.get("distinguishing_input") else []
    assert found, answer
    example: dict[str, Any] = found[0]
    return example


# the code, and a correction: a text and its replacement
CHECKS: dict[str, tuple[str, str, str]] = {
    "dataclass and date": (
        '''
        import datetime
        from dataclasses import dataclass
        @dataclass
        class Pos:
            x: int
            y: float = 0.5
        def f(p: Pos, day: datetime.date) -> int:
            """post: implies(p.x > 3, _ != 42)"""
            return p.x * 2
        ''',
        "p.x * 2",
        "p.x * 2 + 1",
    ),
    "argument that is changed": (
        '''
        def f(xs: list[int]) -> None:
            """
            pre: len(xs) > 0
            post[xs]: len(xs) == len(__old__.xs)
            """
            xs.pop()
        ''',
        "xs.pop()",
        "xs.reverse()",
    ),
    "names of the code in a clause": (
        '''
        import math
        LIMIT = 10
        def is_small(n: int) -> bool:
            return n < LIMIT
        def f(n: int) -> int:
            """post: is_small(_) and math.floor(_) == _ and all(n <= LIMIT + i for i in range(3))"""
            return n
        ''',
        "return n\n",
        "return n",
    ),
    "parameters with the names that the test uses": (
        '''
        def f(result: int, copy: int, f: int = 3, *rest: int, key: str = "k", **more: int) -> int:
            """post: _ < 7 + copy * 0 and key != "z" and f == f"""
            return result
        ''',
        "return result",
        "return min(result, 6)",
    ),
    "exception of an assert": (
        '''
        class Odd(Exception):
            pass
        def f(n: int) -> int:
            """post: True"""
            if n % 2:
                raise Odd(n)
            return n
        ''',
        "raise Odd(n)",
        "n = 0",
    ),
    "object that does not keep its parameter": (
        '''
        class Route:
            def __init__(self, text: str) -> None:
                self.parts = text.split("/")
        def f(routes: list[Route]) -> int:
            """post: _ != 1"""
            return len(routes) and len(routes[0].parts)
        ''',
        "len(routes[0].parts)",
        "0",
    ),
    "enum, set, tuple, bytes and None": (
        '''
        from enum import Enum
        class Colour(Enum):
            RED = "r"
            BLUE = "b"
        def f(c: Colour, names: set[str], pair: tuple[int, bytes], maybe: str | None) -> bool:
            """post: _"""
            return not (c is Colour.BLUE and maybe is None)
        ''',
        "not (c is Colour.BLUE and maybe is None)",
        "True",
    ),
    "infinity": (
        '''
        def f(x: float) -> bool:
            """post: _"""
            return x - x == 0
        ''',
        "x - x == 0",
        "True",
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", CHECKS)
async def test_pasted_test_fails_and_passes_after_the_correction(name: str, sandbox: Sandbox) -> None:
    code, wrong, right = (dedent(part) for part in CHECKS[name])
    example = await find(sandbox, code)
    check_form(example["test"])
    assert isinstance(run_pasted(example["test"], {"submitted": code}), AssertionError)
    if wrong.strip() != right.strip():
        assert run_pasted(example["test"], {"submitted": code.replace(wrong, right)}) is None


METHODS = '''
from dataclasses import dataclass
class Counter:
    """inv: True"""
    def __init__(self, start: int):
        self.n = start
    def up(self, by: int) -> int:
        """post: _ > __old__.self.n"""
        self.n += by
        return self.n
    @staticmethod
    def half(n: int) -> int:
        """post: _ * 2 == n"""
        return n // 2
    @classmethod
    def make(cls, n: int) -> int:
        """post: _ != 5"""
        return cls(n).n
    @property
    def even(self) -> bool:
        """post: _"""
        return self.n % 2 == 0
@dataclass(frozen=True)
class Point:
    x: int
    _y: int = 0
    def left_of(self, other: "Point") -> bool:
        """post: _"""
        return self.x <= other.x
'''


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("Counter.up", ").up("),
        ("Counter.half", "Counter.half("),
        ("Counter.make", "Counter.make("),
        ("Counter.even", ").even"),
        ("Point.left_of", ").left_of("),
    ],
)
async def test_methods_are_found_by_name_and_their_tests_fail(name: str, called: str, sandbox: Sandbox) -> None:
    example = await find(sandbox, METHODS, function_name=name)
    assert called in example["call"]
    check_form(example["test"])
    assert isinstance(run_pasted(example["test"], {"submitted": METHODS}), AssertionError)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["Counter.down", "Counter.n", "Missing.up"])
async def test_missing_method_is_an_error_that_names_the_others(name: str, sandbox: Sandbox) -> None:
    answer = await ask(sandbox, METHODS, seconds=SECONDS, function_name=name)
    assert answer["error_type"] == "FunctionNotFound"
    assert "Counter.up" in answer["message"] or "class" in answer["message"]


@pytest.mark.soak
async def test_branches_of_a_method_with_super_have_examples(sandbox: Sandbox) -> None:
    code = """
    class Base:
        def m(self) -> int:
            return 1
    class Sub(Base):
        def __init__(self, n: int):
            self.n = n
        def m(self, y: int = 0) -> int:
            if self.n > y:
                return super().m()
            return 0
        @property
        def sign(self) -> int:
            return 1 if self.n > 0 else -1
        @staticmethod
        def twice(n: int) -> int:
            return n * 2 if n else 0
        @classmethod
        def zero(cls, n: int) -> int:
            return 0 if n == 7 else cls(n).m()
    """
    for name in ("Sub.m", "Sub.sign", "Sub.twice", "Sub.zero"):
        request = {"tool": "analyze_branches", "function_name": name, "symbolic_reachability": True}
        answer = await ask(sandbox, dedent(code), seconds=SECONDS, **request)
        (branch,) = answer["branches"]
        assert (branch["true_reachable"], branch["false_reachable"]) == (True, True), name
        names: dict[str, Any] = {}
        exec(dedent(code), names)  # noqa: S102 - the program above
        for example in (branch["true_example"], branch["false_example"]):
            eval(example, names)  # noqa: S307 - a call of the program above


PAIRS: dict[str, str] = {
    "values": "def a(x: int): return x\ndef b(x: int): return x + (x == 3)",
    "types": "def a(x: int): return x == 1\ndef b(x: int): return 1 if x == 1 else 0",
    "exceptions": "def a(x: int): return 1 // x\ndef b(x: int): return 1 // x if x else 0",
    "arguments": "def a(xs: list[int]): xs.sort()\ndef b(xs: list[int]): sorted(xs)",
    "attributes": "class C:\n    def __init__(self, n: int): self.n = n\n"
    "def a(x: int): return C(x)\ndef b(x: int): return C(x + 1)",
    "state": "from random import Random\ndef a(x: int): return Random(1)\ndef b(x: int): return Random(2)",
    "callables": "from collections.abc import Callable\n"
    "def a(g: Callable[[int], int], x: int): return g(x)\n"
    "def b(g: Callable[[int], int], x: int): return g(g(x))",
}


@pytest.mark.soak
@pytest.mark.parametrize("name", PAIRS)
async def test_test_of_a_pair_fails_and_passes_if_both_are_the_same(name: str, sandbox: Sandbox) -> None:
    code = PAIRS[name]
    example = await find(sandbox, code, tool="compare_functions", function_a="a", function_b="b")
    check_form(example["test"])
    assert isinstance(run_pasted(example["test"], {"submitted": code}), AssertionError)
    assert run_pasted(example["test"], {"submitted": code + "\na = b\n"}) is None


DATA = "from dataclasses import dataclass\n@dataclass\nclass R:\n    a: int\n"
# the old version, and a text in it with its replacement in the new one
VERSIONS: dict[str, tuple[str, str, str]] = {
    "exception": (
        "class E(ValueError): pass\ndef f(x: int):\n    if x == 3: raise E('a')\n",
        "raise E",
        "raise ValueError",
    ),
    "dataclass": (DATA + "def f(x: int) -> R: return R(x)\n", "R(x)", "R(x + 1)"),
    "containers": (DATA + "def f(x: int): return [(R(x),), {1: R(x)}]\n", "R(x)", "R(x + 1)"),
    "changed class": (DATA + "def f(x: int) -> R: return R(x)\n", "    a: int\n", "    a: int\n    b: int = 0\n"),
    "set of an enumeration": (
        "from enum import Enum\nclass K(Enum):\n    A = 1\n    B = 2\ndef f(x: int): return {K.A, K.B}\n",
        "{K.A, K.B}",
        "{K.A}",
    ),
    "attributes": (
        "class C:\n    def __init__(self, n: int): self.n = n\ndef f(x: int): return C(x)\n",
        "C(x)",
        "C(x + 1)",
    ),
    "plain value": ("def f(x: int): return [x]\n", "[x]", "[x + 1]"),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", VERSIONS)
async def test_test_of_two_versions_fails_and_passes_after_the_correction(name: str, sandbox: Sandbox) -> None:
    old, text, replacement = VERSIONS[name]
    new = old.replace(text, replacement)
    example = await find(sandbox, new, tool="compare_functions", old_code=old, function_a="f", function_b="f")
    assert isinstance(run_pasted(example["test"], {"submitted_old": old, "submitted": new}), AssertionError)
    assert run_pasted(example["test"], {"submitted_old": old, "submitted": old}) is None


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["static", "class"])
async def test_methods_without_an_object_are_compared_in_both_versions(kind: str, sandbox: Sandbox) -> None:
    first = "cls, " if kind == "class" else ""
    old = f"class P:\n    @{kind}method\n    def f({first}x: int) -> int: return x\n"
    new = old.replace("return x", "return x + 1")
    example = await find(sandbox, new, tool="compare_functions", old_code=old, function_a="P.f", function_b="P.f")
    assert isinstance(run_pasted(example["test"], {"submitted_old": old, "submitted": new}), AssertionError)
    assert run_pasted(example["test"], {"submitted_old": old, "submitted": old}) is None


@pytest.mark.soak
@pytest.mark.parametrize(
    ("old", "text", "replacement"),
    [
        ("class E(Exception): pass\ndef f(x: int): raise E\n", "pass", "a = 1"),
        ("class E(Exception): pass\ndef f(x: int):\n    l = [x]\n    l.append(l)\n    return l\n", "[x]", "[x + 1]"),
    ],
)
async def test_difference_that_no_test_can_show_has_none(
    old: str, text: str, replacement: str, sandbox: Sandbox
) -> None:
    request = {"tool": "compare_functions", "old_code": old, "function_a": "f", "function_b": "f"}
    answer = await ask(sandbox, old.replace(text, replacement), seconds=5, **request)
    assert (answer.get("distinguishing_input") or {}).get("test") is None
    if answer["status"] == "different":
        assert "`test` is null" in answer["message"]


@pytest.mark.filterwarnings("ignore")  # CrossHair looks at deprecated parts of the standard library
def test_each_exception_that_the_solver_can_choose_has_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "class Own(Exception): pass\ndef f(d: Exception, x: int) -> int:\n    return x\n"
    loaded = load(code)
    subject = find_subject(loaded, "f")
    monkeypatch.setattr(type_repo, "_MAP", None)  # it can have the classes of an earlier test
    classes = [cls for cls, _ in iter_types(Exception, include_abstract=False)]
    assert {Exception, KeyError, DecimalException, vars(loaded.module)["Own"]} <= {*classes}
    assert {cls.__module__ for cls in classes} <= {"builtins", MODULE_NAME, *ALLOWED_MODULES}
    for cls in classes:
        try:
            error = cls()
        except TypeError:  # CrossHair cannot create it either
            continue
        arguments = subject.signature.bind(error, 42)
        test = write_violation(subject, arguments, Code(vars(loaded.module), MODULE_NAME), "_ != 42")
        assert test, cls
        assert isinstance(run_pasted(test, {MODULE_NAME: code}), AssertionError), cls


NO_NAME = '''
def f(x: int) -> int:
    """post: True"""
    class E(KeyError): pass
    if x == 3:
        raise E
    return 1
'''


@pytest.mark.soak
@pytest.mark.parametrize(
    "request_",
    [
        {"tool": "symbolic_check", "function_name": "f"},
        {"tool": "find_path_to_exception", "function_name": "f", "exception_type": "KeyError"},
    ],
)
async def test_answer_says_why_a_counterexample_has_no_test(request_: dict[str, str], sandbox: Sandbox) -> None:
    answer = await ask(sandbox, NO_NAME, seconds=SECONDS, **request_)
    (found,) = answer.get("counterexamples") or answer["triggering_inputs"]
    assert (found["call"], found["test"]) == ("f(3)", None)
    assert "`test` is null" in answer["message"]
    assert "`call`" in answer["message"]


async def test_function_as_an_argument_is_plain_python(sandbox: Sandbox) -> None:
    code = """
    from collections.abc import Callable
    def f(g: Callable[[int], int]) -> int:
        if g(0) == 3 and g(1) == 4 and g(2) == 4:
            raise ValueError
        return 0
    """
    request = {"tool": "find_path_to_exception", "function_name": "f", "exception_type": "ValueError"}
    example = await find(sandbox, code, **request)
    assert "crosshair" not in example["test"] + example["call"] + example["args"]["g"]
    assert isinstance(run_pasted(example["test"], {"submitted": dedent(code)}), AssertionError)


async def test_functions_are_not_compared_after_the_calls(sandbox: Sandbox) -> None:
    code = """
    from collections.abc import Callable
    def a(g: Callable[[int], int], xs: list[int]): xs.append(g(0))
    def b(g: Callable[[int], int], xs: list[int]): xs.append(g(0) + 1)
    """
    example = await find(sandbox, code, tool="compare_functions", function_a="a", function_b="b")
    assert example["test"] is None


@pytest.mark.soak
async def test_module_name_is_the_one_in_the_request(sandbox: Sandbox, tmp_path: Path) -> None:
    code = 'def f(x: int) -> int:\n    """post: _ != 42"""\n    return x\n'
    example = await find(sandbox, code, module_name="shop.prices")
    assert "from shop.prices import f\n" in example["test"]
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "prices.py").write_text(code)
    (tmp_path / "test_prices.py").write_text(example["test"])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: ASYNC221 - nothing else runs
    assert run.returncode == 1, run.stdout
    assert "1 failed" in run.stdout


def test_objects_that_were_made_are_not_kept() -> None:
    made = ref(create(type("Large", (), {}), []))
    assert made() is None
