"""compare_functions: find arguments for which two functions behave differently.

The arguments meet the preconditions of both. The functions behave the same if both return equal values of the same type
or both raise the same class of exception, and both leave their arguments in the same state. Calls that leave out
arguments are compared too if the default values differ.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from inspect import BoundArguments, Parameter, Signature
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, Literal

from quilt_mcp.analysis.engine.crosshair import parse_contract
from quilt_mcp.analysis.engine.exploration import (
    End,
    Exploration,
    Judgement,
    Raised,
    Returned,
    Run,
    Undecided,
    holds,
    name_arguments,
)
from quilt_mcp.analysis.engine.made_objects import read_attributes
from quilt_mcp.analysis.engine.plain_values import differ, has_own_classes
from quilt_mcp.analysis.engine.pytest_text import Difference, DifferenceKind, write_difference
from quilt_mcp.analysis.engine.rendering import NO_TEST, Counterexample, make_counterexample, write_source
from quilt_mcp.analysis.engine.sameness import is_equal, is_same_value
from quilt_mcp.analysis.engine.subjects import AnalysisRefused, Subject, find_subject
from quilt_mcp.analysis.engine.task import Task, describe_coverage, explain_undecided
from quilt_mcp.analysis.engine.versions import are_versions, is_moved, is_same_class, move_object
from quilt_mcp.analysis.messages import Request

if TYPE_CHECKING:  # results imports pydantic, which the sandbox does not load
    from quilt_mcp.analysis.results import ComparisonResult

_STATUS: dict[End, Literal["different", "equivalent", "timeout"]] = {
    End.STOPPED: "different",
    End.ALL_PATHS: "equivalent",
    End.TIME: "timeout",
}
_MOST_DEFAULTS = 3


def compare_functions(request: Request, task: Task) -> "ComparisonResult":
    """Compare two functions, for arguments that meet the preconditions of both."""
    first = find_subject(task.loaded.old or task.loaded, request["function_a"])
    second = find_subject(task.loaded, request["function_b"])
    subjects = (first, second)
    moves = are_versions(task.loaded.old, task.loaded, first, second)
    signature = _merge_signatures(first, second, moves=moves)
    pre = [clause for one in subjects for clause in parse_contract(one.defined).pre]

    def judge(run: Run, arguments: BoundArguments) -> Judgement:
        others = run.copy(arguments)
        if pre:
            names = name_arguments(run.copy(arguments))
            if not all(holds(run, clause, names) for clause in pre):
                return Judgement("precondition", outside=True)
        mine = move_object(arguments, first) if moves else arguments
        outcomes = (
            run.call(first.function, *mine.args, **mine.kwargs),
            run.call(second.function, *others.args, **others.kwargs),
        )
        if not _is_same_outcome(run, *outcomes):
            return Judgement("outcomes", stop=True, outcomes=outcomes)
        pairs = zip(mine.arguments.values(), others.arguments.values(), strict=True)
        if not all(_is_same(run, *pair) for pair in pairs):
            return Judgement("arguments", stop=True, outcomes=outcomes)
        return Judgement("same")

    signatures = [signature, *_leave_out_defaults(first, second, signature)]
    explorations: list[Exploration] = []
    for number, each in enumerate(signatures):
        task.report(_make_answer(task, subjects, [*explorations, Exploration()]))
        subject = replace(first, signature=each)
        explored = task.explore(
            subject,
            judge,
            share=1 / (len(signatures) - number),
            on_progress=lambda found: task.report(_make_answer(task, subjects, [*explorations, found])),
        )
        explorations.append(explored)
        if explored.end is End.STOPPED:
            break
    return _make_answer(task, subjects, explorations)


def _leave_out_defaults(first: Subject, second: Subject, signature: Signature) -> Iterator[Signature]:
    """Yield a signature for each combination of parameters to leave out, of those with different defaults."""
    left, right = first.signature.parameters, second.signature.parameters
    differing = [name for name, one in left.items() if not _is_same_default(one.default, right[name].default)]
    if len(differing) > _MOST_DEFAULTS:
        raise AnalysisRefused(
            "UnsupportedSignature", f"The functions have more than {_MOST_DEFAULTS} different default values."
        )
    for count in range(1, len(differing) + 1):
        for names in combinations(differing, count):
            kept = [one for name, one in signature.parameters.items() if name not in names]
            gap = min(list(signature.parameters).index(name) for name in names)
            later = list(signature.parameters)[gap:]
            if any(one.kind is Parameter.POSITIONAL_ONLY and one.name in later for one in kept):
                continue  # no call leaves out only these
            yield signature.replace(
                parameters=[
                    one.replace(kind=Parameter.KEYWORD_ONLY)
                    if one.name in later and one.kind is Parameter.POSITIONAL_OR_KEYWORD
                    else one
                    for one in kept
                    if one.kind is not Parameter.VAR_POSITIONAL
                ]
            )


def _is_same_default(left: object, right: object) -> bool:
    try:
        return is_same_value(left, right)
    except Exception:  # noqa: BLE001 - the equality is analysed code; a value that cannot be compared is different
        return False


def _merge_signatures(first: Subject, second: Subject, *, moves: bool = False) -> Signature:
    """Return the signature of both functions. A parameter can be annotated in one of them only.

    Args:
        first: one function.
        second: the other one.
        moves: whether they are methods of two versions of a class. The objects are those of the second one then.

    Raises:
        AnalysisRefused: their parameters differ in name, kind or annotation.
    """
    left, right = (list(subject.signature.parameters.values()) for subject in (first, second))
    if [(one.name, one.kind) for one in left] != [(one.name, one.kind) for one in right]:
        raise AnalysisRefused(
            "SignatureMismatch", "The functions have different parameters. Give them the same names in the same order."
        )
    merged = []
    for number, (one, other) in enumerate(zip(left, right, strict=True)):
        if moves and not number:
            merged.append(other)
            continue
        types = [each.annotation for each in (one, other) if each.annotation is not Parameter.empty]
        if len(types) == 2 and types[0] != types[1]:  # noqa: PLR2004 - both are annotated
            raise AnalysisRefused(
                "SignatureMismatch",
                f"The functions annotate the parameter `{one.name}` with different types. Use the same type. For two"
                " versions, the constructors, fields and bases of a class must be the same.",
            )
        merged.append(one.replace(annotation=types[0] if types else Parameter.empty))
    return first.signature.replace(parameters=merged)


def _is_same_outcome(run: Run, left: Returned | Raised, right: Returned | Raised) -> bool:
    if isinstance(left, Raised) or isinstance(right, Raised):
        if not (isinstance(left, Raised) and isinstance(right, Raised)):
            return False
        return is_same_class(type(left.error), type(right.error))
    same = _is_same(run, left.value, right.value)
    if same and is_moved(left.value, right.value):
        raise Undecided  # their methods can differ
    return same


def _is_same(run: Run, left: object, right: object) -> bool:
    if is_moved(left, right):
        left, right = read_attributes(left), read_attributes(right)
    outcome = run.call(is_equal if run.symbolic else is_same_value, left, right)
    if isinstance(outcome, Raised) or (not outcome.value and _contains_versions(left, right)):
        raise Undecided
    return bool(outcome.value)


def _contains_versions(left: object, right: object) -> bool:
    """Return whether two containers can differ only because they contain objects of two versions of a class."""
    if isinstance(left, dict) and isinstance(right, dict):
        return any(map(_contains_versions, left.values(), right.values()))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return any(map(_contains_versions, left, right))
    return is_moved(left, right)


def _describe(outcome: Returned | Raised, names: Mapping[str, object]) -> str:
    if isinstance(outcome, Raised):
        return f"raises {type(outcome.error).__name__}"
    return f"returns {write_source(outcome.value, names)}"


def _make_answer(task: Task, subjects: tuple[Subject, Subject], explorations: list[Exploration]) -> "ComparisonResult":
    last = explorations[-1]
    ends = [one.end for one in explorations]
    end = next((one for one in ends if one is not End.ALL_PATHS), End.ALL_PATHS)
    end = End.STOPPED if last.end is End.STOPPED else end
    if end is End.ALL_PATHS and not any(one.decided for one in explorations):
        raise AnalysisRefused(
            "PreconditionNeverMet", "No arguments satisfy the preconditions of both functions. Weaken them."
        )
    status: Literal["different", "equivalent", "timeout", "unknown"] = _STATUS.get(end, "unknown")
    answer: ComparisonResult = {
        "status": status,
        "distinguishing_input": None,
        "paths_compared": sum(one.paths for one in explorations),
        "confidence": "proven" if status in {"equivalent", "different"} else "partial",
        "time_seconds": task.elapsed(),
        "coverage": describe_coverage(explorations),
    }
    if last.arguments and last.judgement:
        answer["distinguishing_input"] = example = _describe_difference(task, subjects, last.arguments, last.judgement)
        answer["confirmed_by_replay"] = True
        if example["test"] is None:
            answer["message"] = NO_TEST
    elif status != "equivalent":
        answer["message"] = explain_undecided(explorations, task.path_limit)
        answer["undecided"] = task.list_undecided(explorations)
    return answer


def _describe_difference(
    task: Task, subjects: tuple[Subject, Subject], arguments: BoundArguments, judgement: Judgement
) -> Counterexample:
    first, second = judgement.outcomes
    names = [subject.name for subject in subjects]
    results = [_describe(outcome, task.names) for outcome in (first, second)]
    old_module = f"{task.module_name}_old" if task.loaded.old else None
    if old_module:
        names = ["old version", "new version"]
    same_outcome = judgement.kind == "arguments"
    kind: DifferenceKind = "arguments" if same_outcome else _find_kind(first, second)
    is_shown = True
    if old_module and not same_outcome and (has_own_classes(first) or has_own_classes(second)):
        kind, is_shown = "plain", differ(first, second)
    difference = Difference(kind, old_module)
    return make_counterexample(
        subjects[0],
        arguments,
        task.names,
        violation="the arguments end in different states" if same_outcome else "the outcomes differ",
        actual_result="; ".join(f"{name} {result}" for name, result in zip(names, results, strict=True)),
        test=write_difference(subjects, arguments, task.code, difference) if is_shown else None,
    )


def _find_kind(first: Returned | Raised, second: Returned | Raised) -> DifferenceKind:
    """Return what a test has to compare."""
    if isinstance(first, Raised) or isinstance(second, Raised):
        return "exception"
    left, right = first.value, second.value
    same_type = type(left) is type(right)
    if same_type and isinstance(left, Random):
        return "state"
    try:
        if not (same_type and type(left).__eq__ is object.__eq__) and left != right:
            return "value"
        if type(left).__repr__ is not object.__repr__ and repr(left) != repr(right):
            return "repr"
    except Exception:  # noqa: BLE001 - the comparison is analysed code
        return "repr"
    return "attributes" if same_type and hasattr(left, "__dict__") else "repr"
