"""The rows of the soundness table.

`right` contains every correct status of the program. An undecided status is never wrong. If the engine is known to
decide, the row leaves it out, so that the table also tests that the engine still decides.
"""

from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

OPEN = frozenset({"unknown", "not_found", "timeout", "partial"})


@dataclass(frozen=True)
class Program:
    """One row: a name, the code, the correct statuses, and for some rows a part of the answer.

    Attributes:
        witness: a call that plain Python runs to show that the claim is wrong.
    """

    name: str
    code: str
    right: frozenset[str]
    arguments: dict[str, Any] = field(default_factory=dict)
    witness: str | None = None
    expected: dict[str, Any] = field(default_factory=dict)


def _program(name: str, code: str, *right: str, expected: dict[str, Any] | None = None, **arguments: Any) -> Program:
    return Program(name, dedent(code).strip() + "\n", frozenset(right), arguments, expected=expected or {})


def left_open(*others: str) -> tuple[str, ...]:
    """Return these statuses and all undecided ones."""
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
    """A row of analyze_branches without exploration; the body is that of `f`."""
    code = "def f(x: int, y: int):\n" + "".join(f"    {line}\n" for line in dedent(body).strip().splitlines())
    return branches(name, code, "complete", symbolic=False, cyclomatic_complexity=number)


_FOUND = {"check": "counterexample", "raises": "found", "pair": "different"}
_CLAIMED = {"check": "verified", "raises": "unreachable", "pair": "equivalent"}
_TOOLS = {"check": "symbolic_check", "raises": "find_path_to_exception", "pair": "compare_functions"}


def read_programs(text: str) -> dict[str, list[Program]]:
    """Return the programs in a text, by tool.

    A line `## check: NAME | CALL` begins a program for symbolic_check. The call violates its contract; without a call,
    the contract holds. `## raises ERROR: …` is the same for find_path_to_exception, and `## pair: …` for
    compare_functions. `## unstable check: …` begins a program about which nothing can be said, and `## shared check: …`
    one that only a shared object refutes, which no answer reports. `## check C.m: …` is about a method.
    """
    found: dict[str, list[Program]] = {tool: [] for tool in _TOOLS.values()}
    for block in text.split("\n## ")[1:]:
        header, code = block.split("\n", 1)
        title, _, witness = header.partition(" | ")
        kind, _, name = title.partition(": ")
        is_open = kind.startswith(("unstable ", "shared "))
        word, _, detail = (kind.partition(" ")[2] if is_open else kind).partition(" ")
        statuses = set() if is_open else {_FOUND[word] if witness else _CLAIMED[word]}
        arguments = {"function_a": "a", "function_b": "b"} if word == "pair" else {"function_name": "f"}
        if detail:
            arguments["exception_type" if word == "raises" else "function_name"] = detail
        found[_TOOLS[word]].append(
            Program(name, code.strip() + "\n", OPEN | statuses, arguments, witness=witness or None)
        )
    return found
