"""What a request submits: a file that is reduced to what the function uses, other files, and an older version."""

import ast
import re
from contextlib import nullcontext
from importlib import import_module
from textwrap import dedent
from typing import Any

import pytest

from quilt_mcp.analysis.gate.admit import admit, admit_request
from quilt_mcp.analysis.gate.loading import Loaded, load_submission
from quilt_mcp.analysis.gate.reduction import reduce_tree
from quilt_mcp.analysis.gate.rules import Refused
from quilt_mcp.analysis.messages import Request, find_module_name
from quilt_mcp.analysis.policy import Policy
from quilt_mcp.analysis.sandbox import Sandbox
from tests.analysis.engine_runs import check
from tests.analysis.pasted import check_form, run_pasted
from tests.analysis.sandboxes import ask

SECONDS = 30
CHECK = 'def f(x: int) -> int:\n    """post: _ != 42"""\n    return x\n'


def reduce(code: str, *names: str) -> tuple[str, list[str]]:
    tree = ast.parse(dedent(code))
    dropped = reduce_tree(tree, names)
    return ast.unparse(tree), dropped


KEPT: dict[str, tuple[str, list[str]]] = {
    "other functions and imports": ("import os\nimport math\ndef g(): os.f()\ndef f(): math.pi", ["os", "g"]),
    "names that are used by used names": ("A = 1\nB = A\ndef g(): return B\ndef f(): return g()\nC = 2", ["C"]),
    "a call that changes a used value": ("T = []\ndef add(): T.append(1)\nadd()\ndef f(): return T", []),
    "a call that changes nothing that is used": (
        "T = []\ndef add(): T.append(1)\nadd()\ndef f(): return 1",
        ["T", "add", "line 3"],
    ),
    "a decorator that can change a used value": (
        "T = []\ndef reg(g): T.append(g)\n@reg\ndef h(): pass\ndef f(): return T",
        [],
    ),
    "a decorator that changes nothing that is used": (
        "def reg(g): g()\n@reg\ndef h(): pass\ndef f(): return 1",
        ["reg", "h"],
    ),
    "subclasses of a used class": ("class A: pass\nclass B(A): pass\nclass C: pass\ndef f(a: A): pass", ["C"]),
    "no subclasses of an imported class": ("from enum import Enum\nclass A(Enum): X = 1\ndef f(): return Enum", ["A"]),
    "names in texts of annotations": ("class A: pass\nclass B: pass\ndef f(a: 'list[A]'): pass", ["B"]),
    "names in contracts": ("def g(x): pass\ndef h(x): pass\ndef f(x):\n    '''\n    post: g(_)\n    '''", ["h"]),
    "the block of a script": ("def f(): pass\nif __name__ == '__main__':\n    f()", ["line 2"]),
    "imports for type checkers": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import A, B\ndef f(a: 'A'): pass",
        ["TYPE_CHECKING"],
    ),
    "the other branch of a guard for type checkers": (
        "if TYPE_CHECKING:\n    X = 1\n    from a import Y, Z\nelse:\n    X = 2\n    Y = 3\ndef f(): return X + Y",
        ["X", "Y, Z"],
    ),
    "a guard that is not for type checkers": (
        "import typing\nX = 1\nif not typing.TYPE_CHECKING:\n    X = 2\ndef f(): return X",
        [],
    ),
    "imports with an alternative": ("try:\n    import a\nexcept ImportError:\n    a = None\ndef f(): a", []),
    "star imports and __future__": ("from __future__ import annotations\nfrom a import *\ndef f(): pass", []),
    "statements that can stop the file": ("raise ValueError\ndef f(): pass", []),
    "augmented assignments": ("N = 1\nN += 1\nM = 1\nM += 1\ndef f(): return N", ["M", "line 4"]),
}


def test_reduction_keeps_what_the_function_uses() -> None:
    for name, (code, dropped) in KEPT.items():
        found, actual = reduce(code, "f")
        assert actual == dropped, name
        assert "def f(" in found


