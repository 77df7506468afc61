"""The analyses by the names of their tools. Runs in the jailed child, after the gate."""

from collections.abc import Callable, Mapping
from typing import Any

from quilt_mcp.analysis.branches import analyze_branches
from quilt_mcp.analysis.comparison import compare_functions
from quilt_mcp.analysis.exception_paths import find_path_to_exception
from quilt_mcp.analysis.loaded import Loaded
from quilt_mcp.analysis.outcomes import PathLimit, Task
from quilt_mcp.analysis.subjects import AnalysisRefused
from quilt_mcp.analysis.symbolic_check import symbolic_check

ANALYSES: Mapping[str, Callable[[dict[str, Any], Task], dict[str, Any]]] = {
    "symbolic_check": symbolic_check,
    "find_path_to_exception": find_path_to_exception,
    "compare_functions": compare_functions,
    "analyze_branches": analyze_branches,
}


def run(request: dict[str, Any], loaded: Loaded, policy: PathLimit) -> dict[str, Any]:
    """Analyse admitted code.

    Args:
        request: `tool`, `code`, the tool's parameters by their names, and `timeout_seconds`.
        loaded: the code of the request, as the gate admitted it.
        policy: gives the limit of paths.

    Returns:
        The tool's answer in JSON types; with `status: "error"`, `error_type` and `message` where it was refused.
    """
    task = Task(loaded, float(request["timeout_seconds"]), policy.coverage_threshold)
    try:
        return ANALYSES[request["tool"]](request, task)
    except AnalysisRefused as refusal:
        return {"status": "error", "error_type": refusal.error_type, "message": refusal.message}
