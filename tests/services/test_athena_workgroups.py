"""athena://workgroups, athena://query/history and athena://databases, with many workgroups, limits and refusals."""

import asyncio
import json
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import pytest
from moto.athena.models import athena_backends

from quilt_mcp.app import App
from quilt_mcp.core.answers import GetResourceError
from quilt_mcp.demo.account import ACCOUNT_ID, REGION
from quilt_mcp.demo.data_lake import PLATFORM
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.moto_gaps.athena import DatedWorkGroup, RecordedExecution
from quilt_mcp.demo.records import Query
from quilt_mcp.demo.world import World
from quilt_mcp.services import athena_history, athena_quotas, athena_read_service
from quilt_mcp.services.stack.aws import AWSClients, Service
from quilt_mcp.services.stack.failures import Throttled
from tests.services.stack_calls import read_pages
from tests.support import apps
from tests.support.python_caller import read, read_error
from tests.support.quilt_fakes import Athena, Clock, Quota, Refuse, answer_queries
from tests.support.settings import Settings
from tests.support.waiting import SECONDS, until

RESULTS = "s3://acme-athena-results/"
NON_MANAGED = "QuiltUserAthena-acme-NonManagedRoleWorkgroup"
RESEARCHER = "QuiltUserAthena-acme-Researcher"
REFUSED, BROKEN = "AccessDeniedException", "InternalServerException"


class Control:
    """What a test changes about Athena and the time for it."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.patch = world, monkeypatch

    def respond(self, refuse: Refuse) -> Athena:
        """Let Athena refuse some calls."""
        return Athena(self.patch, refuse)

    def allow_seconds(self, seconds: int) -> None:
        self.patch.setenv("QUILT_MCP_PROBE_SECONDS", str(seconds))
        self.patch.setenv("QUILT_MCP_DEADLINE_SECONDS", str(2 * seconds))
        apps.use_settings(Settings())

    def use_clock(self) -> Clock:
        """Let the reads of workgroups use a clock that does not depend on the speed of this machine."""
        clock = Clock()
        for module in (athena_history, athena_quotas, athena_read_service):
            self.patch.setattr(module, "time", clock)
        return clock

    def sign_in_as(self, role: str | None, *, is_admin: bool = False) -> None:
        """Let the stack report another role. The AWS identity stays that of the demo's administrator."""
        named = {"name": role} if role else None
        me = {"name": "amara_osei", "email": "a@acme.example.com", "is_admin": is_admin, "role": named, "roles": []}
        answer_queries(self.patch, {"me": {"data": {"me": me}}})