STARTS = r"""
def g(x=add()): pass
def g(*, x=add()): pass
def g(x: add()): pass
def g() -> add(): pass
g = lambda x=add(): x
if add(): g = 1
try: g = 1\nfinally: add()
try: g = 1\nexcept add(): g = 2
class G(add()): pass
class G:\n    def g(self, x=add()): pass
class G:\n    if add(): g = 1
class G(Base): pass
class G(metaclass=add): pass
@add\nclass G: pass
add.n: int = 1
class G(Base):\n    A = 1
g = box[0]
g = -box
g = box + 1
g = box == 1
g = f"{box}"
g = len(box)
g = box.size
g = [*generator]
g = sorted([1], key=add)
"""


BASE = """
class Base:
    def __init_subclass__(cls): add()
    def __neg__(self): add()
    @property
    def size(self): add()
box = Base()
"""


@pytest.mark.parametrize("statement", STARTS.strip().splitlines())
def test_reduction_keeps_a_statement_that_runs_code_without_a_call_of_its_own(statement: str) -> None:
    before = "T = []\ndef add(*_): T.append(1)\n" + (
        "generator = (add() for _ in (1,))\n" if "gen" in statement else ""
    )
    before += BASE if "box" in statement or "Base" in statement else ""
    before += (
        "from enum import Enum\nclass Base(Enum):\n    def __init__(self, _): add()\n" if "A = 1" in statement else ""
    )
    code = before + statement.replace(r"\n", "\n") + "\ndef f(): return T"
    assert reduce(code, "f")[1] == []


def test_branch_for_type_checkers_gives_only_types() -> None:
    code = """
    if TYPE_CHECKING:
        X = 1
        import b
        from a import Y
    else:
        X = 2
    Y = 3
    def f(): return X, Y, b
    """
    assert reduce(code, "f")[0] == "import b\nX = 2\nY = 3\n\ndef f():\n    return (X, Y, b)"


async def test_answer_lists_what_was_dropped_and_the_rest_is_not_checked(sandbox: Sandbox) -> None:
    code = "import requests\nasync def main(): await requests.get()\n" + CHECK + "main()\n"
    answer = await ask(sandbox, code, seconds=SECONDS)
    assert (answer["status"], answer["dropped"]) == (
        "counterexample",
        {"count": 3, "first": ["requests", "main", "line 6"]},
    )
    whole = await ask(sandbox, code, seconds=SECONDS, whole_file=True)
    assert (whole["error_type"], whole["rule"]) == ("Refused", "import")
    assert "dropped" not in await ask(sandbox, CHECK, seconds=SECONDS)


