"""Two servers in one process for two Quilt stacks: each answers every resource as if it were alone."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from pydantic import SecretStr

from quilt_mcp.core.registry import path_of, path_variables
from quilt_mcp.demo.company import ADMIN
from quilt_mcp.demo.stack import FakeStack
from quilt_mcp.demo.world import World
from quilt_mcp.requirements.sample import write_sample
from quilt_mcp.resources import RESOURCE_REGISTRY
from quilt_mcp.server import QuiltServer, create_server
from tests.contract.cases import read_rows
from tests.support.settings import Settings
from tests.support.waiting import SECONDS
from tests.worlds.sign_in_mishaps import NORTHWIND, create_api_key, open_for

BUCKET, DATABASE, TABLE, WORKFLOW = "acme-partner-exchange", "acme_sequencing", "run_metrics", "same-id"
VALUES = {"template": "standard", "workflow_id": WORKFLOW, "bucket": BUCKET, "database": DATABASE, "table": TABLE}
IDS = {"epics": "EP-001", "user-stories": "US-001", "requirements": "REQ-001", "acceptance-criteria": "AC-001"}
EXAMPLES = {row.uri: row.example_uri for row in read_rows()}


def make_uri(pattern: str) -> str:
    """Return a URI that both stacks have; for a template with other variables, the example of the contract."""
    values = {**VALUES, "id": IDS.get(pattern.split("/")[2], ""), "query": "sample"}
    return path_of(pattern).format(**values) if values.keys() >= set(path_variables(pattern)) else EXAMPLES[pattern]


URIS = [make_uri(pattern) for pattern in sorted(RESOURCE_REGISTRY)]
FEW = [
    *("admin://users", "athena://workgroups", "auth://status", "config://server", "quilt://buckets"),
    *(f"permissions://buckets/{BUCKET}/access", "requirements://epics", "tabulator://buckets", "workflow://workflows"),
]
"""For each scheme a resource whose answer depends on the stack or the settings. `metadata` and `info` have none."""
TOKENS = '{"token": {"client_id": "cli", "sub": "emma_johansson"}}'
"""Of a user who is only in the first server's requirements."""
EACH_CALLER = pytest.mark.parametrize("pair", ["local", "over HTTP"], indirect=True)
LOCAL_AND_OVER_HTTP = pytest.mark.parametrize(
    "pair", ["local", pytest.param("over HTTP", marks=pytest.mark.soak)], indirect=True
)

Answers = dict[str, Any]


@dataclass(frozen=True)
class Side:
    """One of the two servers.

    Attributes:
        name: of its workflow.
        settings: of the server.
        quilt_token: what its caller sends over HTTP; None for the local user.
        own: texts that only its answers contain.
    """

    name: str
    settings: Settings
    quilt_token: str | None
    own: tuple[str, ...]


@pytest.fixture
def pair(request: pytest.FixtureRequest, fresh_world: World, tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    """A server for the world's stack, and one for another company's stack in the same AWS account.

    The caller is the same user with the same API key, with other rights and another role at each stack. The local user
    has quilt3's login at the first one.
    """
    shared = tuple(bucket for bucket in fresh_world.company.buckets if bucket.name == BUCKET)
    users = tuple(replace(user, is_admin=True) for user in NORTHWIND.users)
    company = replace(NORTHWIND, buckets=shared, users=users)
    key = create_api_key(fresh_world.stack, fresh_world.company.find_user(ADMIN))
    with FakeStack(company, open_for(fresh_world.account, company).credentials) as stack:
        assert create_api_key(stack, company.find_user(ADMIN)) == key
        acme: dict[str, Any] = {"data_dir": tmp_path / "acme", "analysis_default_timeout_seconds": 11}
        northwind: dict[str, Any] = {"data_dir": tmp_path / "northwind", "analysis_default_timeout_seconds": 22}
        is_local = request.param == "local"
        if is_local:
            northwind |= {"local_catalog_url": stack.url, "api_key": SecretStr(key)}
        else:
            sign_in = {"static_tokens": SecretStr(TOKENS), "allowed_hosts": ("localhost",)}
            acme |= {**sign_in, "catalog_url": fresh_world.url}
            northwind |= {**sign_in, "catalog_url": stack.url}
        token = None if is_local else key
        sides = (
            Side("acme", Settings(**acme), token, (fresh_world.url, fresh_world.registry_url, "Quilt-DataPlatform")),
            Side("northwind", Settings(**northwind), token, (stack.url, "Quilt-Analyst")),
        )
        for side in sides:
            side.settings.data_dir.mkdir()
        write_sample(sides[0].settings)
        yield sides


async def connect(server: QuiltServer, side: Side, stack: AsyncExitStack) -> Client[Any]:
    """Return a client of the side's caller, in memory."""
    if side.quilt_token is None:
        return await stack.enter_async_context(Client(server, timeout=SECONDS))
    app = server.http_app(path="/mcp", stateless_http=True, json_response=True)
    await stack.enter_async_context(app.router.lifespan_context(app))

    def create_client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
        **options: Any,
    ) -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(app)
        return httpx2.AsyncClient(transport=transport, headers=headers, timeout=timeout, auth=auth, **options)

    headers = {"Authorization": "Bearer token", "X-Quilt-Token": side.quilt_token}
    transport = StreamableHttpTransport("http://localhost/mcp", headers, httpx_client_factory=create_client)
    return await stack.enter_async_context(Client(transport, timeout=SECONDS))