@pytest.fixture
def control(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> Control:
    del athena_backends[ACCOUNT_ID][REGION].work_groups[PLATFORM]  # so that none has the name of the role
    return Control(fresh_world, monkeypatch)


def fail(code: str, operation: str, *texts: str) -> Refuse:
    """Let the calls of an operation fail with this code; with texts, only those that contain one of them."""

    def refuse(called: str, body: dict[str, Any]) -> str | None:
        sent = json.dumps(body)
        return code if called == operation and (not texts or any(f'"{one}"' in sent for one in texts)) else None

    return refuse


def add_workgroups(count: int, *, queries: int = 1) -> list[str]:
    """Add workgroups with queries to the account. The queries of the last workgroup are the newest."""
    athena = athena_backends[ACCOUNT_ID][REGION]
    names = [f"team-{at:04}" for at in range(count)]
    for at, name in enumerate(names):
        configuration: dict[str, Any] = {"ResultConfiguration": {"OutputLocation": RESULTS}}
        group = DatedWorkGroup(athena, name, configuration, "", [])
        group.created = 1.0
        athena.work_groups[name] = group
        for number in range(queries):
            record = Query(f"{name}-{number:02}", name, "default", "SELECT 1", 0, 1)
            submitted = datetime(2026, 1, 1, tzinfo=UTC).timestamp() + at * 60 + number
            athena.executions[record.id] = RecordedExecution(record, group, submitted, RESULTS)
    return names


@pytest.mark.soak
@pytest.mark.parametrize("uri", ["athena://query/history", "athena://workgroups"])
async def test_all_of_60_workgroups_are_read_although_athena_limits_the_rate(uri: str, control: Control) -> None:
    add_workgroups(56)
    control.allow_seconds(60)
    athena = control.respond(Quota(20, 10, "ListQueryExecutions", "GetWorkGroup"))
    answer = await read(uri)
    assert (answer["workgroups_total"], answer["workgroups_covered"]) == (60, 60)
    assert answer.get("is_complete", True)
    assert 2 <= athena.most_at_once <= 4


async def test_the_history_of_200_workgroups_names_those_that_were_not_reached(control: Control) -> None:
    add_workgroups(196)
    control.allow_seconds(60)
    control.respond(delay(1, "ListQueryExecutions", clock=control.use_clock()))
    answer = await read("athena://query/history")
    assert answer["workgroups_total"] == 200
    assert 1 <= answer["workgroups_covered"] < 70
    assert answer["is_complete"] is False
    assert answer["workgroups"][0] == NON_MANAGED
    missing = {one["name"]: one["reason"] for one in answer["workgroups_unavailable"]}
    assert len(missing) + answer["workgroups_covered"] == 200
    assert set(missing.values()) == {"not reached in time"}


async def test_workgroups_that_were_not_reached_are_listed_without_details(control: Control) -> None:
    add_workgroups(196)
    control.allow_seconds(60)
    control.respond(delay(1, "GetWorkGroup", clock=control.use_clock()))
    pages = await read_pages("athena://workgroups?limit=200")
    assert {(page["count"], page["workgroups_total"]) for page in pages} == {(200, 200)}
    assert 1 <= pages[0]["workgroups_covered"] < 70
    rows = [row for page in pages for row in page["workgroups"]]
    assert len({row["name"] for row in rows}) == len(rows) == 200
    late = [row for row in rows if not row["details_available"]]
    assert {row["details_error"] for row in late} == {"not reached in time"}
    assert {row["enforce_workgroup_config"] for row in late} == {None}


@pytest.mark.soak
async def test_above_the_maximum_the_total_is_unknown(control: Control) -> None:
    add_workgroups(1000)
    control.allow_seconds(60)
    clock = control.use_clock()
    slow = [delay(1, operation, clock=clock) for operation in ("ListQueryExecutions", "GetWorkGroup")]
    control.respond(lambda operation, body: slow[0](operation, body) or slow[1](operation, body))
    for uri in ("athena://query/history", "athena://workgroups"):
        answer = await read(uri)
        assert answer["workgroups_total"] is None
        assert answer.get("is_complete", False) is False


async def test_the_queries_of_each_workgroup_are_listed_and_described_once(control: Control) -> None:
    add_workgroups(30, queries=2)
    control.allow_seconds(60)
    control.use_clock()
    athena = control.respond(lambda *_: None)
    answer = await read("athena://query/history")
    assert athena.calls["ListQueryExecutions"] == athena.calls["BatchGetQueryExecution"] == 34
    ids = [row["query_execution_id"] for row in answer["query_history"]]
    assert [one for one in ids if one.startswith("team")][:2] == ["team-0029-01", "team-0029-00"]
    assert (answer["count"], answer["is_complete"], answer["unprocessed"]) == (50, True, 0)


async def test_workgroups_with_many_queries_are_complete(control: Control) -> None:
    add_workgroups(5, queries=60)
    answer = await read("athena://query/history")
    ids = [row["query_execution_id"] for row in answer["query_history"]]
    assert [one for one in ids if one.startswith("team")][:2] == ["team-0004-59", "team-0004-58"]
    assert (answer["is_complete"], answer["workgroups_covered"]) == (True, 9)


async def test_the_history_is_empty_with_reasons_if_all_workgroups_are_refused(fresh_world: World) -> None:
    fresh_world.account.refuse("DataPlatform", "athena:ListQueryExecutions")
    history = await read("athena://query/history")
    assert (history["count"], history["workgroups"]) == (0, [])
    reasons = [one["reason"] for one in history["workgroups_unavailable"]]
    assert reasons == ["Your AWS identity is not allowed to do this."] * 5


async def test_the_history_fails_if_all_workgroups_fail(control: Control) -> None:
    control.respond(fail(BROKEN, "ListQueryExecutions"))
    error = await read_error("athena://query/history")
    assert (error.message, error.transient) == ("AWS could not process the request.", True)


def delay(seconds: float, operation: str, *, clock: Clock, key: str = "") -> Refuse:
    """Delay the responses to the calls of an operation; with `key`, only of those that have this parameter."""

    def wait(called: str, body: dict[str, Any]) -> None:
        if called == operation and (not key or key in body):
            clock.sleep(seconds)

    return wait


async def test_the_history_fails_if_no_workgroup_was_reached(control: Control) -> None:
    control.allow_seconds(60)
    control.respond(delay(65, "ListWorkGroups", clock=control.use_clock()))
    error = await read_error("athena://query/history")
    assert (error.message, error.transient) == ("No workgroup was reached in time, so the queries are not known.", True)
    assert error.details == "4 workgroups: not reached in time"
    assert any("QUILT_MCP_PROBE_SECONDS" in action for action in error.suggested_actions)


async def test_a_list_of_workgroups_that_is_late_is_a_failure(control: Control) -> None:
    over = threading.Event()

    def wait(operation: str, _: dict[str, Any]) -> None:
        if operation == "ListWorkGroups":
            over.wait(SECONDS)

    async def read_late(uri: str) -> GetResourceError:
        control.allow_seconds(1)  # another app, so that the reads share no call
        return await read_error(uri)

    control.respond(wait)
    errors = await asyncio.gather(*(read_late(uri) for uri in ("athena://query/history", "athena://workgroups")))
    over.set()
    late = ("The workgroups were not listed in time.", True)
    assert [(error.message, error.transient) for error in errors] == [late, late]


@pytest.mark.soak
@pytest.mark.parametrize("uri", ["athena://query/history", "athena://workgroups"])
async def test_if_a_page_of_workgroups_is_late_the_total_is_unknown(uri: str, control: Control) -> None:
    add_workgroups(120)
    control.allow_seconds(60)
    control.respond(delay(35, "ListWorkGroups", clock=control.use_clock(), key="NextToken"))
    answer = await read(uri)
    assert (answer["workgroups_total"], answer["workgroups_covered"] > 0) == (None, True)
    assert answer.get("is_complete", False) is False


@pytest.mark.soak
@pytest.mark.parametrize(
    ("uri", "operation"), [("athena://query/history", "ListQueryExecutions"), ("athena://workgroups", "GetWorkGroup")]
)
async def test_reads_of_a_caller_at_the_same_time_share_their_calls(uri: str, operation: str, control: Control) -> None:
    started = answer_queries(control.patch, {})

    def wait(called: str, _: dict[str, Any]) -> None:
        """Delay the response until all readers have asked who the caller is. They share the calls that follow."""
        end = time.monotonic() + SECONDS
        while called == "ListWorkGroups" and started.count("me") < 4 and time.monotonic() < end:
            time.sleep(0.5)

    athena = control.respond(wait)
    answers = await asyncio.gather(*(read(uri) for _ in range(4)))
    assert [answer["workgroups_covered"] for answer in answers] == [4] * 4
    assert (athena.calls["ListWorkGroups"], athena.calls[operation]) == (1, 4)
    await read(uri)
    assert (athena.calls["ListWorkGroups"], athena.calls[operation]) == (2, 8)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("uri", "operation"), [("athena://query/history", "ListQueryExecutions"), ("athena://workgroups", "GetWorkGroup")]
)
async def test_a_read_that_is_cancelled_does_not_fail_another(uri: str, operation: str, control: Control) -> None:
    queries, is_cancelled = answer_queries(control.patch, {}), threading.Event()

    def wait(called: str, _: dict[str, Any]) -> None:
        if called == "ListWorkGroups":
            is_cancelled.wait(SECONDS)

    athena = control.respond(wait)
    first = asyncio.create_task(read(uri))
    await until(lambda: athena.calls["ListWorkGroups"] == 1)
    asked = queries.count("me")
    second = asyncio.create_task(read(uri))
    await until(lambda: queries.count("me") > asked)
    await asyncio.sleep(0.5)  # so that it waits for the first, which only makes the test stricter
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    is_cancelled.set()
    assert (await second)["workgroups_covered"] == 4
    assert (athena.calls["ListWorkGroups"], athena.calls[operation]) == (2, 4)


