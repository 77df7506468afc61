"""analyze_branches: the branches of a function, which of them can be taken, and how complex it is.

A branch is a test with two outcomes: of if, elif, while, a conditional expression, an assert, a comprehension's
condition or a case's guard. Loops over iterables and cases without a guard are counted in the complexity only.
"""

import ast
import copy
from dataclasses import dataclass, field
from inspect import BoundArguments
from types import FunctionType
from typing import Any

from quilt_mcp.analysis.complexity import cyclomatic_complexity, statements_never_reached
from quilt_mcp.analysis.exploration import End, Exploration, Judgement, Run
from quilt_mcp.analysis.loaded import FILE_NAME
from quilt_mcp.analysis.outcomes import Task, undecided_message
from quilt_mcp.analysis.rendering import call_text, shortened
from quilt_mcp.analysis.subjects import Subject, subject_of

_MARK = "_branch_taken"


def analyze_branches(request: dict[str, Any], task: Task) -> dict[str, Any]:
    """List the branches; answer as `analyze_branches` in tools/analysis_tools.py describes."""
    subject = subject_of(task.loaded, request["function_name"])
    report = BranchReport.of(subject.node)
    if request.get("symbolic_reachability"):
        return _explored(task, subject, report)
    return report.static() | {"time_seconds": task.elapsed()}


def _explored(task: Task, subject: Subject, report: "BranchReport") -> dict[str, Any]:
    marked = Marked.of(task, subject)

    def judge(run: Run, arguments: BoundArguments) -> Judgement:
        try:
            run.call(marked.function, *arguments.args, **arguments.kwargs)
            return Judgement(frozenset(marked.taken))
        finally:
            marked.taken.clear()  # it hangs on the module, whose state must not change

    def seen(arguments: BoundArguments, judgement: Judgement) -> None:
        taken: Any = judgement.kind
        if report.add(taken, call_text(subject.function.__name__, arguments)):
            task.keep(report.symbolic(task, Exploration()))

    task.keep(report.symbolic(task, Exploration()))
    subject = Subject(marked.function, subject.signature, subject.node)
    return report.symbolic(task, task.explore(subject, judge, seen=seen))


@dataclass(slots=True)
class BranchReport:
    """The branches of a function, and what was seen of them.

    Attributes:
        function: its syntax tree, with the line numbers of the submitted code.
        tests: the tests of its branches, in the order of `tests_of`.
        examples: for a branch's number and outcome, a call that takes it.
    """

    function: ast.FunctionDef
    tests: list[ast.expr]
    examples: dict[tuple[int, bool], str] = field(default_factory=dict)

    @classmethod
    def of(cls, function: ast.FunctionDef) -> "BranchReport":
        """The report of a function, before anything was explored."""
        return cls(function, tests_of(function))

    def add(self, taken: frozenset[tuple[int, bool]], call: str) -> bool:
        """Note what a call took; tell whether something in it was new. The shortest example is kept."""
        new = False
        for outcome in taken:
            new = new or outcome not in self.examples
            if len(call) < len(self.examples.get(outcome, call + " ")):
                self.examples[outcome] = call
        return new

    def static(self) -> dict[str, Any]:
        """The answer without exploring: nothing is said about what can be reached, but for what the syntax shows."""
        return {
            "status": "complete",
            "branches": [_branch(test) for test in self.tests],
            "total_branches": len(self.tests),
            "dead_code_lines": statements_never_reached(self.function),
            "cyclomatic_complexity": cyclomatic_complexity(self.function),
            "analysis_mode": "static",
        }

    def symbolic(self, task: Task, explored: Exploration) -> dict[str, Any]:
        """The answer of an exploration: what was not seen cannot be reached only if all paths were decided."""
        complete = explored.end is End.ALL_PATHS
        branches = [_branch(test) for test in self.tests]
        for number, branch in enumerate(branches):
            for outcome, word in ((True, "true"), (False, "false")):
                example = self.examples.get((number, outcome))
                unseen = False if complete else None
                branch |= {f"{word}_reachable": True if example else unseen, f"{word}_example": example}
        dead = {line for number in range(len(branches)) for line in self._dead_lines(number)} if complete else set()
        answer = self.static() | {
            "status": "complete" if complete else "partial",
            "branches": branches,
            "reachable_branches": sum(bool(one["true_reachable"] or one["false_reachable"]) for one in branches),
            "dead_code_lines": sorted(dead.union(statements_never_reached(self.function))),
            "analysis_mode": "symbolic",
            "paths_explored": explored.paths,
            "time_seconds": task.elapsed(),
        }
        return answer if complete else answer | {"message": undecided_message(explored.end, task.path_limit)}

    def _dead_lines(self, number: int) -> set[int]:
        """The lines of the statements under an outcome that no call takes."""
        test = self.tests[number]
        for node in ast.walk(self.function):
            if isinstance(node, ast.If | ast.While) and node.test is test:
                blocks = {True: node.body, False: node.orelse}
                return {
                    line
                    for outcome, block in blocks.items()
                    if (number, outcome) not in self.examples
                    for statement in block
                    for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
                }
        return set()


def _branch(test: ast.expr) -> dict[str, Any]:
    return {"line": test.lineno, "condition": shortened(ast.unparse(test))}


def tests_of(function: ast.FunctionDef) -> list[ast.expr]:
    """The tests of a function's branches, in the order of the source, those of functions defined in it included."""
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


@dataclass(frozen=True, slots=True)
class Marked:
    """A function whose branches note which outcome they took.

    Attributes:
        function: the function; it stands in its module under its old name, so that recursion is noted too.
        taken: the outcomes of the calls since this was last cleared: number of the branch, and whether it was true.
    """

    function: FunctionType
    taken: set[tuple[int, bool]]

    @classmethod
    def of(cls, task: Task, subject: Subject) -> "Marked":
        """The marked function of a subject, put in its place in the loaded module."""
        taken: set[tuple[int, bool]] = set()

        def note(number: int, outcome: bool) -> bool:  # noqa: FBT001 - called from the marked syntax tree only
            taken.add((number, outcome))
            return outcome

        node = copy.deepcopy(subject.node)
        numbers = {id(test): number for number, test in enumerate(tests_of(node))}
        tree = ast.Module([_Marker(numbers).visit(node)], [])
        names = task.loaded.module.__dict__
        names[_MARK] = note
        exec(compile(ast.fix_missing_locations(tree), FILE_NAME, "exec", dont_inherit=True), names)  # noqa: S102 - admitted code, in the jail
        return cls(names[node.name], taken)


class _Marker(ast.NodeTransformer):
    """Puts `_MARK(number, True) if test else _MARK(number, False)` in the place of each test."""

    def __init__(self, numbers: dict[int, int]) -> None:
        self._numbers = numbers

    def visit(self, node: ast.AST) -> Any:
        number = self._numbers.get(id(node))
        visited = self.generic_visit(node)
        if number is None or not isinstance(visited, ast.expr):
            return visited
        noted = [
            ast.Call(ast.Name(_MARK, ast.Load()), [ast.Constant(number), ast.Constant(outcome)], [])
            for outcome in (True, False)
        ]
        return ast.copy_location(ast.IfExp(visited, *noted), visited)
