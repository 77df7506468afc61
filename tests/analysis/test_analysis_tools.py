"""The analysis tools and prompts, called by a client."""

import json
import logging
import math
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import pytest
import pytest_asyncio
from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult
from fastmcp.client.transports import FastMCPTransport
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import TypeAdapter

from quilt_mcp.analysis import results
from quilt_mcp.analysis.messages import Answer, Request
from quilt_mcp.analysis.resources import add_tools
from quilt_mcp.analysis.sandbox import Sandbox
from quilt_mcp.app import App, identity
from quilt_mcp.app.identity import LOCAL, Identity
from quilt_mcp.core.errors import NotSignedIn
from tests.analysis.sandboxes import AppWithSandbox
from tests.support.settings import Settings

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


@asynccontextmanager
async def connect(app: App) -> AsyncIterator[Connected]:
    """Connect a client to a server that has only the analysis tools and prompts."""
    mcp: FastMCP = FastMCP("bare", mask_error_details=True)
    add_tools(mcp, app)
    try:
        async with Client(mcp) as connected:
            yield connected
    finally:
        await app.close()


@pytest_asyncio.fixture(loop_scope="session")
async def client(sandbox: Sandbox) -> AsyncIterator[Connected]:
    async with connect(AppWithSandbox(sandbox)) as connected:
        yield connected


async def call(client: Connected, tool: str, **arguments: Any) -> CallToolResult:
    return await client.call_tool(tool, arguments, raise_on_error=False)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


async def test_client_gets_a_counterexample(client: Connected) -> None:
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
            "test": "from submitted import f\n\n\ndef test_f_keeps_its_contract():\n    x = 21\n    result = f(x)\n"
            "    assert result != 42\n",
        }
    ]


async def test_tools_have_descriptions_and_annotations(client: Connected) -> None:
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
        assert len(tool.description or "") < 700  # every conversation contains it
        assert all(parameter["description"] for parameter in tool.input_schema["properties"].values())
    for name in ARGUMENTS:
        limit = tools[name].input_schema["properties"]["timeout_seconds"]
        assert (limit["type"], limit["minimum"], limit["maximum"], limit["default"]) == ("number", 1, 120, 30)
        assert "timeout_seconds" not in tools[name].input_schema.get("required", [])


@pytest.mark.parametrize("tool", RESULTS)
async def test_answers_match_the_output_schema(tool: str, client: Connected) -> None:
    (schema,) = [one.output_schema for one in await client.list_tools() if one.name == tool]
    assert schema is not None
    result = await call(client, tool, **ARGUMENTS.get(tool, {}))
    Draft202012Validator(schema).validate(result.structured_content)
    TypeAdapter(RESULTS[tool]).validate_python(result.structured_content, strict=True)
    assert result.structured_content is not None
    assert set(result.structured_content) <= set(RESULTS[tool].__annotations__)


NO_TIMEOUTS = [0, -1, 0.99, 120.01, 1e9, math.nan, math.inf, "30", True, None]


async def test_error_names_timeout_that_is_out_of_range(client: Connected) -> None:
    for tool, seconds in product(ARGUMENTS, NO_TIMEOUTS):
        result = await call(client, tool, **ARGUMENTS[tool], timeout_seconds=seconds)
        answer = json.loads(text_of(result))
        assert (result.is_error, answer["status"], answer["error_type"]) == (True, "error", "InvalidArguments"), seconds
        assert "`timeout_seconds` must be a number from 1 to 120. You can omit it" in answer["message"]


BAD_ARGUMENTS: list[tuple[str, dict[str, Any], str]] = [
    ("symbolic_check", {"code": 5}, "code"),
    ("symbolic_check", {"code": None}, "code"),
    ("symbolic_check", {"code": ["def f(): pass"]}, "code"),
    ("symbolic_check", {"code": ""}, "code"),
    ("symbolic_check", {"code": "#" * 1_048_577}, "code"),
    ("symbolic_check", {"function_name": ""}, "function_name"),
    ("symbolic_check", {"function_name": "f()"}, "function_name"),
    ("symbolic_check", {"function_name": "f\n"}, "function_name"),
    ("symbolic_check", {"function_name": "a.b.f"}, "function_name"),
    ("symbolic_check", {"function_name": "x" * 101}, "function_name"),
    ("symbolic_check", {"function_name": "__import__('os')"}, "function_name"),
    ("symbolic_check", {"surprise": 1}, "surprise"),
    ("find_path_to_exception", {"exception_type": ""}, "exception_type"),
    ("find_path_to_exception", {"exception_type": "ValueError()"}, "exception_type"),
    ("find_path_to_exception", {"exception_type": "a.b.c.d"}, "exception_type"),
    ("compare_functions", {"function_b": 7}, "function_b"),
    ("analyze_branches", {"symbolic_reachability": "perhaps"}, "symbolic_reachability"),
]


async def test_error_names_invalid_argument(client: Connected) -> None:
    schemas = {one.name: Draft202012Validator(one.output_schema or False) for one in await client.list_tools()}
    for tool, changed, named in BAD_ARGUMENTS:
        result = await call(client, tool, **{**ARGUMENTS[tool], **changed})
        answer = result.structured_content or {}
        assert (result.is_error, answer["status"], answer["error_type"]) == (True, "error", "InvalidArguments"), named
        assert named in answer["message"]
        schemas[tool].validate(answer)


