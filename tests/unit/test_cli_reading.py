"""`quilt-mcp get` and `quilt-mcp list`."""

import json
import logging
from typing import Any

import pytest

from quilt_mcp.cli import main
from quilt_mcp.registry import path_variables
from quilt_mcp.tools.resource_access import RESOURCE_REGISTRY, get_resource


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """What the command prints to stdout."""
    assert main(arguments) == status
    return capsys.readouterr().out


@pytest.fixture
async def discovery() -> dict[str, Any]:
    """The body that the tool answers without a URI."""
    return (await get_resource()).body()


def test_json_is_what_the_tool_answers(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "get", "metadata://templates/genomics", "--json", "--demo"))
    assert found.keys() == {"success", "uri", "resource_name", "data", "timestamp", "mime_type"}
    assert found["data"]["package_type"] == "genomics"


def test_the_world_is_the_one_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "get", "auth://status", "--demo", "member", "--json"))
    assert found["data"]["user_info"]["username"] == "jonas_lindqvist"


def test_a_refusal_goes_to_stderr_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "admin://users", "--demo", "member"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    refusal = json.loads(printed(capsys, "get", "admin://users", "--demo", "member", "--json", status=1))
    assert refusal["error"] == "Unauthorized"
    lines = [f"Unauthorized: {refusal['message']}", f"  {refusal['details']}"]
    assert captured.err.splitlines() == lines + [f"  - {action}" for action in refusal["suggested_actions"]]


def test_an_unknown_uri_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "auth://statsu"]) == 1
    assert "auth://status" in capsys.readouterr().err


def test_rows_stand_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "get", "admin://users", "--demo").splitlines()
    [row] = [line for line in lines if line.strip().startswith("svc_retired_etl ")]
    assert "2024-06-30T23:59:59Z" in row
    assert all(line == line.rstrip() for line in lines)


def test_the_list_shows_every_resource(capsys: pytest.CaptureFixture[str]) -> None:
    listed = printed(capsys, "list")
    rows = {line.split()[0]: line for line in listed.splitlines() if "://" in line}
    assert rows.keys() == RESOURCE_REGISTRY.keys()
    for uri, definition in RESOURCE_REGISTRY.items():
        assert rows[uri].endswith(" admin") == definition["requires_admin"]
        assert all(rows[uri].endswith(variable) for variable in path_variables(uri))


def test_get_without_a_uri_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "get") == printed(capsys, "list")


def test_the_list_as_json_is_discovery(capsys: pytest.CaptureFixture[str], discovery: dict[str, Any]) -> None:
    found = json.loads(printed(capsys, "list", "--json"))
    assert found["uri"] == ""
    assert found["data"] == discovery["data"]


@pytest.mark.parametrize("name", ["root", "quilt_mcp", "fastmcp"])
def test_the_log_is_left_as_it_was(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger(name)
    before = (logger.level, logger.propagate, [*logger.handlers])
    printed(capsys, "get", "metadata://templates")
    assert (logger.level, logger.propagate, logger.handlers) == before