EVERYDAY: dict[str, str] = {
    "__class__": "class A:\n    def __init__(self, n: int): self.n = n\n"
    "    def twin(self): return self.__class__(self.n)\n"
    "def f(x: int) -> int:\n    'post: _ != 42'\n    return A(x).twin().n if A(x).__class__.__name__ == 'A' else 0",
    "__slots__": "class A:\n    __slots__ = ('n', '_m')\n    def __init__(self, n: int): self.n = n\n"
    "def f(a: A) -> int:\n    'post: _ != 42'\n    return a.n",
    "__all__": "__all__ = ['f']\n__all__ += ['g']\n" + CHECK,
    "global": "N = 0\ndef bump():\n    global N\n    N = 42\n" + CHECK.replace("return x", "return x if x else N"),
    "hasattr": CHECK.replace("return x", "return x if hasattr(x, 'bit_length') and not hasattr('', 'nope') else 0"),
    "TYPE_CHECKING": "import typing\nif typing.TYPE_CHECKING:\n    from decimal import Decimal\n"
    "def f(x: int, d: 'Decimal | None' = None) -> int:\n    'post: _ != 42'\n    return x",
    "logging": "import logging\nlogger = logging.getLogger(__name__)\n"
    + CHECK.replace("return x", "logger.info('%s', x)\n    logging.warning('w')\n    return x"),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", EVERYDAY)
async def test_everyday_code_is_analysed_and_its_test_fails(name: str, sandbox: Sandbox) -> None:
    code = EVERYDAY[name]
    answer = await ask(sandbox, code, seconds=SECONDS)
    assert answer["status"] == "counterexample", answer
    test = answer["counterexamples"][0]["test"]
    check_form(test)
    assert isinstance(run_pasted(test, {"submitted": code}), AssertionError)


NOT_EVERYDAY = [
    "class C:\n    __slots__ = names",
    "class C:\n    __slots__ = ('__dict__',)",
    "class C:\n    __slots__ = ('gi_frame',)",
    "class C:\n    __slots__ = 'a b'",
    "__slots__ = ('a',)",
    "x.__class__ = C",
    "del x.__class__",
    "__class__",
    "def f():\n    global __builtins__",
    "import logging.handlers",
    "from logging import _acquireLock",
]


def admits(code: str) -> bool:
    try:
        admit(code, Policy())
    except Refused:
        return False
    return True


def test_everyday_rules_stay_narrow() -> None:
    assert [code for code in NOT_EVERYDAY if admits(code)] == []
    assert admits("x = hasattr")  # it is the restricted one


@pytest.mark.soak
@pytest.mark.parametrize("name", ["__class__", "__globals__", "gi_frame", "mro"])
async def test_hasattr_refuses_names_of_the_interpreter(name: str, sandbox: Sandbox) -> None:
    code = CHECK.replace("return x", f"return hasattr(f, {name!r})")
    assert (await ask(sandbox, code, seconds=SECONDS))["error_type"] == "Refused"


MODELS = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Optional
from .units import LIMIT
@dataclass
class Pos:
    x: int
    note: Optional[str] = None
def double(p: Pos) -> int:
    return p.x * 2 if p.x < LIMIT else 0
def _hidden(): pass
"""
USER = """
from shop import models
from shop.models import Pos
import shop.units as units
def f(p: Pos) -> int:
    '''post: _ != 42'''
    return models.double(p) if units.LIMIT else 0
"""
FILES = {"shop/models.py": MODELS, "shop.units": "LIMIT = 100\n"}


async def test_code_imports_other_files_of_the_project(sandbox: Sandbox) -> None:
    answer = await ask(sandbox, USER, seconds=SECONDS, files=FILES)
    assert answer["status"] == "counterexample", answer
    found = answer["counterexamples"][0]
    assert found["call"].startswith("f(Pos(x=21")
    check_form(found["test"])
    assert "from shop.models import Pos\nfrom submitted import f\n" in found["test"]


@pytest.mark.soak
async def test_relative_imports_are_those_of_the_module(sandbox: Sandbox) -> None:
    code = USER.replace("from shop import models", "from . import models").replace("from shop.models", "from .models")
    answer = await ask(sandbox, code, seconds=SECONDS, files=FILES, module_name="shop.main")
    assert answer["status"] == "counterexample", answer
    assert (await ask(sandbox, code, seconds=SECONDS, files=FILES))["rule"] == "import"


@pytest.mark.soak
async def test_a_class_of_another_file_that_the_code_does_not_import_is_an_argument(sandbox: Sandbox) -> None:
    shapes = "class Base:\n    def sides(self) -> int:\n        return 1\n"
    shapes += "class Square(Base):\n    def sides(self) -> int:\n        return 4\n"
    code = 'from shapes import Base\ndef f(b: Base) -> int:\n    """post: _ == 1"""\n    return b.sides()\n'
    answer = await ask(sandbox, code, seconds=SECONDS, files={"shapes": shapes})
    assert (answer["status"], answer["coverage"]["replayed"]) == ("counterexample", True)
    assert answer["counterexamples"][0]["call"] == "f(shapes.Square())"
    assert "from shapes import Square\n" in answer["counterexamples"][0]["test"]


async def test_other_files_pass_the_same_gate(sandbox: Sandbox) -> None:
    for text, rule in (("import os", "import"), ("x = ().__class__.__bases__", "dunder"), ("def f(:", "syntax")):
        answer = await ask(sandbox, CHECK, seconds=SECONDS, files={"models": text})
        assert (answer["error_type"], answer["rule"]) == ("Refused", rule)
    answer = await ask(
        sandbox, "import models\n" + CHECK + "models.x = f\n", seconds=SECONDS, files={"models": "x = 1"}
    )
    assert (answer["error_type"], answer["rule"]) == ("Refused", "store")
    large = {"a": "#" * 40_000, "b": "#" * 40_000}
    assert (await ask(sandbox, CHECK, seconds=SECONDS, files=large))["rule"] == "size"


async def test_files_that_import_each_other_are_an_error(sandbox: Sandbox) -> None:
    files = {"a": "import b\nx = b.y", "b": "import a\ny = a.x"}
    answer = await ask(
        sandbox, "import a\n" + CHECK.replace("return x", "return x + a.x"), seconds=SECONDS, files=files
    )
    assert answer["error_type"] == "CodeRaised"


@pytest.mark.parametrize(
    "imports", ["import plugin", "from shop import plugin", "if True: import plugin", "def g(): import plugin\ng()"]
)
async def test_a_file_runs_that_the_code_only_imports(imports: str, sandbox: Sandbox) -> None:
    files = {
        "registry": "ALL: list[int] = []\n",
        "shop/__init__.py": "from .models import X\n",
        "shop/models.py": "X = 1",
    }
    files |= dict.fromkeys(
        ("plugin", "shop/plugin.py"), "from registry import ALL\nfrom shop import X\nALL.append(X)\n"
    )
    code = f"from registry import ALL\n{imports}\ndef f(x: int) -> int:\n    'post: _ == 1'\n    return len(ALL)\n"
    assert (await ask(sandbox, code, seconds=SECONDS, files=files))["status"] == "verified"


@pytest.mark.parametrize(
    ("imports", "base"),
    [
        *[
            ("from m import C", "C"),
            ("import m", "m.C"),
            ("from m import C as B", "B"),
            ("from m import C\nB = C", "B"),
        ],
        *[
            ("from m import C\nif C:\n  class E(C): z = 2", "C"),
            ("from m import C\nclass A:\n  class B(C): z = 2", "C"),
        ],
    ],
)
async def test_subclasses_of_a_class_with_another_name_are_tried(imports: str, base: str, sandbox: Sandbox) -> None:
    own = "" if "class" in imports else f"class D({base}): z = 1"
    code = f"{imports}\n{own}\ndef f(c: {base}) -> int:\n    'post: _ == 0'\n    return c.z\n"
    answer = await ask(sandbox, code, seconds=SECONDS, files={"m": "class C: z = 0\n"})
    assert answer["counterexamples"][0]["call"] in {"f(D())", "f(E())", "f(A.B())"}


async def test_default_of_a_constructor_in_another_file_is_changed(sandbox: Sandbox) -> None:
    code = "import m\ndef g(): m.C().x.append(1)\ndef f(x: int) -> bool:\n    'post: _'\n    return not m.C().x\n"
    files = {"m": "class C:\n    def __init__(self, x: list[int] = []): self.x = x\n"}
    assert (await ask(sandbox, code, seconds=SECONDS, files=files))["status"] == "unknown"


async def test_function_that_changes_another_file_is_undecided(sandbox: Sandbox) -> None:
    files = {"counter": "N = [0]\nM = 0\ndef bump():\n    global M\n    M += 1\n"}
    for call in ("counter.N.append(1)", "counter.bump()"):
        code = f"def f(x: int) -> int:\n    '''post: True'''\n    import counter\n    {call}\n    return x\n"
        answer = await ask(sandbox, code, seconds=SECONDS, files=files)
        assert answer["status"] == "unknown", answer


MODULES_OF_FILES = {
    "models": "models",
    "models.py": "models",
    "shop/models.py": "shop.models",
    "shop/__init__.py": "shop",
    "json": None,
    "os.path": None,
    "__init__.py": None,
    "shop.__main__": None,
    "../x": None,
    "a b": None,
    "": None,
    "é": None,
}


def test_names_of_files() -> None:
    assert {key: find_module_name(key) for key in MODULES_OF_FILES} == MODULES_OF_FILES


async def test_invalid_names_and_too_many_files_are_errors(sandbox: Sandbox) -> None:
    assert (await ask(sandbox, CHECK, files={"json": "x = 1"}))["error_type"] == "InvalidFiles"
    answer = await ask(sandbox, CHECK, files={f"m{number}": "" for number in range(51)})
    assert answer["error_type"] == "InvalidFiles"
    assert "50" in answer["message"]


@pytest.mark.parametrize("name", ["os", "json.tool", "submodule.py", "pkg.models", "__main__"])
async def test_test_never_imports_from_another_module(name: str, sandbox: Sandbox) -> None:
    answer = await ask(sandbox, CHECK, module_name=name, files={"pkg.models": "x = 1"})
    assert (answer["error_type"], name in answer["message"]) == ("InvalidModuleName", True)


@pytest.mark.parametrize("other", ["a.py", "a/__init__.py"])
async def test_two_files_with_the_name_of_one_module_are_an_error(other: str, sandbox: Sandbox) -> None:
    answer = await ask(sandbox, CHECK, files={other: "x = 1", "a": "x = 2"})
    assert (answer["error_type"], "`a.py`" in answer["message"]) == ("InvalidFiles", True)


@pytest.mark.parametrize("beyond", [0, 1])
def test_older_version_counts_for_the_size(beyond: int) -> None:
    half = CHECK + "#" * (Policy().code_size_bytes // 2 - len(CHECK))
    request = Request(tool="compare_functions", code=half, old_code=half + "#" * beyond, function_name="f")
    with pytest.raises(Refused, match="larger") if beyond else nullcontext():
        admit_request(request, Policy())


async def test_class_of_a_class_is_refused_and_not_an_exception_of_the_code(sandbox: Sandbox) -> None:
    code = "class A:\n    @classmethod\n    def f(cls, x: int) -> str:\n        return cls.__class__.__name__\n"
    request = {"tool": "find_path_to_exception", "exception_type": "TypeError", "function_name": "A.f"}
    answer = await ask(sandbox, code, seconds=SECONDS, **request)
    assert (answer.get("error_type"), answer.get("rule")) == ("Refused", "type")


OLD = """
from dataclasses import dataclass
@dataclass
class Pos:
    x: int
TABLE = {1: 'a'}
def helper(n: int) -> int:
    return n + 1
def f(p: Pos) -> int:
    return helper(p.x)
"""


async def compare(
    sandbox: Sandbox, old: str, new: str, name: str = "f", *, seconds: float = SECONDS, **request: Any
) -> dict[str, Any]:
    request |= {"tool": "compare_functions", "old_code": old, "function_a": name, "function_b": name}
    return await ask(sandbox, new, seconds=seconds, **request)


async def test_two_versions_of_a_function_are_compared(sandbox: Sandbox) -> None:
    new = OLD.replace("n + 1", "n + 1 if n != 7 else 0")
    answer = await compare(sandbox, OLD, new)
    assert answer["status"] == "different"
    found = answer["distinguishing_input"]
    assert (found["call"], found["actual_result"]) == ("f(Pos(x=7))", "old version returns 8; new version returns 0")
    check_form(found["test"])
    versions = {"submitted": new, "submitted_old": OLD}
    assert isinstance(run_pasted(found["test"], versions), AssertionError)
    assert run_pasted(found["test"], versions | {"submitted": OLD.replace("n + 1", "1 + n")}) is None
    assert (await compare(sandbox, OLD, OLD.replace("n + 1", "1 + n")))["status"] == "equivalent"


CLASS = """
from dataclasses import dataclass
class Base:
    def __init__(self, n: int) -> None:
        self.n = n
class C(Base):
    def __init__(self, n: int) -> None:
        self.n = n
    def g(self, x: int) -> int:
        return x + self.n
    def grow(self, x: int) -> int:
        self.n += x
        return 0
    def other(self, x: int) -> "C":
        return C(self.n + x)
    @property
    def twice(self) -> int:
        return self.n * 2
@dataclass(frozen=True)
class D:
    n: int
    def g(self, x: int) -> int:
        return x + self.n
    def fail(self, x: int) -> int:
        return 1 // x
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("return x + self.n", "return x - self.n", "C.g"),
        ("return x + self.n", "return x - self.n", "D.g"),
        ("self.n += x", "self.n -= x", "C.grow"),
        ("self.n * 2", "self.n * 3", "C.twice"),
        ("1 // x", "x // x", "D.fail"),
        ("C(self.n + x)", "C(self.n - x)", "C.other"),
    ],
)
async def test_methods_of_two_versions_that_differ(before: str, after: str, name: str, sandbox: Sandbox) -> None:
    new = CLASS.replace(before, after)
    answer = await compare(sandbox, CLASS, new, name)
    assert answer["status"] == "different", answer
    found = answer["distinguishing_input"]
    if name not in {"C.grow", "C.other"}:  # only the state of an object shows the difference
        assert isinstance(run_pasted(found["test"], {"submitted": new, "submitted_old": CLASS}), AssertionError)
        assert run_pasted(found["test"], {"submitted": CLASS, "submitted_old": CLASS}) is None


