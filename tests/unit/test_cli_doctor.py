"""`quilt-mcp doctor`."""

import json
from typing import Any

import pytest
import quilt3.util

from quilt_mcp.cli import main
from quilt_mcp.commands.checks import Check, directories
from quilt_mcp.demo.world import World, demo_world
from quilt_mcp.errors import ResourceExecutionError


def examined(capsys: pytest.CaptureFixture[str], *, well: bool) -> dict[str, Check]:
    """The checks of the world that the test is in, by name."""
    assert main(["doctor", "--json"]) == (0 if well else 1)
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is well
    checks: list[Check] = found["checks"]
    assert all(bool(check["fix"]) == (check["state"] == "failed") for check in checks)
    return {check["name"]: check for check in checks}


def failed(checks: dict[str, Check]) -> set[str]:
    return {name for name, check in checks.items() if check["state"] == "failed"}


@pytest.mark.parametrize("name", ["admin", "member", "empty"])
def test_a_signed_in_user_is_well(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with demo_world(name) as world:
        checks = examined(capsys, well=True)
    assert world.user
    assert world.user.name in checks["sign-in"]["detail"]
    assert world.url in checks["catalog"]["detail"]
    assert {"quilt-mcp", "Python", "demo world"} <= checks.keys()


def test_who_is_signed_out_is_told_to_sign_in_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with demo_world("signed_out"):
        checks = examined(capsys, well=False)
    assert failed(checks) == {"sign-in"}
    assert "quilt3 login" in str(checks["sign-in"]["fix"])


def test_who_has_no_catalog_is_told_to_configure_one(capsys: pytest.CaptureFixture[str]) -> None:
    with demo_world("signed_out"):
        quilt3.util.CONFIG_PATH.unlink()
        checks = examined(capsys, well=False)
    assert failed(checks) == {"catalog"}
    assert "quilt3 config" in str(checks["catalog"]["fix"])


def test_a_stack_that_is_down_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with demo_world("stack_refused") as world:
        checks = examined(capsys, well=False)
    assert failed(checks) == {"network"}
    assert world.url in str(checks["network"]["fix"])


@pytest.mark.parametrize(
    ("name", "culprit"),
    [
        ("revoked", "sign-in"),
        ("aws_denied", "Athena"),
        ("aws_denied", "buckets"),
        ("aws_expired", "AWS identity"),
        ("aws_unreachable", "AWS identity"),
        ("stack_error_graphql", "sign-in"),
        ("stack_slow", "network"),
    ],
)
def test_what_goes_wrong_is_named(name: str, culprit: str, capsys: pytest.CaptureFixture[str]) -> None:
    with demo_world(name):
        checks = examined(capsys, well=False)
    assert culprit in failed(checks)


def test_a_damaged_file_of_quilt3_is_named(fresh_world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert fresh_world.user
    quilt3.util.CONFIG_PATH.write_text("")
    checks = examined(capsys, well=False)
    assert {"catalog", "network", "sign-in"} <= failed(checks)
    assert "config.yml" in checks["catalog"]["detail"]


def test_a_directory_that_cannot_be_written_is_named() -> None:
    rows: dict[str, Any] = {
        "workflows": {"path": "/closed", "writable": False},
        "current": {"path": "/also-closed", "writable": False},
    }
    check = directories({"success": True, "data": {"directories": rows}})
    assert check["state"] == "failed"
    assert "/closed" in check["detail"]
    assert "/also-closed" not in check["detail"]


def test_it_does_not_send_its_reader_to_itself() -> None:
    actions = list(ResourceExecutionError.default_actions)
    check = directories({"success": False, "message": "No.", "details": None, "suggested_actions": actions})
    assert check["fix"] in actions
    assert "quilt-mcp doctor" not in str(check["fix"])


def test_a_person_sees_a_line_for_each_and_the_fix_below(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--demo", "signed_out"]) == 1
    lines = capsys.readouterr().out.splitlines()
    [place] = [place for place, line in enumerate(lines) if line.startswith("failed   sign-in ")]
    assert lines[place + 1].lstrip().startswith("-> Run `quilt3 login`")
    assert lines[-1] == "Something needs attention."
    assert main(["doctor", "--demo"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "All is well."
