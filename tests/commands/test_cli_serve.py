"""`quilt-mcp serve`, as a process."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests
from anyio import to_thread
from fastmcp import Client

from quilt_mcp.commands.cli import main
from quilt_mcp.commands.install import executable
from tests.support.waiting import SECONDS

URL = re.compile(r"on (http://127\.0\.0\.1:[1-9]\d*/\w+)")


def message(number: int, method: str, **parameters: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}) + "\n"


CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = message(1, "initialize", **CLIENT)
LIST = message(2, "tools/list")
READ = message(3, "tools/call", name="get_resource", arguments={"uri": "auth://status"})


class Server(NamedTuple):
    """A running server, and its log until it was ready."""

    process: subprocess.Popen[str]
    log: str

    def ask(self, text: str) -> dict[str, Any]:
        """Send a line and return the server's next message."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(text)
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal while stdin is open; return the exit status and the rest of the log."""
        assert self.process.stderr
        self.process.send_signal(number)
        status = self.process.wait(SECONDS)
        return status, self.process.stderr.read()


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[Server]:
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [executable(), "serve", *arguments]
    # Background jobs of a shell ignore SIGINT, and child processes inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, env=os.environ | environment, **pipes) as process:
        assert process.stderr
        limit = threading.Timer(SECONDS, process.kill)
        limit.start()
        log = ""
        while "Starting MCP server" not in log and (line := process.stderr.readline()):
            log += line
        try:
            yield Server(process, log)
        finally:
            limit.cancel()
            process.kill()


def post_from_elsewhere(url: str) -> requests.Response:
    """Send the request of a web page with a host name that resolves to this machine (DNS rebinding)."""
    return requests.post(url, INITIALIZE, headers={"Host": "attacker.example.com"}, timeout=SECONDS)


def test_stdout_contains_messages_only_and_the_server_exits_when_stdin_ends() -> None:
    with serving() as server:
        answers = [server.ask(INITIALIZE), server.ask(LIST), server.ask(READ)]
        rest, log = server.process.communicate(timeout=SECONDS)
    assert [(one["jsonrpc"], one["id"], "result" in one) for one in answers] == [("2.0", n, True) for n in (1, 2, 3)]
    assert (rest, server.process.returncode) == ("", 0)
    assert "Traceback" not in log


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
from quilt_mcp.http.audit_log import AuditLog

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
def test_a_signal_ends_the_server_while_stdin_is_open(number: signal.Signals, status: int, tmp_path: Path) -> None:
    with serving("--demo", TMPDIR=str(tmp_path)) as server:
        server.ask(INITIALIZE)
        answer = server.ask(READ)["result"]["structuredContent"]
        assert answer["data"]["user_info"]["username"] == "amara_osei"
        found, log = server.stop(number)
    assert found == status
    assert "Traceback" not in log
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
def test_the_server_ends_when_the_client_disconnects_before_its_answer() -> None:
    with serving(QUILT_MCP_DEADLINE_SECONDS=str(2 * SECONDS)) as server:  # it does not wait for the answer
        assert server.process.stdout
        server.ask(INITIALIZE)
        server.process.stdout.close()
        server.process.stdout = None
        _, log = server.process.communicate(LIST, timeout=SECONDS)
    assert server.process.returncode == 0
    assert "Traceback" not in log


@pytest.mark.soak
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_http_serves_only_requests_to_this_host(transport: str) -> None:
    with serving("--transport", transport, "--port", "0", "--demo") as server:
        [url] = URL.findall(server.log)
        async with Client(url) as client:
            result = await client.call_tool("get_resource", {"uri": "auth://status"})
            assert result.structured_content
            assert result.structured_content["data"]["status"] == "authenticated"
        foreign = await to_thread.run_sync(post_from_elsewhere, url)
        assert foreign.status_code == HTTPStatus.MISDIRECTED_REQUEST
        status, log = server.stop(signal.SIGINT)
        assert status == 130
        assert "Traceback" not in log
        assert server.process.stdout
        assert server.process.stdout.read() == ""


def test_ctrl_c_ends_an_http_server_during_a_read(tmp_path: Path) -> None:
    """AWS accepts the connection and never responds: the read alone would take its limit of ten minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        silent.settimeout(SECONDS)
        place = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}", "XDG_DATA_HOME": str(tmp_path)}
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "NO_PROXY": "127.0.0.1"}
        keys["AWS_REGION"] = "us-east-1"
        limits = {"QUILT_MCP_READ_TIMEOUT_SECONDS": "600", "QUILT_MCP_DEADLINE_SECONDS": "600"}
        with serving("--transport", "http", "--port", "0", **place, **keys, **limits) as server:
            [url] = URL.findall(server.log)
            headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
            started = requests.post(url, INITIALIZE, headers=headers, timeout=SECONDS)
            assert "mcp-session-id" not in started.headers  # any process can answer any request
            read = message(3, "tools/call", name="get_resource", arguments={"uri": "athena://databases"})
            pool.submit(requests.post, url, read, headers=headers, timeout=SECONDS)
            connection, _ = silent.accept()
            with connection:
                found, log = server.stop(signal.SIGINT)
    assert found == 130
    assert "Traceback" not in log


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
