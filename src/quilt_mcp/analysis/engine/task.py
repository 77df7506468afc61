"""An analysis in progress: its code, its limits and its clock."""

import ast
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter, Signature
from types import CodeType
from typing import TYPE_CHECKING

from quilt_mcp.analysis.engine.candidates import Candidates
from quilt_mcp.analysis.engine.exploration import (
    MOST_CAUSES,
    SLOW_PATH,
    Budget,
    Causes,
    CodeFacts,
    End,
    Exploration,
    NoArguments,
    OnJudgement,
    Program,
    Watch,
    map_lines,
)
from quilt_mcp.analysis.engine.restoring import keep_state
from quilt_mcp.analysis.engine.scalars import Literals, find_literals, include_clauses
from quilt_mcp.analysis.engine.search import Explorer, Record, Replay, record
from quilt_mcp.analysis.engine.source_text import NO_TEST, Code
from quilt_mcp.analysis.engine.stability import differs_between_processes, find_changing_name, find_reason, has_loops
from quilt_mcp.analysis.engine.states import find_state, take_state
from quilt_mcp.analysis.engine.subjects import AnalysisRefused, Subject
from quilt_mcp.analysis.gate.loading import Loaded
from quilt_mcp.analysis.messages import FILE_NAME, MODULE_NAME, Answer, Cause, Counterexample, Coverage

if TYPE_CHECKING:  # results imports pydantic, which the sandbox does not load
    from quilt_mcp.analysis.results import ComparisonResult, ExceptionPathResult, SymbolicCheckResult

FIRST_CALL = (
    "The result differs between calls. This is the result of a first call in a fresh module, in several processes and"
    " with several random numbers."
)
_END_REASONS = {
    End.TIME: "The time limit was reached before all paths were explored.",
    End.PATHS: "The limit of paths was reached before all were explored.",
    End.DIFFERS: "Another process had a different result.",
}
_MOST_LINES = 20
_NOT_DECIDED = "The analyser did not decide all paths."
# The share of the timeout that the search can take. The rest is for loading the code and for the answer.
_SEARCH_SHARE = 0.75


@dataclass(slots=True)
class Task:
    """An analysis in progress."""

    loaded: Loaded  # the code
    seconds: float  # the timeout of the whole analysis
    path_limit: int  # maximum number of paths for each condition
    seed: int = 0  # of the random values
    replay: Replay | None = None  # repeats the explorations of another process, if this is the second one
    records: list[Record] = field(default_factory=list)  # how the explorations ended
    module_name: str = MODULE_NAME  # the name of the module in tests
    started: float = field(default_factory=time.perf_counter)

    def explore(
        self,
        subject: Subject,
        program: Program,
        answer: Callable[[Exploration], Answer],
        *,
        share: float = 1.0,
        on_judgement: OnJudgement = lambda *_: None,
        enough: Callable[[], bool] = lambda: False,
        with_bools: bool = True,
        surveys: bool = False,
    ) -> Exploration:
        """Explore within a share of the remaining time, and report partial answers."""
        self.report(answer(Exploration()))
        tree = include_clauses(self.loaded.whole_tree)
        budget = Budget(max(0.0, self.seconds * _SEARCH_SHARE - self.elapsed()) * share, self.path_limit)
        state, restore = partial(take_state, *self.loaded.modules), keep_state(self.loaded.modules)
        watch = Watch(state, restore, on_judgement, lambda found: self.report(answer(found)), enough)
        facts = CodeFacts(
            literals=find_literals(tree),
            loops=has_loops(tree),
            obstacle=find_reason(tree) or find_state(subject.signature, self.loaded),
            seed=self.seed,
            varies=self._find_variation(tree),
            sets=differs_between_processes(tree),
            with_bools=with_bools,
            surveys=surveys,
        )
        if self.replay:
            return self.replay.explore(program, subject.signature, budget.seconds, watch, facts)
        try:
            explored = Explorer(program, subject.signature, budget, watch, facts).run()
        except NoArguments as error:
            raise AnalysisRefused("UnsupportedSignature", _explain_signature(subject)) from error
        if not explored.runs + explored.paths and explored.end is not End.TIME:
            raise AnalysisRefused("NoArguments", f"{_explain_signature(subject)} Nothing was run.")
        if explored.varies:
            restore(0)  # for the next exploration
        self.records.append(record(explored, self.loaded.names))
        return explored

    def _find_variation(self, tree: ast.Module) -> tuple[int | None, str, str] | None:
        """Return the cause why results differ between calls or processes, as far as the syntax shows it, or None."""
        if self.loaded.draws:
            return None, "random", "The code draws random numbers when it is loaded."
        changing = find_changing_name(tree)
        if changing is None:
            return None
        own = find_changing_name(include_clauses(self.loaded.tree)) == changing  # no line of another file
        lines = {other: one for one, other in map_lines(self.loaded.source, self.loaded.tree).items()}
        return lines.get(changing[1]) if own else None, changing[0], "The result differs between calls or processes."

    @property
    def code(self) -> Code:
        """The code, as tests import it."""
        return Code(vars(self.loaded.module), self.module_name, self.loaded.files)

    def list_undecided(self, explorations: Sequence[Exploration]) -> list[Cause]:
        """Return why paths stayed undecided, with the lines of the submitted code."""
        together = Causes()
        for explored in explorations:
            together.found |= explored.causes.found
            if explored.obstacle:
                together.add(f"{explored.obstacle[0].upper()}{explored.obstacle[1:]}.")
        if not together.found:
            together.add(next((_END_REASONS[one.end] for one in explorations if one.end in _END_REASONS), _NOT_DECIDED))
        return together.to_json(map_lines(self.loaded.source, self.loaded.tree))[:MOST_CAUSES]

    def report(self, answer: Answer) -> None:
        """Send a partial answer. It becomes the answer if the analysis reaches its timeout."""
        self.loaded.report({**answer, "time_seconds": self.seconds})

    def elapsed(self) -> float:
        """Return the seconds since the start of the analysis, rounded to milliseconds."""
        return round(time.perf_counter() - self.started, 3)


