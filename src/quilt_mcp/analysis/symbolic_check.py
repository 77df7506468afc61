"""symbolic_check: does a function keep its contract for all arguments?

A contract is the `pre:`, `post:` and `raises:` lines of the docstring (PEP 316). Where there are none, the asserts are
the contract: those before the first other statement are preconditions, the others must hold.
"""

import ast
import builtins
import inspect
from dataclasses import dataclass
from inspect import BoundArguments
from types import FunctionType, TracebackType
from typing import Any

from quilt_mcp.analysis import engine
from quilt_mcp.analysis.exploration import Clause, Contract, End, Exploration, Judgement, Raised, Run
from quilt_mcp.analysis.outcomes import Task, undecided_message
from quilt_mcp.analysis.rendering import Counterexample, counterexample, source_text
from quilt_mcp.analysis.subjects import AnalysisRefused, Subject, function_node, subject_of

CLAUSE_NAMES = frozenset({"_", "__return__", "__old__", "implies"})
"""What CrossHair adds to the names of a clause."""


def symbolic_check(request: dict[str, Any], task: Task) -> dict[str, Any]:
    """Check each postcondition by itself; answer as `symbolic_check` in tools/analysis_tools.py describes."""
    subject = subject_of(task.loaded, request["function_name"])
    checks = _checks(subject, task)
    counterexamples: list[Counterexample] = []
    explorations: list[Exploration] = []
    for number, check in enumerate(checks):
        task.keep(_answer(task, counterexamples, [*explorations, Exploration()]))
        explored = task.explore(subject, check.judge, share=1 / (len(checks) - number))
        explorations.append(explored)
        if explored.arguments and explored.judgement:
            counterexamples.append(check.counterexample(explored.arguments, explored.judgement))
    return _answer(task, counterexamples, explorations)


@dataclass(frozen=True, slots=True)
class Check:
    """One condition of a function: preconditions, one postcondition or none, and the exceptions that it may raise."""

    function: FunctionType
    pre: list[Clause]
    post: Clause | None
    raises: tuple[type[BaseException], ...]
    body_line: int = 0

    def judge(self, run: Run, arguments: BoundArguments) -> Judgement:
        """Call the function, and tell whether it kept this condition."""
        names, old = dict(arguments.arguments), run.copy(arguments)
        for clause in self.pre:
            if not _holds(run, clause, names | {"__old__": engine.old_values(old)}):
                return Judgement("precondition", outside=True)
        outcome = run.call(self.function, *arguments.args, **arguments.kwargs)
        if isinstance(outcome, Raised):
            return self._judge_exception(outcome.error)
        if self.post is None:
            return Judgement("kept")
        result = outcome.value
        names = dict(arguments.arguments) | {"__return__": result, "_": result, self.function.__name__: self.function}
        holds = _holds(run, self.post, names | {"__old__": engine.old_values(old)})
        return Judgement("kept") if holds else Judgement("post", stop=True, detail=outcome)

    def _judge_exception(self, error: BaseException) -> Judgement:
        if isinstance(error, self.raises):
            return Judgement("kept")
        if isinstance(error, AssertionError) and _line_in(self.function, error.__traceback__) < self.body_line:
            return Judgement("precondition", outside=True)
        return Judgement(type(error).__name__, stop=True, detail=Raised(error))

    def counterexample(self, arguments: BoundArguments, judgement: Judgement) -> Counterexample:
        """The report of a violation."""
        outcome = judgement.detail
        if isinstance(outcome, Raised):
            name = type(outcome.error).__name__
            broken, result = f"raises {name}", name
        else:
            broken, result = f"post: {self.post.source if self.post else ''} does not hold", source_text(outcome.value)
        preconditions = " and ".join(f"({clause.source})" for clause in self.pre) or "True"
        return counterexample(
            self.function.__name__, arguments, violation=broken, actual_result=result, path_condition=preconditions
        )


def _holds(run: Run, clause: Clause, names: dict[str, Any]) -> bool:
    """Whether the clause is true; one that raises is not."""
    outcome = run.call(lambda: bool(clause.evaluate(names)))
    return not isinstance(outcome, Raised) and bool(outcome.value)


