"""The tools that analyse Python code. Nothing submitted is parsed or run in this process; the sandbox does that."""

import platform
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from fastmcp import FastMCP
from fastmcp.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import Field, TypeAdapter, ValidationError

from quilt_mcp import __version__, runtime_context
from quilt_mcp.analysis import extra, sandbox
from quilt_mcp.analysis.policy import LONGEST_TIMEOUT_SECONDS, SHORTEST_TIMEOUT_SECONDS
from quilt_mcp.analysis.results import (
    BranchesResult,
    ComparisonResult,
    ExceptionPathResult,
    HealthResult,
    SymbolicCheckResult,
)

# The largest value that the setting analysis_code_size_bytes takes; the policy in force is looked at in the sandbox
_CODE_LENGTH = 1_048_576
# The default of `timeout_seconds` in the functions' signatures; the setting takes its place in what clients see
_LEFT_OUT = 0.0
_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"
_CLASS = r"^[A-Za-z_][A-Za-z0-9_]{0,99}(\.[A-Za-z_][A-Za-z0-9_]{0,99}){0,2}$"

_Result = TypeVar("_Result", SymbolicCheckResult, ExceptionPathResult, ComparisonResult, BranchesResult)

Code = Annotated[
    str,
    Field(description="Python source. config://security tells what it may use.", min_length=1, max_length=_CODE_LENGTH),
]
FunctionName = Annotated[str, Field(description="A function at the top level of the code.", pattern=_NAME)]
ExceptionType = Annotated[
    str, Field(description="An exception class, built in or of the code, such as ValueError.", pattern=_CLASS)
]
Timeout = Annotated[
    float,
    Field(
        description="The longest the analysis may take, in seconds.",
        ge=SHORTEST_TIMEOUT_SECONDS,
        le=LONGEST_TIMEOUT_SECONDS,
        allow_inf_nan=False,
        strict=True,
    ),
]
Symbolic = Annotated[bool, Field(description="Also search for calls that take each branch.")]


async def symbolic_check(
    code: Code, function_name: FunctionName, timeout_seconds: Timeout = _LEFT_OUT
) -> SymbolicCheckResult:
    """Check that a Python function keeps its contract for all arguments, or find arguments for which it does not.

    The contract stands in the docstring, in lines such as `pre: x > 0`, `post: _ >= x` (`_` is the result,
    `__old__.x` an argument before the call) and `raises: ValueError`; or it is the function's asserts, of which the
    leading ones are preconditions. Parameters need type annotations.
    """
    return await _analysed(
        SymbolicCheckResult, timeout_seconds, tool="symbolic_check", code=code, function_name=function_name
    )


async def find_path_to_exception(
    code: Code, function_name: FunctionName, exception_type: ExceptionType, timeout_seconds: Timeout = _LEFT_OUT
) -> ExceptionPathResult:
    """Find arguments for which a Python function raises an exception of a class, or confirm that there are none.

    Contracts play no part. Parameters need type annotations.
    """
    return await _analysed(
        ExceptionPathResult,
        timeout_seconds,
        tool="find_path_to_exception",
        code=code,
        function_name=function_name,
        exception_type=exception_type,
    )


async def compare_functions(
    code: Code, function_a: FunctionName, function_b: FunctionName, timeout_seconds: Timeout = _LEFT_OUT
) -> ComparisonResult:
    """Find arguments for which two Python functions differ, or confirm that there are none.

    They differ if they return other values, raise other classes of exceptions, or change their arguments otherwise.
    Both must have the same parameters, with type annotations.
    """
    return await _analysed(
        ComparisonResult,
        timeout_seconds,
        tool="compare_functions",
        code=code,
        function_a=function_a,
        function_b=function_b,
    )


async def analyze_branches(
    code: Code,
    function_name: FunctionName,
    timeout_seconds: Timeout = _LEFT_OUT,
    symbolic_reachability: Symbolic = False,  # noqa: FBT002 - an argument that clients give by name
) -> BranchesResult:
    """List a Python function's branches, its dead code and its cyclomatic complexity.

    With symbolic_reachability, also tell which outcomes can be reached, with a call for each; parameters then need type
    annotations.
    """
    return await _analysed(
        BranchesResult,
        timeout_seconds,
        tool="analyze_branches",
        code=code,
        function_name=function_name,
        symbolic_reachability=symbolic_reachability,
    )


def health_check() -> HealthResult:
    """Tell that the server answers, and the versions of what it analyses code with. Starts nothing."""
    return {
        "status": "healthy",
        "version": __version__,
        "python_version": platform.python_version(),
        "crosshair_version": version("crosshair-tool"),
        "z3_version": version("z3-solver"),
        "platform": f"{platform.system()} {platform.machine()}",
        "memory_usage_mb": _memory_mb(),
    }


_TITLES: Mapping[Callable[..., Any], str] = {
    symbolic_check: "Symbolic Contract Verification",
    find_path_to_exception: "Find Exception Triggering Inputs",
    compare_functions: "Semantic Function Equivalence Check",
    analyze_branches: "Branch Analysis and Complexity",
    health_check: "Server Health Check",
}
_NOTHING_CHECKED: dict[str, Any] = {
    "counterexamples": [],
    "paths_explored": 0,
    "paths_verified": 0,
    "time_seconds": 0.0,
    "coverage_estimate": 0.0,
}


def register_analysis_tools(mcp: FastMCP) -> None:
    """Register the five tools, if the extra `analysis` is installed; else none of them."""
    if not extra.is_installed():
        return
    hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True, destructive_hint=False, open_world_hint=False)
    limit = TypeAdapter(Timeout).json_schema() | {"default": _default_timeout()}
    for function, title in _TITLES.items():
        tool = Tool.from_function(function, title=title, tags={"analysis"}, annotations=hints)
        if "timeout_seconds" in tool.parameters["properties"]:
            tool.parameters["properties"]["timeout_seconds"] = limit  # the schema shows the default in force
        mcp.add_tool(tool)


def _default_timeout() -> int:
    return runtime_context.settings().analysis_default_timeout_seconds


async def _analysed(result: type[_Result], timeout_seconds: float, **request: Any) -> _Result:
    """Have the request analysed. What comes back may be forged by the analysed code, so its shape is checked."""
    seconds = float(timeout_seconds or _default_timeout())
    answer = await sandbox.analyse(request | {"timeout_seconds": seconds}, timeout=seconds)
    defaults = _NOTHING_CHECKED if result is SymbolicCheckResult else {}
    try:
        return TypeAdapter(result).validate_python(defaults | answer)
    except ValidationError:
        refusal = {"status": "error", "error_type": "InvalidAnswer", "message": "The analysis gave no usable answer."}
        return cast("_Result", defaults | refusal)


def _memory_mb() -> float | None:
    """The memory of this process that is in use now, in MiB; None where the system does not tell it by a file."""
    if sys.platform != "linux":
        return None
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    kibibytes = next(line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return round(int(kibibytes) / 1024, 1)
