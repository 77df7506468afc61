"""One server for many: each caller gets what is theirs, whoever asks at the same time, and nothing of anyone else's."""

import asyncio
import json
import logging
import os
import random
import re
import ssl
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest
import quilt3.session
import quilt3.util
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
    ResourceTemplateReference,
    TextContent,
)

from quilt_mcp import runtime_context
from quilt_mcp.demo.environment import isolated
from quilt_mcp.resources import RESOURCE_REGISTRY
from quilt_mcp.server import create_server
from quilt_mcp.settings import Settings
from tests.contract.crowd import MARK, OPERATOR, SECRET, Crowd, Person
from tests.contract.serving import HANDSHAKE, TRANSPORTS, serving
from tests.contract.surfaces import AnyClient

PEOPLE = 50
WORKFLOW = "same-id"
SCHEMES = ("auth", "athena", "admin", "metadata", "permissions", "tabulator", "workflow")
VALUES = {"template": "standard", "workflow_id": WORKFLOW}
URIS = [uri.format(**VALUES) for uri in RESOURCE_REGISTRY if uri.partition("://")[0] in SCHEMES]
ALIKE = ("auth://catalog/info", "auth://filesystem/status", "metadata://")
"""What is the same for everyone."""
OF_QUILT = ("admin://users", "athena://databases", "permissions://discover", "tabulator://buckets")
"""What a caller without a Quilt token is refused, one of each kind."""
ERAS = ("legacy", "auto")
AT_ONCE = 16
"""How many reads are under way: clients, server, stack and AWS share one process here, and more only wait."""
VARYING = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Times, and the ids of roles and policies, which the stack makes of their names."""

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    """The people, and a machine on which the server's operator is signed in to the same stack, and to AWS."""
    with isolated(tmp_path), Crowd(PEOPLE) as entered:
        os.environ["AWS_ENDPOINT_URL"] = entered.aws_url
        keys = entered.aws_keys(OPERATOR)
        os.environ |= {
            "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
            "AWS_SESSION_TOKEN": keys["SessionToken"],
        }
        quilt3.util.configure_from_url(entered.stack.url)
        quilt3.session.login_with_token(entered.stack.sign_in(entered.stack.company.users[0]))
        (tmp_path / "netrc").write_text(f"default login {OPERATOR} password {SECRET}\n", encoding="utf-8")
        os.environ["NETRC"] = str(tmp_path / "netrc")  # a login for every host, which quilt3 would send for its own
        yield entered
        runtime_context.use_settings(Settings())


def server_of(crowd: Crowd) -> FastMCP:
    """A server at which all of them can sign in."""
    tokens = {person.server_token: {"client_id": f"person-{person.number}"} for person in crowd.people}
    unlimited = {"rate_limit": "none", "concurrent_reads": 0}
    patience = {
        "connect_timeout_seconds": 60,
        "read_timeout_seconds": 200,
        "probe_seconds": 300,
        "deadline_seconds": 600,
    }
    settings = {"static_tokens": json.dumps(tokens), "catalog_url": crowd.stack.url, **unlimited, **patience}
    return create_server(Settings.model_validate(settings))


def raw_headers(person: Person) -> dict[str, str]:
    """What an HTTP client sends in this person's name."""
    return {
        "Authorization": f"Bearer {person.server_token}",
        "X-Quilt-Token": person.quilt_token,
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": HANDSHAKE,
    }


@cache
def trust() -> ssl.SSLContext:
    """Whom clients trust; nothing here is encrypted, yet each client would read the certificates anew."""
    return ssl.create_default_context()


def patient_web(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
    **options: Any,
) -> httpx2.AsyncClient:
    """What FastMCP's client sends with; its own gives up a connection that takes 30 seconds on a busy machine."""
    del timeout
    return httpx2.AsyncClient(headers=headers, timeout=600, auth=auth, verify=trust(), **options)


