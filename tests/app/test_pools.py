"""The threads of an app: one pool for each kind of system, with a share of each for every caller."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from quilt_mcp.app import App
from quilt_mcp.app.pools import PLACES, SHARES, Pools, run_in_pool
from quilt_mcp.core.answers import GetResourceError
from quilt_mcp.http.admission import Admission
from quilt_mcp.http.app import Readiness
from quilt_mcp.requirements.conditions import Scope
from quilt_mcp.requirements.sample import write_sample
from quilt_mcp.requirements.store import RequirementsStore
from quilt_mcp.server import QuiltServer, create_manager, create_server
from quilt_mcp.services.resources import check_catalog
from quilt_mcp.settings import HTTPSettings
from quilt_mcp.workflows.service import Workflows
from tests.http.test_admission import signed_in
from tests.support.settings import Settings
from tests.support.silent_server import SilentServer
from tests.support.toys import toy, toy_manager
from tests.support.waiting import until

SHARE = PLACES["stack"] // SHARES


class Stall:
    """A blocking function. Its calls end when the stall opens.

    Attributes:
        running: the number of threads in it.
    """

    def __init__(self) -> None:
        self.open = threading.Event()
        self.running = 0
        self._lock = threading.Lock()

    def __call__(self) -> dict[str, Any]:
        with self._lock:
            self.running += 1
        self.open.wait()
        with self._lock:
            self.running -= 1
        return {}


def answer_at_once() -> dict[str, Any]:
    return {}


class Desk:
    """A manager with the resources desk://stall and desk://quick in one pool."""

    def __init__(self, *, deadline: float = 600.0) -> None:
        self.stall, self.pools = Stall(), Pools()
        admission = Admission(HTTPSettings(rate_limit="none", concurrent_reads=0))
        self.manager = toy_manager(
            toy("desk://stall", self.stall),
            toy("desk://quick", answer_at_once),
            deadline=deadline,
            admit=admission.admit,
            run=lambda _, call: self.pools.run("stack", call),
        )
        self.tasks: list[asyncio.Task[Any]] = []

    def read(self, name: str, subject: str | None) -> asyncio.Task[Any]:
        def start() -> asyncio.Task[Any]:
            return asyncio.create_task(self.manager.respond(f"desk://{name}", surface="tool"))

        if subject is None:
            task = start()
        else:
            with signed_in(subject):
                task = start()
        self.tasks.append(task)
        return task


@asynccontextmanager
async def desk(**options: Any) -> AsyncIterator[Desk]:
    made = Desk(**options)
    try:
        yield made
    finally:
        made.stall.open.set()
        await asyncio.gather(*made.tasks, return_exceptions=True)
        await until(lambda: made.stall.running == 0)


async def test_a_caller_uses_at_most_a_share_of_a_pool() -> None:
    async with desk() as one:
        for _ in range(3 * SHARE):
            one.read("stall", "ann")
        await until(lambda: one.stall.running == SHARE)
        assert one.pools.waiting == 2 * SHARE
        assert (await one.read("quick", "ben"))["success"]
        blocked = one.read("quick", "ann")
        assert (await one.read("quick", "ben"))["success"]
        assert (blocked.done(), one.stall.running) == (False, SHARE)
    assert one.pools.waiting == 0


async def test_the_local_user_can_use_a_whole_pool() -> None:
    async with desk() as one:
        for _ in range(2 * PLACES["stack"]):
            one.read("stall", None)
        await until(lambda: one.stall.running == PLACES["stack"])
        assert one.pools.waiting == PLACES["stack"]


@pytest.mark.parametrize("end", ["deadline", "disconnect"])
async def test_a_place_is_free_again_when_its_thread_ends(end: str) -> None:
    async with desk(deadline=0.1 if end == "deadline" else 600.0) as one:
        while one.stall.running < SHARE:  # on a machine that stalls, a deadline can pass before its thread starts
            reads = [one.read("stall", "ann") for _ in range(SHARE - one.stall.running)]
            if end == "disconnect":
                await until(lambda: one.stall.running == SHARE)
                for read in reads:
                    read.cancel()
            await asyncio.wait(reads)
        for _ in range(3):  # nobody waits for the threads any more, but they are still there
            more = one.read("stall", "ann")
            if end == "disconnect":
                await until(lambda: one.pools.waiting == 1)
                more.cancel()
            await asyncio.wait([more])
            assert (one.stall.running, one.pools.waiting) == (SHARE, 0)
        one.stall.open.set()
        await until(lambda: one.stall.running == 0)
        if end == "disconnect":
            assert (await one.read("quick", "ann"))["success"]


