"""The analysis tools and prompts, as a client meets them."""

import math
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult
from fastmcp.client.transports import FastMCPTransport
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information
from pydantic import TypeAdapter

from quilt_mcp import runtime_context
from quilt_mcp.analysis import extra, results, sandbox
from quilt_mcp.settings import Settings
from quilt_mcp.tools.analysis_prompts import register_analysis_prompts
from quilt_mcp.tools.analysis_tools import register_analysis_tools

Connected = Client[FastMCPTransport]

KEPT = 'def f(x: int) -> int:\n    """post: _ != 42"""\n    return x * 2\n'
PAIR = "def a(x: int): return x * 2\ndef b(x: int): return x + x\n"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "symbolic_check": {"code": KEPT, "function_name": "f"},
    "find_path_to_exception": {"code": KEPT, "function_name": "f", "exception_type": "ValueError"},
    "compare_functions": {"code": PAIR, "function_a": "a", "function_b": "b"},
    "analyze_branches": {"code": KEPT, "function_name": "f", "symbolic_reachability": True},
}
RESULTS: dict[str, Any] = {
    "symbolic_check": results.SymbolicCheckResult,
    "find_path_to_exception": results.ExceptionPathResult,
    "compare_functions": results.ComparisonResult,
    "analyze_branches": results.BranchesResult,
    "health_check": results.HealthResult,
}


@pytest.fixture
async def client() -> AsyncIterator[Connected]:
    mcp: FastMCP = FastMCP("bare", mask_error_details=True)
    register_analysis_tools(mcp)
    register_analysis_prompts(mcp)
    try:
        async with Client(mcp) as connected:
            yield connected
    finally:
        await sandbox.close()


async def call(client: Connected, tool: str, **arguments: Any) -> CallToolResult:
    return await client.call_tool(tool, arguments, raise_on_error=False)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


async def test_a_client_gets_a_counterexample(client: Connected) -> None:
    result = await call(client, "symbolic_check", **ARGUMENTS["symbolic_check"])
    assert result.structured_content is not None
    assert (result.structured_content["status"], result.structured_content["confirmed_by_replay"]) == (
        "counterexample",
        True,
    )
    assert result.structured_content["counterexamples"] == [
        {
            "args": {"x": 21},
            "kwargs": {},
            "call": "f(21)",
            "violation": "post: _ != 42 does not hold",
            "actual_result": "42",
            "path_condition": "True",
        }
    ]


async def test_the_tools_are_described_and_annotated(client: Connected) -> None:
    tools = {tool.name: tool for tool in await client.list_tools()}
    assert set(tools) == set(RESULTS)
    titles = [tools[name].title for name in RESULTS]
    assert titles == [
        "Symbolic Contract Verification",
        "Find Exception Triggering Inputs",
        "Semantic Function Equivalence Check",
        "Branch Analysis and Complexity",
        "Server Health Check",
    ]
    for tool in tools.values():
        hints = tool.annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.idempotent_hint, hints.destructive_hint) == (True, True, False)
        assert len(tool.description or "") < 600  # each client pays for it in every conversation
        assert all(parameter["description"] for parameter in tool.input_schema["properties"].values())
    for name in ARGUMENTS:
        limit = tools[name].input_schema["properties"]["timeout_seconds"]
        assert (limit["type"], limit["minimum"], limit["maximum"], limit["default"]) == ("number", 1, 120, 30)
        assert "timeout_seconds" not in tools[name].input_schema["required"]


@pytest.mark.parametrize("tool", RESULTS)
async def test_answers_conform_to_the_output_schema(tool: str, client: Connected) -> None:
    (schema,) = [one.output_schema for one in await client.list_tools() if one.name == tool]
    assert schema is not None
    result = await call(client, tool, **ARGUMENTS.get(tool, {}))
    Draft202012Validator(schema).validate(result.structured_content)
    TypeAdapter(RESULTS[tool]).validate_python(result.structured_content, strict=True)
    assert result.structured_content is not None
    assert set(result.structured_content) <= set(RESULTS[tool].__annotations__)


@pytest.mark.parametrize("tool", ARGUMENTS)
@pytest.mark.parametrize("seconds", [0, -1, 0.99, 120.01, 1e9, math.nan, math.inf, "30", True, None])
async def test_a_time_limit_out_of_bounds_is_refused_by_name(tool: str, seconds: Any, client: Connected) -> None:
    result = await call(client, tool, **ARGUMENTS[tool], timeout_seconds=seconds)
    assert result.is_error
    assert "timeout_seconds" in text_of(result)
    assert "Input should be" in text_of(result)


