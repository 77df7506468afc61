"""`quilt-mcp demo` and its comparison of the two surfaces."""

import json
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.tools.base import ToolResult
from mcp.shared.exceptions import MCPError

from quilt_mcp.commands.cli import main
from quilt_mcp.commands.demo import Case, compare
from quilt_mcp.demo.world import PEOPLE
from quilt_mcp.resources import RESOURCE_REGISTRY

URI = "thing://one"
ADMIN_ONLY = {uri for uri, definition in RESOURCE_REGISTRY.items() if definition["requires_admin"]}


@pytest.mark.soak
@pytest.mark.parametrize("world", PEOPLE)
def test_both_surfaces_agree_on_every_resource(world: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--world", world, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["world"], found["ok"], len(found["cases"])) == (world, True, len(RESOURCE_REGISTRY))
    cases: dict[str, Case] = {case["uri"]: case for case in found["cases"]}
    for case in cases.values():
        assert case.keys() == Case.__required_keys__
        assert (case["parity"], case["resource"], case["bytes"] > 0) == (True, case["tool"], True)
    if world == "member":  # the same error on both surfaces is parity
        assert {uri for uri, case in cases.items() if not case["tool"]} == ADMIN_ONLY
    if world == "empty":  # a template without values is read with a placeholder
        assert cases["workflow://workflows/none/status"]["tool"] is False


@pytest.mark.soak
def test_the_table_has_one_row_per_uri_and_the_next_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "member"]) == 0
    shown = capsys.readouterr().out
    [row] = [line for line in shown.splitlines() if line.startswith("admin://users ")]
    assert row.split()[1:4] == ["refused", "refused", "yes"]
    assert f"All {len(RESOURCE_REGISTRY)} URIs give the same answer" in shown
    assert "quilt-mcp install claude-desktop --demo member\n" in shown


def server(text: str | None, body: dict[str, Any]) -> FastMCP:
    """A server that returns `text` or an error on one surface, and `body` on the other."""
    mcp = FastMCP("two-faced")

    @mcp.resource(URI)
    def one() -> str:
        if text is None:
            raise MCPError(code=-32603, message="refused", data={"success": False, "error": "NotFound"})
        return text

    @mcp.tool
    def get_resource(uri: str) -> ToolResult:
        del uri
        return ToolResult(structured_content=body, is_error=not body["success"])

    return mcp


@pytest.mark.parametrize(
    ("text", "body", "parity"),
    [
        ('{"a":1}', {"success": True, "data": {"a": 1}}, True),
        ('{"a":1}', {"success": True, "data": {"a": 2}}, False),
        ('{"a": 1}', {"success": True, "data": {"a": 1}}, False),
        ('{"a":1}', {"success": False, "error": "NotFound"}, False),
        (None, {"success": False, "error": "NotFound"}, True),
        (None, {"success": False, "error": "Unauthorized"}, False),
        (None, {"success": True, "data": {"a": 1}}, False),
    ],
    ids=["same", "other value", "other bytes", "only the resource", "same error", "other error", "only the tool"],
)
async def test_parity_means_the_same_bytes_or_the_same_error(
    text: str | None, body: dict[str, Any], *, parity: bool
) -> None:
    async with Client(server(text, body)) as client:
        case = await compare(client, URI)
    assert case["parity"] is parity
    assert (case["resource"], case["tool"]) == (text is not None, body["success"])


def test_a_difference_fails_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    two_faced = server('{"a":1}', {"success": True, "data": {"a": 2}})
    monkeypatch.setattr("quilt_mcp.commands.startup.create_server", lambda: two_faced)
    assert main(["demo"]) == 1
    shown = capsys.readouterr().out
    assert "1 of 1 URIs give different answers." in shown
    assert " NO " in shown
