"""The tools that analyse Python code, and the prompts that ask a model to call them.

The sandbox parses and runs submitted code; this process does not.
"""

import logging
import platform
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from fastmcp import FastMCP
from fastmcp.exceptions import ValidationError as InvalidPrompt
from fastmcp.prompts import PromptResult
from fastmcp.prompts.base import Prompt, PromptArgument
from mcp_types import ToolAnnotations
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.json_schema import SkipJsonSchema

from quilt_mcp.analysis.messages import MODULE_NAME, Request, error
from quilt_mcp.analysis.policy import LONGEST_TIMEOUT_SECONDS, SHORTEST_TIMEOUT_SECONDS
from quilt_mcp.analysis.results import (
    BranchesResult,
    ComparisonResult,
    ExceptionPathResult,
    HealthResult,
    SymbolicCheckResult,
    describe_meaning,
)
from quilt_mcp.analysis.sandbox import Sandbox
from quilt_mcp.analysis.settings import AnalysisSettings
from quilt_mcp.app import App, current_app, identity
from quilt_mcp.app.build import find_version
from quilt_mcp.app.checked_tool import CheckedTool, make_error
from quilt_mcp.app.pools import make_pooled
from quilt_mcp.core.errors import InvalidArguments, NotSignedIn, ResourceFailure

# The maximum of the setting analysis_code_size_bytes. The sandbox checks the current setting.
CODE_LENGTH = 1_048_576
# The default of `timeout_seconds` in the signatures. Clients see the setting analysis_default_timeout_seconds instead.
UNSET = 0.0
_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,99}(\.[A-Za-z_][A-Za-z0-9_]{0,99})?$"
_CLASS = r"^[A-Za-z_][A-Za-z0-9_]{0,99}(\.[A-Za-z_][A-Za-z0-9_]{0,99}){0,2}$"
_MODULE = r"^[A-Za-z_][A-Za-z0-9_]{0,99}(\.[A-Za-z_][A-Za-z0-9_]{0,99}){0,9}$"

Code = Annotated[
    str,
    Field(description="Python source; config://security says what it can use.", min_length=1, max_length=CODE_LENGTH),
]
FunctionName = Annotated[str, Field(description="A function in the code, or Class.method.", pattern=_NAME)]
OptionalCode = Annotated[
    Annotated[str, Field(min_length=1, max_length=CODE_LENGTH)] | SkipJsonSchema[None],
    Field(description="Python source with both functions."),
]
_OptionalName = Annotated[str, Field(pattern=_NAME)] | SkipJsonSchema[None]
ComparedName = Annotated[_OptionalName, Field(description="A function in the code.")]
NameInBoth = Annotated[_OptionalName, Field(description="The function in both versions.")]
_Version = Annotated[str, Field(min_length=1, max_length=CODE_LENGTH)] | SkipJsonSchema[None]
OldCode = Annotated[_Version, Field(description="For two versions of one function: the old source.")]
NewCode = Annotated[_Version, Field(description="The new source.")]
Files = Annotated[
    dict[str, Annotated[str, Field(max_length=CODE_LENGTH)]] | SkipJsonSchema[None],
    Field(description="Other modules that the code imports: text by name, such as pkg.models."),
]
ModuleName = Annotated[str, Field(description="The code's module, for `test`.", pattern=_MODULE)]
ExceptionType = Annotated[
    Annotated[str, Field(pattern=_CLASS)] | SkipJsonSchema[None],
    Field(description="A class such as ValueError or one in the code; default: every kind."),
]
Timeout = Annotated[
    float,
    Field(
        description="Seconds for the analysis.",
        ge=SHORTEST_TIMEOUT_SECONDS,
        le=LONGEST_TIMEOUT_SECONDS,
        allow_inf_nan=False,
        strict=True,
    ),
]
Symbolic = Annotated[bool, Field(description="Also search for a call for each outcome.")]


Schema = dict[str, Any]
_Result = TypeVar("_Result", SymbolicCheckResult, ExceptionPathResult, ComparisonResult, BranchesResult)


