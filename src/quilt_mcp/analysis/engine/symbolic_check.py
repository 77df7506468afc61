"""Search for a call that breaks a contract (symbolic_check) or raises an exception (find_path_to_exception).

The contract is the `pre:`, `post:` and `raises:` lines of the docstring (PEP 316). Without such lines, the asserts are
the contract: those before the first other statement are preconditions, the others must hold. Without either, it is the
invariants of the classes of its parameters.
"""

import ast
import builtins
import inspect
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import BoundArguments
from itertools import product
from traceback import walk_tb
from types import FunctionType
from typing import TYPE_CHECKING, Literal, NamedTuple

from quilt_mcp.analysis.engine.concrete import replace_integers
from quilt_mcp.analysis.engine.domains import Unusable
from quilt_mcp.analysis.engine.exploration import (
    ConcreteRun,
    End,
    Exploration,
    Judgement,
    Raised,
    Run,
    Undecided,
)
from quilt_mcp.analysis.engine.source_text import (
    make_counterexample,
    write_exception,
    write_source,
    write_violation,
)
from quilt_mcp.analysis.engine.subjects import (
    AnalysisRefused,
    Clause,
    Contract,
    Subject,
    find_exception_class,
    find_function,
    find_subject,
    holds,
    list_invariants,
    meets,
    name_arguments,
    parse_contract,
    walk_parts,
)
from quilt_mcp.analysis.engine.task import Task, add_notes, describe_coverage, explain_undecided
from quilt_mcp.analysis.gate.rules import Interrupted
from quilt_mcp.analysis.messages import Counterexample, Request

if TYPE_CHECKING:
    from quilt_mcp.analysis.results import ExceptionPathResult, SymbolicCheckResult


_HUGE = 2**64
_CLEARER_SECONDS = 0.3
CLAUSE_NAMES = frozenset({"_", "__return__", "__old__", "implies"})
"""The names that CrossHair adds to those of a clause."""


def symbolic_check(request: Request, task: Task) -> "SymbolicCheckResult":
    """Check each postcondition separately."""
    subject = find_subject(task.loaded, request["function_name"])
    checks = _find_checks(subject, task)
    counterexamples: list[Counterexample] = []
    explorations: list[Exploration] = []
    for number, check in enumerate(checks):
        explored = task.explore(
            subject,
            check.judge,
            lambda found: _make_answer(task, subject, counterexamples, [*explorations, found]),
            share=1 / (len(checks) - number),
        )
        explorations.append(explored)
        if explored.arguments and explored.judgement:
            found = check.find_clearer(explored.arguments, explored.judgement)
            counterexamples.append(check.describe_violation(task, *found))
    return _make_answer(task, subject, counterexamples, explorations)


def _shrink(value: int, *, drop: int, add: int) -> int:
    return value if abs(value) < _HUGE else (value >> value.bit_length() - 62 + drop) + add


class Broken(NamedTuple):
    """The kind of a judgement: a call leaves an argument, or a part of one, without this invariant of its class."""

    source: str  # the invariant
    parameter: str | None  # of the argument; None if it is a part of one