def _line_in(function: FunctionType, trace: TracebackType | None) -> int:
    """The line of the function, in its outermost call, that the exception came through."""
    while trace is not None and trace.tb_frame.f_code is not function.__code__:
        trace = trace.tb_next
    return trace.tb_lineno if trace else 0


def _checks(subject: Subject, task: Task) -> list[Check]:
    contract: Contract = engine.contract_of(subject.function)
    if contract.problems:
        raise AnalysisRefused("ContractError", "A pre: or post: line is no valid Python expression. Correct it.")
    _check_names(contract, subject.function)
    if contract.pre or contract.post or contract.raises:
        posts: list[Clause | None] = [*contract.post] or [None]
        return [Check(subject.function, contract.pre, post, contract.raises) for post in posts]
    if any(isinstance(node, ast.Assert) for node in ast.walk(subject.node)):
        # the lines of a traceback are those of the canonical source
        node = function_node(ast.parse(task.loaded.source), subject.function.__name__)
        return [Check(subject.function, [], None, (), _body_line(node))]
    raise AnalysisRefused(
        "NoContract",
        f"`{subject.function.__name__}` promises nothing to check. Add a docstring line such as `post: _ >= 0` "
        "(`_` is the result), or assert statements.",
    )


def _check_names(contract: Contract, function: FunctionType) -> None:
    """Refuse a clause with a name that nothing has: it would raise for all arguments, and seem not to hold."""
    known = {*inspect.signature(function).parameters, *function.__globals__, *dir(builtins), *CLAUSE_NAMES}
    for kind, clauses in (("pre", contract.pre), ("post", contract.post)):
        for clause in clauses:
            undefined = _free_names(clause.source) - known
            if undefined:
                raise AnalysisRefused(
                    "ContractError",
                    f"`{kind}: {clause.source}` uses `{min(undefined)}`, which is not defined. Parameters go by their "
                    "names, and in a post: line the result is `_`.",
                )


def _free_names(source: str) -> set[str]:
    """The names that an expression uses and never binds."""
    nodes = list(ast.walk(ast.parse(source.strip(), mode="eval")))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {node.arg for node in nodes if isinstance(node, ast.arg)} | {
        name.id for name in names if isinstance(name.ctx, ast.Store)
    }
    return {name.id for name in names} - bound


def _body_line(function: ast.FunctionDef) -> int:
    """The line of the first statement after the docstring that is no assert."""
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return next(
        (node.lineno for node in statements if not isinstance(node, ast.Assert)), (function.end_lineno or 0) + 1
    )


def _answer(task: Task, counterexamples: list[Counterexample], explorations: list[Exploration]) -> dict[str, Any]:
    paths = sum(one.paths for one in explorations)
    verified = all(one.end is End.ALL_PATHS for one in explorations)
    answer: dict[str, Any] = {
        "status": _status(counterexamples, explorations),
        "counterexamples": list(counterexamples),
        "paths_explored": paths,
        "paths_verified": sum(one.decided for one in explorations),
        "time_seconds": task.elapsed(),
        "coverage_estimate": 1.0 if verified else min(paths / task.path_limit, 0.99),
    }
    if counterexamples:
        answer["confirmed_by_replay"] = True  # the engine reports no other
    if answer["status"] == "error":
        answer["error_type"] = "PreconditionNeverMet"
        answer["message"] = "No argument meets the preconditions, so nothing was checked. Weaken them."
    elif answer["status"] in {"unknown", "timeout"}:
        open_end = next(one.end for one in explorations if one.end is not End.ALL_PATHS)
        answer["message"] = undecided_message(open_end, task.path_limit)
    return answer


def _status(counterexamples: list[Counterexample], explorations: list[Exploration]) -> str:
    ends = {one.end for one in explorations}
    if counterexamples:
        return "counterexample"
    if ends != {End.ALL_PATHS}:
        return "timeout" if End.TIME in ends else "unknown"
    return "verified" if all(one.decided for one in explorations) else "error"
