"""Clients that cancel or disconnect during a read: the read is cancelled, and other clients are served."""

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import pytest
import quilt3.session
from fastmcp import Client
from httpx2 import TransportError
from mcp.shared.exceptions import MCPError

from quilt_mcp.demo.world import World
from quilt_mcp.tools.resource_access import get_resource
from tests.contract.surfaces import ask
from tests.support.serving import PROTOCOLS, SESSIONLESS, TRANSPORTS, serving
from tests.support.toys import QUICK, SLOW, Shop
from tests.support.waiting import SECONDS, threads_reading, until

WAYS = [pytest.param(name, mode, id=f"{name}, {mode}") for name in TRANSPORTS for mode in PROTOCOLS]

# Where the server does not detect that the client stopped waiting: the read continues, and its answer is dropped.
CANCEL_NOT_DETECTED = {
    ("streamable HTTP, stateless", "legacy"),  # the notification is a separate request, and there is no session
    (
        "streamable HTTP, JSON responses",
        SESSIONLESS,
    ),  # the client cancels by closing the connection, which the server ignores
}
CUT_NOT_DETECTED = {
    ("streamable HTTP", "legacy"),  # the session stays, so that the client can return to it
    ("streamable HTTP, JSON responses", "legacy"),
    ("streamable HTTP, JSON responses", SESSIONLESS),
}


Outcomes = Callable[[], list[str]]


class Line:
    """A proxy for the connections to a server, on its own port. After `cut` it accepts no new ones."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._port = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cut()
        await self._port.wait_closed()

    @property
    def url(self) -> str:
        return self._target._replace(netloc=f"127.0.0.1:{self._port.sockets[0].getsockname()[1]}").geturl()

    def cut(self) -> None:
        self._port.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._writers += [writer, to_server]
        await asyncio.gather(_pass_on(reader, to_server), _pass_on(from_server, writer))


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65536):
            target.write(data)
    target.close()


def fields(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record)["fields"] for record in caplog.records if "fields" in vars(record)]


@pytest.fixture
def outcomes(caplog: pytest.LogCaptureFixture) -> Outcomes:
    """Return the outcomes of the reads of the slow resource, from the log."""
    caplog.set_level(logging.INFO)
    return lambda: [one["outcome"] for one in fields(caplog) if one["uri"] == SLOW]


@pytest.mark.parametrize(("name", "mode"), WAYS)
async def test_a_cancelled_read_ends_at_once(name: str, mode: str, outcomes: Outcomes) -> None:
    shop = Shop()
    async with serving(shop.server, TRANSPORTS[name]) as url, Client(url, mode=mode, timeout=SECONDS) as client:
        reading = asyncio.create_task(client.read_resource(SLOW))
        await until(shop.begun.is_set)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        if (name, mode) not in CANCEL_NOT_DETECTED:
            await until(outcomes)
        assert (await ask(client, QUICK)).body["success"]
        shop.gate.set()
        await until(outcomes)
    assert outcomes() == ["ok" if (name, mode) in CANCEL_NOT_DETECTED else "cancelled"]


async def read_and_disconnect(line: Line, mode: str, shop: Shop) -> None:
    async with Client(line.url, mode=mode) as client:
        reading = asyncio.create_task(client.read_resource(SLOW))
        await until(shop.begun.is_set)
        line.cut()
        await reading


@pytest.mark.parametrize(("name", "mode"), WAYS)
async def test_a_client_that_disconnects_does_not_affect_others(
    name: str, mode: str, outcomes: Outcomes, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop()
    async with serving(shop.server, TRANSPORTS[name]) as url, Client(url, mode=mode, timeout=SECONDS) as other:
        async with Line(url) as line:
            with pytest.raises((MCPError, TransportError)):  # the client's own
                await read_and_disconnect(line, mode, shop)
        if (name, mode) not in CUT_NOT_DETECTED:
            await until(outcomes)
        assert (await ask(other, QUICK)).body["success"]
        shop.gate.set()
        await until(outcomes)
    assert outcomes() == ["ok" if (name, mode) in CUT_NOT_DETECTED else "cancelled"]
    tracebacks = [line.name for line in caplog.records if line.exc_info]
    assert [name for name in tracebacks if not name.startswith("mcp.client")] == []


async def test_a_read_that_is_cancelled_during_a_token_refresh_keeps_the_sign_in(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, gate, issue = Event(), Event(), fresh_world.stack.renew_tokens

    def issue_late(refresh_token: str) -> dict[str, Any] | None:
        asked.set()
        gate.wait(SECONDS)
        return issue(refresh_token)

    monkeypatch.setattr(fresh_world.stack, "renew_tokens", issue_late)
    fresh_world.stack.grants.clear()
    reading = asyncio.create_task(get_resource("admin://users"))
    await until(asked.is_set)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    gate.set()
    await until(lambda: threads_reading() == [])

    [tokens] = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8")).values()
    assert tokens["access_token"] in fresh_world.stack.grants
    assert sorted(path.name for path in quilt3.session.AUTH_PATH.parent.glob("*auth*")) == ["auth.json"]
    assert [call.operation or call.path for call in fresh_world.stack.calls] == ["usersList", "/api/token"]
    assert (await get_resource("admin://users")).success
