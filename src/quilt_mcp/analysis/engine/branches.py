"""analyze_branches: the branches of a function, which outcomes are reachable, its dead code, and its complexity.

A branch is a test with two outcomes: of if, elif, while, a conditional expression, an assert, a condition in a
comprehension or the guard of a case. Loops over iterables and cases without a guard count in the complexity only.
"""

import ast
import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import BoundArguments
from types import FunctionType
from typing import TYPE_CHECKING

from quilt_mcp.analysis.engine.exploration import End, Exploration, Judgement, Run
from quilt_mcp.analysis.engine.source_text import cut_text, write_call
from quilt_mcp.analysis.engine.subjects import Subject, find_function, find_subject
from quilt_mcp.analysis.engine.task import Task, describe_coverage, explain_undecided
from quilt_mcp.analysis.gate.loading import guard_attributes
from quilt_mcp.analysis.messages import FILE_NAME, Request

if TYPE_CHECKING:  # results imports pydantic, which the sandbox does not load
    from quilt_mcp.analysis.results import Branch, BranchesResult


_DECISIONS = (ast.If, ast.IfExp, ast.While, ast.For, ast.ExceptHandler, ast.Assert)
_NESTED = ast.FunctionDef | ast.Lambda | ast.GeneratorExp


def compute_complexity(function: ast.FunctionDef) -> int:
    """Return McCabe's number: the number of decisions in the body, including nested functions, plus one.

    A decision is an if or elif, a conditional expression, a loop, an except clause, an assert, each `for` and `if` of a
    comprehension, each operand of `and` and `or` after the first, and each case that does not match everything.
    """
    return 1 + sum(_count_decisions(node) for statement in function.body for node in ast.walk(statement))


def _count_decisions(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    if isinstance(node, ast.match_case):
        return 0 if _catches_all(node) else 1
    return 1 if isinstance(node, _DECISIONS) else 0


def _catches_all(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None


Outcomes = Callable[[ast.expr], set[bool]]  # that a test can have


def read_constant(test: ast.expr) -> set[bool]:
    """Return the outcome of a constant, and both of another test."""
    return {bool(test.value)} if isinstance(test, ast.Constant) else {True, False}


def find_unreachable_lines(function: ast.FunctionDef, outcomes: Outcomes = read_constant) -> list[int]:
    """Return the lines below an outcome that a test cannot have, and after what leaves their block, sorted."""
    lines: set[int] = set()
    for node in ast.walk(function):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):  # a lambda and a conditional expression have one expression instead
                leaving = next((at for at, one in enumerate(block) if _leaves(one, outcomes)), None)
                lines |= set() if leaving is None else _list_lines(block[leaving + 1 :], after=block[leaving])
        if isinstance(node, ast.If | ast.While):
            possible = outcomes(node.test)
            for outcome, block in ((True, node.body), (False, node.orelse)):
                lines |= set() if outcome in possible else _list_lines(block, after=node.test)
    return sorted(lines)


def _leaves(statement: ast.stmt, outcomes: Outcomes) -> bool:
    """Return whether nothing behind a statement runs in its block. A `with` never says so: it can swallow an error."""

    def leave(*blocks: list[ast.stmt]) -> bool:
        return all(any(_leaves(one, outcomes) for one in block) for block in blocks)

    match statement:
        case ast.If(test, body, orelse):
            return leave(*(block for outcome, block in ((True, body), (False, orelse)) if outcome in outcomes(test)))
        case ast.For() | ast.While() if not any(isinstance(one, ast.Break) for one in ast.walk(statement)):
            is_endless = isinstance(statement, ast.While) and False not in outcomes(statement.test)
            return is_endless or leave(statement.orelse)
        case ast.Match(cases=cases):
            return any(map(_catches_all, cases)) and leave(*(case.body for case in cases))
        case ast.Try(body, handlers, orelse, finalbody):
            return leave(finalbody) or leave(body + orelse, *(handler.body for handler in handlers))
    return isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue)


def _list_lines(block: list[ast.stmt], *, after: ast.stmt | ast.expr) -> set[int]:
    """Return the lines of statements without the one on which `after` ends, which is not dead."""
    ends = [(one.lineno, one.end_lineno or one.lineno) for one in block]
    return {line for start, end in ends for line in range(start, end + 1)} - {after.end_lineno}