@pytest.mark.soak
def test_a_reader_waits_for_at_most_one_call_of_each_other_reader() -> None:
    quota = athena_quotas.Quota("GetWorkGroup", 20, 1)
    called: list[str] = []
    app = App(Settings())

    def ask(name: str, count: int, seconds: float) -> None:
        items = [f"{name} {number}" for number in range(count)]
        with app.active():
            athena_quotas.ask_each(called.append, items, until=time.monotonic() + seconds, quota=quota)

    others = [threading.Thread(target=ask, args=(f"reader {at}", 20, 3)) for at in range(8)]
    for other in others:
        other.start()
    while len(called) < 8:
        time.sleep(0.01)
    before = len(called)
    ask("late", 1, 10)
    assert called.index("late 0") - before < 16  # 8, and some that run before it has its place
    for other in others:
        other.join()


def test_throttled_calls_slow_the_others_until_aws_admits_them_again(control: Control) -> None:
    clock, quota, is_throttled = control.use_clock(), athena_quotas.Quota("GetWorkGroup", 10, 1), True

    def call(item: int) -> int:
        if is_throttled:
            raise Throttled("AWS is throttling requests.")
        return item

    def measure(count: int) -> float:
        start = clock.monotonic()
        assert len(athena_quotas.ask_each(call, range(count), until=start + 1000, quota=quota)) == count
        return clock.monotonic() - start

    with App(Settings()).active():
        assert 10 < measure(16) < 32  # 1.5 at the rate of the quota, and at most 2 for each
        is_throttled = False
        measure(60)
        assert measure(10) == pytest.approx(1.0, abs=0.2)