async def test_a_read_that_gets_no_thread_in_time_ends_at_the_deadline() -> None:
    async with desk(deadline=0.2) as one:
        answers = await asyncio.gather(*(one.read("stall", "ann") for _ in range(SHARE + 1)))
    assert all(isinstance(answer, GetResourceError) and answer.transient for answer in answers)


async def test_a_call_that_is_cancelled_before_its_thread_starts_gives_its_place_back() -> None:
    pools = Pools()
    for _ in range(3 * PLACES["local"]):
        task = asyncio.create_task(pools.run("local", dict))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    await until(lambda: pools.waiting == 0)
    assert await asyncio.gather(*(pools.run("local", dict) for _ in range(PLACES["local"]))) == [{}] * PLACES["local"]


async def test_an_asynchronous_function_holds_a_place_too() -> None:
    pools, opened = Pools(), asyncio.Event()

    async def wait() -> str:
        await opened.wait()
        return "done"

    tasks = [asyncio.create_task(pools.run("database", wait)) for _ in range(PLACES["database"] + 1)]
    await until(lambda: pools.waiting == 1)
    opened.set()
    assert await asyncio.gather(*tasks) == ["done"] * len(tasks)


async def test_a_read_that_only_computes_needs_no_thread() -> None:
    app, stall = App(Settings()), Stall()
    manager, pools = create_manager(app), app.part(Pools)
    tasks = [asyncio.create_task(pools.run("local", stall)) for _ in range(PLACES["local"] + 1)]
    try:
        await until(lambda: (stall.running, pools.waiting) == (PLACES["local"], 1))
        for definition in manager.registry.values():
            if definition["category"] == "metadata" and not definition.get("requires_sign_in"):
                uri = definition["uri"].replace("{template}", "genomics")
                assert (await manager.respond(uri, surface="tool"))["success"]
        assert await manager.complete("metadata://templates/{template}", "template", "gen") == ["genomics"]
        assert (stall.running, pools.waiting) == (PLACES["local"], 1)
    finally:
        stall.open.set()
        await asyncio.gather(*tasks)


def test_each_event_loop_has_its_own_places() -> None:
    app = App(Settings())
    with app.active():
        for _ in range(3):
            assert asyncio.run(run_in_pool("local", dict)) == {}


async def test_greedy_callers_of_a_silent_stack_do_not_delay_another_callers_workflows(tmp_path: Path) -> None:
    stall = Stall()
    settings = Settings(data_dir=tmp_path, rate_limit="none", catalog_url="https://quilt.example.com")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quilt_mcp.services.stack.caller.RequestCallers._find_stack", lambda _: stall())
        mcp = create_server(settings)
        greedy = [asyncio.create_task(read_greedily(mcp, subject)) for subject in ("ann", "ben", "cy", "di")]
        try:
            pools = mcp.app.part(Pools)
            await until(lambda: stall.running + pools.waiting == 4 * 16)
            greedy_threads = stall.running
            assert 2 * SHARE < greedy_threads <= 4 * SHARE
            with signed_in("eve"):
                async with Client(mcp) as client:
                    assert await client.read_resource("workflow://workflows")
                    assert await client.read_resource("metadata://examples")
                    assert await client.call_tool("workflow_create", {"workflow_id": "w", "name": "n"})
                    assert await client.call_tool("health_check", {})
                    assert await client.get_prompt("analyze_branches_template", {"code": "x", "function_name": "f"})
            assert stall.running == greedy_threads
        finally:
            for task in greedy:
                task.cancel()
            stall.open.set()
            await asyncio.wait(greedy)
            await until(lambda: stall.running == 0)