_AS_PLAIN: dict[type[ast.AST], type[ast.AST]] = {
    ast.AsyncFunctionDef: ast.FunctionDef,
    ast.AsyncFor: ast.For,
    ast.AsyncWith: ast.With,
    ast.TryStar: ast.Try,
}
_MARK = "_branch_taken"
_SCOPE = "_branch_scope"


def read_branches(tree: ast.Module, name: str) -> "BranchesResult":
    """List the branches of a function. Nothing runs, so the code can have anything that Python can parse."""
    for node in ast.walk(tree):
        node.__class__ = _AS_PLAIN.get(type(node), type(node))
    function = find_function(tree, name)
    return BranchReport(function, find_tests(function)).describe_static()


def analyze_branches(request: Request, task: Task) -> "BranchesResult":
    """List the branches of a function, and find out which outcomes are reachable.

    The kind of a judgement is the set of outcomes that a run of the marked function has reached.
    """
    subject = find_subject(task.loaded, request["function_name"])
    report = BranchReport(subject.node, find_tests(subject.node))
    function, taken = mark(task, subject)
    describe = partial(report.describe_symbolic, task)

    def judge(run: Run, arguments: BoundArguments) -> Judgement:
        try:
            run.call(function, *arguments.args, **arguments.kwargs)
            return Judgement(frozenset(taken))
        finally:
            taken.clear()  # the module refers to it, and its state must not change

    def add_examples(arguments: BoundArguments, judgement: Judgement) -> None:
        assert isinstance(judgement.kind, frozenset)  # noqa: S101 - for the type checker
        if report.add(judgement.kind, write_call(subject, arguments, task.loaded.names)):
            task.report(describe(Exploration()))  # for the case that the process is killed before the next part

    instead = replace(subject, function=function)
    explored = task.explore(instead, judge, describe, on_judgement=add_examples, enough=report.has_all_examples)
    return describe(explored)


@dataclass(slots=True)
class BranchReport:
    """The branches of a function, and the outcomes that calls have reached."""

    function: ast.FunctionDef  # its syntax tree, with the line numbers of the submitted code
    tests: list[ast.expr]  # the tests of its branches, in the order of `find_tests`
    # for the number of a branch and an outcome, a call that reaches it
    examples: dict[tuple[int, bool], str] = field(default_factory=dict)

    def add(self, taken: frozenset[tuple[int, bool]], call: str) -> bool:
        """Add the outcomes that a call reached, and return whether one of them is new. Keep the shortest example."""
        new = False
        for outcome in taken:
            new = new or outcome not in self.examples
            if len(call) < len(self.examples.get(outcome, call + " ")):
                self.examples[outcome] = call
        return new

    def has_all_examples(self) -> bool:
        """Return whether a call has reached each outcome of each branch."""
        return len(self.examples) == 2 * len(self.tests)

    def describe_static(self) -> "BranchesResult":
        """Return the answer without an exploration. It says nothing about reachable outcomes."""
        return {
            "status": "complete",
            "branches": [_describe_test(test) for test in self.tests],
            "total_branches": len(self.tests),
            "dead_code_lines": find_unreachable_lines(self.function),
            "cyclomatic_complexity": compute_complexity(self.function),
            "analysis_mode": "static",
        }

    def describe_symbolic(self, task: Task, explored: Exploration) -> "BranchesResult":
        """Return the answer after an exploration. An outcome is unreachable only if every path was decided."""
        complete = explored.end in {End.ALL_PATHS, End.ENOUGH}
        branches = [self._describe_branch(number, complete=complete) for number in range(len(self.tests))]
        answer: BranchesResult = {
            **self.describe_static(),
            "status": "complete" if complete else "partial",
            "branches": branches,
            "reachable_branches": sum(bool(one["true_reachable"] or one["false_reachable"]) for one in branches),
            "dead_code_lines": find_unreachable_lines(
                self.function, self._read_outcomes if complete else read_constant
            ),
            "analysis_mode": "symbolic",
            "paths_explored": explored.paths,
            "time_seconds": task.elapsed(),
            "coverage": describe_coverage([explored], task),
        }
        if not complete:
            answer["message"] = explain_undecided([explored], task.path_limit)
            answer["undecided"] = task.list_undecided([explored])
        return answer

    def _describe_branch(self, number: int, *, complete: bool) -> "Branch":
        unseen = False if complete and not self._runs_later(self.tests[number]) else None
        if_true, if_false = (self.examples.get((number, outcome)) for outcome in (True, False))
        return {
            **_describe_test(self.tests[number]),
            "true_reachable": True if if_true else unseen,
            "true_example": if_true,
            "false_reachable": True if if_false else unseen,
            "false_example": if_false,
        }

    def _runs_later(self, test: ast.expr) -> bool:
        """Return whether a test is in a nested function or generator, which others can run after the call."""
        nested = (node for node in ast.walk(self.function) if node is not self.function and isinstance(node, _NESTED))
        return any(test is one for node in nested for one in ast.walk(node))

    def _read_outcomes(self, test: ast.expr) -> set[bool]:
        """Return the outcomes that calls have reached, if every path was decided."""
        if self._runs_later(test):
            return read_constant(test)
        return {outcome for number, outcome in self.examples if self.tests[number] is test}


