"""What a row of the soundness table holds, and how one is written down.

`right` holds every status that is true of the program. A status that leaves the matter open is always true; where the
engine is known to decide, it is left out, so that the table also holds the engine to that.
"""

from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

OPEN = frozenset({"unknown", "not_found", "timeout", "partial"})


@dataclass(frozen=True)
class Program:
    """One row: a name, the code, the statuses that are right, and for some rows a part of the answer."""

    name: str
    code: str
    right: frozenset[str]
    arguments: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)


def _program(name: str, code: str, *right: str, expected: dict[str, Any] | None = None, **arguments: Any) -> Program:
    return Program(name, dedent(code).strip() + "\n", frozenset(right), arguments, expected or {})


def left_open(*others: str) -> tuple[str, ...]:
    return (*others, *OPEN)


def check(name: str, code: str, *right: str, error_type: str | None = None) -> Program:
    """A row of symbolic_check; the function is `f`."""
    expected = {"error_type": error_type} if error_type else None
    return _program(name, code, *right, expected=expected, function_name="f")


def search(name: str, exception_type: str, code: str, *right: str, error_type: str | None = None) -> Program:
    """A row of find_path_to_exception; the function is `f`."""
    expected = {"error_type": error_type} if error_type else None
    return _program(name, code, *right, expected=expected, function_name="f", exception_type=exception_type)


def pair(name: str, code: str, *right: str, error_type: str | None = None) -> Program:
    """A row of compare_functions; the functions are `a` and `b`."""
    expected = {"error_type": error_type} if error_type else None
    return _program(name, code, *right, expected=expected, function_a="a", function_b="b")


def branches(name: str, code: str, *right: str, symbolic: bool = True, **expected: Any) -> Program:
    """A row of analyze_branches; the function is `f`."""
    return _program(name, code, *right, expected=expected, function_name="f", symbolic_reachability=symbolic)


def complexity(number: int, name: str, body: str) -> Program:
    code = "def f(x: int, y: int):\n" + "".join(f"    {line}\n" for line in dedent(body).strip().splitlines())
    return branches(name, code, "complete", symbolic=False, cyclomatic_complexity=number)
