"""`quilt-mcp serve` as a process: what stands on its stdout and stderr, and how it ends in the middle of a read."""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp.commands.install import executable
from quilt_mcp.demo.http_server import Answer, Request
from tests.silent_server import SilentServer
from tests.waiting import SECONDS, until

CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
READ = re.compile(r"surface=(\w+) uri=(\S+) outcome=(\w+)")
WAITING = "permissions://discover"  # a read of many calls, each in a thread of its own
IDENTITY = (
    b"<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/a</Arn>"
    b"<UserId>A</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
)


class Server:
    """The process, spoken to in lines of JSON-RPC."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._last_id = 0
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self.stdin, self.stdout, self._stderr = process.stdin, process.stdout, process.stderr

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The server's next message after a request."""
        await self.send(method, **parameters)
        async with asyncio.timeout(SECONDS):
            message: dict[str, Any] = json.loads(await self.stdout.readline())
        assert (message["jsonrpc"], message["id"]) == ("2.0", self._last_id)
        return message

    async def send(self, method: str, **parameters: Any) -> int:
        """Send a request; its id is answered."""
        self._last_id += 1
        await self._write({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": parameters})
        return self._last_id

    async def notify(self, method: str, **parameters: Any) -> None:
        await self._write({"jsonrpc": "2.0", "method": method, "params": parameters})

    async def logged(self, text: str) -> str:
        """The log from where it was last read to the first line with this text."""
        log = ""
        async with asyncio.timeout(SECONDS):
            while text not in log and (line := await self._stderr.readline()):
                log += line.decode()
        assert text in log
        return log

    def terminate(self) -> None:
        self._process.terminate()

    async def end(self) -> tuple[int, str, str]:
        """The exit status, and what was still written to stdout and stderr."""
        async with asyncio.timeout(SECONDS):
            stdout, stderr = await asyncio.gather(self.stdout.read(), self._stderr.read())
            return await self._process.wait(), stdout.decode(), stderr.decode()

    async def _write(self, message: dict[str, Any]) -> None:
        self.stdin.write(json.dumps(message).encode() + b"\n")
        await self.stdin.drain()


@asynccontextmanager
async def serve(*arguments: str, environment: Mapping[str, str] = os.environ) -> AsyncIterator[Server]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        executable(), "serve", *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=environment
    )
    server = Server(process)
    try:
        await server.ask("initialize", **CLIENT)
        await server.notify("notifications/initialized")
        yield server
    finally:
        if process.returncode is None:
            process.kill()
        await server.end()


async def test_stdout_is_json_rpc_and_the_log_has_one_line_a_read() -> None:
    async with serve("--demo") as server:
        assert len((await server.ask("tools/list"))["result"]["tools"]) > 1
        native = await server.ask("resources/read", uri="auth://status")
        tool = await server.ask("tools/call", name="get_resource", arguments={"uri": "auth://status"})
        data = json.loads(native["result"]["contents"][0]["text"])
        assert data == tool["result"]["structuredContent"]["data"]
        server.stdin.close()
        status, stdout, log = await server.end()
    assert (status, stdout) == (0, "")
    assert READ.findall(log) == [("resource", "auth://status", "ok"), ("tool", "auth://status", "ok")]
    assert "Traceback" not in log


def only_sts(request: Request) -> Answer | None:
    is_sts = (request.method, request.path) == ("POST", "/")
    return Answer(HTTPStatus.OK, IDENTITY) if is_sts else None


@pytest.fixture
def silent_aws() -> Iterator[SilentServer]:
    """AWS, where only STS answers."""
    with SilentServer(only_sts) as aws:
        yield aws


@asynccontextmanager
async def reading(aws: SilentServer, home: Path, *, deadline: int) -> AsyncIterator[tuple[Server, int]]:
    """A server in the middle of a read, and the id of the request.

    Its calls would wait for ten minutes, and nobody is signed in: it waits for AWS alone.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home),
        "AWS_ENDPOINT_URL": aws.url,
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "made-up",
        "AWS_DEFAULT_REGION": "us-east-1",
        "QUILT_MCP_READ_TIMEOUT_SECONDS": "600",
        "QUILT_MCP_PROBE_SECONDS": str(deadline / 5),
        "QUILT_MCP_DEADLINE_SECONDS": str(deadline),
    }
    async with serve(environment=environment) as server:
        await server.ask("resources/read", uri="auth://status")  # imports what takes long, outside of the deadline
        await server.logged("surface=")
        number = await server.send("resources/read", uri=WAITING)
        await until(lambda: aws.asked == ["POST /", "GET /"])
        yield server, number


async def test_sigterm_ends_it_in_the_middle_of_a_read(silent_aws: SilentServer, tmp_path: Path) -> None:
    async with reading(silent_aws, tmp_path, deadline=600) as (server, _):
        server.terminate()
        status, stdout, log = await server.end()
    assert (status, stdout) == (128 + signal.SIGTERM, "")
    assert "Traceback" not in log


async def test_it_ends_with_stdin_after_the_answer_that_is_due(silent_aws: SilentServer, tmp_path: Path) -> None:
    async with reading(silent_aws, tmp_path, deadline=10) as (server, number):
        server.stdin.close()
        status, stdout, log = await server.end()
    answer = json.loads(stdout)
    sources = json.loads(answer["result"]["contents"][0]["text"])["sources"]
    assert (status, answer["id"], sources["s3"]) == (0, number, "not read: not reached in time")
    assert READ.findall(log) == [("resource", WAITING, "ok")]


async def test_a_client_that_dies_in_the_middle_of_a_read_ends_it(silent_aws: SilentServer, tmp_path: Path) -> None:
    async with reading(silent_aws, tmp_path, deadline=10) as (server, _):
        server.stdin.close()
        server.stdout._transport.close()  # type: ignore[attr-defined]  # a reader has no public way to be closed
        status, _, log = await server.end()
    assert status == 0
    assert "Traceback" not in log


async def test_a_cancelled_read_ends_at_once_and_the_next_is_answered(silent_aws: SilentServer, tmp_path: Path) -> None:
    async with reading(silent_aws, tmp_path, deadline=600) as (server, number):
        await server.notify("notifications/cancelled", requestId=number)
        log = await server.logged("surface=")
        assert READ.findall(log) == [("resource", WAITING, "cancelled")]
        next_one = await server.ask("tools/call", name="get_resource", arguments={"uri": "metadata://templates"})
        assert next_one["result"]["structuredContent"]["success"]
        server.stdin.close()
        status, stdout, _ = await server.end()
    assert (status, stdout) == (0, "")