def _explain_signature(subject: Subject) -> str:
    """Return why the analyser has no arguments, and what to change."""
    parameters = subject.signature.parameters.values()
    bare = [one.name for one in parameters if one.annotation is Parameter.empty]
    begin = f"The analyser cannot create arguments for `{subject.name}`."
    if bare:
        return f"{begin} Annotate `{bare[0]}` with a type."
    unknown = [one for one in parameters if not Candidates(Signature([one]), Literals(), 0).usable]
    if not unknown:
        return f"{begin} Let constructors accept arguments of their annotated types."
    return (
        f"{begin} It has no values for `{unknown[0]}`. Use types that it can create, such as numbers, text, containers"
        " and the code's own classes, and create the object in the function."
    )


def add_notes(
    answer: "SymbolicCheckResult | ExceptionPathResult | ComparisonResult",
    found: Sequence[Counterexample],
    explorations: Sequence[Exploration],
) -> None:
    """Add to an answer what a reader has to know about its examples."""
    notes = [FIRST_CALL] if any(one.varies for one in explorations) else []
    if notes := [*notes, *([NO_TEST] if any(one["test"] is None for one in found) else [])]:
        answer["message"] = " ".join(notes)


def explain_undecided(explorations: Sequence[Exploration], path_limit: int) -> str:
    """Return why the first undecided exploration decided nothing, and what can help."""
    explored = next(one for one in explorations if one.end is not End.ALL_PATHS)
    if explored.obstacle:
        return f"Nothing is claimed, because {explored.obstacle}. Concrete values were tried too."
    is_slow = any(reason in SLOW_PATH.values() for _, _, reason in explored.causes.found)
    return {
        End.TIME: "The analysis reached its time limit. Raise timeout_seconds, or bound loops and lengths.",
        End.PATHS: f"The analysis reached the limit of {path_limit} paths. Bound loops and lengths.",
        End.UNSTABLE: "Nothing is claimed about all calls: a call depends on or changes something that outlives it (the"
        " time, an object identity, random numbers, module data). First calls in a fresh module were tried. Pass it in"
        " as an argument instead.",
        End.DIFFERS: "Another process, with another hash seed and time zone, had a different result. Sort sets of text"
        " before you use their order, and give times a zone.",
        End.UNDECIDED: "The analyser cannot decide some paths: `undecided` says why."
        + (" Raise timeout_seconds to give each path more time." if is_slow else ""),
    }[explored.end]


def describe_coverage(explorations: Sequence[Exploration], task: Task, *subjects: Subject) -> Coverage:
    """Return what was explored. The number of all paths is known only if all were explored."""
    members = bool(explorations) and all(one.members for one in explorations)
    all_paths = bool(explorations) and all(one.end is End.ALL_PATHS or one.complete for one in explorations)
    coverage: Coverage = {
        "all_paths": all_paths,
        "paths": sum(one.paths for one in explorations),
        "undecided_paths": sum(one.undecided for one in explorations),
        "concrete_runs": sum(one.runs for one in explorations),
        "all_arguments": members,
    }
    if subjects and not all_paths and not any(one.end is End.STOPPED for one in explorations):
        lines = map_lines(task.loaded.source, task.loaded.tree)
        missed = {line for one in subjects for line in _list_lines(one.defined.__code__)}
        missed -= {line for one in explorations for line in one.lines}
        coverage["lines_not_reached"] = sorted({lines.get(one, one) for one in missed})[:_MOST_LINES]
        lengths = [one.longest for one in explorations]
        coverage["all_paths_up_to_length"] = min((one for one in lengths if one is not None), default=None)
        if None in lengths:
            coverage["all_paths_up_to_length"] = None
    return coverage


def _list_lines(code: CodeType) -> set[int]:
    """Return the lines of the canonical source with instructions of a function, apart from its first one."""
    if code.co_filename != FILE_NAME:
        return set()
    own = {line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}
    return own.union(*(_list_lines(one) for one in code.co_consts if isinstance(one, CodeType)))
