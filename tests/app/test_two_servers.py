"""Two servers with different settings in one process: each answers from its own state."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from quilt_mcp.app.identity import Identity
from quilt_mcp.core.errors import TooManyRequests
from quilt_mcp.demo.world import World
from quilt_mcp.http.admission import Admission
from quilt_mcp.requirements.sample import write_sample
from quilt_mcp.server import QuiltServer, create_server
from tests.support.settings import Settings

URIS = {
    "quilt": "auth://filesystem/status",
    "workflows": "workflow://workflows",
    "requirements": "requirements://epics",
    "analysis": "config://security",
    "server": "config://server",
}

Answers = dict[str, Any]


def settings_of(directory: Path, timeout: int) -> Settings:
    return Settings(
        data_dir=directory, analysis_default_timeout_seconds=timeout, analysis_code_size_bytes=timeout * 1024
    )


@pytest.fixture
def servers(fresh_world: World, tmp_path: Path) -> tuple[QuiltServer, QuiltServer]:
    """A server with a workflow and the requirements sample, and one created after it with an empty directory."""
    full = settings_of(tmp_path / "full", 11)
    full.data_dir.mkdir()
    write_sample(full)
    return create_server(full), create_server(settings_of(tmp_path / "empty", 22))


async def read_all(server: QuiltServer, *, workflow: str | None = None) -> Answers:
    """Read one resource of every domain, each through the tool and as a resource."""
    async with Client(server) as client:
        if workflow:
            await client.call_tool("workflow_create", {"workflow_id": workflow, "name": workflow})
        answers = {}
        for domain, uri in URIS.items():
            answer = await client.call_tool("get_resource", {"uri": uri})
            answers[domain] = (answer.structured_content or {})["data"]
            await client.read_resource(uri)
        return answers


def check(full: Answers, empty: Answers) -> None:
    assert full["quilt"]["directories"]["workflows"]["path"].endswith("/full")
    assert empty["quilt"]["directories"]["workflows"]["path"].endswith("/empty")
    assert [one["id"] for one in full["workflows"]["workflows"]] == ["of-full"]
    assert [one["id"] for one in empty["workflows"]["workflows"]] == ["of-empty"]
    assert full["requirements"]["count"] > 0
    assert empty["requirements"]["count"] == 0
    sizes = [one["analysis"]["limits"]["code_size_bytes"]["value"] for one in (full, empty)]
    assert sizes == [11 * 1024, 22 * 1024]
    assert (full["server"]["default_timeout_seconds"], empty["server"]["default_timeout_seconds"]) == (11, 22)


async def test_in_one_event_loop(servers: tuple[QuiltServer, QuiltServer]) -> None:
    full, empty = servers
    check(*await asyncio.gather(read_all(full, workflow="of-full"), read_all(empty, workflow="of-empty")))
    check(*await asyncio.gather(read_all(full), read_all(empty)))


def test_in_two_threads(servers: tuple[QuiltServer, QuiltServer]) -> None:
    full, empty = servers
    both_started = threading.Barrier(2)
    answers: dict[str, Answers] = {}

    def serve(name: str, read: Callable[[], Awaitable[Answers]]) -> None:
        async def run() -> None:
            both_started.wait()
            answers[name] = await read()

        asyncio.run(run())

    threads = [
        threading.Thread(target=serve, args=("full", lambda: read_all(full, workflow="of-full"))),
        threading.Thread(target=serve, args=("empty", lambda: read_all(empty, workflow="of-empty"))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(answers["full"], answers["empty"])


async def test_a_server_that_ends_does_not_close_the_other(servers: tuple[QuiltServer, QuiltServer]) -> None:
    full, empty = servers
    async with Client(full) as client:
        await client.call_tool("get_resource", {"uri": "requirements://epics"})
        await read_all(empty)
        answer = await client.call_tool("get_resource", {"uri": "requirements://epics"})
    assert (answer.structured_content or {})["success"]


async def test_each_counts_requests_by_itself(tmp_path: Path) -> None:
    one = create_server(Settings(data_dir=tmp_path, rate_limit="1/hour")).app.part(Admission)
    other = create_server(Settings(data_dir=tmp_path, rate_limit="1/hour")).app.part(Admission)
    ann = Identity("ann", "issuer")
    await one.count(ann)
    await other.count(ann)
    with pytest.raises(TooManyRequests):
        await one.count(ann)
