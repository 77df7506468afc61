"""`quilt-mcp serve`, as a process."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from http import HTTPStatus
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import httpx2
import pytest
import requests
from anyio import to_thread
from fastmcp import Client

from quilt_mcp.commands.cli import main
from quilt_mcp.commands.install import executable
from tests.support.server_process import serve_http, serve_stdio
from tests.support.waiting import SECONDS


def message(number: int, method: str, **parameters: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}) + "\n"


CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = message(1, "initialize", **CLIENT)
LIST = message(2, "tools/list")
READ = message(3, "tools/call", name="get_resource", arguments={"uri": "auth://status"})


REQUEST: dict[str, Any] = {"name": "get_resource", "arguments": {"uri": "auth://status"}}


def post_from_elsewhere(url: str) -> requests.Response:
    """Send the request of a web page with a host name that resolves to this machine (DNS rebinding)."""
    return requests.post(url, INITIALIZE, headers={"Host": "attacker.example.com"}, timeout=SECONDS)


async def test_stdio_has_messages_only_the_audit_log_a_line_for_each_and_the_end_of_stdin_ends_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.jsonl"
    environment = os.environ | {"QUILT_MCP_AUDIT_LOG": str(path), "QUILT_MCP_DATA_DIR": str(tmp_path)}
    async with serve_stdio(environment=environment) as server:
        assert "result" in await server.ask("tools/list")
        # both need neither quilt3 nor boto3, whose imports take long
        assert "result" in await server.ask("resources/read", uri="metadata://examples")
        assert "result" in await server.ask("tools/call", name="get_resource", arguments={"uri": "metadata://examples"})
        await server.ask("tools/call", name="get_resource", arguments={"uri": "canary://x"})
        await server.ask("tools/call", name="canary", arguments={})
        await server.ask("tools/call", name="get_resource", arguments={"uri": "\ud800"})
        server.stdin.close()
        status, rest, log = await server.end()
    assert (status, rest) == (0, "")
    assert "Traceback" not in log
    local = {"transport": "stdio", "subject": "local", "address": None, "http_method": None, "bytes_sent": None}
    found = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
    assert all({name: line[name] for name in local} == local for line in found)
    assert [(line["method"], line["name"], line["uri"], line["outcome"], line["error"]) for line in found] == [
        ("initialize", None, None, "ok", None),
        ("notifications/initialized", None, None, "ok", None),
        ("tools/list", None, None, "ok", None),
        ("resources/read", None, "metadata://examples", "ok", None),
        ("tools/call", "get_resource", "metadata://examples", "ok", None),
        ("tools/call", "get_resource", "unknown", "error", "InvalidURI"),
        ("tools/call", "unknown", None, "error", "NotFound"),
        (None, None, None, "error", "InvalidUnicode"),
    ]
    assert "canary" not in path.read_text(encoding="ascii")


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="no non-blocking pipes")
def test_streams_in_non_blocking_mode_are_read_and_written() -> None:
    """A program that has the same streams can set the mode, for example ssh."""
    (requests_read, requests_write), (answers_read, answers_write) = os.pipe(), os.pipe()
    os.set_blocking(requests_read, False)
    os.set_blocking(answers_write, False)
    server = subprocess.Popen(
        [executable(), "serve"], stdin=requests_read, stdout=answers_write, stderr=subprocess.DEVNULL
    )
    for one in (requests_read, answers_write):
        os.close(one)
    with server, os.fdopen(requests_write, "wb", buffering=0) as sent, os.fdopen(answers_read, "rb") as answers:
        sent.write(INITIALIZE.encode())
        assert json.loads(answers.readline())["id"] == 1
        sent.write("".join(message(number, "tools/list") for number in range(2, 42)).encode())  # more than a pipe holds
        sent.close()
        assert sorted(json.loads(line)["id"] for line in answers) == list(range(2, 42))
    assert server.returncode == 0


SLOW_SERVER = """
import asyncio, time
from fastmcp import FastMCP
from quilt_mcp.commands.stdio_audit import StdioAudit
from quilt_mcp.commands.stdio_front import open_front
from quilt_mcp.commands.stdio_server import run_stdio
from quilt_mcp.http.audit import AuditLog

mcp = FastMCP("slow")

@mcp.tool
async def in_loop() -> str:
    await asyncio.sleep(0.5)
    return "done"

@mcp.tool
def in_thread() -> str:
    time.sleep(0.5)
    return "done"

run_stdio(mcp, open_front([]), seconds_to_finish=60, audit=StdioAudit(AuditLog(None)))
"""


@pytest.mark.soak
def test_requests_in_progress_are_answered_after_stdin_ends() -> None:
    """As with `printf ... | quilt-mcp serve`. The MCP library alone returns errors for them."""
    calls = [message(number, "tools/call", name=name) for number, name in ((3, "in_loop"), (4, "in_thread"))]
    unterminated = message(5, "tools/call", name="in_loop").rstrip()
    found = subprocess.run(
        [sys.executable, "-c", SLOW_SERVER],
        input=INITIALIZE + LIST + "".join(calls) + unterminated,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    assert sorted((one["id"], "result" in one) for one in answers) == [(number, True) for number in range(1, 6)]
    assert found.returncode == 0


@pytest.mark.soak
def test_the_log_level_is_a_setting() -> None:
    command = [executable(), "serve"]
    environment = os.environ | {"QUILT_MCP_LOG_LEVEL": "ERROR"}
    found = subprocess.run(
        command, env=environment, input=INITIALIZE, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.soak
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_signal_ends_the_server_while_stdin_is_open(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    async with serve_stdio("--demo", environment=os.environ | {"TMPDIR": str(tmp_path)}) as server:
        answer = (await server.ask("tools/call", **REQUEST))["result"]["structuredContent"]
        assert answer["data"]["user_info"]["username"] == "amara_osei"
        server.send_signal(number)
        found, _, log = await server.end()
    assert found == status
    assert "Traceback" not in log
    assert await asyncio.to_thread(os.listdir, tmp_path) == []


@pytest.mark.soak
async def test_the_server_ends_when_the_client_disconnects_before_its_answer() -> None:
    patient = {"QUILT_MCP_DEADLINE_SECONDS": str(2 * SECONDS)}  # it does not wait for the answer
    async with serve_stdio(environment=os.environ | patient) as server:
        server.close_stdout()
        await server.send("tools/list")
        server.stdin.close()
        status, _, log = await server.end()
    assert status == 0
    assert "Traceback" not in log


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


def test_serve_in_this_process_ends_with_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    output = TextIOWrapper(BytesIO())
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(INITIALIZE.encode())))
    monkeypatch.setattr(sys, "stdout", output)
    assert main(["serve"]) == 0
    output.seek(0)
    assert json.loads(output.read())["result"]["serverInfo"]["name"] == "quilt-mcp"