async def symbolic_check(
    code: Code,
    function_name: FunctionName,
    timeout_seconds: Timeout = UNSET,
    files: Files = None,
    module_name: ModuleName = MODULE_NAME,
) -> SymbolicCheckResult:
    """Check that a Python function satisfies its contract for all arguments, or find a counterexample.

    The contract is in the docstring, in lines such as `pre: x > 0`, `post: _ >= x` (`_` is the result, `__old__.x` an
    argument before the call) and `raises: ValueError`. Without such lines, the asserts of the function are its
    contract; the leading ones are preconditions. `inv: self.n >= 0` of a class holds before and after the call.
    Parameters need type annotations.
    """
    request = Request(tool="symbolic_check", code=code, function_name=function_name)
    return await _analyse(SymbolicCheckResult, timeout_seconds, request, files, module_name)


async def find_path_to_exception(  # noqa: PLR0917 - clients name the arguments
    code: Code,
    function_name: FunctionName,
    exception_type: ExceptionType = None,
    timeout_seconds: Timeout = UNSET,
    files: Files = None,
    module_name: ModuleName = MODULE_NAME,
) -> ExceptionPathResult:
    """Find arguments for which a Python function raises an exception (of a class), or confirm that there are none.

    Contracts are ignored. Parameters need type annotations.
    """
    request = Request(tool="find_path_to_exception", code=code, function_name=function_name)
    if exception_type:
        request["exception_type"] = exception_type
    return await _analyse(ExceptionPathResult, timeout_seconds, request, files, module_name)


async def compare_functions(  # noqa: PLR0917 - clients name the arguments
    code: OptionalCode = None,
    function_a: ComparedName = None,
    function_b: ComparedName = None,
    timeout_seconds: Timeout = UNSET,
    old_code: OldCode = None,
    new_code: NewCode = None,
    function_name: NameInBoth = None,
    files: Files = None,
    module_name: ModuleName = MODULE_NAME,
) -> ComparisonResult:
    """Find arguments for which two Python functions differ, or confirm that there are none.

    Give code, function_a and function_b, or old_code, new_code and function_name. They differ if they return different
    values, raise different exception classes, or change their arguments differently, for arguments that meet the `pre:`
    lines of both. Both must have the same parameters, with type annotations.
    """
    request = Request(tool="compare_functions", code=code or new_code or "")
    if code and function_a and function_b and not (old_code or new_code or function_name):
        request |= {"function_a": function_a, "function_b": function_b}
    elif old_code and new_code and function_name and not (code or function_a or function_b):
        request |= {"function_a": function_name, "function_b": function_name, "old_code": old_code}
    else:
        message = "Give either code, function_a and function_b, or old_code, new_code and function_name."
        failed = error(InvalidArguments.error, message)
        return cast("ComparisonResult", {**failed, "meaning": describe_meaning(failed)})
    return await _analyse(ComparisonResult, timeout_seconds, request, files, module_name)


async def analyze_branches(
    code: Code,
    function_name: FunctionName,
    timeout_seconds: Timeout = UNSET,
    symbolic_reachability: Symbolic = False,  # noqa: FBT002 - an argument that clients give by name
    files: Files = None,
) -> BranchesResult:
    """List a Python function's branches, its dead code and its cyclomatic complexity.

    With symbolic_reachability, also find out which outcomes are reachable, with a call for each. Parameters then need
    type annotations.
    """
    request = Request(tool="analyze_branches", code=code, function_name=function_name)
    request["symbolic_reachability"] = symbolic_reachability
    return await _analyse(BranchesResult, timeout_seconds, request, files)


def health_check() -> HealthResult:
    """Return the status of the server, and the versions of Python, CrossHair and z3. Does not start an analysis."""
    return {
        "status": "healthy",
        "version": find_version(),
        "python_version": platform.python_version(),
        "crosshair_version": version("crosshair-tool"),
        "z3_version": version("z3-solver"),
        "platform": f"{platform.system()} {platform.machine()}",
        "memory_usage_mb": _read_memory_mb(),
    }