REFUSALS: list[tuple[str, dict[str, Any], str, str]] = [
    ("symbolic_check", {"code": "import os\n" + KEPT.replace("x * 2", "os.f(x)")}, "Refused", "allowed_modules"),
    ("symbolic_check", {"function_name": "f.g"}, "FunctionNotFound", "Choose one of: f"),
    ("symbolic_check", {"files": {"json": "x = 1"}}, "InvalidFiles", "standard library"),
    ("compare_functions", {"old_code": PAIR}, "InvalidArguments", "either code, function_a and function_b"),
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
    ("find_path_to_exception", {"code": "def f(x: 5): pass"}, "UnsupportedSignature", "Annotate each parameter"),
    ("compare_functions", {"code": "def a(x: int): pass\ndef b(): pass"}, "SignatureMismatch", "same names"),
    ("analyze_branches", {"function_name": "nothing"}, "FunctionNotFound", "Choose one of"),
]


@pytest.mark.soak
@pytest.mark.parametrize(("tool", "changed", "error_type", "advice"), REFUSALS)
async def test_answer_says_what_to_change_if_an_analysis_is_impossible(
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


async def test_answer_with_another_form_is_not_returned(ungated: Sandbox) -> None:
    # without the gate, the code runs and its answer has the status "ran"
    async with connect(AppWithSandbox(ungated)) as client:
        for tool, arguments in ARGUMENTS.items():
            answer = (await call(client, tool, **arguments)).structured_content
            assert answer is not None
            assert (answer["status"], answer["error_type"]) == ("error", "InvalidAnswer")


class RecordingSandbox(Sandbox):
    """Records the timeout of each call, and analyses nothing."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.timeouts: list[float] = []
        self.callers: list[str | None] = []

    async def analyse(self, request: Request, *, seconds: float, caller: str | None = None) -> Answer:
        """Record the timeout."""
        self.timeouts.append(seconds)
        self.callers.append(caller)
        return {"status": "error", "error_type": "Recorded", "message": "recorded"}


async def test_default_timeout_comes_from_the_settings() -> None:
    settings = Settings(analysis_default_timeout_seconds=7)
    sandbox = RecordingSandbox(settings)
    async with connect(AppWithSandbox(sandbox, settings)) as client:
        await call(client, "symbolic_check", **ARGUMENTS["symbolic_check"])
        await call(client, "symbolic_check", **ARGUMENTS["symbolic_check"], timeout_seconds=3)  # recorded only
        shown = [tool.input_schema["properties"].get("timeout_seconds") for tool in await client.list_tools()]
    assert sandbox.timeouts == [7.0, 3.0]
    assert [limit["default"] for limit in shown if limit] == [7, 7, 7, 7]


async def test_each_signed_in_caller_has_a_share_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Identity:
        raise NotSignedIn("The token names nobody.")

    sandbox = RecordingSandbox(Settings())
    ann = Identity("ann", "https://issuer.example.com")
    async with connect(AppWithSandbox(sandbox)) as client:
        for current in (lambda: ann, lambda: LOCAL, refuse):
            monkeypatch.setattr(identity, "current", current)
            await call(client, "symbolic_check", **ARGUMENTS["symbolic_check"])
    assert sandbox.callers == [ann.key, None, ""]


@pytest.mark.soak
async def test_coverage_threshold_is_the_maximum_number_of_paths() -> None:
    loop = 'def f(x: int) -> int:\n    """post: _ <= 0"""\n    while x > 0:\n        x -= 1\n    return x\n'
    async with connect(App(Settings(analysis_coverage_threshold=100))) as client:
        result = await call(client, "symbolic_check", code=loop, function_name="f", timeout_seconds=60)
    assert result.structured_content is not None
    assert (result.structured_content["status"], result.structured_content["paths_explored"]) == ("unknown", 100)
    assert "100 paths" in result.structured_content["message"]


async def test_health_check_returns_versions_and_does_not_identify_the_machine(client: Connected) -> None:
    answer = (await call(client, "health_check")).structured_content
    assert answer is not None
    assert answer["status"] == "healthy"
    assert (answer["crosshair_version"], answer["z3_version"]) == ("0.0.113", "5.3.3.0")
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


async def test_prompts_contain_their_arguments(client: Connected) -> None:
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


async def test_missing_arguments_of_a_prompt_are_named(client: Connected, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(MCPError, match="The prompt needs the arguments function_name") as refused:
        await client.get_prompt("symbolic_check_template", {"code": "x"})
    assert refused.value.error.code == INVALID_PARAMS
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_fence_is_longer_than_any_in_the_code(client: Connected) -> None:
    for longest in (4, 900_000):
        arguments = {"code": f"x = '''\n```\n{'`' * longest}\n'''", "function_name": "f"}
        (message,) = (await client.get_prompt("symbolic_check_template", arguments)).messages
        assert message.content.type == "text"
        assert message.content.text.endswith(f"\n{'`' * (longest + 1)}")


async def test_server_without_the_extra_has_no_tools_and_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "crosshair", None)  # how Python marks a module that cannot be imported
    async with connect(App(Settings())) as client:
        assert (await client.list_tools(), await client.list_prompts()) == ([], [])
