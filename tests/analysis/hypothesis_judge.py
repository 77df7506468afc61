"""Look for a counterexample to a claim with Hypothesis, in plain Python. Only the parser of lines is of the analyser.

It is a script: it reads a program as JSON, and writes the number of tries and the first counterexample as JSON.
"""

import ast
import copy
import enum
import inspect
import itertools
import json
import re
import sys
import time
import traceback
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from quilt_mcp.analysis.gate.contracts import CLASS_SECTIONS, FUNCTION_SECTIONS, rewrite_contracts
from quilt_mcp.analysis.policy import Policy

MODULE = "submitted"
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
Contract = Mapping[str, list[str]]


class Refuted(Exception):
    """A call contradicts the claim."""


class Enough(KeyboardInterrupt):
    """The time is over. Hypothesis lets this exception pass."""


def read_contract(owner: object, sections: frozenset[str]) -> Contract:
    lines = [one.split(":", 1) for one in rewrite_contracts(getattr(owner, "__doc__", "") or "", sections, Policy(), 1)]
    found: dict[str, list[str]] = {}
    for section, text in lines:
        found.setdefault(section.partition("[")[0], []).append(text.strip())
    return found


def is_true(text: str, names: Mapping[str, object], module: Mapping[str, object]) -> bool:
    try:
        return bool(eval(text, {"implies": lambda one, other: not one or other, **module, **names}))  # noqa: S307 - of the table
    except Exception:  # noqa: BLE001 - a clause that raises does not hold
        return False


def is_same(left: Any, right: Any) -> bool:
    """Return whether two results are the same by type and content."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return left == right or (left != left and right != right)  # noqa: PLR0124 - NaN
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(is_same(left[key], right[key]) for key in left)
    if type(left).__module__ == MODULE and hasattr(left, "__dict__"):
        return is_same(vars(left), vars(right))
    return bool(left == right) or repr(left) == repr(right)


def list_assumed(node: ast.AST) -> list[int]:
    """Return the lines of the asserts at the beginning of a function without other lines of a contract."""
    if not isinstance(node, ast.FunctionDef) or "post" in (ast.get_docstring(node) or ""):
        return []
    after = itertools.dropwhile(lambda one: isinstance(one, ast.Expr), node.body)
    return [one.lineno for one in itertools.takewhile(lambda one: isinstance(one, ast.Assert), after)]


class Judge:
    """A claim about a program."""

    def __init__(self, program: Mapping[str, Any]) -> None:
        self.module: dict[str, Any] = {"__name__": MODULE}
        sys.modules[MODULE] = typing.cast("Any", SimpleNamespace(__dict__=self.module))
        exec(compile(program["code"], "submitted.py", "exec", dont_inherit=True), self.module)  # noqa: S102 - of the table
        self.tool: str = program["tool"]
        arguments = program["arguments"]
        self.names = [str(arguments[key]) for key in ("function_name", "function_a", "function_b") if key in arguments]
        self.expected = eval(arguments.get("exception_type", "()"), self.module)  # noqa: S307 - of the table
        # the lines of the asserts at the beginning of a function, which are preconditions
        self.assumed = {line for node in ast.walk(ast.parse(program["code"])) for line in list_assumed(node)}
        owner, function = self.find(self.names[0])
        self.parameters = list(inspect.signature(function).parameters.values())
        hints = typing.get_type_hints(function, self.module)
        self.hints: dict[str, Any] = {one.name: hints.get(one.name) for one in self.parameters}
        if owner is not None:
            self.hints[self.parameters[0].name] = owner
        missing = [name for name, hint in self.hints.items() if hint is None]
        if missing or any(one.kind in VARIADIC for one in self.parameters):
            raise TypeError("a parameter without an annotation, or a variadic one")

    def find(self, name: str) -> tuple[type | None, Callable[..., Any]]:
        owner, _, last = name.rpartition(".")
        cls = self.module[owner] if owner else None
        return cls, getattr(cls, last) if cls else self.module[last]

    def judge(self, arguments: Mapping[str, Any]) -> None:
        """Raise `Refuted` if a call with these arguments contradicts the claim."""
        contracts = [read_contract(self.find(name)[1], FUNCTION_SECTIONS) for name in self.names]
        clauses = [text for one in contracts for text in one.get("pre", [])]
        if not self.satisfies_invariants(arguments) or not all(
            is_true(text, copy.deepcopy(dict(arguments)), self.module) for text in clauses
        ):
            reject()
        shown = repr(arguments)
        outcomes = [self.call(name, copy.deepcopy(dict(arguments))) for name in self.names]
        if self.tool == "compare_functions":
            (one, first), (other, second) = outcomes
            if not is_same(one, other) or not is_same(first, second):
                raise Refuted(f"{shown}: {one!r} and {other!r}")
        else:
            self.judge_outcome(contracts[0], arguments, *outcomes[0], shown)

    def judge_outcome(
        self, contract: Contract, old: Mapping[str, Any], outcome: Any, given_: Mapping[str, Any], shown: str
    ) -> None:
        if self.tool == "find_path_to_exception":
            if isinstance(outcome, tuple) and issubclass(outcome[0], self.expected):
                raise Refuted(f"{shown} raises {outcome[0].__name__}")
            return
        if isinstance(outcome, tuple):
            allowed = [name.strip() for line in contract.get("raises", []) for name in line.split(",")]
            if not any(issubclass(outcome[0], eval(name, self.module)) for name in allowed):  # noqa: S307 - of the table
                raise Refuted(f"{shown} raises {outcome[0].__name__}")
            return
        result = outcome[0]
        names = {**given_, "_": result, "__return__": result, "__old__": SimpleNamespace(**old)}
        for text in contract.get("post", []):
            if not is_true(text, names, self.module):
                raise Refuted(f"{shown}: {text}")
        if not self.satisfies_invariants(given_):
            raise Refuted(f"{shown}: an invariant")

    def call(self, name: str, arguments: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return a list of the result or a tuple of the class of the exception, and the arguments after the call."""
        positional = [arguments[one.name] for one in self.parameters if one.kind is not inspect.Parameter.KEYWORD_ONLY]
        keyword = {
            one.name: arguments[one.name] for one in self.parameters if one.kind is inspect.Parameter.KEYWORD_ONLY
        }
        try:
            return [self.find(name)[1](*positional, **keyword)], arguments
        except Exception as error:  # noqa: BLE001 - any exception is an outcome
            raised = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_globals is self.module]
            if isinstance(error, AssertionError) and self.assumed & {*raised[:1]}:
                reject()
            return (type(error),), arguments

    def satisfies_invariants(self, arguments: Mapping[str, Any]) -> bool:
        waiting = [*copy.deepcopy(dict(arguments)).values()]
        while waiting:
            one = waiting.pop()
            if isinstance(one, dict):
                waiting += [*one.keys(), *one.values()]
            elif isinstance(one, list | tuple | set | frozenset):
                waiting += one
            elif type(one).__module__ == MODULE and not isinstance(one, enum.Enum):
                waiting += vars(one).values() if hasattr(one, "__dict__") else ()
                clauses = [
                    text for cls in type(one).__mro__ for text in read_contract(cls, CLASS_SECTIONS).get("inv", [])
                ]
                if not all(is_true(text, {"self": one}, self.module) for text in clauses):
                    return False
        return True