@pytest.mark.parametrize("greedy", [8, 20])
async def test_many_greedy_callers_leave_a_thread_for_another(greedy: int) -> None:
    """Eight callers could take a whole pool, each with its share."""
    async with desk() as one:
        for caller in range(greedy):
            for _ in range(2 * SHARE):
                one.read("stall", f"greedy {caller}")
        assert (await one.read("quick", "eve"))["success"]
        assert greedy <= one.stall.running < PLACES["stack"]


@pytest.mark.soak
async def test_a_silent_catalog_costs_few_threads_and_is_asked_once(tmp_path: Path) -> None:
    """320 reads made 273 threads when the threads of abandoned reads did not count."""
    before = threading.active_count()
    with SilentServer() as catalog:
        settings = Settings(
            data_dir=tmp_path,
            rate_limit="none",
            catalog_url=catalog.url,
            read_timeout_seconds=600,
            probe_seconds=0.5,  # it never answers
            deadline_seconds=1,  # the same
        )
        mcp = create_server(settings)
        most = before
        for _ in range(2):
            reads = []
            for number in range(20):
                with signed_in(f"caller {number}"):
                    reads += [
                        asyncio.create_task(mcp.manager.respond("quilt://buckets", surface="tool")) for _ in range(8)
                    ]
            answers = await asyncio.gather(*reads)
            most = max(most, threading.active_count())
            assert {(answer["success"], answer.get("transient")) for answer in answers} == {(False, True)}
        assert most <= before + PLACES["stack"] + 5  # five for the server and the event loop
        assert catalog.asked == ["GET /config.json"]
    await until(lambda: threading.active_count() <= before + PLACES["stack"])


async def read_greedily(mcp: QuiltServer, subject: str) -> None:
    with signed_in(subject):
        tasks = [mcp.manager.respond("quilt://buckets", surface="tool") for _ in range(16)]
        await asyncio.gather(*tasks)


async def test_readiness_checks_have_their_own_threads_and_leave_few_behind() -> None:
    with SilentServer() as catalog:
        app = App(Settings(catalog_url=catalog.url, read_timeout_seconds=600))
        readiness = Readiness(
            {"catalog": app.bind(check_catalog)},
            check_seconds=0.02,  # it never answers
            clock=iter(range(999)).__next__,
        )
        for _ in range(PLACES["readiness"] + 5):
            assert await readiness.find_failing() == ["catalog"]
        await until(lambda: len(catalog.asked) == PLACES["readiness"])
        await asyncio.sleep(0)
        assert len(catalog.asked) == PLACES["readiness"]


async def test_a_blocking_tool_runs_in_a_thread_of_its_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stall = Stall()
    monkeypatch.setattr(Workflows, "writing", lambda _: stall())
    mcp = create_server(Settings(data_dir=tmp_path, rate_limit="none"))
    share = PLACES["database"] // SHARES
    async with Client(mcp) as client:
        with signed_in("ann"):
            calls = [
                asyncio.create_task(mcp.call_tool("workflow_create", {"workflow_id": "w", "name": "n"}))
                for _ in range(share + 2)
            ]
        await until(lambda: stall.running == share)
        await until(lambda: mcp.app.part(Pools).waiting == 2)
        assert await client.read_resource("workflow://workflows")
        stall.open.set()
        await asyncio.wait(calls)


@pytest.mark.parametrize("slow", ["find_scope", "list_titles"])
async def test_the_queries_of_a_list_hold_places_of_the_database(
    slow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, opened = 0, asyncio.Event()

    async def stall(*_: object, **__: object) -> Any:
        nonlocal running
        running += 1
        await opened.wait()
        return [] if slow == "list_titles" else Scope("ann")

    async def find_scope(_: object) -> Scope:
        return Scope("ann")

    monkeypatch.setattr(RequirementsStore, "find_scope", find_scope)
    monkeypatch.setattr(RequirementsStore, slow, stall)
    settings = Settings(data_dir=tmp_path, rate_limit="none", list_provider_seconds=60)
    write_sample(settings)
    mcp = create_server(settings)
    share = PLACES["database"] // SHARES
    with signed_in("ann"):
        async with Client(mcp) as client:
            lists = [asyncio.create_task(client.list_resources_mcp()) for _ in range(share + 3)]
            await until(lambda: (running, mcp.app.part(Pools).waiting) == (share, 3))  # opening holds places, too
            opened.set()
            assert all(page.resources for page in await asyncio.gather(*lists))