@pytest.mark.soak
@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ("return x + self.n", "return self.n + x", "D.g"),
        ("return x + self.n", "return self.n + x", "C.g"),
        ("self.n += x", "self.n = x + self.n", "C.grow"),
        ("self.n * 2", "self.n + self.n", "C.twice"),
    ],
)
async def test_methods_of_two_versions_that_agree(before: str, after: str, name: str, sandbox: Sandbox) -> None:
    answer = await compare(sandbox, CLASS, CLASS.replace(before, after), name)
    assert answer["status"] == "equivalent", answer


@pytest.mark.soak
async def test_objects_of_two_versions_prevent_a_claim_about_methods(sandbox: Sandbox) -> None:
    answer = await compare(sandbox, CLASS, CLASS.replace("self.n + x", "x + self.n"), "C.other", seconds=5)
    assert answer["status"] in {"unknown", "timeout"}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    n: int\n", "    n: int\n    m: int = 0\n"),
        ("class D:", "class D(Base):"),
        ("@dataclass(frozen=True)\n", "@dataclass\n"),
        ("    n: int\n", "    n: int\n    next: 'D | None' = None\n"),
        ("@dataclass(frozen=True)\nclass D:", "from typing import NamedTuple\nclass D(NamedTuple):"),
    ],
)
async def test_versions_that_make_other_objects_are_not_compared(before: str, after: str, sandbox: Sandbox) -> None:
    old = CLASS.replace(before, after) if "next" in after or "NamedTuple" in after else CLASS
    new = CLASS.replace(before, after).replace("return x + self.n", "return x - self.n")
    answer = await compare(sandbox, old, new, "D.g")
    assert (answer["error_type"], "constructors" in answer["message"]) == ("SignatureMismatch", True)


