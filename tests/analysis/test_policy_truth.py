"""config://security tells what holds: each thing that it publishes is tried in the sandbox."""

import builtins
import sys
from typing import Any

import pytest
from pydantic import TypeAdapter

from quilt_mcp import runtime_context
from quilt_mcp.analysis import security_resource
from quilt_mcp.analysis.policy import Policy
from quilt_mcp.analysis.security_resource import SecurityConfig, security
from quilt_mcp.analysis.warm_process import COMMAND
from quilt_mcp.settings import Settings
from tests.analysis.sandboxes import UNGATED, ask, ask_all, running, script


@pytest.fixture
def put_back_settings() -> Any:
    before = runtime_context.settings()
    yield
    runtime_context.use_settings(before)


async def _contradictions(command: tuple[str, ...]) -> list[str]:
    """What the sandbox does otherwise than config://security says."""
    told, policy = security(), Policy.of(runtime_context.settings())
    passes = {f"import {name}": f"import {name}" for name in told["allowed_modules"]}
    passes["exact size"] = "#" * told["code_size_bytes"]
    refused = {f"import {name}": f"import {name}" for name in told["blocked_modules"]}
    refused |= {f"builtin {name}": f"x = {name}" for name in told["dangerous_builtins"]}
    refused["one byte more"] = "#" * (told["code_size_bytes"] + 1)
    async with running(command) as sandbox:
        let_in = await ask_all(sandbox, passes, policy)
        kept_out = await ask_all(sandbox, refused, policy)
    # code without a function passes the gate, is run, and then has nothing to analyse
    wrong = [name for name, answer in let_in.items() if answer.get("error_type") != "FunctionNotFound"]
    return wrong + [name for name, answer in kept_out.items() if answer.get("error_type") != "Refused"]


async def test_what_is_published_is_what_holds() -> None:
    assert await _contradictions(COMMAND) == []


async def test_a_gate_with_a_policy_of_its_own_is_found_out() -> None:
    assert await _contradictions(script("lenient_gate.py")) == ["exact size", "import os", "builtin eval"]


async def test_the_limits_of_the_child_are_those_published() -> None:
    code = "import resource\nR = [resource.getrlimit(n) for n in (resource.RLIMIT_AS, resource.RLIMIT_CPU)]"
    async with running(UNGATED) as sandbox:
        answer = await ask(sandbox, code, seconds=7, policy=Policy.of(runtime_context.settings()))
    limit = security()["memory_limit_mb"] << 20
    assert answer["value"] == str([(limit, limit), (19, 19)])


async def test_a_setting_changes_what_is_published_and_what_holds(put_back_settings: None) -> None:
    runtime_context.use_settings(
        Settings(analysis_memory_limit_mb=300, analysis_code_size_bytes=1024, analysis_coverage_threshold=100)
    )
    told, policy = security(), Policy.of(runtime_context.settings())
    assert (told["memory_limit_mb"], told["code_size_bytes"], told["coverage_threshold"]) == (300, 1024, 100)
    assert policy.coverage_threshold == 100
    async with running() as sandbox:
        assert (await ask(sandbox, "#" * 1024, seconds=20, policy=policy))["error_type"] == "FunctionNotFound"
        assert (await ask(sandbox, "#" * 1025, seconds=20, policy=policy))["error_type"] == "Refused"
        assert (await ask(sandbox, "x = 'a' * (280 << 20)", seconds=20, policy=policy))["error_type"] == "MemoryLimit"
        assert (await ask(sandbox, "x = 'a' * (280 << 20)", seconds=20))["error_type"] == "FunctionNotFound"


async def test_the_least_memory_is_enough_for_an_analysis() -> None:
    async with running() as sandbox:
        code = "def f(x: int) -> int:\n    'post: _ != 42'\n    return x * 2"
        answer = await ask(sandbox, code, seconds=20, policy=Policy(memory_limit_mb=128))
    assert answer["status"] == "counterexample"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("QUILT_MCP_ANALYSIS_MEMORY_LIMIT_MB", "127"),
        ("SYMBOLIC_MEMORY_LIMIT_MB", "65537"),
        ("SYMBOLIC_CODE_SIZE_LIMIT", "1023"),
        ("SYMBOLIC_COVERAGE_EXHAUSTIVE_THRESHOLD", "many"),
    ],
)
def test_a_setting_out_of_bounds_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=r"(?i)analysis"):
        Settings()


def test_settings_by_their_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMBOLIC_MEMORY_LIMIT_MB", "200")
    monkeypatch.setenv("SYMBOLIC_CODE_SIZE_LIMIT", "2000")
    monkeypatch.setenv("SYMBOLIC_COVERAGE_EXHAUSTIVE_THRESHOLD", "500")
    policy = Policy.of(Settings())
    assert (policy.memory_limit_mb, policy.code_size_bytes, policy.coverage_threshold) == (200, 2000, 500)


def test_every_module_and_builtin_of_this_python_is_in_one_of_the_lists() -> None:
    told = security()
    assert set(sys.stdlib_module_names) - {*told["allowed_modules"], *told["blocked_modules"]} == set()
    assert set(dir(builtins)) - {*Policy().permitted_builtins, *told["dangerous_builtins"]} <= {"_"}


def test_lists_are_sorted_disjoint_and_new_each_time() -> None:
    first, second = security(), security()
    for name in ("allowed_modules", "blocked_modules", "dangerous_builtins"):
        assert first[name] == sorted(set(first[name]))
        first[name].clear()
    assert second == security()
    assert not {*second["allowed_modules"]} & {*second["blocked_modules"]}
    assert not {*Policy().permitted_builtins} & {*second["dangerous_builtins"]}


def test_the_answer_has_the_fields_that_it_declares() -> None:
    assert TypeAdapter(SecurityConfig).validate_python(security(), strict=True) == security()


def test_every_layer_holds_on_this_machine() -> None:
    assert security()["isolation"] == {
        "accepts_code": True,
        "weaker_sandbox_allowed": False,
        "landlock": True,
        "privileges": True,
        "rlimits": True,
        "seccomp": True,
    }


def test_without_the_extra_no_code_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_resource, "find_spec", lambda name: None)
    _assert_closed(security())


def test_where_a_layer_is_missing_no_code_is_accepted(monkeypatch: pytest.MonkeyPatch, put_back_settings: None) -> None:
    layers = security_resource.isolation() | {"landlock": False}
    monkeypatch.setattr(security_resource, "isolation", lambda: layers)
    _assert_closed(security())
    runtime_context.use_settings(Settings(analysis_allow_weaker_sandbox=True))
    told = security()
    assert told["code_size_bytes"] == 65536
    assert told["isolation"]["weaker_sandbox_allowed"]
    assert told["isolation"]["accepts_code"]
    assert not told["isolation"]["landlock"]


def test_on_another_system_no_layer_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    security_resource._tried.cache_clear()
    try:
        assert not any(security_resource.isolation().values())
    finally:
        security_resource._tried.cache_clear()


def _assert_closed(told: SecurityConfig) -> None:
    assert told["allowed_modules"] == []
    assert {"math", "os"} <= {*told["blocked_modules"]}
    assert {"len", "eval"} <= {*told["dangerous_builtins"]}
    assert (told["memory_limit_mb"], told["code_size_bytes"], told["coverage_threshold"]) == (0, 0, 0)
    assert not told["isolation"]["accepts_code"]
