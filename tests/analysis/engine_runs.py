"""Run analyses in the process of the test, without the sandbox."""

from collections.abc import Collection
from typing import Any

from quilt_mcp.analysis.gate.admit import admit
from quilt_mcp.analysis.gate.loading import Loaded, load_module
from quilt_mcp.analysis.jail.runner import run_analysis
from quilt_mcp.analysis.messages import Answer, Request
from quilt_mcp.analysis.policy import Policy
from tests.support.waiting import SECONDS

POLICY = Policy()


def load(code: str, reports: list[Answer] | None = None, *, functions: Collection[str] | None = None) -> Loaded:
    """Load code as in the sandbox. Partial answers go to `reports`."""
    admitted = admit(code, POLICY, functions=functions)
    module = load_module(admitted.source, POLICY)
    kept = [] if reports is None else reports
    return Loaded(module, admitted.source, admitted.tree, kept.append, changes=admitted.changes)


def analyse(
    request: Request,
    *,
    seconds: float = SECONDS,
    paths: int = POLICY.coverage_threshold,
    functions: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the answer to a request, whose code is reduced to what these functions use."""
    loaded = load(request["code"], functions=functions)
    return dict(run_analysis(request, loaded, seconds=seconds, path_limit=paths))


def check(code: str, *, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the answer of symbolic_check about `f`."""
    return analyse({"tool": "symbolic_check", "code": code, "function_name": "f"}, seconds=seconds)


def check_reduced(code: str) -> dict[str, Any]:
    """Return the answer of symbolic_check about `f`, in code reduced to what `f` uses, as in the sandbox."""
    return analyse({"tool": "symbolic_check", "code": code, "function_name": "f"}, functions=["f"])


def compare(code: str, *, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the answer of compare_functions about `a` and `b`."""
    request: Request = {"tool": "compare_functions", "code": code, "function_a": "a", "function_b": "b"}
    return analyse(request, seconds=seconds)


def search(code: str, exception: str, *, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the answer of find_path_to_exception about `f`."""
    request: Request = {
        "tool": "find_path_to_exception",
        "code": code,
        "function_name": "f",
        "exception_type": exception,
    }
    return analyse(request, seconds=seconds)
