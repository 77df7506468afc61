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

from quilt_mcp.cli import main
from quilt_mcp.commands.install import executable

SECONDS = 60  # in which a process on a busy machine has certainly ended
URL = re.compile(r"on (http://127\.0\.0\.1:[1-9]\d*/\w+)")


def message(number: int, method: str, **parameters: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}) + "\n"


CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = message(1, "initialize", **CLIENT)
LIST = message(2, "tools/list")
READ = message(3, "tools/call", name="get_resource", arguments={"uri": "auth://status"})


class Server(NamedTuple):
    """A server that runs, and what it had logged when it began to serve."""

    process: subprocess.Popen[str]
    log: str

    def ask(self, text: str) -> dict[str, Any]:
        """The server's next message after this line."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(text)
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal while stdin is open; the exit status, and what was still logged."""
        assert self.process.stderr
        self.process.send_signal(number)
        status = self.process.wait(SECONDS)
        return status, self.process.stderr.read()


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[Server]:
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [executable(), "serve", *arguments]
    # Whoever runs these tests in the background has SIGINT ignored, and what they start would inherit that.
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
    """What a web page gets that has its own host name resolve to this machine."""
    return requests.post(url, INITIALIZE, headers={"Host": "attacker.example.com"}, timeout=SECONDS)


def test_stdout_holds_messages_only_and_the_end_of_stdin_ends_the_server() -> None:
    with serving() as server:
        answers = [server.ask(INITIALIZE), server.ask(LIST), server.ask(READ)]
        rest, log = server.process.communicate(timeout=SECONDS)
    assert [(one["jsonrpc"], one["id"], "result" in one) for one in answers] == [("2.0", n, True) for n in (1, 2, 3)]
    assert (rest, server.process.returncode) == ("", 0)
    assert "Traceback" not in log


def test_all_answers_are_given_though_stdin_ends_at_once() -> None:
    """As with `printf ... | quilt-mcp serve`."""
    found = subprocess.run(
        [executable(), "serve", "--demo"],
        input=INITIALIZE + LIST + READ,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    answers = [json.loads(line) for line in found.stdout.splitlines()]
    assert sorted((one["id"], "result" in one) for one in answers) == [(1, True), (2, True), (3, True)]
    assert found.returncode == 0


def test_the_log_level_is_a_setting() -> None:
    command = [executable(), "serve"]
    environment = os.environ | {"QUILT_MCP_LOG_LEVEL": "ERROR"}
    found = subprocess.run(
        command, env=environment, input=INITIALIZE, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_though_stdin_is_open(number: signal.Signals, status: int, tmp_path: Path) -> None:
    with serving("--demo", TMPDIR=str(tmp_path)) as server:
        server.ask(INITIALIZE)
        answer = server.ask(READ)["result"]["structuredContent"]
        assert answer["data"]["user_info"]["username"] == "amara_osei"
        found, log = server.stop(number)
    assert found == status
    assert "Traceback" not in log
    assert list(tmp_path.iterdir()) == []


def test_a_client_that_goes_before_its_answer_leaves_no_traceback() -> None:
    with serving() as server:
        assert server.process.stdout
        server.ask(INITIALIZE)
        server.process.stdout.close()
        server.process.stdout = None
        _, log = server.process.communicate(LIST, timeout=SECONDS)
    assert server.process.returncode == 0
    assert "Traceback" not in log


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_over_http_it_serves_and_guards_this_host_only(transport: str) -> None:
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


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_over_http_a_signal_ends_it_in_mid_read(number: signal.Signals, status: int, tmp_path: Path) -> None:
    """AWS takes the connection and never answers: the read alone would last its limit of ten minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as pool:
        silent.settimeout(SECONDS)
        place = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}", "XDG_DATA_HOME": str(tmp_path)}
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "NO_PROXY": "127.0.0.1"}
        limits = {"QUILT_MCP_READ_TIMEOUT_SECONDS": "600", "QUILT_MCP_DEADLINE_SECONDS": "600"}
        with serving("--transport", "http", "--port", "0", **place, **keys, **limits) as server:
            [url] = URL.findall(server.log)
            headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
            started = requests.post(url, INITIALIZE, headers=headers, timeout=SECONDS)
            assert "mcp-session-id" not in started.headers  # any process answers any request
            read = message(3, "tools/call", name="get_resource", arguments={"uri": "athena://databases"})
            pool.submit(requests.post, url, read, headers=headers, timeout=SECONDS)
            connection, _ = silent.accept()
            with connection:
                found, log = server.stop(number)
    assert found == status
    assert "Traceback" not in log


def test_a_port_that_is_taken_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--transport", "http", "--port", str(port)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"cannot listen on 127.0.0.1 port {port}" in captured.err.splitlines()[-1]


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_host_that_is_no_name_gets_one_line(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--transport", "http", "--host", host, "--port", "0"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].endswith(f"cannot listen on {host} port 0: not a host's name.")
    assert "Traceback" not in captured.err


def test_in_this_process_it_ends_with_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    output = TextIOWrapper(BytesIO())
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(INITIALIZE.encode())))
    monkeypatch.setattr(sys, "stdout", output)
    assert main(["serve"]) == 0
    output.seek(0)
    assert json.loads(output.read())["result"]["serverInfo"]["name"] == "quilt-mcp"