@pytest.mark.parametrize(
    ("before", "read"),
    [
        ("A = []\nA.append(NEW)", "A[0]"),
        ("A = {}\nA[1] = NEW", "A[1]"),
        ("A = []\nB = A\nB.append(NEW)", "A[0]"),
        ("class A: n = 1\nA.n = NEW", "A.n"),
        ("A = 1\nclass B:\n    def n(self): return A\nA = NEW", "B().n()"),
        ("A = []\ndef add(g): A.append(NEW)\n@add\ndef g(): pass", "A[0]"),
    ],
)
async def test_versions_share_nothing_that_one_of_them_changes(before: str, read: str, sandbox: Sandbox) -> None:
    old, new = (f"{before}\ndef f(x: int): return {read}\n".replace("NEW", number) for number in ("3", "4"))
    answer = await compare(sandbox, old, new)
    assert (answer["status"], answer["distinguishing_input"]["actual_result"]) == (
        "different",
        "old version returns 3; new version returns 4",
    )


@pytest.mark.parametrize(
    ("imports", "name"), [("import m", "m.C"), ("from m import C as B", "B"), ("class A:\n  class C: n = 0", "A.C")]
)
async def test_versions_share_the_classes_of_other_files_and_within_classes(
    imports: str, name: str, sandbox: Sandbox
) -> None:
    text = f"{imports}\ndef f(c: {name}) -> int:\n    return c.n\n"
    new = f"{text.replace('c.n', 'c.n + 0')}\nclass Later({name}): pass\n"
    files = {"m": "class C: n = 0\n"}
    answer = await compare(sandbox, text, new, files=files)
    assert answer["status"] == "equivalent", answer