BAD_ARGUMENTS: list[tuple[str, dict[str, Any], str]] = [
    ("symbolic_check", {"code": 5}, "code"),
    ("symbolic_check", {"code": None}, "code"),
    ("symbolic_check", {"code": ["def f(): pass"]}, "code"),
    ("symbolic_check", {"code": ""}, "code"),
    ("symbolic_check", {"code": "#" * 1_048_577}, "code"),
    ("symbolic_check", {"function_name": ""}, "function_name"),
    ("symbolic_check", {"function_name": "f()"}, "function_name"),
    ("symbolic_check", {"function_name": "f\n"}, "function_name"),
    ("symbolic_check", {"function_name": "a.f"}, "function_name"),
    ("symbolic_check", {"function_name": "x" * 101}, "function_name"),
    ("symbolic_check", {"function_name": "__import__('os')"}, "function_name"),
    ("symbolic_check", {"surprise": 1}, "surprise"),
    ("find_path_to_exception", {"exception_type": ""}, "exception_type"),
    ("find_path_to_exception", {"exception_type": "ValueError()"}, "exception_type"),
    ("find_path_to_exception", {"exception_type": "a.b.c.d"}, "exception_type"),
    ("compare_functions", {"function_b": 7}, "function_b"),
    ("analyze_branches", {"symbolic_reachability": "perhaps"}, "symbolic_reachability"),
]


@pytest.mark.parametrize(("tool", "changed", "named"), BAD_ARGUMENTS)
async def test_a_bad_argument_is_refused_by_name(
    tool: str, changed: dict[str, Any], named: str, client: Connected
) -> None:
    result = await call(client, tool, **{**ARGUMENTS[tool], **changed})
    assert result.is_error
    assert named in text_of(result)


REFUSALS: list[tuple[str, dict[str, Any], str, str]] = [
    ("symbolic_check", {"code": "import os\n" + KEPT}, "Refused", "allowed_modules"),
    ("symbolic_check", {"code": "def f(:"}, "Refused", ""),
    ("symbolic_check", {"code": KEPT + "#" * 65536}, "Refused", ""),
    ("symbolic_check", {"code": "raise ValueError('a secret')\n" + KEPT}, "CodeRaised", "ValueError"),
    ("symbolic_check", {"function_name": "g"}, "FunctionNotFound", "Choose one of: f"),
    ("symbolic_check", {"code": KEPT + KEPT}, "AmbiguousFunction", "Leave one"),
    ("symbolic_check", {"code": "f = 5\n"}, "FunctionNotFound", "Define it"),
    ("symbolic_check", {"code": "def f(x: int): return x"}, "NoContract", "post:"),
    ("symbolic_check", {"code": 'def f(x: int):\n    """post: _ >"""'}, "Refused", ""),
    ("find_path_to_exception", {"exception_type": "int"}, "UnknownExceptionType", "ValueError"),
    ("find_path_to_exception", {"exception_type": "SystemExit"}, "UnknownExceptionType", "ValueError"),
    ("find_path_to_exception", {"code": "def f(x: nothing): pass"}, "CodeRaised", "NameError"),
    ("find_path_to_exception", {"code": "def f(x: 'nothing'): pass"}, "UnsupportedSignature", "Define or import"),
    ("compare_functions", {"code": "def a(x: int): pass\ndef b(): pass"}, "SignatureMismatch", "same names"),
    ("analyze_branches", {"function_name": "nothing"}, "FunctionNotFound", "Choose one of"),
]


@pytest.mark.parametrize(("tool", "changed", "error_type", "advice"), REFUSALS)
async def test_what_cannot_be_analysed_is_an_answer_with_advice(
    tool: str, changed: dict[str, Any], error_type: str, advice: str, client: Connected
) -> None:
    result = await call(client, tool, **{**ARGUMENTS[tool], **changed})
    assert not result.is_error
    answer = result.structured_content
    assert answer is not None
    assert (answer["status"], answer["error_type"]) == ("error", error_type)
    assert answer["message"]
    assert advice in answer["message"]
    assert "a secret" not in text_of(result)
    (schema,) = [one.output_schema for one in await client.list_tools() if one.name == tool]
    Draft202012Validator(schema or False).validate(answer)


