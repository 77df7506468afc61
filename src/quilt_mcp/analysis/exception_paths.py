"""find_path_to_exception: which arguments make a function raise an exception of a class?"""

from inspect import BoundArguments
from typing import Any

from quilt_mcp.analysis.exploration import End, Exploration, Judgement, Raised, Run
from quilt_mcp.analysis.outcomes import Task, undecided_message
from quilt_mcp.analysis.rendering import counterexample
from quilt_mcp.analysis.subjects import exception_class, subject_of

_STATUS = {End.STOPPED: "found", End.ALL_PATHS: "unreachable", End.TIME: "timeout"}


def find_path_to_exception(request: dict[str, Any], task: Task) -> dict[str, Any]:
    """Search; answer as `find_path_to_exception` in tools/analysis_tools.py describes. Contracts play no part."""
    module, name = task.loaded.module, request["function_name"]
    subject = subject_of(task.loaded, name)
    wanted = exception_class(module, request["exception_type"], module.__dict__["__builtins__"])

    def judge(run: Run, arguments: BoundArguments) -> Judgement:
        outcome = run.call(subject.function, *arguments.args, **arguments.kwargs)
        if isinstance(outcome, Raised) and isinstance(outcome.error, wanted):
            return Judgement("wanted", stop=True, detail=type(outcome.error).__name__)
        return Judgement(type(outcome).__name__)

    task.keep(_answer(task, name, Exploration()))
    return _answer(task, name, task.explore(subject, judge))


def _answer(task: Task, name: str, explored: Exploration) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "status": _STATUS.get(explored.end, "not_found"),
        "triggering_inputs": [],
        "paths_to_exception": 0,
        "total_paths_explored": explored.paths,
        "time_seconds": task.elapsed(),
    }
    if explored.arguments and explored.judgement:
        raised = explored.judgement.detail
        found = counterexample(name, explored.arguments, violation=f"raises {raised}", actual_result=raised)
        answer |= {"triggering_inputs": [found], "paths_to_exception": 1, "confirmed_by_replay": True}
    elif answer["status"] != "unreachable":
        answer["message"] = undecided_message(explored.end, task.path_limit)
    return answer