@dataclass(frozen=True, slots=True)
class Check:
    """A condition of a function: preconditions, at most one postcondition, and the exceptions that it can raise."""

    subject: Subject
    pre: list[Clause]
    post: Clause | None
    raises: tuple[type[BaseException], ...]
    body_line: int = 0  # the asserts of the function above this line are preconditions
    has_invariants: bool = False  # whether a class of the code has some. A call keeps them for its arguments.

    def judge(self, run: Run, arguments: BoundArguments) -> Judgement:
        old = run.copy(arguments)
        if not meets(run, self.pre, arguments):
            return Judgement("precondition", outside=True)
        outcome = run.call(self.subject.function, *arguments.args, **arguments.kwargs)
        if isinstance(outcome, Raised):
            return self._judge_exception(outcome)
        left = run.copy(arguments) if self.has_invariants else arguments
        parts = walk_parts(left.arguments.values()) if self.has_invariants else ()
        for value, invariant in ((one, clause) for one in parts for clause in list_invariants(type(one))):
            if not holds(run, invariant, {"self": value}):
                name = next((name for name, one in left.arguments.items() if one is value), None)
                return Judgement(Broken(invariant.source, name), stop=True, outcomes=(outcome,))
        if self.post is None:
            return Judgement("kept")
        names = name_arguments(arguments, old)
        names |= {"__return__": outcome.value, "_": outcome.value, self.subject.defined.__name__: self.subject.function}
        return Judgement("kept") if holds(run, self.post, names) else Judgement("post", stop=True, outcomes=(outcome,))

    def _judge_exception(self, outcome: Raised) -> Judgement:
        error = outcome.error
        if isinstance(error, self.raises):
            return Judgement("kept")
        lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code is self.subject.defined.__code__]
        if isinstance(error, AssertionError) and (lines[0] if lines else 0) < self.body_line:
            return Judgement("precondition", outside=True)
        return Judgement(type(error).__name__, stop=True, outcomes=(outcome,))

    def find_clearer(self, arguments: BoundArguments, judgement: Judgement) -> tuple[BoundArguments, Judgement]:
        """Return arguments that violate the postcondition, if these raise an exception with a huge integer.

        Floats round integers from 2**53 on, and overflow with 310 digits: the rounding is what a reader can act on.
        """
        values = arguments.arguments
        is_huge = any(type(one) is int and abs(one) >= _HUGE for one in walk_parts(values.values()))
        if not is_huge or self.post is None or not any(isinstance(one, Raised) for one in judgement.outcomes):
            return arguments, judgement
        run = ConcreteRun(time.perf_counter() + _CLEARER_SECONDS)
        for drop, add in product(range(8), range(8)):
            shrink = partial(_shrink, drop=drop, add=add)
            try:
                smaller = {name: replace_integers(one, shrink) for name, one in values.items()}
            except Unusable:
                continue
            tried = BoundArguments(arguments.signature, smaller)
            with suppress(Undecided, RecursionError):
                try:
                    found = self.judge(run, run.copy(tried))
                except Interrupted:
                    break
                if found.stop and not any(isinstance(one, Raised) for one in found.outcomes):
                    return tried, found
        return arguments, judgement

    def describe_violation(self, task: Task, arguments: BoundArguments, judgement: Judgement) -> Counterexample:
        (outcome,) = judgement.outcomes
        condition = " and ".join(f"({one.source})" for one in self.pre) or "True"
        if isinstance(outcome, Raised):
            return _describe_exception(task, self.subject, arguments, outcome.error, condition)
        if isinstance(judgement.kind, Broken):
            source, parameter = judgement.kind
            broken = f"inv: {source} does not hold after the call"
            asserted = _rename_self(source, parameter) if parameter else None
        else:
            asserted = self.post.source if self.post else None
            broken = f"post: {asserted} does not hold"
        test = write_violation(self.subject, arguments, task.code, asserted) if asserted else None
        result, names = write_source(outcome.value, task.loaded.names), task.loaded.names
        return make_counterexample(self.subject, arguments, names, broken, result, test=test, path_condition=condition)


def _describe_exception(
    task: Task, subject: Subject, arguments: BoundArguments, error: BaseException, condition: str = "True"
) -> Counterexample:
    kind, names = type(error).__name__, task.loaded.names
    test = write_exception(subject, arguments, task.code, error)
    return make_counterexample(subject, arguments, names, f"raises {kind}", kind, test=test, path_condition=condition)