async def read(client: Client[Any], uri: str) -> Any:
    """Return what a resource contains, or its error. Both surfaces must agree."""
    try:
        answer = await client.call_tool("get_resource", {"uri": uri})
    except ToolError as error:
        return str(error)
    [content] = await client.read_resource(uri)
    data = (answer.structured_content or {})["data"]
    assert json.loads(content.text) == data  # type: ignore[union-attr]  # every resource is text
    return data


async def read_alone(side: Side, uris: list[str]) -> Answers:
    async with AsyncExitStack() as stack:
        client = await connect(create_server(side.settings), side, stack)
        await create_workflow(client, side)
        return {uri: await read(client, uri) for uri in uris}


async def create_workflow(client: Client[Any], side: Side) -> None:
    """Create the workflow, if it does not exist yet."""
    given = {"workflow_id": WORKFLOW, "name": side.name}
    await client.call_tool("workflow_create", given, raise_on_error=False)


async def read_in_one_event_loop(one: Side, other: Side, uris: list[str]) -> list[Answers]:
    """Read each resource from both servers at once."""
    async with AsyncExitStack() as stack:
        servers = [create_server(side.settings) for side in (one, other)]
        clients = [await connect(*both, stack) for both in zip(servers, (one, other), strict=True)]
        await asyncio.gather(*map(create_workflow, clients, (one, other)))
        pairs = [await asyncio.gather(*(read(client, uri) for client in clients)) for uri in uris]
    return [dict(zip(uris, found, strict=True)) for found in zip(*pairs, strict=True)]


def read_in_two_threads(one: Side, other: Side, uris: list[str]) -> list[Answers]:
    """Read from each server in a thread with an event loop of its own. Both start together."""
    found: dict[str, Answers] = {}
    started = threading.Barrier(2)

    def serve(side: Side) -> None:
        started.wait()
        found[side.name] = asyncio.run(read_alone(side, uris))

    threads = [threading.Thread(target=serve, args=[side]) for side in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[side.name] for side in (one, other)]


def check(found: list[Answers], one: Side, other: Side) -> None:
    """Check that each answer that depends on the server is that of its own server."""
    acme, northwind = found
    differ = {uri.partition("://")[0] for uri in acme if acme[uri] != northwind[uri]}
    assert differ == {uri.partition("://")[0] for uri in FEW}
    of_one, of_other = (json.dumps(answers) for answers in found)
    for side, own, foreign in ((one, of_one, of_other), (other, of_other, of_one)):
        assert [text for text in side.own if text not in own] == []
        assert [text for text in side.own if text in foreign] == []
    for side, answers in zip((one, other), found, strict=True):
        [workflow] = answers["workflow://workflows"]["workflows"]
        assert workflow["name"] == side.name
        assert answers["config://server"]["default_timeout_seconds"] == side.settings.analysis_default_timeout_seconds
    assert acme["requirements://epics"]["count"] > 0


@LOCAL_AND_OVER_HTTP
async def test_in_one_event_loop(pair: tuple[Side, Side]) -> None:
    check(await read_in_one_event_loop(*pair, FEW), *pair)


@LOCAL_AND_OVER_HTTP
def test_in_two_threads(pair: tuple[Side, Side]) -> None:
    check(read_in_two_threads(*pair, FEW), *pair)


@pytest.mark.soak
@EACH_CALLER
def test_every_resource_is_as_it_was_alone(pair: tuple[Side, Side]) -> None:
    alone = [asyncio.run(read_alone(side, URIS)) for side in pair]
    check(alone, *pair)
    assert asyncio.run(read_in_one_event_loop(*pair, URIS)) == alone
    assert read_in_two_threads(*pair, URIS) == alone
