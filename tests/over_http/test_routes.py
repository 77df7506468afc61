"""/health, /ready and /metrics."""

import asyncio
from http import HTTPStatus
from ipaddress import ip_network

import pytest
from pydantic import SecretStr

from quilt_mcp import runtime_context
from quilt_mcp.demo.world import World
from quilt_mcp.errors import Unavailable
from quilt_mcp.http import readiness
from quilt_mcp.http.readiness import Readiness
from quilt_mcp.http.settings import HTTPSettings
from quilt_mcp.readiness_checks import READINESS_CHECKS
from tests.over_http.web import ANN, TOKENS, shop
from tests.worlds import in_world

ELSEWHERE = {"X-Forwarded-For": "203.0.113.7"}


class Dependency:
    """What a server depends on; it breaks when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.failure: Exception | None = None

    async def check(self) -> None:
        self.asked += 1
        if self.failure:
            raise self.failure


async def test_it_is_alive_whatever_else_is() -> None:
    broken = Dependency()
    broken.failure = Unavailable("the password is 12345")
    async with shop(checks={"database": broken.check}) as (client, _):
        answer = await client.get("/health")
        assert (answer.status_code, answer.json()) == (HTTPStatus.OK, {"status": "alive"})
        assert (await client.head("/health")).status_code == HTTPStatus.OK
    assert broken.asked == 0


async def test_it_is_ready_when_all_that_it_depends_on_answers() -> None:
    async with shop(checks={"catalog": Dependency().check}) as (client, _):
        answer = await client.get("/ready")
    assert (answer.status_code, answer.json()) == (HTTPStatus.OK, {"status": "ready"})
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("failure", [Unavailable("secret-host"), OSError(111, "secret-host"), TimeoutError()])
async def test_what_fails_is_named_and_nothing_more(failure: Exception) -> None:
    broken = Dependency()
    broken.failure = failure
    async with shop(checks={"catalog": Dependency().check, "database": broken.check}) as (client, _):
        answer = await client.get("/ready")
    assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert answer.json() == {"status": "not ready", "failing": ["database"]}


async def test_where_callers_sign_in_only_they_are_told_what_fails() -> None:
    broken = Dependency()
    broken.failure = Unavailable("down")
    settings = HTTPSettings(static_tokens=SecretStr(TOKENS))
    async with shop(settings, checks={"database": broken.check}) as (client, _):
        stranger, ann = await client.get("/ready"), await client.get("/ready", headers=ANN)
    assert (stranger.status_code, stranger.json()) == (HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready"})
    assert ann.json()["failing"] == ["database"]


async def test_a_check_that_never_ends_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "CHECK_SECONDS", 0.01)
    assert await Readiness({"slow": asyncio.Event().wait}).failing() == ["slow"]  # type: ignore[dict-item]  # it is never done


async def test_many_who_ask_at_once_cost_one_check_and_it_is_asked_anew_after_a_second() -> None:
    now, dependency = [0.0], Dependency()
    asked = Readiness({"x": dependency.check}, clock=lambda: now[0])
    assert await asyncio.gather(*(asked.failing() for _ in range(50))) == [[]] * 50
    assert dependency.asked == 1
    dependency.failure = Unavailable("down")
    assert await asked.failing() == []
    now[0] += readiness.FRESH_SECONDS
    assert await asked.failing() == ["x"]
    dependency.failure = None
    now[0] += readiness.FRESH_SECONDS
    assert await asked.failing() == []
    assert dependency.asked == 3


async def test_the_log_tells_each_change_once_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    now, dependency = [0.0], Dependency()
    asked = Readiness({"x": dependency.check}, clock=lambda: now[0])
    for failure in (None, Unavailable("it is down"), Unavailable("it is down"), None):
        dependency.failure = failure
        await asked.failing()
        now[0] += readiness.FRESH_SECONDS
    assert [record.getMessage() for record in caplog.records] == ["not ready: {'x': 'it is down'}", "ready again"]


@in_world("admin", "stack_refused")
async def test_the_catalog_is_asked_once(world: World) -> None:
    asked = len(world.stack.calls)
    failing = ["catalog"] if world.name == "stack_refused" else []
    assert await Readiness(READINESS_CHECKS).failing() == failing
    assert [call.path for call in world.stack.calls[asked:]] == ([] if failing else ["/config.json"])


async def test_a_database_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    before = runtime_context.settings()
    nowhere = before.model_copy(update={"database_url": SecretStr("postgresql://u:p@127.0.0.1:1/x")})
    monkeypatch.setattr(runtime_context, "_settings", nowhere)  # as `use_settings`, which would forget the caller
    try:
        assert await Readiness({"database": READINESS_CHECKS["database"]}).failing() == ["database"]
    finally:
        await runtime_context.close_requirements()


async def test_the_numbers_are_for_this_machine_only() -> None:
    async with shop() as (client, _):
        here, elsewhere = await client.get("/metrics"), await client.get("/metrics", headers=ELSEWHERE)
    assert here.status_code == HTTPStatus.OK
    assert "# TYPE " in here.text
    assert here.headers["content-type"].startswith("text/plain; version=")
    assert (elsewhere.status_code, elsewhere.text) == (HTTPStatus.UNAUTHORIZED, "")
    assert elsewhere.headers["www-authenticate"] == "Bearer"


async def test_a_proxy_that_is_not_trusted_is_the_client_itself() -> None:
    settings = HTTPSettings(trusted_proxies=(ip_network("192.0.2.0/24"),))
    async with shop(settings) as (client, _):
        assert (await client.get("/metrics", headers=ELSEWHERE)).status_code == HTTPStatus.OK


async def test_with_a_token_the_numbers_are_for_those_who_have_it() -> None:
    settings = HTTPSettings(metrics_token=SecretStr("prometheus"), static_tokens=SecretStr(TOKENS))
    async with shop(settings) as (client, _):
        right = await client.get("/metrics", headers=ELSEWHERE | {"Authorization": "Bearer prometheus"})
        wrong = [
            await client.get("/metrics", headers=headers) for headers in ({}, ANN, {"Authorization": "prometheus"})
        ]
    assert right.status_code == HTTPStatus.OK
    assert [one.status_code for one in wrong] == [HTTPStatus.UNAUTHORIZED] * 3
