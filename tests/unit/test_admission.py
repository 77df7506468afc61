"""Who may read now, through the server's own surfaces; the callers are what a transport would have proved."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from fastmcp import Client
from fastmcp.server.auth import AccessToken
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.shared.exceptions import MCPError

from quilt_mcp import runtime_context, trace
from quilt_mcp.admission import admitted
from quilt_mcp.errors import TooManyRequests
from quilt_mcp.manager import ResourceManager
from quilt_mcp.models.responses import GetResourceError
from quilt_mcp.registry import define, registry_of
from quilt_mcp.server import create_server
from quilt_mcp.settings import Settings
from tests.conftest import NOW
from tests.waiting import SECONDS

URI = "metadata://examples"
STDIO = """
import asyncio, sys
from fastmcp import Client
from quilt_mcp.server import create_server
from quilt_mcp.settings import Settings

async def main():
    async with Client(create_server(Settings(rate_limit="1/day", concurrent_reads=1))) as client:
        await asyncio.gather(*(client.read_resource("metadata://examples") for _ in range(9)))
    print(sorted({"limits", "valkey", "prometheus_client"} & set(sys.modules)))

asyncio.run(main())
"""


@pytest.fixture
def use() -> Iterator[Callable[..., None]]:
    """Puts limits into force for one test."""
    before = runtime_context.settings()
    yield lambda **limits: runtime_context.use_settings(Settings(**limits))
    runtime_context.use_settings(before)


@contextmanager
def signed_in(subject: str, issuer: str = "https://issuer.example.com") -> Iterator[None]:
    """As the bearer of a token which has been checked."""
    claims = {"iss": issuer, "sub": subject}
    token = AccessToken(token="x", client_id="app", scopes=[], subject=subject, claims=claims)
    before = auth_context_var.set(AuthenticatedUser(token))
    try:
        yield
    finally:
        auth_context_var.reset(before)


def nothing() -> dict[str, Any]:
    return {}


async def outcome() -> str:
    """Of a read that would be answered."""
    try:
        async with admitted(trace.Read("tool")):
            return "ok"
    except TooManyRequests as refusal:
        return refusal.message


async def test_both_surfaces_and_the_list_tell_when_to_try_again(tmp_path: Path) -> None:
    with time_machine.travel(NOW, tick=False) as clock, signed_in("ann"):
        async with Client(create_server(Settings(rate_limit="2/minute", data_dir=tmp_path))) as client:
            clock.shift(timedelta(seconds=20))
            await client.read_resource(URI)
            await client.list_resources()
            with pytest.raises(MCPError) as native:
                await client.read_resource(URI)
            tool = await client.call_tool("get_resource", {"uri": URI}, raise_on_error=False)
            with pytest.raises(MCPError) as listed:
                await client.list_resources()
            clock.shift(timedelta(seconds=tool.structured_content["retry_after_seconds"]))
            assert (await client.call_tool("get_resource", {"uri": URI})).structured_content["success"]
    assert tool.is_error
    assert native.value.error.code == listed.value.error.code == -32001
    assert tool.structured_content == native.value.error.data == listed.value.error.data | {"uri": URI}
    assert tool.structured_content == {
        "success": False,
        "uri": URI,
        "error": "ResourceExecutionError",
        "message": "You ask too often.",
        "details": "at most 2/minute",
        "suggested_actions": ["Try the same call again in 41 seconds.", "Ask for less at once."],
        "transient": True,
        "retry_after_seconds": 41,
    }


async def test_another_failure_tells_no_time() -> None:
    async with Client(create_server(Settings())) as client:
        answer = await client.call_tool("get_resource", {"uri": "metadata://templates/none"}, raise_on_error=False)
    assert answer.structured_content is not None
    assert "retry_after_seconds" not in answer.structured_content


async def test_each_issuer_s_subject_is_an_identity_of_its_own(use: Callable[..., None]) -> None:
    use(rate_limit="1/day")
    found = []
    for subject, issuer in (("ann", "https://a"), ("ann", "https://b"), ("ben", "https://a"), ("ann", "https://a")):
        with signed_in(subject, issuer):
            found.append(await outcome())
    assert found == ["ok", "ok", "ok", "You ask too often."]


@pytest.mark.parametrize("rate", ["none", "", "None"])
async def test_a_limit_may_be_turned_off(rate: str, use: Callable[..., None]) -> None:
    use(rate_limit=rate, concurrent_reads=0)
    with signed_in("ann"):
        assert [await outcome() for _ in range(1000)] == ["ok"] * 1000


def test_the_person_at_this_machine_is_never_limited_and_loads_nothing_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", STDIO], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert done.stdout == "[]\n"


class Desk:
    """A manager with one resource, whose reads end when the desk opens."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.reads: list[asyncio.Task[Any]] = []
        slow = define("desk://slow", self._answer, name="Slow", description="x")
        self.manager = ResourceManager(registry_of([slow]), admit=admitted)

    async def _answer(self) -> dict[str, Any]:
        await self.open.wait()
        return {}

    async def ask(self, subject: str) -> None:
        """Begin a read."""
        with signed_in(subject):
            self.reads.append(asyncio.create_task(self.manager.respond("desk://slow", surface="tool")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def told(self) -> list[str]:
        """What has been answered to those that were refused."""
        answers = [read.result() for read in self.reads if read.done() and not read.cancelled()]
        return [answer.message for answer in answers if isinstance(answer, GetResourceError)]


async def test_an_identity_reads_so_much_at_once(use: Callable[..., None]) -> None:
    use(concurrent_reads=2, rate_limit="none")
    desk = Desk()
    noted: list[trace.Event] = []
    with trace.observed_by(lambda _: None, noted=noted.append):
        for subject in ("ann", "ann", "ben", "ann"):
            await desk.ask(subject)
    assert await desk.told() == ["You read too much at once."]
    assert noted == ["concurrency_limit"]
    refused = desk.reads[3].result()
    assert (refused.retry_after_seconds, refused.transient, refused.details) == (1, True, "at most 2 reads")
    desk.reads[0].cancel()  # the client went away
    await asyncio.sleep(0.01)
    await desk.ask("ann")
    await desk.ask("ann")
    assert await desk.told() == ["You read too much at once."] * 2
    desk.open.set()
    await asyncio.gather(*desk.reads, return_exceptions=True)
    with signed_in("ann"):
        assert [await outcome() for _ in range(3)] == ["ok"] * 3


async def test_the_log_tells_callers_apart_and_names_none(
    use: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    use(rate_limit="none")
    manager = ResourceManager(registry_of([define("a://b", nothing, name="x", description="x")]), admit=admitted)
    with caplog.at_level("INFO", "quilt_mcp"):
        for subject in ("ann@example.com", "ben@example.com", "ann@example.com"):
            with signed_in(subject):
                await manager.respond("a://b", surface="tool")
        await manager.respond("a://b", surface="tool")
    told = [record.__dict__["fields"].get("caller") for record in caplog.records]
    assert told[0] == told[2] != told[1]
    assert told[3] is None
    assert "example" not in caplog.text + json.dumps(told)
