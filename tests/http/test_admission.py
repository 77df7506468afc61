"""Limits per identity, through the surfaces of a server. The tests set the identity as a transport would."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from fastmcp import Client
from fastmcp.server.auth import AccessToken
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.shared.exceptions import MCPError

from quilt_mcp.core.errors import TooManyRequests
from quilt_mcp.core.tracing import Read
from quilt_mcp.http.admission import Admission, Event
from quilt_mcp.server import create_server
from quilt_mcp.settings import HTTPSettings
from tests.support.settings import Settings
from tests.support.toys import toy, toy_manager
from tests.support.worlds import NOW

URI = "metadata://examples"


@contextmanager
def signed_in(subject: str, issuer: str = "https://issuer.example.com") -> Iterator[None]:
    claims = {"iss": issuer, "sub": subject}
    token = AccessToken(token="x", client_id="app", scopes=[], subject=subject, claims=claims)
    before = auth_context_var.set(AuthenticatedUser(token))
    try:
        yield
    finally:
        auth_context_var.reset(before)


async def try_read(admission: Admission) -> str:
    try:
        async with admission.admit(Read("tool")):
            return "ok"
    except TooManyRequests as refusal:
        return refusal.message


async def test_refusals_of_both_surfaces_and_the_list_say_when_to_try_again(tmp_path: Path) -> None:
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
            assert await client.read_resource(URI)
    assert tool.is_error
    assert native.value.error.code == listed.value.error.code == -31001
    assert tool.structured_content == native.value.error.data == listed.value.error.data | {"uri": URI}
    assert tool.structured_content == {
        "success": False,
        "uri": URI,
        "error": "ResourceExecutionError",
        "message": "Rate limit exceeded.",
        "details": "at most 2/minute",
        "suggested_actions": ["Repeat the call in 41 seconds.", "Send fewer requests at the same time."],
        "transient": True,
        "retry_after_seconds": 41,
    }


async def test_the_issuer_and_the_subject_identify_a_caller() -> None:
    admission, found = Admission(HTTPSettings(rate_limit="1/day")), []
    for subject, issuer in (("ann", "https://a"), ("ann", "https://b"), ("ben", "https://a"), ("ann", "https://a")):
        with signed_in(subject, issuer):
            found.append(await try_read(admission))
    assert found == ["ok", "ok", "ok", "Rate limit exceeded."]


@pytest.mark.parametrize("rate", ["none", "None"])
async def test_limits_can_be_turned_off(rate: str) -> None:
    admission = Admission(HTTPSettings(rate_limit=rate, concurrent_reads=0))
    with signed_in("ann"):
        assert [await try_read(admission) for _ in range(1000)] == ["ok"] * 1000


async def test_the_local_user_is_never_limited() -> None:
    async with Client(create_server(Settings(rate_limit="1/day", concurrent_reads=1))) as client:
        await asyncio.gather(*(client.read_resource(URI) for _ in range(9)))
        await client.list_resources()


async def test_concurrent_reads_of_an_identity_are_limited() -> None:
    admission, events = Admission(HTTPSettings(concurrent_reads=2, rate_limit="none")), list[Event]()

    async def start(subject: str, reads: AsyncExitStack) -> None:
        with signed_in(subject):
            await reads.enter_async_context(admission.admit(Read("tool")))

    async with AsyncExitStack() as reads, AsyncExitStack() as cancelled:
        for subject, of in (("ann", cancelled), ("ann", reads), ("ben", reads)):
            await start(subject, of)
        with admission.observe(events.append), pytest.raises(TooManyRequests, match="Too many concurrent") as refused:
            await start("ann", reads)
        refusal = refused.value
        assert (refusal.retry_after_seconds, refusal.transient, refusal.details) == (1, True, "at most 2 reads")
        with suppress(asyncio.CancelledError):
            await cancelled.__aexit__(asyncio.CancelledError, asyncio.CancelledError(), None)
        await start("ann", reads)
        with pytest.raises(TooManyRequests):
            await start("ann", reads)
        assert events == ["concurrency_limit"]  # the second was not observed
    with signed_in("ann"):
        assert [await try_read(admission) for _ in range(3)] == ["ok"] * 3


async def test_the_log_distinguishes_callers_without_naming_them(caplog: pytest.LogCaptureFixture) -> None:
    manager = toy_manager(toy("a://b", lambda: {"a": 1}), admit=Admission(HTTPSettings(rate_limit="none")).admit)
    with caplog.at_level("INFO", "quilt_mcp"):
        for subject in ("ann@example.com", "ben@example.com", "ann@example.com"):
            with signed_in(subject):
                await manager.respond("a://b", surface="tool")
        await manager.respond("a://b", surface="tool")
    callers = [record.__dict__["fields"].get("caller") for record in caplog.records]
    assert callers[0] == callers[2] != callers[1]
    assert callers[3] is None
    assert "example" not in caplog.text + json.dumps(callers)
