"""`quilt-mcp serve` over HTTP, as a process. test_stdio.py has the tests of stdio."""

import asyncio
import json
import signal
import socket
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import pytest
import requests
from anyio import to_thread
from fastmcp import Client

from quilt_mcp.commands.cli import main
from tests.support.server_process import serve_http
from tests.support.waiting import SECONDS


def message(number: int, method: str, **parameters: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}) + "\n"


CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = message(1, "initialize", **CLIENT)


def post_from_elsewhere(url: str) -> requests.Response:
    """Send the request of a web page with a host name that resolves to this machine (DNS rebinding)."""
    return requests.post(url, INITIALIZE, headers={"Host": "attacker.example.com"}, timeout=SECONDS)


@pytest.mark.soak
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_http_serves_only_requests_to_this_host(transport: str, tmp_path: Path) -> None:
    async with serve_http(tmp_path, "--demo", transport=transport) as server:
        async with Client(server.url) as client:
            result = await client.call_tool("get_resource", {"uri": "auth://status"})
            assert result.structured_content
            assert result.structured_content["data"]["status"] == "authenticated"
        foreign = await to_thread.run_sync(post_from_elsewhere, server.url)
        assert foreign.status_code == HTTPStatus.MISDIRECTED_REQUEST
        assert await server.stop(signal.SIGINT) == 130
    assert "Traceback" not in server.log
    assert server.output == ""


@pytest.mark.soak
async def test_ctrl_c_ends_an_http_server_during_a_read(tmp_path: Path) -> None:
    """AWS accepts the connection and never responds: the read alone would take its limit of ten minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(SECONDS)
        place = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}", "AWS_REGION": "us-east-1"}
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "NO_PROXY": "127.0.0.1"}
        limits = {"QUILT_MCP_READ_TIMEOUT_SECONDS": "600", "QUILT_MCP_DEADLINE_SECONDS": "600"}
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        async with (
            serve_http(tmp_path, **place, **keys, **limits) as server,
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=SECONDS) as web,
        ):
            started = await web.post(server.url, content=INITIALIZE)
            assert "mcp-session-id" not in started.headers  # any process can answer any request
            read = message(3, "tools/call", name="get_resource", arguments={"uri": "athena://databases"})
            reading = asyncio.create_task(web.post(server.url, content=read))
            connection, _ = await asyncio.to_thread(silent.accept)
            with connection:
                assert await server.stop(signal.SIGINT) == 130
            await asyncio.gather(reading, return_exceptions=True)
    assert "Traceback" not in server.log


def test_a_port_in_use_gives_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--transport", "http", "--port", str(port)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"cannot listen on 127.0.0.1 port {port}" in captured.err.splitlines()[-1]


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_an_invalid_host_name_gives_one_line(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--transport", "http", "--host", host, "--port", "0"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].endswith(f"cannot listen on {host} port 0: not a valid host name.")
    assert "Traceback" not in captured.err