def _describe_test(test: ast.expr) -> "Branch":
    return {"line": test.lineno, "condition": cut_text(ast.unparse(test))}


def find_tests(function: ast.FunctionDef) -> list[ast.expr]:
    """Return the tests of the branches in a function and its nested functions, in the order of the source."""
    tests = []
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
                tests.append(node.test)
            elif isinstance(node, ast.comprehension):
                tests.extend(node.ifs)
            elif isinstance(node, ast.match_case) and node.guard:
                tests.append(node.guard)
    return sorted(tests, key=lambda test: (test.lineno, test.col_offset))


def mark(task: Task, subject: Subject) -> tuple[Callable[..., object], set[tuple[int, bool]]]:
    """Put the function with marked tests into the loaded module or its class, so that recursive calls are recorded too.

    Return it, and the set of recorded outcomes: the number of the branch, and whether the test was true.
    """
    taken: set[tuple[int, bool]] = set()

    def record(number: int, outcome: bool) -> bool:  # noqa: FBT001 - the generated code calls it
        taken.add((number, outcome))
        return outcome

    node = copy.deepcopy(subject.node)
    _Marker(find_tests(node)).visit(node)
    if subject.owner is not None:
        node.decorator_list = []  # `_put` wraps a method again
    # `super()` needs the name __class__ in the scope around a method
    tree = ast.parse(f"def {_SCOPE}(__class__):\n    return {node.name}")
    scope = tree.body[0]
    assert isinstance(scope, ast.FunctionDef)  # noqa: S101 - for the type checker
    scope.body.insert(0, node)
    names = task.loaded.module.__dict__
    names[_MARK] = record
    guarded = guard_attributes(ast.fix_missing_locations(tree))
    exec(compile(guarded, FILE_NAME, "exec", dont_inherit=True), names)  # noqa: S102 - admitted code, in the jail
    made: FunctionType = names.pop(_SCOPE)(subject.owner)
    made.__qualname__ = subject.name
    return _put(names, subject, made), taken


def _put(names: dict[str, object], subject: Subject, made: FunctionType) -> Callable[..., object]:
    """Replace the function or method by another one, and return what to call."""
    if subject.owner is None:
        names[subject.name] = made
        return made
    wrap = {"static": staticmethod, "class": classmethod, "property": property}.get(subject.kind)
    setattr(subject.owner, made.__name__, wrap(made) if wrap else made)
    return getattr(subject.owner, made.__name__) if subject.kind == "class" else made


class _Marker(ast.NodeTransformer):
    """Replaces each test by `_MARK(number, True) if test else _MARK(number, False)`."""

    def __init__(self, tests: list[ast.expr]) -> None:
        self._numbers = {id(test): number for number, test in enumerate(tests)}

    def visit(self, node: ast.AST) -> ast.AST:
        number = self._numbers.get(id(node))
        visited = self.generic_visit(node)
        if number is None or not isinstance(visited, ast.expr):
            return visited
        noted = [
            ast.Call(ast.Name(_MARK, ast.Load()), [ast.Constant(number), ast.Constant(outcome)], [])
            for outcome in (True, False)
        ]
        return ast.copy_location(ast.IfExp(visited, *noted), visited)
