"""Two workers, fifty callers, and connections that are reset, while workers are replaced and killed."""

import asyncio
import json
import os
import random
import signal
import socket
import struct
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from statistics import mean
from typing import Any

import httpx2
import pytest

from tests.http.test_processes import memory
from tests.http.web import new_client, request, with_headers
from tests.support.processes import is_running
from tests.support.server_process import HTTPServerProcess, serve_http

pytestmark = [pytest.mark.soak, pytest.mark.alone]

SECONDS = float(os.environ.get("QUILT_MCP_TEST_SOAK_SECONDS", "120"))
PEOPLE = 50
RESET_HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Padding: " + b"x" * 60_000 + b"\r\n\r\n"
GROWTH = 0.15
"""How much more memory the second half may take on average. A connection that stays would take 66 KB for each reset."""


@dataclass
class Seen:
    answers: Counter[str] = field(default_factory=Counter)
    foreign: int = 0
    lost: int = 0
    resets: int = 0
    memory: list[tuple[float, int]] = field(default_factory=list)


async def ask(client: httpx2.AsyncClient, name: str, asked: dict[str, Any], seen: Seen) -> Any:
    """Send a request until it is answered: a worker that ends closes its connections."""
    sent = with_headers(asked, Authorization=f"Bearer token-{name}")
    for _ in range(20):
        try:
            answer = await client.post(**sent)
        except httpx2.TransportError as error:
            seen.answers[type(error).__name__] += 1
            await asyncio.sleep(0.2)
            continue
        seen.answers[str(answer.status_code)] += 1
        if answer.status_code == HTTPStatus.OK:
            return answer.json()
        assert answer.status_code in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}, answer.text
        await asyncio.sleep(float(answer.headers.get("retry-after", "1")))
    raise AssertionError(f"{name} got no answer")


async def work(name: str, client: httpx2.AsyncClient, end: float, seen: Seen) -> None:
    """Write a workflow with steps of one's own, and read it on both surfaces."""
    identity = f"flow-{name}"
    create = {"workflow_id": identity, "name": f"secret of {name}"}
    await ask(client, name, request("tools/call", name="workflow_create", arguments=create), seen)
    stored: list[str] = []
    while time.monotonic() < end:
        if len(stored) < 50:
            step = f"step-{len(stored)}"
            added = {"workflow_id": identity, "step_id": step, "description": f"secret of {name}"}
            answer = await ask(client, name, request("tools/call", name="workflow_add_step", arguments=added), seen)
            if not answer["result"].get("isError") or "exists" in json.dumps(answer):  # the first answer was lost
                stored.append(step)
        uri = f"workflow://workflows/{identity}/status"
        asked = (
            request("resources/read", uri=uri),
            request("tools/call", name="get_resource", arguments={"uri": uri}),
            request("resources/read", uri="workflow://workflows"),
        )
        for one in asked:
            text = json.dumps(await ask(client, name, one, seen))
            seen.foreign += any(f"secret of {other}\\" in text for other in map(str, range(PEOPLE)) if other != name)
            if one is not asked[2]:
                seen.lost += sum(f'{step}\\"' not in text and f'"{step}"' not in text for step in stored)
        await asyncio.sleep(random.uniform(1, 3))  # noqa: S311 - no secret


def reset(port: int) -> None:
    """Read an answer, and end the connection by a reset."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.sendall(RESET_HEAD)
        one.recv(100)


def measure(server: HTTPServerProcess) -> int:
    """Return the memory of the workers that run, in KiB."""
    return sum(memory([pid]) for pid in server.workers if is_running(pid))


async def disturb(server: HTTPServerProcess, end: float, seen: Seen) -> None:
    """Reset connections, replace the workers each minute, and kill one each third minute."""
    began, turn = time.monotonic(), 0
    while time.monotonic() < end:
        for _ in range(20):
            try:
                await asyncio.to_thread(reset, server.port)
                seen.resets += 1
            except OSError:
                await asyncio.sleep(0.1)
        seen.memory.append((time.monotonic(), measure(server)))
        if time.monotonic() > began + 60 * (turn + 1):
            turn += 1
            if turn % 3 == 0 and server.workers:
                os.kill(random.choice(server.workers), signal.SIGKILL)  # noqa: S311 - no secret
            else:
                server.process.send_signal(signal.SIGHUP)
        await asyncio.sleep(2)


async def test_no_caller_gets_foreign_data_and_the_memory_stays_flat(tmp_path: Path) -> None:
    names = list(map(str, range(PEOPLE)))
    tokens = {f"token-{name}": {"client_id": name, "scopes": []} for name in names}
    seen = Seen()
    async with serve_http(tmp_path, "--workers", "2", QUILT_MCP_STATIC_TOKENS=json.dumps(tokens)) as server:
        end = time.monotonic() + SECONDS
        async with asyncio.TaskGroup() as group:
            clients = [new_client(f"http://127.0.0.1:{server.port}") for _ in range(10)]
            disturbing = group.create_task(disturb(server, end, seen))
            for number, name in enumerate(names):
                group.create_task(work(name, clients[number % 10], end, seen))
        assert disturbing.done()
        for client in clients:
            await client.aclose()
        log = server.log
    half = [value for at, value in seen.memory if at > end - SECONDS / 2]
    early = [value for at, value in seen.memory if end - SECONDS * 0.8 < at <= end - SECONDS / 2]
    sys.stdout.write(
        f"{SECONDS:.0f} s: {dict(seen.answers)}, {seen.resets} resets, "
        f"memory {mean(early):.0f} and then {mean(half):.0f} KiB\n"
    )
    assert (seen.foreign, seen.lost) == (0, 0)
    assert "Traceback" not in log
    assert not any(token in log for token in tokens)
    assert mean(half) <= mean(early) * (1 + GROWTH)
