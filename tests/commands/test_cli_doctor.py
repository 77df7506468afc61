"""`quilt-mcp doctor`."""

import json
from pathlib import Path
from typing import Any

import pytest
import quilt3.util

from quilt_mcp.app.checks import Check
from quilt_mcp.commands.cli import main
from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.demo.world import World
from quilt_mcp.services.diagnosis import check_directories
from tests.support.settings import Settings
from tests.support.worlds import enter_stopped


def run_doctor(capsys: pytest.CaptureFixture[str], *, ok: bool) -> dict[str, Check]:
    assert main(["doctor", "--json"]) == (0 if ok else 1)
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is ok
    checks: list[Check] = found["checks"]
    assert all(bool(check["fix"]) == (check["state"] == "failed") for check in checks)
    return {check["name"]: check for check in checks}


def failed(checks: dict[str, Check]) -> set[str]:
    return {name for name, check in checks.items() if check["state"] == "failed"}


@pytest.mark.parametrize("name", ["admin", "member", "empty", "api_key", "stack_2023"])
def test_all_checks_of_a_signed_in_user_succeed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with enter_stopped(name) as world:
        checks = run_doctor(capsys, ok=True)
    assert world.url in checks["catalog"]["detail"]
    who = {"api_key": "", "stack_2023": "does not say who its users are"}.get(name, world.user and world.user.name)
    assert str(who) in checks["sign-in"]["detail"]
    assert {"quilt-mcp", "Python", "demo world"} <= checks.keys()


def test_the_only_fix_for_a_signed_out_user_is_to_sign_in_and_without_a_catalog_to_configure_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with enter_stopped("signed_out"):
        checks = run_doctor(capsys, ok=False)
        quilt3.util.CONFIG_PATH.unlink()
        without_catalog = run_doctor(capsys, ok=False)
    assert failed(checks) == {"sign-in"}
    assert "`quilt-mcp login`" in str(checks["sign-in"]["fix"])
    assert failed(without_catalog) == {"catalog"}
    assert "`quilt-mcp login https://<your catalog>`" in str(without_catalog["catalog"]["fix"])


