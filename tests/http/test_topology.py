"""nginx, two servers, Valkey and PostgreSQL as in deploy/compose.yml, as plain processes. Each part crashes in turn."""

import asyncio
import json
import os
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import pytest

from quilt_mcp.commands.install import executable
from quilt_mcp.demo.world import isolate
from quilt_mcp.http.server import listen
from tests.contract.crowd import MARK, Crowd, Person
from tests.http.test_nginx import HOST, NGINX, command, trusting, write_configuration
from tests.http.web import request
from tests.support.postgres_server import NoPostgres, postgres_server
from tests.support.valkey_server import valkey_server
from tests.support.waiting import SECONDS, until_awaited

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")

PEOPLE = 17
PAUSE = 0.5  # between two requests of a person, so that they stay below the rate limit
RECOVERY_SECONDS = 300.0  # for a part that starts again, on a busy machine
URIS = ("auth://status", "tabulator://buckets", "workflow://workflows")


@dataclass
class Part:
    """A process that can crash and start again at the same port."""

    command: tuple[str, ...]
    environment: dict[str, str]
    port: int
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(*self.command, env=self.environment)
        await until_awaited(self._can_connect, seconds=RECOVERY_SECONDS)

    async def crash(self) -> None:
        assert self.process
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
            await self.process.wait()

    async def _can_connect(self) -> bool:
        assert self.process
        assert self.process.returncode is None
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True


@dataclass
class Visits:
    acknowledged: dict[int, list[str]] = field(default_factory=dict)  # the workflows of each person
    attempts: int = 0
    failed: int = 0  # without an answer, or with an error
    foreign: list[str] = field(default_factory=list)  # marks of another person in an answer

    async def ask(self, web: httpx2.AsyncClient, person: Person, message: dict[str, Any]) -> dict[str, Any] | None:
        """Send a request of a person and check the owner of the data in the answer. Return the result of a success."""
        self.attempts += 1
        own = {"Host": HOST, "Authorization": f"Bearer {person.server_token}", "X-Quilt-Token": person.quilt_token}
        sent = message | {"headers": message["headers"] | own, "extensions": {"sni_hostname": HOST}}
        try:
            answer = await web.post(**sent)
        except httpx2.TransportError:
            self.failed += 1
            return None
        marks = set(MARK.findall(answer.text)) - {person.mark, person.workflow_mark}
        self.foreign += [f"{person.mark} got {mark}" for mark in marks]
        body = answer.json() if answer.status_code == HTTPStatus.OK else {}
        result: dict[str, Any] | None = body.get("result")
        if result is None or result.get("isError"):
            self.failed += 1
            return None
        return result

    async def visit(self, url: str, tls: ssl.SSLContext, person: Person, stop: asyncio.Event) -> None:
        done = self.acknowledged.setdefault(person.number, [])
        async with httpx2.AsyncClient(base_url=url, verify=tls, trust_env=False, timeout=SECONDS) as web:
            number = 0
            while not stop.is_set():
                arguments = {"workflow_id": f"w{number}", "name": person.workflow_mark}
                if await self.ask(web, person, request("tools/call", name="workflow_create", arguments=arguments)):
                    done.append(arguments["workflow_id"])
                await self.ask(web, person, request("resources/read", uri=URIS[number % len(URIS)]))
                number += 1
                await asyncio.sleep(PAUSE)

    async def check(self, url: str, tls: ssl.SSLContext, person: Person) -> list[str]:
        lost = []
        async with httpx2.AsyncClient(base_url=url, verify=tls, trust_env=False, timeout=SECONDS) as web:
            for name in self.acknowledged[person.number]:
                found = await self.ask(
                    web, person, request("resources/read", uri=f"workflow://workflows/{name}/status")
                )
                if not found or person.workflow_mark not in json.dumps(found):
                    lost.append(f"{person.mark}: {name}")
        return lost


def free_port() -> int:
    with listen("127.0.0.1", 0) as found:
        port: int = found.getsockname()[1]
    return port


