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


def branches(name: str, code: str, *right: str, symbolic: bool = True, **expected: Any) -> Program:
    """A row of analyze_branches; the function is `f`."""
    return _program(name, code, *right, expected=expected, function_name="f", symbolic_reachability=symbolic)


def complexity(number: int, name: str, body: str) -> Program:
    """A row of analyze_branches without exploration; the body is that of `f`."""
    code = "def f(x: int, y: int):\n" + "".join(f"    {line}\n" for line in dedent(body).strip().splitlines())
    return branches(name, code, "complete", symbolic=False, cyclomatic_complexity=number)


_FOUND = {"check": "counterexample", "raises": "found", "pair": "different"}
_CLAIMED = {"check": "verified", "raises": "unreachable", "pair": "equivalent"}
TOOLS = {"check": "symbolic_check", "raises": "find_path_to_exception", "pair": "compare_functions"}


def read_programs(text: str) -> dict[str, list[Program]]:
    """Return the programs in a text, by tool.

    A line `## check: NAME | CALL` begins a program for symbolic_check. The call violates its contract; without a call,
    the contract holds. `## raises ERROR: …` is the same for find_path_to_exception, and `## pair: …` for
    compare_functions. `## check C.m: …` is about a method. A word before these says more:

    - `decided`: the engine is known to decide, so no undecided status is right.
    - `unstable`: nothing can be said. `unknown` is the same, where the engine always knows that.
    - `shared`: only a shared object refutes the claim, which no answer reports.
    - `refused ERROR`: the answer is an error of this type.
    """
    found: dict[str, list[Program]] = {tool: [] for tool in TOOLS.values()}
    for block in text.split("\n## ")[1:]:
        header, code = block.split("\n", 1)
        title, _, witness = header.partition(" | ")
        kind, _, name = title.partition(": ")
        *before, word = kind.split()[: None if kind.split()[-1] in TOOLS else -1]
        detail = kind.split()[-1] if kind.split()[-1] not in TOOLS else ""
        status = _FOUND[word] if witness else _CLAIMED[word]
        right = {
            "decided": frozenset({status}),
            "unknown": frozenset({"unknown"}),
            "refused": frozenset({"error"}),
            **dict.fromkeys(("unstable", "shared"), OPEN),
        }.get(before[0] if before else "", OPEN | {status})
        arguments = {"function_a": "a", "function_b": "b"} if word == "pair" else {"function_name": "f"}
        if detail:
            arguments["exception_type" if word == "raises" else "function_name"] = detail
        expected = {"error_type": before[1]} if before[:1] == ["refused"] else {}
        found[TOOLS[word]].append(Program(name, code.strip() + "\n", right, arguments, witness or None, expected))
    return found