@pytest.mark.parametrize(
    ("name", "culprits"),
    [
        ("revoked", {"sign-in"}),
        ("aws_denied", {"Athena", "buckets"}),
        ("aws_expired", {"AWS identity"}),
        ("aws_unreachable", {"AWS identity"}),
        ("stack_error_graphql", {"sign-in"}),
        pytest.param("stack_slow", {"network"}, marks=pytest.mark.soak),
        ("stack_refused", {"network"}),
    ],
)
def test_the_failing_system_is_named(name: str, culprits: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    with enter_stopped(name) as world:
        checks = run_doctor(capsys, ok=False)
    assert culprits <= failed(checks)
    if name == "stack_refused":
        assert failed(checks) == culprits
        assert world.url in str(checks["network"]["fix"])


def test_a_corrupt_file_of_quilt3_is_named(fresh_world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert fresh_world.user
    quilt3.util.CONFIG_PATH.write_text("")
    checks = run_doctor(capsys, ok=False)
    assert {"catalog", "network", "sign-in"} <= failed(checks)
    assert "config.yml" in checks["catalog"]["detail"]


def test_a_read_only_directory_is_named() -> None:
    rows: dict[str, Any] = {
        "workflows": {"path": "/closed", "writable": False},
        "current": {"path": "/also-closed", "writable": False},
    }
    check = check_directories({"success": True, "data": {"directories": rows}})
    assert check["state"] == "failed"
    assert "/closed" in check["detail"]
    assert "/also-closed" not in check["detail"]


def test_no_fix_suggests_doctor_itself() -> None:
    actions = list(ResourceExecutionError.default_actions)
    check = check_directories({"success": False, "message": "No.", "details": None, "suggested_actions": actions})
    assert check["fix"] in actions
    assert "quilt-mcp doctor" not in str(check["fix"])


def test_each_check_is_one_line_with_its_fix_below(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--demo", "signed_out"]) == 1
    lines = capsys.readouterr().out.splitlines()
    [place] = [place for place, line in enumerate(lines) if line.startswith("failed   sign-in ")]
    assert lines[place + 1].lstrip().startswith("-> Run `quilt-mcp login`")
    assert lines[-2:] == ["Some checks failed.", "Next: quilt-mcp login"]
    assert main(["doctor", "--demo"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["No problems found.", "Next: quilt-mcp install"]


CANARY = "zq-canary-8f3a"
SECRETS = {
    "QUILT_API_KEY": CANARY,
    "QUILT_MCP_METRICS_TOKEN": CANARY,
    "QUILT_MCP_STATIC_TOKENS": f'{{"{CANARY}": {{"client_id": "ann"}}}}',
    "QUILT_MCP_STATE_URL": f"redis://:{CANARY}@localhost",
    "QUILT_MCP_WORKFLOWS_URL": f"postgresql://u:{CANARY}@localhost/x",
    "QUILT_MCP_DATABASE_URL": f"postgresql://u:{CANARY}@localhost/x",
    "QUILT_MCP_PUBLIC_URL": f"https://u:{CANARY}@mcp.example.com",
}


@pytest.mark.parametrize("form", ["json", "text"])
def test_settings_are_shown_with_their_source_and_without_secrets(
    form: str, fresh_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fresh_world.user
    for name, value in SECRETS.items():
        if name == "QUILT_MCP_METRICS_TOKEN":
            place = tmp_path / "metrics-token"
            place.write_text(value)
            monkeypatch.setenv(f"{name}_FILE", str(place))
        else:
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("QUILT_MCP_ALLOWED_HOSTS", "a.example.com b.example.com")
    monkeypatch.setenv("SYMBOLIC_MEMORY_LIMIT_MB", "512")
    assert main(["doctor", "--json" if form == "json" else "--settings"]) in {0, 1}
    captured = capsys.readouterr()
    assert not any(CANARY[:length] in captured.out + captured.err for length in (5, 8, len(CANARY)))
    if form == "text":
        lines = [line.split() for line in captured.out.splitlines()]
        assert ["QUILT_MCP_METRICS_TOKEN_FILE", "********", "file", str(tmp_path / "metrics-token")] in lines
        assert ["QUILT_MCP_JWT_ISSUER", "-", "default"] in lines
        return
    found = {row["variable"]: row for row in json.loads(captured.out)["settings"]}
    assert len(found) == len(Settings.model_fields)
    assert found["QUILT_MCP_METRICS_TOKEN_FILE"]["source"] == "file"
    assert found["QUILT_MCP_METRICS_TOKEN_FILE"]["file"] == str(tmp_path / "metrics-token")
    expected = {
        "QUILT_MCP_STATE_URL": ("********", "environment"),
        "QUILT_MCP_PUBLIC_URL": ("https://********@mcp.example.com/", "environment"),
        "QUILT_MCP_ALLOWED_HOSTS": ("a.example.com, b.example.com", "environment"),
        "SYMBOLIC_MEMORY_LIMIT_MB": ("512", "environment"),
        "QUILT_MCP_DEADLINE_SECONDS": ("30.0", "default"),
        "QUILT_MCP_PROBE_WRITES": ("false", "default"),
        "QUILT_MCP_JWT_ISSUER": (None, "default"),
    }
    assert {name: (found[name]["value"], found[name]["source"]) for name in expected} == expected


def test_only_settings_that_are_set_are_shown(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for is_set in (False, True):
        assert main(["doctor"]) in {0, 1}
        out = capsys.readouterr().out
        assert ("SYMBOLIC_MEMORY_LIMIT_MB" in out, "QUILT_MCP_DEADLINE_SECONDS" in out) == (is_set, False)
        monkeypatch.setenv("SYMBOLIC_MEMORY_LIMIT_MB", "512")
