"""URIs without a resource: both surfaces refuse them with the same error, suggested actions and one log line each."""

import json
import logging
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from quilt_mcp.demo.world import World
from tests.contract.scrub import scrub
from tests.contract.surfaces import AnyClient, ask
from tests.support.worlds import in_world

HOSTILE_URIS = Path(__file__).parent.parent / "fixtures" / "hostile-uris.json"
_SUGGESTED = re.compile(r"(?:Did you mean |Example: get_resource\(')([^\s?']+)")


@dataclass(frozen=True)
class HostileURI:
    """One row of hostile-uris.json."""

    kind: str
    uri: str
    error: str
    suggests: str | None = None
    """The URI that the first suggested action must name, or None if it must name none."""
    golden: bool = False
    """Whether the whole answer is a golden, errors/bad-input/<kind>."""
    then: str = ""
    """The text that follows `uri`, repeated `times` times. It keeps the rows of long URIs short."""
    times: int = 0

    @property
    def sent(self) -> str:
        return self.uri + self.then * self.times


ROWS = [HostileURI(**row) for row in json.loads(HOSTILE_URIS.read_text(encoding="utf-8"))]
BAD_URIS = {row.kind: row.sent for row in ROWS if row.golden}
BAD_ARGUMENTS: dict[str, dict[str, Any]] = {
    "number": {"uri": 5},
    "boolean": {"uri": True},
    "array": {"uri": ["auth://status"]},
    "object": {"uri": {"uri": "auth://status"}},
    "unknown-argument": {"url": "auth://status"},
    "additional-argument": {"uri": "auth://status", "verbose": True},
}


def files(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Return all files below the directory, with the time of their last change and their content."""
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def find_suggested_uri(actions: list[str]) -> str | None:
    """Return the URI that the first action names as a suggestion or an example."""
    match = _SUGGESTED.match(actions[0])
    return match[1] if match else None


def test_the_rows_differ_and_each_kind_has_one_golden() -> None:
    assert len({row.sent for row in ROWS}) == len(ROWS) >= 80
    assert Counter(row.kind for row in ROWS if row.golden) == dict.fromkeys((row.kind for row in ROWS), 1)


@in_world("admin")
@pytest.mark.parametrize("kind", BAD_URIS)
async def test_both_surfaces_refuse_a_bad_uri_with_the_same_error(
    kind: str, world: World, client: AnyClient, mcp_golden: SnapshotAssertion, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for row in ROWS:
        if row.kind == kind:
            await check_refusal(row, world, client, mcp_golden, caplog)


async def check_refusal(
    row: HostileURI, world: World, client: AnyClient, mcp_golden: SnapshotAssertion, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    calls, before = len(world.stack.calls), files(world.directory)

    # raw JSON-RPC, because FastMCP's client refuses to send some of these URIs
    answer = await ask(client, row.sent)

    assert answer.resource_error is not None
    assert (answer.body["error"], find_suggested_uri(answer.body["suggested_actions"])) == (row.error, row.suggests)
    assert answer.body["transient"] is False
    assert len(world.stack.calls) == calls
    assert files(world.directory) == before
    lines = [record for record in caplog.records if record.name.startswith(("quilt_mcp", "fastmcp"))]
    assert [(line.name.partition(".")[0], line.levelno, line.exc_info) for line in lines] == [
        ("quilt_mcp", logging.INFO, None)
    ] * 2
    assert all(line.getMessage().isprintable() for line in lines)
    if row.golden:
        assert scrub(answer.to_golden(), world) == mcp_golden(name=f"errors/bad-input/{row.kind}")


@in_world("admin")
@pytest.mark.parametrize("name", BAD_ARGUMENTS)
async def test_bad_arguments_of_the_tool_are_answered_with_a_body(
    name: str, world: World, client: AnyClient, mcp_golden: SnapshotAssertion
) -> None:
    result = await client.call_tool_mcp("get_resource", BAD_ARGUMENTS[name])

    assert result.is_error
    body = result.structured_content or {}
    assert json.loads(result.content[0].text) == body  # type: ignore[union-attr]  # text: tested by every case
    assert body["suggested_actions"]
    assert scrub(body, world) == mcp_golden(name=f"errors/bad-input/argument-{name}")