def _rename_self(source: str, parameter: str) -> str:
    """Return an invariant about a parameter."""
    tree = ast.parse(source.strip(), mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "self":
            node.id = parameter
    return ast.unparse(tree)


def _find_checks(subject: Subject, task: Task) -> list[Check]:
    contract: Contract = parse_contract(subject.defined)
    if contract.problems:
        raise AnalysisRefused("ContractError", "A pre: or post: line is not a valid Python expression. Correct it.")
    _check_names(contract, subject.defined)
    classes = [one for module in task.loaded.modules for one in vars(module).values() if isinstance(one, type)]
    has_invariants = any(map(list_invariants, classes))
    if contract.pre or contract.post or contract.raises:
        posts: list[Clause | None] = [*contract.post] or [None]
        return [Check(subject, contract.pre, post, contract.raises, has_invariants=has_invariants) for post in posts]
    if any(isinstance(node, ast.Assert) for node in ast.walk(subject.node)):
        body_line = _find_body_line(subject, task)
        return [Check(subject, pre=[], post=None, raises=(), body_line=body_line, has_invariants=has_invariants)]
    types = [one.annotation for one in subject.signature.parameters.values()]
    if any(isinstance(one, type) and list_invariants(one) for one in types):
        return [Check(subject, pre=[], post=None, raises=(), has_invariants=True)]
    raise AnalysisRefused(
        "NoContract",
        f"`{subject.name}` has no contract to check. Add a docstring line such as `post: _ >= 0` "
        "(`_` is the result), or assert statements.",
    )


def _find_body_line(subject: Subject, task: Task) -> int:
    """Return the first line after the asserts at the start, which are preconditions; past the end if there is no other.

    It is a line of the canonical source, as in tracebacks. `subject.node` has the lines of the submitted text.
    """
    node = find_function(ast.parse(task.loaded.source), subject.name)
    statements = node.body[1:] if ast.get_docstring(node) is not None else node.body
    end = (node.end_lineno or 0) + 1
    return next((one.lineno for one in statements if not isinstance(one, ast.Assert)), end)


def _check_names(contract: Contract, function: FunctionType) -> None:
    """Refuse a clause with an undefined name. It would raise for all arguments and look like a violation."""
    known = {*inspect.signature(function).parameters, *function.__globals__, *dir(builtins), *CLAUSE_NAMES}
    for kind, clauses in (("pre", contract.pre), ("post", contract.post)):
        for clause in clauses:
            nodes = list(ast.walk(ast.parse(clause.source.strip(), mode="eval")))
            bound = {node.arg for node in nodes if isinstance(node, ast.arg)}
            bound |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
            undefined = {node.id for node in nodes if isinstance(node, ast.Name)} - bound - known
            if undefined:
                raise AnalysisRefused(
                    "ContractError",
                    f"`{kind}: {clause.source}` uses `{min(undefined)}`, which is not defined. Use the names of the "
                    "parameters; in a post: line, `_` is the result.",
                )


def _make_answer(
    task: Task, subject: Subject, counterexamples: list[Counterexample], explorations: list[Exploration]
) -> "SymbolicCheckResult":
    paths = sum(one.paths for one in explorations)
    verified = all(one.end is End.ALL_PATHS for one in explorations)
    answer: SymbolicCheckResult = {
        "status": _find_status(counterexamples, explorations),
        "counterexamples": list(counterexamples),
        "paths_explored": paths,
        "paths_verified": sum(
            one.paths if one.end is End.ALL_PATHS else one.decided + one.outside for one in explorations
        ),
        "time_seconds": task.elapsed(),
        "coverage_estimate": 1.0 if verified else None,  # the number of paths is not known
        "coverage": describe_coverage(explorations, task, subject),
    }
    if counterexamples:
        answer["confirmed_by_replay"] = True  # an exploration stops only on a concrete run
        add_notes(answer, counterexamples, explorations)
    if answer["status"] == "error":
        answer["error_type"] = "PreconditionNeverMet"
        answer["message"] = "No arguments satisfy the preconditions, so nothing was checked. Weaken them."
    elif answer["status"] in {"unknown", "timeout"}:
        answer["message"] = explain_undecided(explorations, task.path_limit)
        answer["undecided"] = task.list_undecided(explorations)
    return answer


def _find_status(
    counterexamples: list[Counterexample], explorations: list[Exploration]
) -> Literal["verified", "counterexample", "unknown", "timeout", "error"]:
    ends = {one.end for one in explorations}
    if counterexamples:
        return "counterexample"
    if ends != {End.ALL_PATHS}:
        return "timeout" if End.TIME in ends else "unknown"
    return "verified" if all(one.decided for one in explorations) else "error"  # no path met the preconditions


_STATUS: dict[End, Literal["unreachable", "timeout"]] = {
    End.ALL_PATHS: "unreachable",
    End.TIME: "timeout",
}


_MOST_KINDS = 6
_KIND_SHARE = 0.5  # of the time that is left, for each kind of exception


def find_path_to_exception(request: Request, task: Task) -> "ExceptionPathResult":
    """Search for arguments that raise the exception, or one of each class. Contracts are ignored."""
    module = task.loaded.module
    subject = find_subject(task.loaded, request["function_name"])
    name = request.get("exception_type")
    wanted = find_exception_class(module, name, module.__dict__["__builtins__"]) if name else Exception
    known: set[type] = set()

    def judge(run: Run, arguments: BoundArguments) -> Judgement:
        outcome = run.call(subject.function, *arguments.args, **arguments.kwargs)
        if not isinstance(outcome, Raised) or type(outcome.error) in known or not isinstance(outcome.error, wanted):
            return Judgement(type(outcome).__name__)
        kind = "wanted" if name else type(outcome.error).__qualname__
        return Judgement(kind, stop=True, outcomes=(outcome,))

    explorations: list[Exploration] = []
    examples: list[Counterexample] = []
    for _ in range(1 if name else _MOST_KINDS):
        explored = task.explore(
            subject,
            judge,
            lambda found: _make_search_answer(task, subject, examples, [*explorations, found]),
            share=1 if name else _KIND_SHARE,
        )
        explorations.append(explored)
        if not explored.arguments or not explored.judgement:
            break
        (outcome,) = explored.judgement.outcomes
        assert isinstance(outcome, Raised)  # noqa: S101 - for the type checker
        known.add(type(outcome.error))
        examples.append(_describe_exception(task, subject, explored.arguments, outcome.error))
    return _make_search_answer(task, subject, examples, explorations)


def _make_search_answer(
    task: Task, subject: Subject, examples: list[Counterexample], explorations: list[Exploration]
) -> "ExceptionPathResult":
    last = explorations[-1]
    answer: ExceptionPathResult = {
        "status": "found" if examples else _STATUS.get(last.end, "not_found"),
        "triggering_inputs": list(examples),
        "paths_to_exception": len(examples),
        "total_paths_explored": sum(one.paths for one in explorations),
        "time_seconds": task.elapsed(),
        "coverage": describe_coverage(explorations, task, subject),
    }
    if examples:
        answer["confirmed_by_replay"] = True
        add_notes(answer, examples, explorations)
    elif answer["status"] != "unreachable":
        answer["message"] = explain_undecided(explorations, task.path_limit)
        answer["undecided"] = task.list_undecided(explorations)
    return answer