def test_calls_that_were_throttled_are_repeated_once_if_others_were_not(control: Control) -> None:
    control.use_clock()
    quota, throttled = athena_quotas.Quota("GetWorkGroup", 10, 1), Counter({1: 1, 5: 1, 7: 9})

    def call(item: int) -> int:
        throttled[item] -= 1
        if throttled[item] >= 0:
            raise Throttled("AWS is throttling requests.")
        return item

    with App(Settings()).active():
        found = athena_quotas.ask_each(call, range(9), until=1000, quota=quota)
    assert [item for item in range(9) if found[item] != item] == [7]


def shorten_pages(monkeypatch: pytest.MonkeyPatch, size: int) -> list[str]:
    """Let ListQueryExecutions return pages of this size, and every other page empty.

    Returns:
        the workgroup of each call, which grows.
    """
    called, call = [], AWSClients.call

    def answer(aws: AWSClients, service: Service, operation: str, **given: Any) -> Any:
        if operation != "list_query_executions":
            return call(aws, service, operation, **given)
        called.append(given["WorkGroup"])
        step = int(given.pop("NextToken", "0"))
        ids = call(aws, service, operation, **given)["QueryExecutionIds"]
        start = step // 2 * size
        is_last = start + size >= len(ids)
        page = [] if step % 2 == 0 else ids[start : start + size]
        return {"QueryExecutionIds": page} | ({} if step % 2 and is_last else {"NextToken": str(step + 1)})

    monkeypatch.setattr(AWSClients, "call", answer)
    return called


async def test_short_pages_of_queries_are_followed(control: Control) -> None:
    add_workgroups(1, queries=60)
    control.allow_seconds(60)
    control.use_clock()
    whole = await read("athena://query/history")
    called = shorten_pages(control.patch, 20)
    assert await read("athena://query/history") == whole
    assert (whole["is_complete"], whole["count"]) == (True, 50)
    assert called.count("team-0000") == 6


async def test_the_same_page_of_queries_twice_is_a_failure_of_its_workgroup(control: Control) -> None:
    call = AWSClients.call

    def answer(aws: AWSClients, service: Service, operation: str, **given: Any) -> Any:
        is_endless = operation == "list_query_executions" and given["WorkGroup"] == "team-0000"
        return {"QueryExecutionIds": [], "NextToken": "a"} if is_endless else call(aws, service, operation, **given)

    add_workgroups(1)
    control.allow_seconds(60)
    control.patch.setattr(AWSClients, "call", answer)
    history = await read("athena://query/history")
    assert history["workgroups_unavailable"] == [{"name": "team-0000", "reason": "AWS returned the same page twice."}]
    assert (history["is_complete"], history["workgroups_covered"]) == (False, 4)


async def test_a_workgroup_without_descriptions_does_not_hide_the_others(control: Control) -> None:
    add_workgroups(4)
    refuse = fail(REFUSED, "BatchGetQueryExecution", "team-0001-00")
    is_alone = {"QueryExecutionIds": ["team-0000-00"]}
    control.respond(lambda operation, body: BROKEN if body == is_alone else refuse(operation, body))
    answer = await read("athena://query/history")
    assert {one["name"]: one["reason"] for one in answer["workgroups_unavailable"]} == {
        "team-0000": "AWS could not process the request.",
        "team-0001": "Your AWS identity is not allowed to do this.",
    }
    ids = {row["query_execution_id"] for row in answer["query_history"]}
    assert {"team-0002-00", "team-0003-00"} <= ids
    assert (answer["unprocessed"], answer["is_complete"], answer["workgroups_covered"]) == (1, False, 6)


