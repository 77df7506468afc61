"""The analyses by the names of their tools."""

from collections.abc import Callable, Mapping

from quilt_mcp.analysis.engine.branches import analyze_branches
from quilt_mcp.analysis.engine.comparison import compare_functions
from quilt_mcp.analysis.engine.exception_paths import find_path_to_exception
from quilt_mcp.analysis.engine.replay import Replay, Start, can_repeat
from quilt_mcp.analysis.engine.subjects import AnalysisRefused
from quilt_mcp.analysis.engine.symbolic_check import symbolic_check
from quilt_mcp.analysis.engine.task import Task
from quilt_mcp.analysis.gate.loading import Loaded
from quilt_mcp.analysis.messages import MODULE_NAME, RECORDS, Answer, Request, error

ANALYSES: Mapping[str, Callable[[Request, Task], Answer]] = {
    "symbolic_check": symbolic_check,
    "find_path_to_exception": find_path_to_exception,
    "compare_functions": compare_functions,
    "analyze_branches": analyze_branches,
}

_FRESH = Start()


def run_analysis(
    request: Request,
    loaded: Loaded,
    *,
    seconds: float,
    path_limit: int,
    start: Start = _FRESH,
) -> Answer:
    """Analyse admitted code.

    Args:
        request: the tool and its arguments.
        loaded: the code of the request.
        seconds: the timeout of the whole analysis.
        path_limit: maximum number of paths for each condition.
        start: the seed, and what another process has recorded.

    Returns:
        The answer of the tool, or an `ErrorAnswer` if the request cannot be analysed. If another process can repeat
        the result, the answer contains the `records` for it.
    """
    try:
        replay = None if start.records is None else Replay(start.records, [loaded.module, *loaded.files.values()])
        module_name = request.get("module_name", MODULE_NAME)
        task = Task(loaded, seconds, path_limit, start.seed, replay, module_name=module_name)
        answer = ANALYSES[request["tool"]](request, task)
    except AnalysisRefused as refusal:
        return error(refusal.error_type, refusal.message)
    return {**answer, RECORDS: task.records} if task.records and can_repeat(task.records) else answer
