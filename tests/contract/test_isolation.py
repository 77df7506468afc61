"""One server for many callers: each gets only their own data, also with concurrent requests."""

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

from quilt_mcp.core.registry import path_of
from quilt_mcp.demo.world import isolate
from quilt_mcp.resources import RESOURCE_REGISTRY
from quilt_mcp.server import create_server
from tests.contract.crowd import MARK, OPERATOR, SECRET, Crowd, Person
from tests.contract.surfaces import AnyClient
from tests.support.serving import HANDSHAKE, TRANSPORTS, serving
from tests.support.settings import Settings

PEOPLE, MORE_PEOPLE = 16, 50
WORKFLOW = "same-id"
SCHEMES = ("auth", "athena", "admin", "metadata", "permissions", "quilt", "tabulator", "workflow")
VALUES = {
    "template": "standard",
    "workflow_id": WORKFLOW,
    "bucket": "acme-raw-sequencing",
    "database": "acme_sequencing",
    "table": "run_metrics",
    "namespace": "lab",
    "name": "study",
    "query": "study",
    "execution_id": "person-1-query",
}
URIS = [path_of(uri).format(**VALUES) for uri in RESOURCE_REGISTRY if uri.partition("://")[0] in SCHEMES]
SAME_FOR_ALL = ("auth://catalog/info", "auth://filesystem/status", *(f"metadata://{one}" for one in ("ex", "te", "tr")))
"""Resources with the same answer for everyone."""
OF_QUILT = ("admin://users", "athena://databases", "permissions://discover", "tabulator://buckets")
"""Resources that need a Quilt token, one of each kind."""
PROTOCOLS = ("legacy", "auto")
AT_ONCE = 16
"""The number of concurrent reads. Clients, server, stack and AWS share one process, so more reads would only wait."""
VARYING = re.compile(
    r'(?<="aws_expires_at": )(null|"[^"]*")'
    r"|\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}"
)
"""When AWS credentials expire, which is known after the first call to AWS; times and days; the ids of roles and
policies, which the stack derives from their names; and the hashes of packages."""

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


@pytest.fixture
def crowd(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Crowd]:
    """The people, on a machine where the server's operator is signed in to the same stack and to AWS."""
    with isolate(tmp_path), Crowd(getattr(request, "param", PEOPLE)) as entered:
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
        os.environ["NETRC"] = str(tmp_path / "netrc")  # a login for every host, which quilt3 would send
        yield entered


def server_of(crowd: Crowd, **others: Any) -> FastMCP:
    """Create a server that accepts the tokens of all people."""
    tokens = {person.server_token: {"client_id": f"person-{person.number}"} for person in crowd.people}
    unlimited = {"rate_limit": "none", "concurrent_reads": 0}
    patience = {
        "connect_timeout_seconds": 60,
        "read_timeout_seconds": 200,
        "probe_seconds": 300,
        "deadline_seconds": 600,
    }
    settings = {"static_tokens": json.dumps(tokens), "catalog_url": crowd.stack.url, **unlimited, **patience, **others}
    return create_server(Settings.model_validate(settings))


def raw_headers(person: Person) -> dict[str, str]:
    """Return the headers of an HTTP client of this person."""
    return {
        "Authorization": f"Bearer {person.server_token}",
        "X-Quilt-Token": person.quilt_token,
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": HANDSHAKE,
    }


@cache
def trust() -> ssl.SSLContext:
    """Return one TLS context for all clients. Each client would load the certificates again, although none uses TLS."""
    return ssl.create_default_context()


def patient_web(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
    **options: Any,
) -> httpx2.AsyncClient:
    """Create the HTTP client for FastMCP's client. The default gives up after 30 seconds, even on a busy machine."""
    del timeout
    return httpx2.AsyncClient(headers=headers, timeout=600, auth=auth, verify=trust(), **options)


