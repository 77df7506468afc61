"""What no resource answers: refused alike on both surfaces, with what to do next, and one log line each."""

import json
import logging
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from quilt_mcp.demo.world import World
from tests.contract.scrub import scrubbed
from tests.contract.surfaces import AnyClient, ask
from tests.worlds import in_world

# golden -> URI; raw JSON-RPC sends what FastMCP's client would refuse to send
BAD_URIS = {
    "unknown": "nope://x",
    "typo": "auth://statsu",
    "wrong-case": "AUTH://Status",
    "no-scheme": "auth/status",
    "one-slash": "auth:/status",
    "trailing-slash": "auth://status/",
    "query": "auth://status?x=1",
    "fragment": "auth://status#x",
    "traversal": "metadata://templates/../../etc/passwd",
    "dot-segment": "metadata://templates/..",
    "encoded-slash": "metadata://templates/a%2Fb",
    "double-encoded": "metadata://templates/%2573tandard",
    "percent-broken": "metadata://templates/%zz",
    "not-utf-8": "metadata://templates/%ff",
    "control-character": "auth://status\x00",
    "newline": "auth://status\n",
    "space": "auth://sta tus",
    "look-alike": "аuth://status",  # noqa: RUF001 - the first letter is Cyrillic: that is the point
    "giant": "auth://" + "x" * 5000,
    "long-value": "metadata://templates/" + "x" * 129,
    "literal-variable": "metadata://templates/{template}",
    "empty-braces": "metadata://templates/{}",
    "empty-variable": "metadata://templates/",
    "empty-variable-inside": "workflow://workflows//status",
    "missing-workflow": "workflow://workflows/nothing-here/status",
    "missing-template": "metadata://templates/nothing-here",
}
BAD_ARGUMENTS: dict[str, dict[str, Any]] = {
    "number": {"uri": 5},
    "boolean": {"uri": True},
    "array": {"uri": ["auth://status"]},
    "object": {"uri": {"uri": "auth://status"}},
    "unknown-argument": {"url": "auth://status"},
    "additional-argument": {"uri": "auth://status", "verbose": True},
}


@in_world("admin")
@pytest.mark.parametrize("name", BAD_URIS)
async def test_a_bad_uri_is_refused_alike_on_both_surfaces(
    name: str, world: World, client: AnyClient, golden: SnapshotAssertion, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    calls = len(world.stack.calls)

    answer = await ask(client, BAD_URIS[name])

    assert answer.resource_error is not None
    assert answer.body["suggested_actions"]
    assert len(world.stack.calls) == calls
    lines = [record for record in caplog.records if record.name.startswith(("quilt_mcp", "fastmcp"))]
    assert [(line.name, line.exc_info) for line in lines] == [("quilt_mcp.manager", None)] * 2
    assert scrubbed(answer.observed(), world) == golden(name=f"errors/bad-input/{name}")


@in_world("admin")
@pytest.mark.parametrize("name", BAD_ARGUMENTS)
async def test_bad_arguments_of_the_tool_are_answered_with_a_body(
    name: str, world: World, client: AnyClient, golden: SnapshotAssertion
) -> None:
    result = await client.call_tool_mcp("get_resource", BAD_ARGUMENTS[name])

    assert result.is_error
    body = result.structured_content or {}
    assert json.loads(result.content[0].text) == body  # type: ignore[union-attr]  # text: tested by every case
    assert body["suggested_actions"]
    assert scrubbed(body, world) == golden(name=f"errors/bad-input/argument-{name}")