@asynccontextmanager
async def connected(url: str, person: Person, **headers: str) -> AsyncIterator[AnyClient]:
    """A client of this person, with the tokens that they have now."""
    sent = {"Authorization": f"Bearer {person.server_token}", "X-Quilt-Token": person.quilt_token} | headers
    transport = StreamableHttpTransport(
        url,
        headers={name: value for name, value in sent.items() if value},
        httpx_client_factory=patient_web,
    )
    async with Client(transport, mode=ERAS[person.number // 2 % 2], timeout=600, init_timeout=600) as client:
        yield client


async def read(client: AnyClient, uri: str, *, by_tool: bool) -> tuple[str, dict[str, Any]]:
    """The whole answer as text, and the data, or the body of the refusal."""
    if by_tool:
        [content] = (await client.call_tool_mcp("get_resource", {"uri": uri})).content
        assert isinstance(content, TextContent)
        body = json.loads(content.text)
        return content.text, body["data"] if body["success"] else body
    try:
        request = ReadResourceRequest(params=ReadResourceRequestParams(uri=uri))
        result = await client.session.send_request(request, ReadResourceResult)
    except MCPError as refused:
        return json.dumps(refused.error.data), refused.error.data
    return result.model_dump_json(), json.loads(result.model_dump()["contents"][0]["text"])


class LeakHandler(logging.Handler):
    """Finds credentials in what the server logs, and keeps nothing else of it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = 0
        self.leaks: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Look at one record, with its traceback if it has one."""
        self.lines += 1
        if SECRET in (line := self.format(record)):
            self.leaks.append(line)


@contextmanager
def watched_log() -> Iterator[LeakHandler]:
    """The server's log, with all that it can tell, and none of it kept: the long run writes a line for each read."""
    logger, handler = logging.getLogger("quilt_mcp"), LeakHandler()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logger, "propagate", False)
        patch.setattr(logger, "handlers", [handler])
        before = logger.level
        logger.setLevel(logging.DEBUG)
        try:
            yield handler
        finally:
            logger.setLevel(before)


class Watch:
    """Looks at every answer; two people's may differ in nothing but their marks."""

    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()
        self.foreign: list[str] = []
        self.turn = asyncio.Semaphore(AT_ONCE)
        self._known: dict[tuple[str, int], str] = {}

    def look(self, person: Person, uri: str, text: str, data: dict[str, Any]) -> None:
        """Note what must not be in this answer, and that one is missing what must."""
        self.reads[uri] += 1
        own = {person.mark, person.workflow_mark}
        self.foreign += [f"{person.mark} got {mark} in {uri}" for mark in MARK.findall(text) if mark not in own]
        assert SECRET not in text
        if uri.startswith(ALIKE):
            assert MARK.search(text) is None
        elif data.keys() == {"open_query_enabled"}:
            assert data["open_query_enabled"] is person.has_open_query
        else:
            assert person.mark in text or person.workflow_mark in text, f"{uri}: {text}"
        plain = VARYING.sub("VARYING", MARK.sub("MARK", json.dumps(data)))
        assert self._known.setdefault((uri, person.number % 4), plain) == plain


async def make_workflow(client: AnyClient, person: Person) -> None:
    """A workflow under the id that all of them use."""
    arguments = {"workflow_id": WORKFLOW, "name": person.workflow_mark}
    await client.call_tool("workflow_create", arguments)
    await client.call_tool("workflow_add_step", {"workflow_id": WORKFLOW, "step_id": "a", "description": "Do"})
    update = {"workflow_id": WORKFLOW, "step_id": "a", "status": "completed", "message": person.workflow_mark}
    await client.call_tool("workflow_update_step", update)


async def read_many(watch: Watch, client: AnyClient, person: Person, reads: int, chance: random.Random) -> None:
    """Read every URI, and again, in an order of their own, by both surfaces."""
    for number in range(reads):
        if number % len(URIS) == 0:
            order = chance.sample(URIS, len(URIS))
        uri = order[number % len(URIS)]
        async with watch.turn:
            answer = await read(client, uri, by_tool=chance.random() < 0.5)
        watch.look(person, uri, *answer)


async def check_expired(client: AnyClient, person: Person) -> None:
    """Nothing of Quilt or AWS is answered any more, also not what was got with the token before; workflows are."""
    _, status = await read(client, "auth://status", by_tool=True)
    assert (status["status"], status["user_info"]) == ("expired", None)
    assert "X-Quilt-Token" in status["suggested_actions"][0]
    for uri in OF_QUILT:
        text, data = await read(client, uri, by_tool=False)
        assert set(MARK.findall(text)) == set()
        assert (data["error"], data["suggested_actions"]) == ("Unauthorized", status["suggested_actions"])
    _, workflow = await read(client, f"workflow://workflows/{WORKFLOW}/status", by_tool=True)
    assert workflow["workflow"]["name"] == person.workflow_mark


async def live(watch: Watch, url: str, crowd: Crowd, person: Person, reads: int) -> None:
    """A person's day: they read, their Quilt token ends, they sign in again, and read on."""
    chance = random.Random(person.number)  # noqa: S311 - an order, no secret
    async with connected(url, person) as client:
        await make_workflow(client, person)
        await read_many(watch, client, person, reads // 2, chance)
        crowd.expire(person)
        await check_expired(client, person)
    crowd.sign_in(person)
    async with connected(url, person) as client:
        await read_many(watch, client, person, reads - reads // 2, chance)


@pytest.mark.parametrize("reads", [pytest.param(20, id="short"), pytest.param(1000, id="long", marks=pytest.mark.soak)])
async def test_fifty_people_at_once_get_nothing_of_each_other(reads: int, crowd: Crowd) -> None:
    watch, started = Watch(), time.monotonic()
    with watched_log() as log:
        async with serving(server_of(crowd), TRANSPORTS["streamable HTTP"]) as url, asyncio.TaskGroup() as group:
            for person in crowd.people:
                group.create_task(live(watch, url, crowd, person, reads))
    seconds = time.monotonic() - started
    sys.stdout.write(
        f"{watch.reads.total()} reads of {len(watch.reads)} URIs by {PEOPLE} people in {seconds:.0f} s; requests: "
        f"{len(crowd.stack.calls)} to the stack, {crowd.aws_requests} to AWS; {len(watch.foreign)} foreign marks\n"
    )
    assert watch.foreign == []
    assert watch.reads.total() == PEOPLE * reads
    assert watch.reads.keys() == set(URIS)
    assert log.lines > watch.reads.total()
    assert log.leaks == []


async def test_without_a_quilt_token_a_caller_learns_which_header_is_missing_and_nothing_of_the_servers_own_login(
    crowd: Crowd,
) -> None:
    person = crowd.people[0]
    person.quilt_token = ""
    async with serving(server_of(crowd), TRANSPORTS["streamable HTTP"]) as url, connected(url, person) as client:
        answers = {uri: await read(client, uri, by_tool=True) for uri in URIS}
    for uri in OF_QUILT:
        assert answers[uri][1]["error"] == "Unauthorized"
        assert "X-Quilt-Token" in answers[uri][1]["suggested_actions"][0]
    status = answers["auth://status"][1]
    assert (status["status"], status["credentials"]["aws_source"]) == ("not_authenticated", None)
    assert "X-Quilt-Token" in status["suggested_actions"][0]
    texts = "".join(text for text, _ in answers.values())
    assert not MARK.search(texts)
    assert not [
        place for place in (str(Path.home()), os.environ["QUILT_MCP_DATA_DIR"], str(Path.cwd())) if place in texts
    ]


@pytest.mark.parametrize("junk", ["a b", "x" * 9000, "bearer a b"])
async def test_what_cannot_be_a_token_is_none(junk: str, crowd: Crowd) -> None:
    person = crowd.people[0]
    person.quilt_token = junk
    crowd.stack.calls.clear()
    async with serving(server_of(crowd), TRANSPORTS["streamable HTTP"]) as url, connected(url, person) as client:
        _, status = await read(client, "auth://status", by_tool=True)
    assert status["status"] == "not_authenticated"
    assert [call.path for call in crowd.stack.calls] == ["/config.json"]


async def test_the_token_may_come_as_a_bearer_and_in_another_header(crowd: Crowd) -> None:
    person = crowd.people[0]
    server = server_of(crowd)
    changed = runtime_context.settings().model_copy(update={"quilt_token_header": "X-Other"})
    runtime_context.use_settings(changed)
    other = {"X-Other": f"Bearer {crowd.people[2].quilt_token}"}
    async with (
        serving(server, TRANSPORTS["streamable HTTP"]) as url,
        connected(url, person, **other) as client,
    ):
        _, status = await read(client, "auth://status", by_tool=True)
    assert status["user_info"]["username"] == f"{crowd.people[2].mark}_user"


async def test_without_authentication_a_caller_over_http_is_the_person_at_this_machine(crowd: Crowd) -> None:
    server = create_server(Settings(catalog_url="http://127.0.0.1:9"))
    async with (
        serving(server, TRANSPORTS["streamable HTTP"]) as url,
        connected(url, crowd.people[0]) as client,
    ):
        for uri in OF_QUILT:
            text, _ = await read(client, uri, by_tool=True)
            assert set(MARK.findall(text)) == {OPERATOR}
        _, directories = await read(client, "auth://filesystem/status", by_tool=True)
    assert directories["directories"]["workflows"]["path"] == os.environ["QUILT_MCP_DATA_DIR"]


async def test_a_request_that_nobody_has_looked_at_is_never_taken_for_the_person_at_this_machine(crowd: Crowd) -> None:
    """The application is made without its authentication, as by a mistake in putting it together."""
    server = server_of(crowd)
    verifier, server.auth = server.auth, None
    async with serving(server, TRANSPORTS["streamable HTTP"]) as url, connected(url, crowd.people[0]) as client:
        server.auth = verifier
        for uri in (*OF_QUILT, "auth://status", "auth://filesystem/status", "workflow://workflows"):
            text, refusal = await read(client, uri, by_tool=True)
            assert (refusal.get("error"), refusal.get("message")) == (
                "Unauthorized",
                "The request does not say who sends it.",
            )
            assert MARK.search(text) is None


async def test_another_persons_session_gives_nothing_of_that_person(crowd: Crowd) -> None:
    """Sessions are of the handshake era; their ids are no secret that anything may rest on."""
    owner, other = crowd.people[0], crowd.people[4]
    async with serving(server_of(crowd), TRANSPORTS["streamable HTTP"]) as url:
        sessions = []
        async with httpx2.AsyncClient(timeout=60) as web:
            for person in (owner, other):
                started = await web.post(url, json=INITIALIZE, headers=raw_headers(person))
                sessions.append(started.headers["mcp-session-id"])
            call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
            call["params"] = {"name": "get_resource", "arguments": {"uri": "auth://status"}}
            mine = await web.post(url, json=call, headers=raw_headers(owner) | {"mcp-session-id": sessions[0]})
            assert set(MARK.findall(mine.text)) == {owner.mark}
            stolen = await web.post(url, json=call, headers=raw_headers(other) | {"mcp-session-id": sessions[0]})
            assert set(MARK.findall(stolen.text)) <= {other.mark}


async def test_credentials_are_exchanged_once_for_each_caller_and_token(crowd: Crowd) -> None:
    first, second = crowd.people[0], crowd.people[4]
    second.quilt_token = first.quilt_token  # someone else with the same token is another caller all the same
    server = server_of(crowd)
    async with serving(server, TRANSPORTS["streamable HTTP"]) as url:
        crowd.stack.calls.clear()
        for person in (first, second, first, second):
            async with connected(url, person) as client:
                await asyncio.gather(*(read(client, "athena://databases", by_tool=True) for _ in range(4)))
    assert [call.path for call in crowd.stack.calls] == ["/config.json"] + ["/api/auth/get_credentials"] * 2


async def test_another_persons_workflow_does_not_exist(crowd: Crowd) -> None:
    owner, other = crowd.people[0], crowd.people[4]
    asked = "workflow://workflows/only-mine/status"
    async with (
        serving(server_of(crowd), TRANSPORTS["streamable HTTP"]) as url,
        connected(url, owner) as mine,
        connected(url, other) as theirs,
    ):
        await mine.call_tool("workflow_create", {"workflow_id": "only-mine", "name": owner.workflow_mark})
        _, refused = await read(theirs, asked, by_tool=True)
        _, listed = await read(theirs, "workflow://workflows", by_tool=False)
        with pytest.raises(ToolError, match="There is no workflow"):
            await theirs.call_tool(
                "workflow_update_step", {"workflow_id": "only-mine", "step_id": "a", "status": "failed"}
            )
        completion = {"name": "workflow_id", "value": ""}
        reference = ResourceTemplateReference(type="ref/resource", uri="workflow://workflows/{workflow_id}/status")
        known = [(await client.complete(reference, completion)).values for client in (mine, theirs)]
        _, found = await read(mine, asked, by_tool=True)
    assert (refused["error"], refused["suggested_actions"]) == (
        "NotFound",
        ["Create one with the tool workflow_create."],
    )
    assert listed["total_workflows"] == 0
    assert known == [["only-mine"], []]
    assert found["workflow"]["name"] == owner.workflow_mark