async def test_an_answer_of_another_shape_is_not_passed_on(client: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    async def forged(request: Any, *, timeout: float) -> dict[str, Any]:  # noqa: ASYNC109 - as the sandbox's
        return {"status": "proven beyond doubt", "paths_explored": "many"}

    monkeypatch.setattr(sandbox, "analyse", forged)
    for tool, arguments in ARGUMENTS.items():
        answer = (await call(client, tool, **arguments)).structured_content
        assert answer is not None
        assert (answer["status"], answer["error_type"]) == ("error", "InvalidAnswer")


async def test_the_default_time_limit_is_the_settings(client: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    async def noted(request: Any, *, timeout: float) -> dict[str, Any]:  # noqa: ASYNC109 - as the sandbox's
        asked.extend([timeout, request["timeout_seconds"]])
        return {"status": "error", "error_type": "Noted", "message": "noted"}

    monkeypatch.setattr(sandbox, "analyse", noted)
    before = runtime_context.settings()
    runtime_context.use_settings(Settings(analysis_default_timeout_seconds=7))
    try:
        await call(client, "symbolic_check", **ARGUMENTS["symbolic_check"])
        mcp: FastMCP = FastMCP("bare")
        register_analysis_tools(mcp)
        shown = [tool.parameters["properties"].get("timeout_seconds") for tool in await mcp.list_tools()]
    finally:
        runtime_context.use_settings(before)
    assert asked == [7.0, 7.0]
    assert [limit["default"] for limit in shown if limit] == [7, 7, 7, 7]


async def test_the_published_number_of_paths_is_the_most_that_are_explored(client: Connected) -> None:
    loop = 'def f(x: int) -> int:\n    """post: _ <= 0"""\n    while x > 0:\n        x -= 1\n    return x\n'
    before = runtime_context.settings()
    runtime_context.use_settings(Settings(analysis_coverage_threshold=100))
    try:
        result = await call(client, "symbolic_check", code=loop, function_name="f", timeout_seconds=60)
    finally:
        runtime_context.use_settings(before)
    assert result.structured_content is not None
    assert (result.structured_content["status"], result.structured_content["paths_explored"]) == ("unknown", 100)
    assert "100 paths" in result.structured_content["message"]


async def test_health_tells_versions_and_nothing_that_identifies_the_machine(client: Connected) -> None:
    answer = (await call(client, "health_check")).structured_content
    assert answer is not None
    assert answer["status"] == "healthy"
    assert (answer["crosshair_version"], answer["z3_version"]) == ("0.0.112", "5.3.1.0")
    assert len(answer["platform"].split()) == 2
    assert answer["memory_usage_mb"] is None or answer["memory_usage_mb"] > 1


PROMPTS = {
    "symbolic_check_template": ("symbolic_check", {"code": KEPT, "function_name": "f"}),
    "find_exception_path_template": (
        "find_path_to_exception",
        {"code": KEPT, "function_name": "f", "exception_type": "KeyError"},
    ),
    "compare_functions_template": ("compare_functions", {"code": PAIR, "function_a": "a", "function_b": "b"}),
    "analyze_branches_template": ("analyze_branches", {"code": KEPT, "function_name": "f"}),
}


async def test_the_prompts_take_real_arguments(client: Connected) -> None:
    listed = {prompt.name: prompt for prompt in await client.list_prompts()}
    assert set(listed) == set(PROMPTS)
    for name, (tool, arguments) in PROMPTS.items():
        assert {one.name for one in listed[name].arguments or ()} == set(arguments)
        assert all(one.required and one.description for one in listed[name].arguments or ())
        (message,) = (await client.get_prompt(name, arguments)).messages
        assert message.content.type == "text"
        assert tool in message.content.text
        assert all(value in message.content.text for value in arguments.values())
        assert "{" not in message.content.text.replace(arguments["code"], "")


async def test_code_cannot_leave_its_fence(client: Connected) -> None:
    arguments = {"code": "x = '''\n```\n````\n'''", "function_name": "f"}
    (message,) = (await client.get_prompt("symbolic_check_template", arguments)).messages
    assert message.content.type == "text"
    assert message.content.text.endswith("\n`````")


async def test_without_the_extra_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra, "is_installed", lambda: False)
    mcp: FastMCP = FastMCP("bare")
    register_analysis_tools(mcp)
    register_analysis_prompts(mcp)
    assert (await mcp.list_tools(), await mcp.list_prompts()) == ([], [])


def test_registering_imports_no_engine_and_starts_no_process() -> None:
    program = """
import sys
from fastmcp import FastMCP
from quilt_mcp.tools.analysis_prompts import register_analysis_prompts
from quilt_mcp.tools.analysis_tools import register_analysis_tools
import os
mcp = FastMCP("bare")
register_analysis_tools(mcp)
register_analysis_prompts(mcp)
print(sorted({"crosshair", "z3"} & set(sys.modules)))
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child")
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.split("\n")[:2] == ["[]", "no child"]