async def test_versions_of_a_function_with_another_subclass_are_not_compared(sandbox: Sandbox) -> None:
    text = "class A: pass\nclass B(A): n = 1\ndef f(a: A): return isinstance(a, B)\n"
    new = text.replace("n = 1", "n = 2")
    answer = await compare(sandbox, text, new)
    assert (answer["error_type"], "`B`" in answer["message"]) == ("SignatureMismatch", True)


async def test_exceptions_of_two_versions_of_a_class_prevent_a_claim(sandbox: Sandbox) -> None:
    text = "class A(ValueError): pass\ndef f(x: bool):\n    if x:\n        raise A\n"
    new = text.replace("ValueError", "KeyError")
    answer = await compare(sandbox, text, new)
    assert answer["status"] == "unknown"


@pytest.mark.parametrize(
    "start", ["from registry import ALL\nALL.append(1)\n", "from registry import ALL\nimport plugin\n"]
)
async def test_versions_with_other_values_in_a_shared_file_are_not_compared(start: str, sandbox: Sandbox) -> None:
    files = {"registry": "ALL = []\n", "plugin": "from registry import ALL\nALL.append(1)\n"}
    old, new = (f"{text}def f(x: int):\n    return [*ALL]\n" for text in (start, "from registry import ALL\n"))
    answer = await compare(sandbox, old, new, files=files)
    assert answer["error_type"] == "SharedFileChanged"