_TITLES: Mapping[Callable[..., object], str] = {
    symbolic_check: "Symbolic Contract Verification",
    find_path_to_exception: "Find Exception Triggering Inputs",
    compare_functions: "Semantic Function Equivalence Check",
    analyze_branches: "Branch Analysis and Complexity",
    health_check: "Server Health Check",
}
# What an output schema shows: an answer has more than that. Each client pays for schemas in every conversation, and the
# limits of texts protect this server, which checks them itself.
_SHOWN = frozenset(
    {
        *("status", "counterexamples", "triggering_inputs", "distinguishing_input"),
        *("branches", "dead_code_lines", "cyclomatic_complexity"),
    }
)
_CHECKED_HERE = frozenset({"maxLength", "minLength", "pattern"})
_NOTHING_CHECKED: Mapping[str, object] = {
    "counterexamples": [],
    "paths_explored": 0,
    "paths_verified": 0,
    "time_seconds": 0.0,
    "coverage_estimate": None,
}


def register_analysis_tools(mcp: FastMCP, app: App) -> None:
    """Register the five tools. They need the extra `analysis`."""
    hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True, destructive_hint=False, open_world_hint=False)
    limit = TypeAdapter(Timeout).json_schema() | {
        "default": app.settings_as(AnalysisSettings).analysis_default_timeout_seconds
    }
    for function, title in _TITLES.items():
        is_analysis = function is not health_check
        tool = CheckedTool.create(
            cast("Callable[..., Awaitable[object]]", function) if is_analysis else make_pooled("local", function),
            partial(_make_error, function) if is_analysis else make_error,
            app=app,
            title=title,
            tags={"analysis"},
            annotations=hints,
        )
        tool.output_schema = _shorten_output(tool.output_schema or {})
        for parameter in tool.parameters["properties"].values():
            if parameter.get("default", ...) is None:  # null is not one of the declared types
                del parameter["default"]
        if is_analysis:
            tool.parameters["properties"]["timeout_seconds"] = limit  # with the default of the settings
        tool.parameters = _shorten_input(tool.parameters)
        mcp.add_tool(tool)


def _shorten_output(schema: Schema) -> Schema:
    """Return an output schema with the names and types of the main parts."""
    parts = {name: one for name, one in schema["properties"].items() if name in _SHOWN}
    shown = {
        name: {"enum": one["enum"]} if "enum" in one else {"type": _read_types(one)} for name, one in parts.items()
    }
    return {"type": "object", "properties": shown, "required": ["status"]}


def _read_types(schema: Schema) -> str | list[str]:
    return [one.get("type", "object") for one in schema["anyOf"]] if "anyOf" in schema else schema.get("type", "string")


def _shorten_input(schema: Any) -> Any:
    """Return an input schema without the limits of texts."""
    if not isinstance(schema, dict):
        return schema
    return {key: _shorten_input(one) for key, one in schema.items() if key not in _CHECKED_HERE}


def _make_error(function: Callable[..., object], failure: ResourceFailure) -> dict[str, object]:
    defaults = _NOTHING_CHECKED if function is symbolic_check else {}
    failed = error(failure.error, " ".join([failure.message, *failure.suggested_actions]))
    return {**defaults, **failed, "meaning": describe_meaning(failed)}


async def _analyse(
    result: type[_Result],
    timeout_seconds: float,
    request: Request,
    files: Mapping[str, str] | None,
    module_name: str = MODULE_NAME,
) -> _Result:
    """Run the request in the sandbox. Analysed code can forge the answer, so its form is checked."""
    if files:
        request["files"] = files
    if module_name != MODULE_NAME:
        request["module_name"] = module_name
    app = current_app()
    seconds = float(timeout_seconds or app.settings_as(AnalysisSettings).analysis_default_timeout_seconds)
    answer = await app.part(Sandbox).analyse(request, seconds=seconds, caller=_find_caller())
    defaults = _NOTHING_CHECKED if result is SymbolicCheckResult else {}
    try:
        checked = TypeAdapter(result).validate_python({**defaults, **answer})
    except ValidationError:
        failed = error("InvalidAnswer", "The analysis returned an invalid answer.")
        checked = cast("_Result", {**defaults, **failed})
    checked["meaning"] = describe_meaning(checked)
    return checked