def nginx(directory: Path, servers: tuple[int, int]) -> Part:
    port = write_configuration(directory, servers, {"daemon off;": "daemon off;\nmaster_process off;"})
    return Part(command(directory), dict(os.environ), port)


def server(directory: Path, port: int, environment: dict[str, str]) -> Part:
    home = directory / f"home-{port}"
    home.mkdir()
    given = os.environ | {"HOME": str(home), "XDG_DATA_HOME": str(home)} | environment
    return Part((executable(), "serve", "--transport", "http", "--port", str(port)), given, port)


@asynccontextmanager
async def topology(directory: Path, crowd: Crowd) -> AsyncIterator[tuple[int, dict[str, tuple[Any, Any]]]]:
    """Start everything. Return nginx's port, and for each part what crashes it and what starts it."""
    async with AsyncExitStack() as stack:
        try:
            postgres = stack.enter_context(postgres_server())
        except NoPostgres as error:
            pytest.skip(str(error))
        valkey = stack.enter_context(valkey_server())
        tokens = {person.server_token: {"client_id": f"person-{person.number}"} for person in crowd.people}
        environment = {
            "QUILT_MCP_PUBLIC_URL": f"https://{HOST}",
            "QUILT_MCP_STATIC_TOKENS": json.dumps(tokens),
            "QUILT_MCP_CATALOG_URL": crowd.stack.url,
            "QUILT_MCP_WORKFLOWS_URL": postgres.create("workflows"),
            "QUILT_MCP_STATE_URL": valkey.url,
            "AWS_ENDPOINT_URL": crowd.aws_url,
        }
        ports = free_port(), free_port()
        servers = [server(directory, port, environment) for port in ports]
        proxy = nginx(directory, ports)
        for part in (*servers, proxy):
            stack.push_async_callback(part.crash)
            await part.start()
        yield (
            proxy.port,
            {
                "nginx": (proxy.crash, proxy.start),
                "the first server": (servers[0].crash, servers[0].start),
                "the second server": (servers[1].crash, servers[1].start),
                "Valkey": (lambda: asyncio.to_thread(valkey.stop), lambda: asyncio.to_thread(valkey.start)),
                "PostgreSQL": (lambda: asyncio.to_thread(postgres.stop), lambda: asyncio.to_thread(postgres.start)),
            },
        )


@pytest.mark.soak
async def test_no_write_is_lost_and_no_caller_gets_foreign_data_while_parts_crash(tmp_path: Path) -> None:
    visits, stop = Visits(), asyncio.Event()
    with isolate(tmp_path), Crowd(PEOPLE) as crowd:
        async with topology(tmp_path, crowd) as (port, parts):
            url, tls = f"https://127.0.0.1:{port}", trusting(tmp_path)

            async def everyone_writes() -> None:
                before = {number: len(done) for number, done in visits.acknowledged.items()}

                async def has_written() -> bool:
                    return all(
                        len(visits.acknowledged[person.number]) > before[person.number] for person in crowd.people
                    )

                await until_awaited(has_written, seconds=RECOVERY_SECONDS)

            async with asyncio.TaskGroup() as group:
                for person in crowd.people:
                    visits.acknowledged[person.number] = []
                    group.create_task(visits.visit(url, tls, person, stop))
                await everyone_writes()
                for name, (crash, start) in parts.items():
                    attempts = visits.attempts
                    await crash()

                    async def others_went_on(after: int = attempts + 2 * PEOPLE) -> bool:
                        return visits.attempts >= after

                    await until_awaited(others_went_on, seconds=RECOVERY_SECONDS)
                    await start()
                    await everyone_writes()
                    assert visits.foreign == [], name
                stop.set()
            lost = await asyncio.gather(*(visits.check(url, tls, person) for person in crowd.people))
    total = sum(len(done) for done in visits.acknowledged.values())
    print(f"{visits.attempts} requests, {visits.failed} failed, {total} confirmed writes")  # noqa: T201 - figures
    assert [name for names in lost for name in names] == []
    assert visits.foreign == []
    assert 0 < visits.failed < visits.attempts
    assert total > PEOPLE * len(parts)
