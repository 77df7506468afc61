"""compare_functions: do two functions do the same for all arguments?

The same means: both return equal values of the same type or both raise the same class of exception, and both leave
their arguments behind in the same state.
"""

from inspect import BoundArguments, Parameter, Signature
from typing import Any

from quilt_mcp.analysis.exploration import End, Exploration, Judgement, Raised, Returned, Run, Undecided
from quilt_mcp.analysis.outcomes import Task, undecided_message
from quilt_mcp.analysis.rendering import counterexample, source_text
from quilt_mcp.analysis.subjects import AnalysisRefused, Subject, subject_of

_STATUS = {End.STOPPED: "different", End.ALL_PATHS: "equivalent", End.TIME: "timeout"}


def compare_functions(request: dict[str, Any], task: Task) -> dict[str, Any]:
    """Compare; answer as `compare_functions` in tools/analysis_tools.py describes. Contracts play no part."""
    first, second = (subject_of(task.loaded, request[key]) for key in ("function_a", "function_b"))
    signature = _common_signature(first, second)

    def judge(run: Run, arguments: BoundArguments) -> Judgement:
        others = run.copy(arguments)
        outcomes = (
            run.call(first.function, *arguments.args, **arguments.kwargs),
            run.call(second.function, *others.args, **others.kwargs),
        )
        if not _same_outcome(run, *outcomes):
            return Judgement("different", stop=True, detail=(*outcomes, "the outcomes differ"))
        pairs = zip(arguments.arguments.values(), others.arguments.values(), strict=True)
        if not all(_same(run, *pair) for pair in pairs):
            return Judgement("different", stop=True, detail=(*outcomes, "the arguments are left in different states"))
        return Judgement("same")

    task.keep(_answer(task, request, Exploration()))
    subject = Subject(first.function, signature, first.node)
    return _answer(task, request, task.explore(subject, judge))


def _common_signature(first: Subject, second: Subject) -> Signature:
    """The signature of both, each annotation from the one that has it.

    Raises:
        AnalysisRefused: their parameters differ in name, kind or annotation.
    """
    left, right = (list(subject.signature.parameters.values()) for subject in (first, second))
    if [(one.name, one.kind) for one in left] != [(one.name, one.kind) for one in right]:
        raise AnalysisRefused(
            "SignatureMismatch", "The functions take different parameters. Give them the same names in the same order."
        )
    merged = []
    for one, other in zip(left, right, strict=True):
        types = [each.annotation for each in (one, other) if each.annotation is not Parameter.empty]
        if len(types) == 2 and types[0] != types[1]:  # noqa: PLR2004 - both are annotated
            raise AnalysisRefused(
                "SignatureMismatch", f"Parameter `{one.name}` is annotated with different types. Use the same one."
            )
        merged.append(one.replace(annotation=types[0] if types else Parameter.empty))
    return first.signature.replace(parameters=merged)


def _same_outcome(run: Run, left: Returned | Raised, right: Returned | Raised) -> bool:
    if isinstance(left, Raised) or isinstance(right, Raised):
        return isinstance(left, Raised) and isinstance(right, Raised) and type(left.error) is type(right.error)
    return _same(run, left.value, right.value)


def _same(run: Run, left: Any, right: Any) -> bool:
    outcome = run.call(equal if run.symbolic else same_value, left, right)
    if isinstance(outcome, Raised):
        raise Undecided
    return bool(outcome.value)


def equal(left: Any, right: Any) -> bool:
    """What `same_value` tells, as one question to the solver where it can be; the concrete run has the last word."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return bool(left == right or (left != left and right != right))  # noqa: PLR0124 - NaN differs from itself
    if _is_compared_by_identity(left) and hasattr(left, "__dict__"):
        return equal(vars(left), vars(right))
    return bool(left == right)


def same_value(left: Any, right: Any) -> bool:
    """Whether two values are of the same type and hold the same; not a number is the same as itself.

    Raises:
        Undecided: the values are of a type, such as an iterator, that cannot be looked into.
    """
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return bool(left == right or (left != left and right != right))  # noqa: PLR0124 - NaN differs from itself
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_value(value, right[key]) for key, value in left.items())
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(same_value(*pair) for pair in zip(left, right, strict=True))
    if hasattr(left, "__dict__") and not isinstance(left, type):
        return same_value(vars(left), vars(right))
    if _is_compared_by_identity(left) and left is not right:
        raise Undecided
    return bool(left == right)


def _is_compared_by_identity(value: Any) -> bool:
    comparison: Any = type(value).__eq__
    return comparison is object.__eq__


def _told(outcome: Returned | Raised) -> str:
    if isinstance(outcome, Raised):
        return f"raises {type(outcome.error).__name__}"
    return f"returns {source_text(outcome.value)}"


def _answer(task: Task, request: dict[str, Any], explored: Exploration) -> dict[str, Any]:
    status = _STATUS.get(explored.end, "unknown")
    answer: dict[str, Any] = {
        "status": status,
        "distinguishing_input": None,
        "paths_compared": explored.paths,
        "confidence": "proven" if status in {"equivalent", "different"} else "partial",
        "time_seconds": task.elapsed(),
    }
    if explored.arguments and explored.judgement:
        first, second, violation = explored.judgement.detail
        told = f"{request['function_a']} {_told(first)}; {request['function_b']} {_told(second)}"
        answer["distinguishing_input"] = counterexample(
            request["function_a"], explored.arguments, violation=violation, actual_result=told
        )
        answer["confirmed_by_replay"] = True
    elif status != "equivalent":
        answer["message"] = undecided_message(explored.end, task.path_limit)
    return answer