def _find_caller() -> str | None:
    """Return the key of the caller's share in the queue; None for the local user."""
    try:
        who = identity.current()
    except NotSignedIn:  # the token does not name its owner: all such callers have one share
        return ""
    return None if who.is_local else who.key


def _read_memory_mb() -> float | None:
    """Return the resident memory of this process in MiB, or None if this system has no file with it."""
    if sys.platform != "linux":
        return None
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    kibibytes = next(line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return round(int(kibibytes) / 1024, 1)


_ARGUMENTS = {
    "code": "Python source to analyse.",
    "function_name": "The function to analyse.",
    "exception_type": "An exception class, such as ValueError.",
    "function_a": "The function to analyse.",
    "function_b": "The function to compare with.",
}
# The name, title, description and text of each prompt
_PROMPTS = (
    (
        "symbolic_check_template",
        "Check a contract",
        "Check whether a Python function satisfies its contract.",
        (
            "Call the tool symbolic_check with function_name `{function_name}` and the code below. If the "
            "function has no contract, first add one to its docstring, in lines such as `pre: x > 0` and `post: _ "
            ">= x`, and show it. For a counterexample, explain why the call violates the contract and how to fix "
            "the code. Say that the contract is proven only if the status is `verified`.\n\n{code}"
        ),
    ),
    (
        "find_exception_path_template",
        "Find a path to an exception",
        "Find out whether a Python function can raise an exception of a class.",
        (
            "Call the tool find_path_to_exception with function_name `{function_name}`, exception_type "
            "`{exception_type}` and the code below. If an input is found, trace the call line by line to the "
            "exception and suggest a guard. Say that the exception is impossible only if the status is "
            "`unreachable`.\n\n{code}"
        ),
    ),
    (
        "compare_functions_template",
        "Compare two functions",
        "Find out whether two Python functions behave the same.",
        (
            "Call the tool compare_functions with function_a `{function_a}`, function_b `{function_b}` and this "
            "code. If they differ, explain the distinguishing input and which function is right. Say that they "
            "are equivalent only if the status is `equivalent`.\n\n{code}"
        ),
    ),
    (
        "analyze_branches_template",
        "Analyse branches",
        "Analyse the branches and the complexity of a Python function.",
        (
            "Call the tool analyze_branches with function_name `{function_name}`, symbolic_reachability true and "
            "the code below. List the unreachable outcomes, write a test for each reachable one, and suggest "
            "simplifications if the complexity is above 10. An outcome that is null is undecided.\n\n{code}"
        ),
    ),
)


def register_analysis_prompts(mcp: FastMCP) -> None:
    """Register the four prompts. They need the extra `analysis`."""
    for name, title, description, text in _PROMPTS:
        arguments = [
            PromptArgument(name=key, description=one, required=True)
            for key, one in _ARGUMENTS.items()
            if f"{{{key}}}" in text
        ]
        mcp.add_prompt(
            AnalysisPrompt(
                name=name, title=title, description=description, arguments=arguments, tags={"analysis"}, text=text
            )
        )


class AnalysisPrompt(Prompt):
    """A prompt that asks a model to call an analysis tool with the given code."""

    text: str = Field(exclude=True, repr=False)  # with the names of arguments in braces

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Render the prompt. `ValidationError`: a required argument is missing."""
        given = arguments or {}
        if missing := [one.name for one in self.arguments or () if one.name not in given]:
            raise InvalidPrompt(f"The prompt needs the arguments {', '.join(missing)}.", log_level=logging.DEBUG)
        return self.convert_result(self.text.format_map({**given, "code": _fence(str(given["code"]))}))


def _fence(code: str) -> str:
    """Return the code in a fence that is longer than any run of backquotes in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{fence}python\n{code}\n{fence}"
