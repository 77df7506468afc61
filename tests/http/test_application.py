"""The application: both protocols, no sessions, accepted hosts and origins, and the routes for operators."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from ipaddress import ip_network
from typing import Any

import pytest
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import Tool
from mcp_types import ListToolsRequest
from pydantic import AnyHttpUrl, SecretStr

from quilt_mcp.app import App
from quilt_mcp.commands.http_server import readiness_checks
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.demo.world import World
from quilt_mcp.http.app import FRESH_SECONDS, Readiness
from quilt_mcp.server import find_domains
from quilt_mcp.settings import HTTPSettings
from tests.http.web import ANN, CALL_QUICK, READ_QUICK, TOKENS, new_client, older, request, running, shop, with_headers
from tests.support.serving import HANDSHAKE
from tests.support.settings import Settings
from tests.support.toys import QUICK, Shop
from tests.support.waiting import SECONDS
from tests.support.worlds import in_world

NAMED = HTTPSettings(
    public_url=AnyHttpUrl("https://mcp.example.com/"),
    allowed_hosts=("10.1.2.3", "*.internal.example.com"),
    allowed_origins=("HTTPS://app.example.com:443/",),  # browsers send https://app.example.com
)
ELSEWHERE = {"X-Forwarded-For": "203.0.113.7"}


async def test_a_server_answers_requests_of_a_session_that_another_server_initialized() -> None:
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    async with shop() as (one, _), shop() as (other, _):
        begun = await one.post(**older("initialize", **hello))
        assert begun.json()["result"]["protocolVersion"] == HANDSHAKE
        assert not {"mcp-session-id", "server"} & begun.headers.keys()
        assert begun.headers["content-type"] == "application/json"
        answer = await other.post(**older("resources/read", uri=QUICK) | {"url": "/mcp/"})  # people add a slash
        assert json.loads(answer.json()["result"]["contents"][0]["text"]) == {"open": True}
        streaming = await other.get("/mcp", headers={"Accept": "text/event-stream"})
        assert streaming.status_code == HTTPStatus.METHOD_NOT_ALLOWED


HOSTS = dict.fromkeys(
    ("127.0.0.1", "localhost:1234", "mcp.example.com", "10.1.2.3:8000", "a.internal.example.com"), 200
)
HOSTS |= dict.fromkeys(("mcp.example.com.attacker.example.com", "127.0.0.1.attacker.example.com", ""), 421)
# the second is a page on this machine
ORIGINS = dict.fromkeys(("https://app.example.com", "http://127.0.0.1:9999"), 200)
ORIGINS |= dict.fromkeys(("https://attacker.example.com", "http://app.example.com", "null"), 403)


async def test_unknown_hosts_and_origins_are_refused() -> None:
    async with shop(NAMED) as (client, _):
        for host, status in HOSTS.items():
            assert (await client.post(**with_headers(READ_QUICK, Host=host))).status_code == status, host
            assert (await client.get("/health", headers={"Host": host})).status_code == status, host
        for origin, status in ORIGINS.items():
            assert (await client.post(**with_headers(READ_QUICK, Origin=origin))).status_code == status, origin


async def test_pages_of_an_allowed_origin_can_read_the_answers() -> None:
    """As the Fetch standard requires of a server: it answers the preflight, and each answer names the origin."""
    ours, other = {"Origin": "https://app.example.com"}, {"Origin": "https://attacker.example.com"}
    names = "authorization,mcp-method,x-my-token"  # QUILT_MCP_QUILT_TOKEN_HEADER can name any
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": names}
    settings = NAMED.model_copy(update={"static_tokens": SecretStr(TOKENS)})
    async with shop(settings) as (client, _):
        preflight = await client.options("/mcp", headers=ours | asked)
        refused = await client.post(**with_headers(READ_QUICK, ours))
        answer = await client.post(**with_headers(READ_QUICK, ours | ANN))
        assert [one.status_code for one in (preflight, refused, answer)] == [200, 401, 200]
        for one in (preflight, refused, answer):
            assert one.headers["access-control-allow-origin"] == "https://app.example.com"
        assert preflight.headers["access-control-allow-headers"] == names
        assert "www-authenticate" in refused.headers["access-control-expose-headers"].lower()
        for one in (await client.options("/mcp", headers=other | asked), await client.get("/health", headers=other)):
            assert "access-control-allow-origin" not in one.headers


@pytest.mark.soak
def test_objects_of_the_startup_are_excluded_from_garbage_collection() -> None:
    """In a separate process, because it cannot be undone."""
    text = "from quilt_mcp.commands.http_server import tune_garbage_collection as tune; import gc; tune(); "
    command = [sys.executable, "-c", text + "print(gc.get_freeze_count() > 10_000)"]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
    assert found.stdout.split() == ["True"]


class Listings(Middleware):
    """Counts the calls of `tools/list`, including internal ones."""

    count = 0

    async def on_list_tools(
        self, context: MiddlewareContext[ListToolsRequest], call_next: CallNext[ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        self.count += 1
        return await call_next(context)


async def test_a_call_lists_no_tools_and_one_of_an_unknown_tool_is_refused() -> None:
    """The MCP library has the schemas of the tools: otherwise `tools/call` would run `tools/list`."""
    server, listings = Shop().server, Listings()
    server.add_middleware(listings)
    async with running(server, HTTPSettings()) as url, new_client(url) as client:
        for _ in range(3):
            assert (await client.post(**CALL_QUICK)).json()["result"]["structuredContent"]["success"]
        assert listings.count == 0
        await client.post(**request("tools/list"))
        assert listings.count == 1  # the counter works
        answer = (await client.post(**request("tools/call", name="none", arguments={"uri": "x"}))).json()
    assert "none" in str(answer)
    assert "result" not in answer or answer["result"]["isError"]


class Dependency:
    def __init__(self, failure: Exception | None = None) -> None:
        self.asked, self.failure = 0, failure

    async def check(self) -> None:
        self.asked += 1
        if self.failure:
            raise self.failure


async def answers(path: str, failure: Exception | None, settings: Any = None, *headers: dict[str, str]) -> Any:
    """Return the status and body of a GET with each of these headers, and how often the failing system was asked."""
    broken = Dependency(failure)
    async with shop(settings, checks={"catalog": Dependency().check, "database": broken.check}) as (client, _):
        found = [await client.get(path, headers=one) for one in headers or ({},)]
        assert {one.headers["cache-control"] for one in found} == {"no-store"}
        assert (await client.head("/health")).status_code == HTTPStatus.OK
    return [(one.status_code, one.json()) for one in found], broken.asked


async def test_health_does_not_depend_on_other_systems_and_ready_names_the_failing_ones() -> None:
    secret, down = "secret-host", {"status": "not ready"}
    assert await answers("/health", Unavailable(secret)) == ([(200, {"status": "alive"})], 0)
    assert await answers("/ready", None) == ([(200, {"status": "ready"})], 1)
    for failure in (Unavailable(secret), OSError(111, secret), TimeoutError()):
        assert await answers("/ready", failure) == ([(503, down | {"failing": ["database"]})], 1)
    with_sign_in = HTTPSettings(static_tokens=SecretStr(TOKENS))
    found, _ = await answers("/ready", Unavailable(secret), with_sign_in, {}, ANN)
    assert found == [(503, down), (503, down | {"failing": ["database"]})]


async def test_concurrent_requests_share_one_check_per_second_and_each_change_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    now, dependency = [0.0], Dependency()
    asked = Readiness({"x": dependency.check}, clock=lambda: now[0])
    assert await asyncio.gather(*(asked.find_failing() for _ in range(50))) == [[]] * 50
    assert dependency.asked == 1
    dependency.failure = Unavailable("it is down")
    assert await asked.find_failing() == []
    for failure, failing in ((Unavailable("it is down"), ["x"]), (Unavailable("it is down"), ["x"]), (None, [])):
        dependency.failure = failure
        now[0] += FRESH_SECONDS
        assert await asked.find_failing() == failing
    assert dependency.asked == 4
    assert [record.getMessage() for record in caplog.records] == ["not ready: {'x': 'it is down'}", "ready again"]
    endless = Readiness({"slow": partial(asyncio.sleep, SECONDS)}, check_seconds=0.01)  # it never ends
    assert await endless.find_failing() == ["slow"]


@in_world("admin", "api_key", "stack_refused")
async def test_the_catalog_is_requested_once(world: World) -> None:
    before = len(world.stack.calls)
    failing = ["catalog"] if world.name == "stack_refused" else []
    assert await Readiness(readiness_checks(App(Settings()), find_domains())).find_failing() == failing
    assert [call.path for call in world.stack.calls[before:]] == ([] if failing else ["/config.json"])


async def test_an_unreachable_database_is_named() -> None:
    app = App(Settings(database_url=SecretStr("postgresql://u:p@127.0.0.1:1/x")))
    assert "database" in await Readiness(readiness_checks(app, find_domains())).find_failing()
    await app.close()


async def test_only_this_machine_or_a_token_can_read_the_metrics() -> None:
    async with shop(HTTPSettings(metrics_token=SecretStr(""))) as (client, _):  # set to nothing
        here, elsewhere = await client.get("/metrics"), await client.get("/metrics", headers=ELSEWHERE)
    assert (here.status_code, "# TYPE " in here.text) == (HTTPStatus.OK, True)
    assert here.headers["content-type"].startswith("text/plain; version=")
    assert (elsewhere.status_code, elsewhere.text) == (HTTPStatus.UNAUTHORIZED, "")
    assert elsewhere.headers["www-authenticate"] == "Bearer"
    async with shop(HTTPSettings(trusted_proxies=(ip_network("192.0.2.0/24"),))) as (client, _):
        assert (await client.get("/metrics", headers=ELSEWHERE)).status_code == HTTPStatus.OK
    with suppress(OSError):  # this machine has no IPv6
        async with shop(HTTPSettings(trusted_proxies=(ip_network("127.0.0.0/8"),)), host="::") as (client, _):
            sent_by = [await client.get("/metrics", headers=one) for one in ({}, ELSEWHERE)]
        assert [one.status_code for one in sent_by] == [HTTPStatus.OK, HTTPStatus.UNAUTHORIZED]
    async with shop(HTTPSettings(static_tokens=SecretStr(TOKENS))) as (client, _):  # a proxy can forward from here
        for headers in ({}, ANN):
            assert (await client.get("/metrics", headers=headers)).status_code == HTTPStatus.UNAUTHORIZED
            shown = (await client.get("/health?verbose", headers=headers)).json()
            assert ("version" in shown) == (headers == ANN)
    settings = HTTPSettings(metrics_token=SecretStr("prometheus"), static_tokens=SecretStr(TOKENS))
    right = ELSEWHERE | {"Authorization": "Bearer prometheus"}
    async with shop(settings) as (client, _):
        sent: tuple[dict[str, str], ...] = (right, {}, ANN, {"Authorization": "prometheus"})
        assert [(await client.get("/metrics", headers=one)).status_code for one in sent] == [200, 401, 401, 401]
