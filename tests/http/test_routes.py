"""The routes /health, /ready and /metrics."""

import asyncio
from http import HTTPStatus
from ipaddress import ip_network

import pytest
from pydantic import SecretStr

from quilt_mcp.app import App
from quilt_mcp.commands.demo.world import World
from quilt_mcp.commands.http_server import readiness_checks
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.http.operators import FRESH_SECONDS, Readiness
from quilt_mcp.settings import HTTPSettings, Settings
from tests.http.web import ANN, TOKENS, shop
from tests.support.worlds import in_world

ELSEWHERE = {"X-Forwarded-For": "203.0.113.7"}


class Dependency:
    """A system that the server depends on. It fails if `failure` is set."""

    def __init__(self) -> None:
        self.asked = 0
        self.failure: Exception | None = None

    async def check(self) -> None:
        self.asked += 1
        if self.failure:
            raise self.failure


async def test_health_does_not_depend_on_other_systems() -> None:
    broken = Dependency()
    broken.failure = Unavailable("the password is 12345")
    async with shop(checks={"database": broken.check}) as (client, _):
        answer = await client.get("/health")
        assert (answer.status_code, answer.json()) == (HTTPStatus.OK, {"status": "alive"})
        assert (await client.head("/health")).status_code == HTTPStatus.OK
    assert broken.asked == 0


async def test_ready_gives_200_if_all_systems_respond() -> None:
    async with shop(checks={"catalog": Dependency().check}) as (client, _):
        answer = await client.get("/ready")
    assert (answer.status_code, answer.json()) == (HTTPStatus.OK, {"status": "ready"})
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("failure", [Unavailable("secret-host"), OSError(111, "secret-host"), TimeoutError()])
async def test_ready_names_the_failing_systems_only(failure: Exception) -> None:
    broken = Dependency()
    broken.failure = failure
    async with shop(checks={"catalog": Dependency().check, "database": broken.check}) as (client, _):
        answer = await client.get("/ready")
    assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert answer.json() == {"status": "not ready", "failing": ["database"]}


async def test_with_sign_in_the_names_need_a_token() -> None:
    broken = Dependency()
    broken.failure = Unavailable("down")
    settings = HTTPSettings(static_tokens=SecretStr(TOKENS))
    async with shop(settings, checks={"database": broken.check}) as (client, _):
        stranger, ann = await client.get("/ready"), await client.get("/ready", headers=ANN)
    assert (stranger.status_code, stranger.json()) == (HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready"})
    assert ann.json()["failing"] == ["database"]


async def test_a_check_that_never_ends_fails() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    assert await Readiness({"slow": wait}, check_seconds=0.01).find_failing() == ["slow"]  # it never ends


async def test_concurrent_requests_share_one_check_per_second() -> None:
    now, dependency = [0.0], Dependency()
    asked = Readiness({"x": dependency.check}, clock=lambda: now[0])
    assert await asyncio.gather(*(asked.find_failing() for _ in range(50))) == [[]] * 50
    assert dependency.asked == 1
    dependency.failure = Unavailable("down")
    assert await asked.find_failing() == []
    now[0] += FRESH_SECONDS
    assert await asked.find_failing() == ["x"]
    dependency.failure = None
    now[0] += FRESH_SECONDS
    assert await asked.find_failing() == []
    assert dependency.asked == 3


async def test_each_change_is_logged_once_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    now, dependency = [0.0], Dependency()
    asked = Readiness({"x": dependency.check}, clock=lambda: now[0])
    for failure in (None, Unavailable("it is down"), Unavailable("it is down"), None):
        dependency.failure = failure
        await asked.find_failing()
        now[0] += FRESH_SECONDS
    assert [record.getMessage() for record in caplog.records] == ["not ready: {'x': 'it is down'}", "ready again"]


@in_world("admin", "api_key", "stack_refused")
async def test_the_catalog_is_requested_once(world: World) -> None:
    before = len(world.stack.calls)
    failing = ["catalog"] if world.name == "stack_refused" else []
    assert await Readiness(readiness_checks(App(Settings()))).find_failing() == failing
    assert [call.path for call in world.stack.calls[before:]] == ([] if failing else ["/config.json"])


async def test_an_unreachable_database_is_named() -> None:
    app = App(Settings(database_url=SecretStr("postgresql://u:p@127.0.0.1:1/x")))
    assert "database" in await Readiness(readiness_checks(app)).find_failing()
    await app.close()


async def test_only_this_machine_can_read_the_metrics() -> None:
    async with shop() as (client, _):
        here, elsewhere = await client.get("/metrics"), await client.get("/metrics", headers=ELSEWHERE)
    assert here.status_code == HTTPStatus.OK
    assert "# TYPE " in here.text
    assert here.headers["content-type"].startswith("text/plain; version=")
    assert (elsewhere.status_code, elsewhere.text) == (HTTPStatus.UNAUTHORIZED, "")
    assert elsewhere.headers["www-authenticate"] == "Bearer"


async def test_headers_of_an_untrusted_proxy_are_ignored() -> None:
    settings = HTTPSettings(trusted_proxies=(ip_network("192.0.2.0/24"),))
    async with shop(settings) as (client, _):
        assert (await client.get("/metrics", headers=ELSEWHERE)).status_code == HTTPStatus.OK


async def test_the_metrics_token_is_required_if_set() -> None:
    settings = HTTPSettings(metrics_token=SecretStr("prometheus"), static_tokens=SecretStr(TOKENS))
    async with shop(settings) as (client, _):
        right = await client.get("/metrics", headers=ELSEWHERE | {"Authorization": "Bearer prometheus"})
        wrong = [
            await client.get("/metrics", headers=headers) for headers in ({}, ANN, {"Authorization": "prometheus"})
        ]
    assert right.status_code == HTTPStatus.OK
    assert [one.status_code for one in wrong] == [HTTPStatus.UNAUTHORIZED] * 3
