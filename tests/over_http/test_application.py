"""The application as a whole: eras, sessions, and whose web pages and host names are answered."""

import json
import subprocess
import sys
from http import HTTPStatus
from typing import Any

import pytest
from fastmcp import Client
from pydantic import AnyHttpUrl

from quilt_mcp.http.settings import HTTPSettings
from tests.contract.serving import ERAS, HANDSHAKE
from tests.contract.surfaces import ask
from tests.over_http.web import QUICK, READ_QUICK, Shop, running, shop
from tests.waiting import SECONDS

NAMED = HTTPSettings(
    public_url=AnyHttpUrl("https://mcp.example.com/"),
    allowed_hosts=("10.1.2.3", "*.internal.example.com"),
    allowed_origins=("https://app.example.com",),
)
LEGACY = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": HANDSHAKE}


def message(method: str, **parameters: Any) -> dict[str, Any]:
    """What httpx posts for a request of the older era."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    return {"url": "/mcp", "json": body, "headers": LEGACY}


@pytest.mark.parametrize("mode", ERAS)
async def test_both_eras_are_answered(mode: str) -> None:
    server = Shop(HTTPSettings()).server
    async with running(server, HTTPSettings()) as url, Client(f"{url}/mcp", mode=mode, timeout=SECONDS) as client:
        assert client.protocol_version == ERAS[mode]
        assert (await ask(client, QUICK)).body["data"] == {"open": True}


async def test_what_one_process_began_another_goes_on_with() -> None:
    client = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    async with shop() as (one, _), shop() as (other, _):
        begun = await one.post(**message("initialize", **client))
        assert begun.json()["result"]["protocolVersion"] == HANDSHAKE
        assert "mcp-session-id" not in begun.headers
        answer = await other.post(**message("resources/read", uri=QUICK))
        assert json.loads(answer.json()["result"]["contents"][0]["text"]) == {"open": True}


async def test_answers_are_json_and_do_not_tell_what_serves() -> None:
    async with shop() as (client, _):
        answer = await client.post(**READ_QUICK)
    assert answer.headers["content-type"] == "application/json"
    assert "server" not in answer.headers


async def test_there_are_no_streams_to_open() -> None:
    async with shop() as (client, _):
        answer = await client.get("/mcp", headers={"Accept": "text/event-stream"})
    assert answer.status_code == HTTPStatus.METHOD_NOT_ALLOWED


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:1234", 200),
        ("mcp.example.com", 200),
        ("10.1.2.3:8000", 200),
        ("a.internal.example.com", 200),
        ("attacker.example.com", 421),
        ("mcp.example.com.attacker.example.com", 421),
        ("127.0.0.1.attacker.example.com", 421),
        ("", 421),
    ],
)
async def test_a_request_to_another_host_is_refused(host: str, status: int) -> None:
    async with shop(NAMED) as (client, _):
        read = await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | {"Host": host}})
        assert read.status_code == status
        assert (await client.get("/health", headers={"Host": host})).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://app.example.com", 200),
        ("http://127.0.0.1:9999", 200),  # a page of this machine
        ("https://attacker.example.com", 403),
        ("http://app.example.com", 403),
        ("null", 403),
    ],
)
async def test_another_web_page_is_refused(origin: str, status: int) -> None:
    async with shop(NAMED) as (client, _):
        answer = await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | {"Origin": origin}})
    assert answer.status_code == status


def test_what_start_up_made_is_spared_by_the_garbage_collector() -> None:
    """In a process of its own: it is for good."""
    text = "from quilt_mcp.commands.http_server import spare_garbage_collection as spare; import gc; spare(); "
    told = subprocess.run(
        [sys.executable, "-c", text + "print(gc.get_freeze_count() > 10_000, gc.get_threshold()[0])"],
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert told.stdout.split() == ["True", "50000"]
