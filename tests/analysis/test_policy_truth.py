"""The sandbox enforces exactly what config://security publishes."""

import subprocess
import sys
from importlib import import_module

import pytest
from pydantic import TypeAdapter

from quilt_mcp.analysis.gate.admit import admit
from quilt_mcp.analysis.gate.loading import load_module
from quilt_mcp.analysis.gate.rules import RULES, Refused
from quilt_mcp.analysis.policy import STANDARD_LIBRARY, SUPPORTED_PYTHONS, Policy
from quilt_mcp.analysis.resources import SecurityConfig, describe_security, security
from quilt_mcp.analysis.sandbox import Sandbox
from quilt_mcp.app import App
from tests.analysis.sandboxes import SETTINGS, ask, ask_all, running, script
from tests.support.settings import Settings


def _list_other_modules(published: SecurityConfig) -> list[str]:
    assert published["other_modules"] == "refused"
    return sorted({*STANDARD_LIBRARY, "numpy", "os.path"} - {*published["allowed_modules"]})


def _read_limit(published: SecurityConfig, name: str) -> int:
    limit = published["limits"][name]
    assert limit["unit"]
    return limit["value"]


async def _find_contradictions(sandbox: Sandbox, every: int = 1) -> list[str]:
    """Return what the sandbox does differently from what it publishes. It tries one of `every` refused names."""
    published = describe_security(sandbox)
    allowed = {f"import {name}": f"import {name}" for name in published["allowed_modules"]}
    allowed["exact size"] = "#" * _read_limit(published, "code_size_bytes")
    refused = {f"import {name}": f"import {name}" for name in _list_other_modules(published)[::every]}
    refused |= {f"builtin {name}": f"x = {name}" for name in published["dangerous_builtins"][::every]}
    refused["one byte more"] = "#" * (_read_limit(published, "code_size_bytes") + 1)
    of_allowed, of_refused = await ask_all(sandbox, allowed), await ask_all(sandbox, refused)
    # code without a function passes the gate and runs; then there is no function to analyse
    wrong = [name for name, answer in of_allowed.items() if answer.get("error_type") != "FunctionNotFound"]
    return wrong + [name for name, answer in of_refused.items() if answer.get("error_type") != "Refused"]


async def test_sandbox_enforces_what_it_publishes(sandbox: Sandbox) -> None:
    assert await _find_contradictions(sandbox, every=20) == []


@pytest.mark.soak
async def test_sandbox_enforces_all_that_it_publishes(sandbox: Sandbox) -> None:
    assert await _find_contradictions(sandbox) == []


@pytest.mark.soak
async def test_gate_with_another_policy_is_detected() -> None:
    async with running(script("lenient_gate.py")) as sandbox:
        assert await _find_contradictions(sandbox) == ["exact size", "import os", "builtin eval"]


def test_gate_refuses_all_published_modules_and_builtins(sandbox: Sandbox) -> None:
    published = describe_security(sandbox)
    codes = {f"import {name}": "import" for name in _list_other_modules(published)}
    codes |= {f"x = {name}": "builtin" for name in published["dangerous_builtins"]}
    assert {code: _find_rule(code) for code in codes} == codes


def _find_rule(code: str) -> str | None:
    """Return the rule that code breaks in the gate or while it is loaded, without a sandbox."""
    try:
        load_module(admit(code, Policy()).source, Policy())
    except Refused as refused:
        return refused.rule
    return None


