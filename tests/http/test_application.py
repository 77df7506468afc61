"""The application: both protocols, no sessions, and the accepted hosts and origins."""

import json
import subprocess
import sys
from http import HTTPStatus
from typing import Any

import pytest
from fastmcp import Client
from pydantic import AnyHttpUrl, SecretStr

from quilt_mcp.settings import HTTPSettings
from tests.contract.surfaces import ask
from tests.http.web import ANN, READ_QUICK, TOKENS, running, shop
from tests.support.serving import HANDSHAKE, PROTOCOLS
from tests.support.toys import QUICK, Shop
from tests.support.waiting import SECONDS

NAMED = HTTPSettings(
    public_url=AnyHttpUrl("https://mcp.example.com/"),
    allowed_hosts=("10.1.2.3", "*.internal.example.com"),
    allowed_origins=("https://app.example.com",),
)
LEGACY = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": HANDSHAKE}


def message(method: str, **parameters: Any) -> dict[str, Any]:
    """Return the arguments of httpx for a request of the older protocol."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    return {"url": "/mcp", "json": body, "headers": LEGACY}


@pytest.mark.parametrize("mode", PROTOCOLS)
async def test_both_protocols_are_supported(mode: str) -> None:
    server = Shop().server
    async with running(server, HTTPSettings()) as url, Client(f"{url}/mcp", mode=mode, timeout=SECONDS) as client:
        assert client.protocol_version == PROTOCOLS[mode]
        assert (await ask(client, QUICK)).body["data"] == {"open": True}


async def test_a_server_answers_requests_of_a_session_that_another_server_initialized() -> None:
    client = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    async with shop() as (one, _), shop() as (other, _):
        begun = await one.post(**message("initialize", **client))
        assert begun.json()["result"]["protocolVersion"] == HANDSHAKE
        assert "mcp-session-id" not in begun.headers
        answer = await other.post(**message("resources/read", uri=QUICK))
        assert json.loads(answer.json()["result"]["contents"][0]["text"]) == {"open": True}


async def test_answers_are_json_and_do_not_name_the_server_software() -> None:
    async with shop() as (client, _):
        answer = await client.post(**READ_QUICK)
    assert answer.headers["content-type"] == "application/json"
    assert "server" not in answer.headers


async def test_streams_are_not_supported() -> None:
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
async def test_unknown_hosts_are_refused(host: str, status: int) -> None:
    async with shop(NAMED) as (client, _):
        read = await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | {"Host": host}})
        assert read.status_code == status
        assert (await client.get("/health", headers={"Host": host})).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://app.example.com", 200),
        ("http://127.0.0.1:9999", 200),  # a page on this machine
        ("https://attacker.example.com", 403),
        ("http://app.example.com", 403),
        ("null", 403),
    ],
)
async def test_unknown_origins_are_refused(origin: str, status: int) -> None:
    async with shop(NAMED) as (client, _):
        answer = await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | {"Origin": origin}})
    assert answer.status_code == status


async def test_pages_of_an_allowed_origin_can_read_the_answers() -> None:
    """As the Fetch standard requires of a server: it answers the preflight, and each answer names the origin."""
    ours, other = {"Origin": "https://app.example.com"}, {"Origin": "https://attacker.example.com"}
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,mcp-method"}
    settings = NAMED.model_copy(update={"static_tokens": SecretStr(TOKENS)})
    async with shop(settings) as (client, _):
        preflight = await client.options("/mcp", headers=ours | asked)
        refused = await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | ours})
        answer = await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | ours | ANN})
        assert [one.status_code for one in (preflight, refused, answer)] == [200, 401, 200]
        for one in (preflight, refused, answer):
            assert one.headers["access-control-allow-origin"] == "https://app.example.com"
        allowed = preflight.headers["access-control-allow-headers"].lower()
        assert all(one in allowed for one in ("authorization", "mcp-method"))
        assert "www-authenticate" in refused.headers["access-control-expose-headers"].lower()
        for one in (await client.options("/mcp", headers=other | asked), await client.get("/health", headers=other)):
            assert "access-control-allow-origin" not in one.headers


@pytest.mark.soak
def test_objects_of_the_startup_are_excluded_from_garbage_collection() -> None:
    """In a separate process, because it cannot be undone."""
    text = "from quilt_mcp.commands.http_server import tune_garbage_collection as tune; import gc; tune(); "
    found = subprocess.run(
        [sys.executable, "-c", text + "print(gc.get_freeze_count() > 10_000)"],
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert found.stdout.split() == ["True"]