async def test_a_long_query_is_cut_and_marked(fresh_world: World) -> None:
    sql = f"SELECT '{'x' * 5000}'"
    query_id, athena = "long", athena_backends[ACCOUNT_ID][REGION]
    record = Query(query_id, "primary", "default", sql, 0, 1)
    athena.executions[query_id] = RecordedExecution(record, athena.work_groups["primary"], time.time(), RESULTS)
    rows = {row["query_execution_id"]: row for row in (await read("athena://query/history"))["query_history"]}
    assert (rows[query_id]["query"], rows[query_id].get("query_truncated")) == (sql[:4000], True)
    assert not any(row.get("query_truncated") for key, row in rows.items() if key != query_id)


FOREIGN, STAGING = "QuiltUserAthena-acme2-Researcher", "QuiltUserAthena-acme-staging-NonManagedRoleWorkgroup"
BY_NAME = "It has the name of your role"
RECOMMENDED: dict[str, tuple[tuple[str, bool] | None, list[str], dict[str, str], str | None, list[str], str]] = {
    # the caller's role and whether they are an administrator, other workgroups, and those whose details fail;
    # the recommended workgroup, the candidates and a part of the reason
    "of the role": (("Researcher", False), [], {}, RESEARCHER, [NON_MANAGED, RESEARCHER], BY_NAME),
    "the only one": (None, [FOREIGN], {RESEARCHER: REFUSED, FOREIGN: REFUSED}, NON_MANAGED, [NON_MANAGED], ""),
    "of another stack": (
        None,
        [STAGING],
        {RESEARCHER: REFUSED, NON_MANAGED: REFUSED},
        None,
        [STAGING],
        "can belong to another stack",
    ),
    "not all were read": (
        None,
        [],
        {RESEARCHER: BROKEN},
        None,
        [NON_MANAGED],
        "Not all workgroups of the Quilt stack could be read",
    ),
    "for roles outside Quilt": (
        ("PartnerExchange", True),
        [],
        {},
        NON_MANAGED,
        [NON_MANAGED, RESEARCHER],
        "Quilt does not manage your role",
    ),
    "several, administrator": (
        ("DataPlatform", True),
        [],
        {},
        None,
        [NON_MANAGED, RESEARCHER],
        "none has your role's name",
    ),
    "several": (("DataPlatform", False), [], {}, None, [NON_MANAGED, RESEARCHER], "none has your role's name"),
}


@pytest.mark.parametrize("name", RECOMMENDED)
async def test_a_workgroup_is_recommended_only_for_a_reason(name: str, control: Control) -> None:
    signed_in, others, failing, workgroup, candidates, reason = RECOMMENDED[name]
    athena = athena_backends[ACCOUNT_ID][REGION]
    for other in others:
        athena.work_groups[other] = DatedWorkGroup(athena, other, {}, "", [])
    if signed_in:
        control.sign_in_as(signed_in[0], is_admin=signed_in[1])
    control.respond(lambda operation, body: failing.get(body["WorkGroup"]) if operation == "GetWorkGroup" else None)
    recommended = (await read("athena://workgroups"))["recommended"]
    assert (recommended["workgroup"], recommended["candidates"]) == (workgroup, candidates)
    assert reason in recommended["workgroup_reason"]


async def test_without_the_name_of_the_stack_nothing_is_recommended(fresh_world: World) -> None:
    fresh_world.stack.forced["/config.json"] = Answer(HTTPStatus.OK, {"registryUrl": fresh_world.url})
    recommended = (await read("athena://workgroups"))["recommended"]
    assert (recommended["workgroup"], recommended["tabulator_data_catalog"]) == (None, None)
    assert recommended["tabulator_data_catalog_exists"] is None
    assert "name of the Quilt stack is unknown" in recommended["workgroup_reason"]


async def test_a_data_catalog_that_cannot_be_checked_is_marked(fresh_world: World) -> None:
    fresh_world.account.refuse("DataPlatform", "athena:GetDataCatalog")
    recommended = (await read("athena://workgroups"))["recommended"]
    assert recommended["tabulator_data_catalog"] == "quilt-acme-tabulator"
    assert recommended["tabulator_data_catalog_exists"] is None
    assert "Athena did not return it: Your AWS identity is not allowed" in recommended["tabulator_reason"]