def _generate_programs(published: SecurityConfig) -> dict[str, list[str]]:
    """Return programs that each published rule must refuse: its examples, or code beyond one of the limits."""
    programs = {one["rule"]: one["examples"] for one in published["rules"]}
    nodes, depth = _read_limit(published, "syntax_nodes"), _read_limit(published, "syntax_depth")
    beyond = {
        "size": ["#" * (_read_limit(published, "code_size_bytes") + 1)],
        "nodes": ["0\n" * (nodes // 2)],
        "nesting": ["x = " + "-" * depth + "1"],
        "literal": [
            f"x = {10 ** (_read_limit(published, 'integer_digits') + 1)}",
            f"x = '{'a' * (_read_limit(published, 'literal_length') + 1)}'",
        ],
    }
    assert not [name for name in beyond if programs[name]]
    return programs | beyond


async def test_every_published_rule_refuses_a_program(sandbox: Sandbox) -> None:
    programs = _generate_programs(describe_security(sandbox))
    asked = {f"{rule} {number}": code for rule, codes in programs.items() for number, code in enumerate(codes)}
    answers = await ask_all(sandbox, asked)
    assert {name: answer.get("rule") for name, answer in answers.items() if answer.get("rule") != name.split()[0]} == {}
    # no code is known that breaks `canonical`, which is for later versions of Python
    assert [rule for rule, codes in programs.items() if not codes] == ["canonical"]
    assert {one["rule"]: one["message"] for one in describe_security(sandbox)["rules"]} == RULES


@pytest.mark.parametrize("length", [0, -1])
async def test_code_at_a_published_limit_is_admitted(length: int, sandbox: Sandbox) -> None:
    published = describe_security(sandbox)
    codes = {
        "integer": f"x = {10 ** (_read_limit(published, 'integer_digits') + length - 1)}",
        "text": f"x = '{'a' * (_read_limit(published, 'literal_length') + length)}'",
        "depth": "x = " + "-" * (_read_limit(published, "syntax_depth") + length - 3) + "1",
    }
    answers = await ask_all(sandbox, codes)
    assert {answer.get("error_type") for answer in answers.values()} == {"FunctionNotFound"}


def _use_names(published: SecurityConfig) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return programs that use closed attributes, define methods, and import withheld names."""
    refused = {name: f"x = y.{name}" for name in published["closed_attributes"]}
    methods = {name: f"class A:\n    def {name}(self): pass" for name in published["definable_methods"]}
    withheld = {}
    for one in published["withheld_names"]:
        module, _, name = one.rpartition(".")
        if hasattr(import_module(module), name):  # the others are of later versions of Python
            withheld[one] = f"from {module} import {name}"
    return refused, methods, withheld


def test_gate_refuses_all_published_names(sandbox: Sandbox) -> None:
    refused, methods, withheld = _use_names(describe_security(sandbox))
    assert {_find_rule(code) for code in refused.values()} == {"attribute"}
    assert {_find_rule(code) for code in methods.values()} == {None}
    assert {_find_rule(code) for code in withheld.values()} == {"withheld"}


@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.soak)])
async def test_sandbox_refuses_published_names(every: int, sandbox: Sandbox) -> None:
    """`make test` tries one of twenty names of each kind."""
    refused, methods, withheld = (
        dict(list(codes.items())[::every]) for codes in _use_names(describe_security(sandbox))
    )
    of_refused, of_methods = await ask_all(sandbox, refused), await ask_all(sandbox, methods)
    of_withheld = await ask_all(sandbox, withheld)
    assert {answer.get("rule") for answer in of_refused.values()} == {"attribute"}
    assert {answer.get("error_type") for answer in of_methods.values()} == {"FunctionNotFound"}
    assert {answer.get("rule") for answer in of_withheld.values()} == {"withheld"}
    assert [name for name, answer in of_withheld.items() if not answer["message"].startswith(f"{name}: ")] == []


async def test_child_has_the_published_limits(ungated: Sandbox) -> None:
    code = "import resource\nR = [resource.getrlimit(n) for n in (resource.RLIMIT_AS, resource.RLIMIT_CPU)]"
    answer = await ask(ungated, code, seconds=7)
    limit = _read_limit(describe_security(ungated), "memory_limit_mb") << 20
    assert answer["value"] == str([(limit, limit), (19, 19)])


@pytest.mark.soak
async def test_settings_change_what_is_published_and_enforced() -> None:
    large = "x = 'a' * (280 << 20)"
    settings = Settings(analysis_memory_limit_mb=300, analysis_code_size_bytes=1024, analysis_coverage_threshold=100)
    async with running(settings=settings) as sandbox:
        published = describe_security(sandbox)
        names = ("memory_limit_mb", "code_size_bytes", "coverage_threshold")
        assert [_read_limit(published, name) for name in names] == [300, 1024, 100]
        assert (await ask(sandbox, "#" * 1024, seconds=60))["error_type"] == "FunctionNotFound"
        assert (await ask(sandbox, "#" * 1025, seconds=60))["error_type"] == "Refused"
        assert (await ask(sandbox, large, seconds=60))["error_type"] == "MemoryLimit"
    async with running() as sandbox:
        assert (await ask(sandbox, large, seconds=60))["error_type"] == "FunctionNotFound"


@pytest.mark.soak
async def test_minimum_memory_is_enough_for_an_analysis() -> None:
    async with running(settings=Settings(analysis_memory_limit_mb=128)) as sandbox:
        answer = await ask(sandbox, "def f(x: int) -> int:\n    'post: _ != 42'\n    return x * 2", seconds=60)
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
def test_setting_out_of_range_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=r"(?i)analysis"):
        Settings()


def test_settings_have_older_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMBOLIC_MEMORY_LIMIT_MB", "200")
    monkeypatch.setenv("SYMBOLIC_CODE_SIZE_LIMIT", "2000")
    monkeypatch.setenv("SYMBOLIC_COVERAGE_EXHAUSTIVE_THRESHOLD", "500")
    policy = Policy.from_settings(Settings())
    assert (policy.memory_limit_mb, policy.code_size_bytes, policy.coverage_threshold) == (200, 2000, 500)


def test_every_module_and_builtin_of_this_python_is_listed(sandbox: Sandbox) -> None:
    published = describe_security(sandbox)
    assert set(sys.stdlib_module_names) <= {*STANDARD_LIBRARY}
    # a fresh interpreter, because libraries that other tests load add names to `builtins` of this process
    listing = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "import builtins; print(*dir(builtins))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(listing.stdout.split()) - {*Policy().permitted_builtins, *published["dangerous_builtins"]} == set()


def test_resource_describes_the_sandbox_of_the_current_app() -> None:
    with App(Settings(analysis_code_size_bytes=1234)).active():
        published = security()
    assert _read_limit(published, "code_size_bytes") == 1234
    assert TypeAdapter(SecurityConfig).validate_python(published, strict=True) == published


@pytest.mark.parametrize("package", ["crosshair", "z3"])
def test_server_without_the_extra_accepts_no_code(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # how Python marks a module that cannot be imported
    _assert_accepts_nothing(describe_security(Sandbox(SETTINGS)))


def test_server_without_a_layer_accepts_no_code_unless_the_operator_allows_it() -> None:
    probe = (sys.executable, "-c", 'print(\'{"privileges": true, "rlimits": true, "seccomp": true}\')')
    _assert_accepts_nothing(describe_security(Sandbox(SETTINGS, probe=probe)))
    allowed = describe_security(Sandbox(Settings(analysis_allow_weaker_sandbox=True), probe=probe))
    assert _read_limit(allowed, "code_size_bytes") == 65536
    assert allowed["isolation"] == {
        "accepts_code": True,
        "weaker_sandbox_allowed": True,
        "landlock": False,
        "privileges": True,
        "rlimits": True,
        "seccomp": True,
    }


@pytest.mark.parametrize("output", ["", "x", "[1", "'"])
def test_probe_that_fails_means_no_layer_works(output: str) -> None:
    assert not any(Sandbox(SETTINGS, probe=(sys.executable, "-c", f"print({output!r})")).probe_layers().values())
    assert not any(Sandbox(SETTINGS, probe=("/nonexistent",)).probe_layers().values())


async def test_sandbox_needs_linux() -> None:
    sandbox = Sandbox(Settings(analysis_allow_weaker_sandbox=True), platform="darwin")
    published = describe_security(sandbox)
    assert not any(sandbox.probe_layers().values())
    _assert_accepts_nothing(published)
    answer = await ask(sandbox, "x = 1")
    assert (answer["error_type"], sandbox.zygote_pid) == ("SandboxUnavailable", None)


@pytest.mark.parametrize("python", [(3, 10), (3, 14), (4, 0)])
async def test_python_without_a_run_of_the_attack_table_is_refused(python: tuple[int, int]) -> None:
    sandbox = Sandbox(Settings(analysis_allow_weaker_sandbox=True), python=python)
    _assert_accepts_nothing(describe_security(sandbox))
    answer = await ask(sandbox, "x = 1")
    assert (answer["status"], answer["error_type"]) == ("error", "UnsupportedPython")
    assert f"Python {python[0]}.{python[1]}" in answer["message"]
    assert "3.11, 3.12, 3.13" in answer["message"]
    assert sandbox.zygote_pid is None


def test_this_python_is_supported() -> None:
    assert sys.version_info[:2] in SUPPORTED_PYTHONS


def _assert_accepts_nothing(published: SecurityConfig) -> None:
    assert published["allowed_modules"] == []
    assert {"len", "eval"} <= {*published["dangerous_builtins"]}
    assert {one["value"] for one in published["limits"].values()} == {0}
    assert not published["isolation"]["accepts_code"]