UNDECIDED: dict[str, tuple[str, int | None, str]] = {
    "operation": ("def f(s: str) -> str:\n    'post: True'\n    x = 1\n    return s.upper()", 4, "upper"),
    "type": (
        "class T:\n    def __init__(self, x): self.x = x\ndef f(t: T) -> bool:\n    'post: True'\n    return True",
        None,
        "",
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize("name", UNDECIDED)
async def test_undecided_answer_names_lines_and_operations(name: str, sandbox: Sandbox) -> None:
    code, line, operation = UNDECIDED[name]
    answer = await ask(sandbox, "# a comment that moves the lines\n" + code, seconds=10)
    assert answer["status"] in {"unknown", "timeout"}, answer
    assert answer["coverage"]["concrete_runs"] >= 0
    assert answer["message"]
    cause = answer["undecided"][0]
    assert cause["line"] == (line and line + 1)
    assert operation in cause["operation"]
    assert cause["reason"].endswith(".")


PARAMETERS = ["datetime", "Iterator[int]", "timezone", "Exception", "Literal[1, 2, 'a']", "date", "time", "timedelta"]


@pytest.mark.soak
@pytest.mark.parametrize("annotation", PARAMETERS)
async def test_parameters_of_these_types_are_analysed(annotation: str, sandbox: Sandbox) -> None:
    code = f"""
    from collections.abc import Iterator
    from datetime import *
    from typing import Literal
    def f(d: {annotation}, x: int) -> int:
        '''post: _ != 42'''
        return x
    """
    answer = await ask(sandbox, dedent(code), seconds=SECONDS)
    assert answer["status"] == "counterexample", answer
    found = answer["counterexamples"][0]
    names: dict[str, Any] = {}
    exec(dedent(code), names)  # noqa: S102 - the program above
    full_names = re.findall(r"\b([a-z_.]+)\.[A-Z]", found["call"])  # of classes that the code has not imported
    for name in full_names:
        import_module(name)
        names[name.partition(".")[0]] = import_module(name.partition(".")[0])
    assert eval(found["call"], names) == 42  # noqa: S307 - a call of it
    assert isinstance(run_pasted(found["test"], {"submitted": dedent(code)}), AssertionError)


def load(code: str, **request: Any) -> Loaded:
    """Admit and load a request in this process."""
    # tests send what they like
    sent: Request = {"tool": "symbolic_check", "code": code, "function_name": "f", **request}  # type: ignore[typeddict-item]  # each test changes some fields
    return load_submission(admit_request(sent, Policy()), lambda _: None)


def test_annotations_that_name_nothing_stay_texts() -> None:
    files = {"a": "class A:\n    x: 'Missing'\n    y: int\n"}
    assert vars(load("from a import A\n" + CHECK.replace("return x", "return A.y"), files=files).module)[
        "A"
    ].__annotations__ == {
        "x": "Missing",
        "y": int,
    }


def test_relative_imports_above_the_package_and_circular_imports_fail() -> None:
    with pytest.raises(Refused):
        load(
            "from ..a import x\n" + CHECK.replace("return x", "return x + y"),
            files=FILES,
            module_name="shop.main",
            whole_file=True,
        )
    with pytest.raises(ImportError, match="import each other"):
        load("import a\n" + CHECK.replace("return x", "return a"), files={"a": "import b\nb.y", "b": "import a\na.x"})


def test_loggers_have_the_names_of_python() -> None:
    code = (
        "import logging\nA, B = logging.getLogger(), logging.getLogger('a')\n"
        "C = A.getChild('a') is B\nclass Own(logging.Logger): pass\nD = Own('d')\nD.x = 1\n"
    )
    names = vars(load(code).module)
    assert (names["A"].name, names["B"].name, names["C"], names["D"].name, names["D"].x) == ("root", "a", True, "d", 1)


@pytest.mark.parametrize(
    ("code", "rule"), [("x = log.makeRecord", "withheld"), ("log.x = 1", "store"), ("log.name.x = 1", "store")]
)
def test_logger_has_only_what_is_inert(code: str, rule: str) -> None:
    with pytest.raises(Refused) as caught:
        load(f"import logging\nlog = logging.getLogger('a')\n{code}\n")
    assert caught.value.rule == rule


@pytest.mark.parametrize(
    ("code", "error"), [("logging.getLogger(3)", TypeError), ("logging.getLogger('a').nothing", AttributeError)]
)
def test_logger_raises_what_python_raises(code: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        load(f"import logging\n{code}\n")


@pytest.mark.parametrize(
    "question",
    ["isEnabledFor(40)", "getEffectiveLevel() == 0", "level == 0", "hasHandlers()", "handlers == []", "propagate"],
)
def test_nothing_is_claimed_about_the_configuration_of_logging(question: str) -> None:
    code = f"import logging\ndef f(x: bool) -> bool:\n    'post: _'\n    return logging.getLogger('a').{question}\n"
    for one in (code, code.replace("post: _", "post: not _")):
        answer = check(one)
        assert (answer["status"], answer["counterexamples"]) == ("unknown", [])
