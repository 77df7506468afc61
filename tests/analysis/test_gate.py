"""The gate: what it admits, how it rewrites code, and what it refuses."""

import pytest

from quilt_mcp.analysis.gate.admit import admit
from quilt_mcp.analysis.gate.rules import RULES, Refused
from quilt_mcp.analysis.policy import Policy
from tests.analysis.attacks import GATED

POLICY = Policy()

PLAIN = {
    "classes": """
import abc
import enum
from typing import Generic, Literal, Optional, Protocol, TypeVar

T = TypeVar("T")

class State(enum.Enum):
    OPEN = "open"
    CLOSED = enum.auto()

class Stack(Generic[T]):
    def __init__(self) -> None:
        super().__init__()
        self.items: list[T] = []

    def __len__(self) -> int:
        return len(self.items)

    def pop(self, how: Literal["first", "open"] = "first") -> Optional[T]:
        return self.items.pop() if self.items else None

class Limit(Exception):
    def __init__(self, most: int) -> None:
        super().__init__(f"{most!r:>{10}}")

class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self) -> float: ...

    def __enter__(self) -> "Shape":
        return self

    def __exit__(self, *error: object) -> None:
        return None
""",
    "statements": """
import collections.abc
import math as m
from itertools import *

def walk(tree, *rest, key=None, **more):
    match tree:
        case {"left": left, **others} if others:
            yield from walk(left)
        case [first, *_] | (first, *_):
            yield first
        case str() | None | -1 | 2.5:
            pass
        case m.inf:
            return
    total = 0
    def add(n: int) -> None:
        nonlocal total
        total += n
    try:
        with collections.abc.Sized() as sized, sized:
            assert (size := len(sized)) > 0, "empty"
    except (ValueError, KeyError) as error:
        raise RuntimeError(f"{error}") from error
    else:
        del size
    finally:
        add(1)
    for a, (b, c) in zip(*rest):
        while a < b <= c and not a is b or c in (1, 2):
            if a: continue
            break
        else:
            a @= b; a **= ~b
    return {**more}, {x for x in rest if x}, [*rest][1:-1:2], (lambda z, /, y=2, *, w: z)(1, w=3), b"\\x00", 1j, ...

if __name__ == "__main__":
    print(type(walk).__name__, "{} and {name!r:>3}".format(1, name="x"))
""",
}


@pytest.mark.parametrize("name", PLAIN)
def test_everyday_code_is_admitted_unchanged(name: str) -> None:
    once = admit(PLAIN[name], POLICY).source
    assert admit(once, POLICY).source == once
    compile(once, name, "exec", dont_inherit=True)


def test_annotations_of_every_plain_form_are_admitted() -> None:
    code = """
import typing as t
from typing import Annotated, Literal, TypeVarTuple
Ts = TypeVarTuple('Ts')

class A:
    x: 'A | None' = None

def f(a: t.Optional['list["A"]'], b: Literal[-1, 'no type'], c: Annotated[int, len('x'), 'a text'], *d: None) -> None:
    y: tuple[*Ts] | t.Callable[[int], str] | t.Callable[..., None]
"""
    assert "Annotated[int, len('x'), 'a text']" in admit(code, POLICY).source


def test_comments_and_strings_are_dropped_and_contracts_are_kept() -> None:
    code = '''
"""of the module"""
class A:  # crosshair: off
    """Of the class.

    inv: self.x > 0
    pre: not here
    """
    x: int = 1
    "beside"

def f(a: list, b: int) -> int:
    """Of the function.

    :pre: b > 0  # positive
    pre:
        # both
        len(a) > b
        a[0] == f'{b}'
    post[a, b]:
        _ > 0 and __return__ == __old__.b
        implies(b, _)
    :raises KeyError: if so
    raises: ValueError, KeyError
    """
    """post: exec('')"""
    return b  # the result
'''
    assert (
        admit(code, POLICY).source
        == '''pass

class A:
    """
    inv: self.x > 0
    """
    x: int = 1
    pass

def f(a: list, b: int) -> int:
    """
    pre: b > 0
    pre: len(a) > b
    pre: a[0] == f'{b}'
    post[a, b]: _ > 0 and __return__ == __old__.b
    post: implies(b, _)
    raises: KeyError
    raises: ValueError, KeyError
    """
    pass
    return b
'''
    )


def test_tree_keeps_the_line_numbers_of_the_submitted_code() -> None:
    admitted = admit("\n\n\nx = 1\n\n# one\ndef f():\n    'post: True'\n\n    return 1\n", POLICY)
    assert [node.lineno for node in admitted.tree.body] == [4, 7]


@pytest.mark.parametrize(
    "docstring",
    [
        "post: the message that is sent",
        "post: x = 1",
        r"post: _ != '\\n'",
        "post[x.__class__]: True",
        "pre[x]: True",
        "raises: a.b",
        "raises: f()",
        ":raises lambda: 1:",
        "post: '\\u2028' != _",
    ],
)
def test_contract_that_is_not_one_expression_is_refused(docstring: str) -> None:
    with pytest.raises(Refused) as caught:
        admit(f'x = 1\n\ndef f(x):\n    """{docstring}"""\n', POLICY)
    assert caught.value.rule == "contract"
    assert caught.value.line == 4


@pytest.mark.parametrize("docstring", ["raises: eval", "post: open(_)", "pre: (lambda: ().__class__)()"])
def test_contract_must_follow_the_rules_for_code(docstring: str) -> None:
    with pytest.raises(Refused) as caught:
        admit(f'def f(x):\n    """{docstring}"""\n', POLICY)
    assert caught.value.rule in {"builtin", "dunder"}


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("x = 1\nimport requests", "requests: "),
        ("x = 1\nfrom google.cloud import storage", "google.cloud: "),
        (f"x = 1\nimport {'a' * 100}", ""),
        ("x = 1\nimport größe", ""),
    ],
)
def test_refusal_names_the_line_and_the_module_and_repeats_no_other_code(code: str, shown: str) -> None:
    with pytest.raises(Refused) as caught:
        admit(code, POLICY)
    assert caught.value.line == 2
    assert str(caught.value) == shown + RULES["import"] + " (Line 2.)"


def test_every_rule_has_an_attack() -> None:
    # no code is known that breaks `canonical`, which is for later versions of Python
    assert {rule for attack in GATED for rule in attack.rules} == RULES.keys() - {"canonical"}


def test_tree_that_changes_when_it_is_rewritten_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quilt_mcp.analysis.gate.admit.ast.unparse", lambda tree: "import os")
    with pytest.raises(Refused) as caught:
        admit("x = 1", POLICY)
    assert caught.value.rule == "canonical"


def test_builtin_of_a_later_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.brand_new", 1, raising=False)
    with pytest.raises(Refused) as caught:
        admit("brand_new", POLICY)
    assert caught.value.rule == "builtin"
