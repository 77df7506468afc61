"""find_path_to_exception: find arguments for which a function raises an exception of a class."""

from inspect import BoundArguments
from typing import TYPE_CHECKING, Literal

from quilt_mcp.analysis.engine.exploration import End, Exploration, Judgement, Raised, Run
from quilt_mcp.analysis.engine.pytest_text import write_exception
from quilt_mcp.analysis.engine.source_text import NO_TEST, Counterexample, make_counterexample
from quilt_mcp.analysis.engine.subjects import Subject, find_exception_class, find_subject
from quilt_mcp.analysis.engine.task import Task, describe_coverage, explain_undecided
from quilt_mcp.analysis.messages import Request

if TYPE_CHECKING:  # results imports pydantic, which the sandbox does not load
    from quilt_mcp.analysis.results import ExceptionPathResult

_STATUS: dict[End, Literal["found", "unreachable", "timeout"]] = {
    End.STOPPED: "found",
    End.ALL_PATHS: "unreachable",
    End.TIME: "timeout",
}


def find_path_to_exception(request: Request, task: Task) -> "ExceptionPathResult":
    """Search for arguments that raise the exception. Contracts are ignored."""
    module = task.loaded.module
    subject = find_subject(task.loaded, request["function_name"])
    wanted = find_exception_class(module, request["exception_type"], module.__dict__["__builtins__"])

    def judge(run: Run, arguments: BoundArguments) -> Judgement:
        outcome = run.call(subject.function, *arguments.args, **arguments.kwargs)
        if isinstance(outcome, Raised) and isinstance(outcome.error, wanted):
            return Judgement("wanted", stop=True, outcomes=(outcome,))
        return Judgement(type(outcome).__name__)

    task.report(_make_answer(task, subject, Exploration()))
    explored = task.explore(subject, judge, on_progress=lambda found: task.report(_make_answer(task, subject, found)))
    return _make_answer(task, subject, explored)


def _make_answer(task: Task, subject: Subject, explored: Exploration) -> "ExceptionPathResult":
    answer: ExceptionPathResult = {
        "status": _STATUS.get(explored.end, "not_found"),
        "triggering_inputs": [],
        "paths_to_exception": 0,
        "total_paths_explored": explored.paths,
        "time_seconds": task.elapsed(),
        "coverage": describe_coverage([explored]),
    }
    if explored.arguments and explored.judgement:
        (outcome,) = explored.judgement.outcomes
        if isinstance(outcome, Raised):
            answer["triggering_inputs"] = [_describe_raised(task, subject, explored.arguments, outcome.error)]
        answer |= {"paths_to_exception": 1, "confirmed_by_replay": True}
        if any(one["test"] is None for one in answer["triggering_inputs"]):
            answer["message"] = NO_TEST
    elif answer["status"] != "unreachable":
        answer["message"] = explain_undecided([explored], task.path_limit)
        answer["undecided"] = task.list_undecided([explored])
    return answer


def _describe_raised(task: Task, subject: Subject, arguments: BoundArguments, error: BaseException) -> Counterexample:
    raised = type(error).__name__
    return make_counterexample(
        subject,
        arguments,
        task.names,
        violation=f"raises {raised}",
        actual_result=raised,
        test=write_exception(subject, arguments, task.code, error),
    )