def register_constants(code: str) -> None:
    """Let a part of the integers and texts be constants of the code, or next to them."""
    docstrings = [
        ast.get_docstring(node) or "" for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)
    ]
    constants = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
    constants += [int(one) for text in docstrings for one in re.findall(r"\b\d{1,15}\b", text)]
    integers = [near for one in constants if type(one) is int for near in (one - 1, one, one + 1)] or [0]
    texts = [one for one in constants if isinstance(one, str)] or [""]
    st.register_type_strategy(int, st.one_of(st.integers(), st.integers(-20, 20), st.sampled_from(integers)))
    st.register_type_strategy(str, st.one_of(st.text(), st.sampled_from(texts)))


def search(program: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many calls were judged, and the first that contradicts the claim."""
    judge = Judge(program)
    register_constants(program["code"])
    judged, ends = 0, time.monotonic() + program["seconds"]

    @settings(
        max_examples=program["examples"],
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        nonlocal judged
        if time.monotonic() > ends:
            raise Enough
        try:
            arguments = {name: data.draw(st.from_type(hint)) for name, hint in judge.hints.items()}
        except (TypeError, ValueError, ArithmeticError, LookupError, AssertionError):  # of a constructor
            reject()
        judge.judge(arguments)
        judged += 1

    try:
        with suppress(Enough):
            run()
    except Refuted as refuted:
        return {"judged": judged, "counterexample": str(refuted)}
    return {"judged": judged, "counterexample": None}


if __name__ == "__main__":
    print(json.dumps(search(json.load(sys.stdin))))  # noqa: T201 - the result