@asynccontextmanager
async def connect(url: str, person: Person, **headers: str) -> AsyncIterator[AnyClient]:
    """Connect a client with the person's current tokens."""
    sent = {"Authorization": f"Bearer {person.server_token}", "X-Quilt-Token": person.quilt_token} | headers
    transport = StreamableHttpTransport(
        url,
        headers={name: value for name, value in sent.items() if value},
        httpx_client_factory=patient_web,
    )
    async with Client(transport, mode=PROTOCOLS[person.number // 2 % 2], timeout=600, init_timeout=600) as client:
        yield client


async def read(client: AnyClient, uri: str, *, by_tool: bool) -> tuple[str, dict[str, Any]]:
    """Return the whole answer as text, and the data or the body of the error."""
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
    """Finds credentials in the server's log, and keeps only lines that contain one."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = 0
        self.leaks: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Check one record, with its traceback if it has one."""
        self.lines += 1
        if SECRET in (line := self.format(record)):
            self.leaks.append(line)


@contextmanager
def watch_log() -> Iterator[LeakHandler]:
    """Check the server's log at level DEBUG without storing it. The long run writes a line for each read."""
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
    """Checks every answer. The answers of two people may differ only in their marks."""

    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()
        self.foreign: list[str] = []
        self.turn = asyncio.Semaphore(AT_ONCE)
        self._known: dict[tuple[str, int], str] = {}

    def check(self, person: Person, uri: str, text: str, data: dict[str, Any]) -> None:
        """Record foreign marks in this answer, and check that it contains the person's own."""
        self.reads[uri] += 1
        own = {person.mark, person.workflow_mark}
        self.foreign += [f"{person.mark} got {mark} in {uri}" for mark in MARK.findall(text) if mark not in own]
        assert SECRET not in text
        if uri.startswith(SAME_FOR_ALL):
            assert MARK.search(text) is None
        elif data.keys() == {"open_query_enabled"}:
            assert data["open_query_enabled"] is person.has_open_query
        else:
            assert person.mark in text or person.workflow_mark in text, f"{uri}: {text}"
        plain = VARYING.sub("VARYING", MARK.sub("MARK", json.dumps(data)))
        assert self._known.setdefault((uri, person.number % 4), plain) == plain


async def make_workflow(client: AnyClient, person: Person) -> None:
    """Create a workflow with the id that all people use."""
    arguments = {"workflow_id": WORKFLOW, "name": person.workflow_mark}
    await client.call_tool("workflow_create", arguments)
    await client.call_tool("workflow_add_step", {"workflow_id": WORKFLOW, "step_id": "a", "description": "Do"})
    update = {"workflow_id": WORKFLOW, "step_id": "a", "status": "completed", "message": person.workflow_mark}
    await client.call_tool("workflow_update_step", update)


async def read_many(watch: Watch, client: AnyClient, person: Person, reads: int, chance: random.Random) -> None:
    """Read every URI repeatedly, in a random order for each person, on both surfaces."""
    for number in range(reads):
        if number % len(URIS) == 0:
            order = chance.sample(URIS, len(URIS))
        uri = order[number % len(URIS)]
        async with watch.turn:
            own = uri.replace(VALUES["bucket"], f"{person.mark}-data")
            answer = await read(client, own, by_tool=chance.random() < 0.5)
        watch.check(person, uri, *answer)


async def check_expired(client: AnyClient, person: Person) -> None:
    """Check that data of Quilt and AWS is refused, also data that was read before, and workflows are not."""
    _, status = await read(client, "auth://status", by_tool=True)
    assert (status["status"], status["user_info"]) == ("expired", None)
    assert "X-Quilt-Token" in status["suggested_actions"][0]
    for uri in OF_QUILT:
        text, data = await read(client, uri, by_tool=False)
        assert set(MARK.findall(text)) == set()
        assert (data["error"], data["suggested_actions"]) == ("Unauthorized", status["suggested_actions"])
    _, workflow = await read(client, f"workflow://workflows/{WORKFLOW}/status", by_tool=True)
    assert workflow["workflow"]["name"] == person.workflow_mark


async def run_person(watch: Watch, url: str, crowd: Crowd, person: Person, reads: int) -> None:
    """Act as one person: read, let the Quilt token expire, sign in again, and continue to read."""
    chance = random.Random(person.number)  # noqa: S311 - an order, no secret
    async with connect(url, person) as client:
        await make_workflow(client, person)
        await read_many(watch, client, person, reads // 2, chance)
        crowd.expire(person)
        await check_expired(client, person)
    crowd.sign_in(person)
    async with connect(url, person) as client:
        await read_many(watch, client, person, reads - reads // 2, chance)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("crowd", "reads"),
    [
        pytest.param(PEOPLE, 20, id="short"),
        pytest.param(MORE_PEOPLE, 1000, id="long", marks=(pytest.mark.soak, pytest.mark.alone)),
    ],
    indirect=["crowd"],
)
async def test_concurrent_callers_get_no_data_of_each_other(reads: int, crowd: Crowd) -> None:
    watch, started = Watch(), time.monotonic()
    with watch_log() as log:
        async with serving(server_of(crowd), TRANSPORTS["streamable HTTP"]) as url, asyncio.TaskGroup() as group:
            for person in crowd.people:
                group.create_task(run_person(watch, url, crowd, person, reads))
    seconds = time.monotonic() - started
    sys.stdout.write(
        f"{watch.reads.total()} reads of {len(watch.reads)} URIs by {len(crowd.people)} people in {seconds:.0f} s; "
        f"{len(crowd.stack.calls)} requests to the stack, {crowd.aws_requests} to AWS; {len(watch.foreign)} foreign\n"
    )
    assert watch.foreign == []
    assert watch.reads.total() == len(crowd.people) * reads
    assert watch.reads.keys() == set(URIS)
    assert log.lines > watch.reads.total()
    assert log.leaks == []


async def test_without_a_quilt_token_the_error_names_the_header_and_the_servers_login_is_not_used(
    crowd: Crowd,
) -> None:
    person = crowd.people[0]
    person.quilt_token = ""
    async with serving(server_of(crowd), TRANSPORTS["streamable HTTP"]) as url, connect(url, person) as client:
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
async def test_an_invalid_token_counts_as_no_token(junk: str, crowd: Crowd) -> None:
    person = crowd.people[0]
    person.quilt_token = junk
    crowd.stack.calls.clear()
    async with serving(server_of(crowd), TRANSPORTS["streamable HTTP"]) as url, connect(url, person) as client:
        _, status = await read(client, "auth://status", by_tool=True)
    assert status["status"] == "not_authenticated"
    assert [call.path for call in crowd.stack.calls] == ["/config.json"]


async def test_the_token_may_come_as_a_bearer_and_in_another_header(crowd: Crowd) -> None:
    person = crowd.people[0]
    server = server_of(crowd, quilt_token_header="X-Other")
    other = {"X-Other": f"Bearer {crowd.people[2].quilt_token}"}
    async with (
        serving(server, TRANSPORTS["streamable HTTP"]) as url,
        connect(url, person, **other) as client,
    ):
        _, status = await read(client, "auth://status", by_tool=True)
    assert status["user_info"]["username"] == f"{crowd.people[2].mark}_user"


async def test_without_authentication_a_caller_over_http_uses_the_local_login(crowd: Crowd) -> None:
    server = create_server(Settings(catalog_url="http://127.0.0.1:9"))
    async with (
        serving(server, TRANSPORTS["streamable HTTP"]) as url,
        connect(url, crowd.people[0]) as client,
    ):
        for uri in OF_QUILT:
            text, _ = await read(client, uri, by_tool=True)
            assert set(MARK.findall(text)) == {OPERATOR}
        _, directories = await read(client, "auth://filesystem/status", by_tool=True)
    assert directories["directories"]["workflows"]["path"] == os.environ["QUILT_MCP_DATA_DIR"]


async def test_an_unauthenticated_request_never_uses_the_local_login(crowd: Crowd) -> None:
    """The application is created without authentication, as if by mistake."""
    server = server_of(crowd)
    verifier, server.auth = server.auth, None
    async with serving(server, TRANSPORTS["streamable HTTP"]) as url, connect(url, crowd.people[0]) as client:
        server.auth = verifier
        for uri in (*OF_QUILT, "auth://status", "auth://filesystem/status", "workflow://workflows"):
            text, refusal = await read(client, uri, by_tool=True)
            assert refusal.get("error") == "Unauthorized"
            assert MARK.search(text) is None


async def test_the_session_of_another_person_gives_no_access_to_their_data(crowd: Crowd) -> None:
    """Only the handshake protocol has sessions. Their ids are not secret, so access must not depend on them."""
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
    second.quilt_token = first.quilt_token  # a second person with the same token is still another caller
    server = server_of(crowd)
    async with serving(server, TRANSPORTS["streamable HTTP"]) as url:
        crowd.stack.calls.clear()
        for person in (first, second, first, second):
            async with connect(url, person) as client:
                await asyncio.gather(*(read(client, "athena://databases", by_tool=True) for _ in range(4)))
    paths = [call.path for call in crowd.stack.calls if call.path != "/graphql"]
    assert paths == ["/config.json"] + ["/api/auth/get_credentials"] * 2


async def test_another_persons_workflow_does_not_exist(crowd: Crowd) -> None:
    owner, other = crowd.people[0], crowd.people[4]
    asked = "workflow://workflows/only-mine/status"
    async with (
        serving(server_of(crowd), TRANSPORTS["streamable HTTP"]) as url,
        connect(url, owner) as mine,
        connect(url, other) as theirs,
    ):
        await mine.call_tool("workflow_create", {"workflow_id": "only-mine", "name": owner.workflow_mark})
        _, refused = await read(theirs, asked, by_tool=True)
        _, listed = await read(theirs, "workflow://workflows", by_tool=False)
        with pytest.raises(ToolError, match="does not exist"):
            await theirs.call_tool(
                "workflow_update_step", {"workflow_id": "only-mine", "step_id": "a", "status": "failed"}
            )
        completion = {"name": "workflow_id", "value": ""}
        reference = ResourceTemplateReference(type="ref/resource", uri="workflow://workflows/{workflow_id}/status")
        known = [(await client.complete(reference, completion)).values for client in (mine, theirs)]
        _, found = await read(mine, asked, by_tool=True)
    assert (refused["error"], refused["suggested_actions"]) == (
        "NotFound",
        ["Create a workflow with the tool workflow_create."],
    )
    assert listed["total_workflows"] == 0
    assert known == [["only-mine"], []]
    assert found["workflow"]["name"] == owner.workflow_mark
