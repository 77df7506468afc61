"""`resources/list` page by page, with toy providers, through a client."""

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from itertools import chain
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types
import pytest
from fastmcp import Client
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.server.middleware.caching import ResponseCachingMiddleware
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from quilt_mcp.core.errors import NotSignedIn, Unavailable
from quilt_mcp.core.listing import ListedRow, Listing, ListSource, PagedFastMCP
from quilt_mcp.core.manager import Admit
from quilt_mcp.core.surfaces import add_surfaces
from quilt_mcp.core.tracing import Read
from tests.support.low_level import low_level
from tests.support.toys import toy, toy_manager
from tests.support.virtual_time import run_in_virtual_time

Fault = Callable[[], None]


class Shelf:
    """A provider over a list of ids, which counts how often it is asked."""

    def __init__(self, name: str, ids: Sequence[str], fault: Fault | None = None, delay: float = 0) -> None:
        self.name = name
        self.prefix = f"shop://{name}/"
        self.ids = sorted(ids)
        self.fault = fault
        self.delay = delay
        self.asked: list[tuple[str, int]] = []

    async def page(self, after: str, limit: int, scope: Any) -> list[ListedRow]:
        self.asked.append((after, limit))
        await anyio.sleep(self.delay)
        if self.fault:
            self.fault()
        found = [one for one in self.ids if one > after][:limit]
        return [ListedRow(one, mcp_types.Resource(uri=self.prefix + one, name=one)) for one in found]


class Document(Shelf):
    """A provider whose rows have an order of their own. Its keys are places."""

    async def page(self, after: str, limit: int, scope: Any) -> list[ListedRow]:
        rows = [ListedRow(str(at), mcp_types.Resource(uri=self.prefix + one, name=one)) for at, one in self.placed]
        return rows[int(after) + 1 if after else 0 :][:limit]

    @property
    def placed(self) -> list[tuple[int, str]]:
        return list(enumerate(reversed(self.ids)))


def raising(error: Exception) -> Fault:
    def fault() -> None:
        raise error

    return fault


def nothing() -> dict[str, Any]:
    """Nothing."""
    return {}


def left_out(page: mcp_types.ListResourcesResult) -> list[str]:
    """The providers that the page names as left out."""
    found: list[str] = (page.meta or {}).get("io.github.shop/partial", [])
    return found


class Shop:
    """A server with static resources and shelves."""

    def __init__(
        self,
        *shelves: Shelf,
        size: int = 3,
        static: Sequence[str] = (),
        seconds: float = 5.0,
        ttl_seconds: float = 0,
        admit: Admit = lambda _: nullcontext(),
        prepare: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint,
    ) -> None:
        self.scope: Any = "everyone"
        self.before_scope: Callable[[], Awaitable[None]] | None = None
        failures = {"builtins.ConnectionError": lambda _: Unavailable("down")}
        rows = [toy(uri, nothing) for uri in static or ["shop://info"]]
        self.manager = toy_manager(*rows, failures=failures, admit=admit)
        listing = Listing(
            [ListSource(self._scope, shelves, prepare=prepare)],
            page_size=size,
            seconds=seconds,
            find_failure=self.manager.find_failure,
        )
        self.server = PagedFastMCP("shop", listing=listing, manager=self.manager, ttl_seconds=ttl_seconds)
        add_surfaces(self.server, self.manager)

    async def _scope(self) -> Any:
        if self.before_scope:
            await self.before_scope()
        if isinstance(self.scope, Exception):
            raise self.scope
        return self.scope

    async def pages(self) -> list[list[str]]:
        """All pages' URIs."""
        found: list[list[str]] = []
        async with Client(self.server) as client:
            cursor = None
            while True:
                page = await client.list_resources_mcp(cursor=cursor)
                found.append([str(one.uri) for one in page.resources])
                cursor = page.next_cursor
                if cursor is None:
                    return found

    async def page(self, cursor: str | None = None) -> mcp_types.ListResourcesResult:
        async with Client(self.server) as client:
            page: mcp_types.ListResourcesResult = await client.list_resources_mcp(cursor=cursor)
            return page


async def test_pages_contain_everything_once_in_uri_order() -> None:
    shop = Shop(
        Shelf("hats", ["1", "2", "3", "4"]),
        Shelf("coats", ["9"]),
        static=["shop://hats", "shop://hats-types", "shop://zebra", "shop://aaa", "quilt://x"],
    )
    pages = await shop.pages()
    assert [len(page) for page in pages] == [3, 3, 3, 1]
    assert list(chain.from_iterable(pages)) == [
        "quilt://x",
        "shop://aaa",
        "shop://coats/9",
        "shop://hats",
        "shop://hats-types",
        "shop://hats/1",
        "shop://hats/2",
        "shop://hats/3",
        "shop://hats/4",
        "shop://zebra",
    ]


@pytest.mark.parametrize("number", [0, 1, 2, 3, 5, 6])
async def test_only_the_page_of_an_empty_list_is_empty(number: int) -> None:
    shop = Shop(Shelf("hats", [f"{place}" for place in range(number)]), size=2)
    pages = await shop.pages()
    assert [len(page) for page in pages] == [2] * ((number + 1) // 2) + [1] * ((number + 1) % 2)


@pytest.mark.soak
@given(
    ids=st.lists(st.lists(st.text("abc-0", min_size=1, max_size=3), unique=True, max_size=8), min_size=1, max_size=3),
    size=st.integers(1, 5),
)
@settings(deadline=None)  # a busy machine is no failure
async def test_the_union_of_all_pages_is_everything(ids: list[list[str]], size: int) -> None:
    shelves = [Shelf(f"s{place}", some) for place, some in enumerate(ids)]
    pages = await Shop(*shelves, size=size).pages()
    listed = list(chain.from_iterable(pages))
    assert listed == sorted(["shop://info", *(shelf.prefix + one for shelf in shelves for one in shelf.ids)])


async def test_a_page_asks_only_the_providers_it_needs_and_only_for_missing_rows() -> None:
    first, second, third = Shelf("a", ["1", "2"]), Shelf("b", ["1", "2"]), Shelf("c", ["1"])
    shop = Shop(first, second, third, size=3)
    await shop.pages()
    assert first.asked == [("", 4)]  # one more than the page, which tells whether another follows
    assert second.asked == [("", 2), ("1", 4)]
    assert third.asked == [("", 3)]


async def test_deletes_and_inserts_elsewhere_neither_skip_nor_repeat_rows() -> None:
    shelf = Shelf("hats", [f"{place:03}" for place in range(100)])
    shop = Shop(shelf, size=10)
    seen: list[str] = []
    cursor = None
    async with Client(shop.server) as client:
        for _ in range(11):
            page = await client.list_resources_mcp(cursor=cursor)
            seen += [str(one.uri) for one in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
            shelf.ids = sorted({*shelf.ids[5:], "0000"} if len(seen) < 50 else shelf.ids)
    assert len(seen) == len(set(seen))
    assert {f"shop://hats/{place:03}" for place in range(60, 100)} <= set(seen)


def test_overlapping_providers_are_refused() -> None:
    class Inner(Shelf):
        def __init__(self) -> None:
            super().__init__("inner", [])
            self.prefix = "shop://hats/straw/"

    Shop(Shelf("hats", []), Shelf("hats0", []))  # 0 follows the slash
    with pytest.raises(ValueError, match="hats and inner own the same URIs"):
        Shop(Shelf("hats", []), Inner())


async def test_a_failing_provider_is_left_out_named_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "quilt_mcp")
    shop = Shop(Shelf("hats", ["1"]), Shelf("coats", ["1"], raising(ConnectionError("password=hunter2"))), size=9)
    page = await shop.page()
    assert [str(one.uri) for one in page.resources] == ["shop://hats/1", "shop://info"]
    assert left_out(page) == ["coats"]
    assert "coats is left out: Unavailable" in caplog.text
    assert "outcome=partial" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_slow_provider_is_left_out() -> None:
    page = run_in_virtual_time(Shop(Shelf("hats", ["1"], delay=30), Shelf("coats", ["1"]), seconds=5).page())
    assert left_out(page) == ["hats"]
    assert len(page.resources) == 2


def test_a_slow_provider_does_not_delay_the_others_beyond_the_budget_of_the_page() -> None:
    slow, second, third = Shelf("a", ["1"], delay=30), Shelf("b", ["1"], delay=2.4), Shelf("c", ["1"])
    page = run_in_virtual_time(Shop(slow, second, third, size=9, seconds=5).page())
    assert [str(one.uri) for one in page.resources] == ["shop://b/1", "shop://c/1", "shop://info"]
    assert left_out(page) == ["a"]


def test_slow_providers_share_one_time_budget() -> None:
    times: list[tuple[str, float]] = []

    class Noted(Shelf):
        async def page(self, after: str, limit: int, scope: Any) -> list[ListedRow]:
            times.append(("begins", anyio.current_time()))
            try:
                return await super().page(after, limit, scope)
            finally:
                times.append(("ends", anyio.current_time()))

    with pytest.raises(MCPError, match="not available"):
        run_in_virtual_time(Shop(*(Noted(name, ["1"], delay=30) for name in "abcd"), seconds=5).page())
    assert times == [("begins", 0), *[("begins", 2.5)] * 3, *[("ends", 5)] * 4]


async def test_a_page_without_a_provider_says_how_to_get_its_rows() -> None:
    hats = Shelf("hats", ["1", "2"], raising(ConnectionError()))
    shop = Shop(hats, Shelf("coats", ["1"]), size=9)
    page = await shop.page()
    assert (page.meta or {})["io.github.shop/partial-advice"] == (
        "Resources that start with shop://hats/ are missing. Request this page again later."
    )
    hats.fault = None
    again = await shop.page()
    assert left_out(again) == []
    assert [str(one.uri) for one in again.resources if "hats" in str(one.uri)] == ["shop://hats/1", "shop://hats/2"]


async def wait_long() -> None:
    await anyio.sleep(30)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 20])
async def test_the_rows_of_a_provider_stay_in_its_order_where_its_uris_stand(size: int) -> None:
    """Also if another resource has a URI that begins with its prefix."""
    ids = [f"{one:02}" for one in range(12)]
    static = ["shop://hats", "shop://hats/05", "shop://zebra"]
    pages = await Shop(Document("hats", ids), Shelf("coats", ["9"]), static=static, size=size).pages()
    hats = [f"shop://hats/{one}" for one in reversed(ids)]
    expected = ["shop://coats/9", "shop://hats", *hats, "shop://hats/05", "shop://zebra"]
    assert list(chain.from_iterable(pages)) == expected
    assert {len(page) for page in pages[:-1]} <= {size}


def test_without_a_scope_in_time_the_first_page_has_what_needs_none() -> None:
    shop = Shop(Shelf("hats", ["1"]), Shelf("coats", ["1"]), seconds=5)
    shop.before_scope = wait_long
    page = run_in_virtual_time(shop.page())
    assert [str(one.uri) for one in page.resources] == ["shop://info"]
    assert (left_out(page), page.next_cursor) == (["coats", "hats"], None)
    assert (page.meta or {})["io.github.shop/partial-advice"] == (
        "Resources that start with shop://coats/, shop://hats/ are missing. Request this page again later."
    )


def test_a_later_page_and_one_that_static_resources_fill_need_a_scope_in_time() -> None:
    full = Shop(Shelf("hats", ["1"]), static=["shop://a", "shop://b"], size=1, seconds=5)
    full.before_scope = wait_long
    later = Shop(Shelf("hats", ["1", "2"]), size=1, seconds=5)
    cursor = run_in_virtual_time(later.page()).next_cursor
    later.before_scope = wait_long
    for shop, at in ((full, None), (later, cursor)):
        with pytest.raises(MCPError, match="not available"):
            run_in_virtual_time(shop.page(at))


def test_what_a_source_opens_at_first_does_not_count_for_the_page() -> None:
    shop = Shop(Shelf("hats", ["1"]), prepare=wait_long, seconds=5)
    assert left_out(run_in_virtual_time(shop.page())) == []


async def test_if_all_providers_fail_the_list_fails() -> None:
    shop = Shop(Shelf("hats", ["1"], raising(ConnectionError("hunter2"))))
    with pytest.raises(MCPError) as refused:
        await shop.page()
    assert refused.value.error.code == -31001
    assert refused.value.error.data["transient"] is True
    assert refused.value.error.data["details"] == "No response from hats"
    assert "hunter2" not in str(refused.value.error)


async def test_a_bug_in_a_provider_is_masked(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(MCPError) as refused:
        await Shop(Shelf("hats", ["1"], raising(KeyError("hunter2"))), Shelf("coats", ["1"])).page()
    assert refused.value.error.code == -32603
    assert "correlation id" in refused.value.error.data["details"]
    assert "hunter2" not in caplog.text + str(refused.value.error)


async def test_a_caller_without_a_scope_gets_the_reason() -> None:
    shop = Shop(Shelf("hats", ["1"]))
    shop.scope = NotSignedIn("who are you?")
    with pytest.raises(MCPError) as refused:
        await shop.page()
    assert (refused.value.error.code, refused.value.error.data["error"]) == (-31002, "Unauthorized")


async def test_a_cursor_is_invalid_after_the_scope_changed() -> None:
    shop = Shop(Shelf("hats", ["1", "2", "3", "4"]))
    cursor = (await shop.page()).next_cursor
    assert len((await shop.page(cursor)).resources) == 2
    shop.scope = "someone else"
    with pytest.raises(MCPError) as refused:
        await shop.page(cursor)
    assert refused.value.error.code == -32602
    assert "Start without a cursor" in refused.value.error.data["suggested_actions"][0]


async def test_a_caller_that_is_not_admitted_gets_no_page() -> None:
    @asynccontextmanager
    async def closed(_: Read) -> AsyncIterator[None]:
        raise Unavailable("closed for lunch")
        yield

    with pytest.raises(MCPError, match="closed for lunch"):
        await Shop(Shelf("hats", ["1"]), admit=closed).page()


class Counting(Middleware):
    def __init__(self) -> None:
        self.methods: list[str | None] = []

    async def on_request(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        self.methods.append(context.method)
        return await call_next(context)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_middleware_runs_once_for_a_page(mode: Any) -> None:
    shop, counting = Shop(Shelf("hats", ["1"])), Counting()
    shop.server.add_middleware(counting)
    async with Client(shop.server, mode=mode) as client:
        await client.list_resources_mcp()
    assert counting.methods.count("resources/list") == 1


async def test_fastmcps_response_cache_does_not_repeat_the_first_page() -> None:
    shop = Shop(Shelf("hats", ["1", "2", "3", "4"]))
    shop.server.add_middleware(ResponseCachingMiddleware())
    assert [len(page) for page in await shop.pages()] == [3, 2]


async def test_fastmcp_uses_our_list_handler() -> None:
    """Fails when FastMCP's internals change: then PagedFastMCP must change with them."""
    shop = Shop()
    entry = low_level(shop.server).get_request_handler("resources/list")
    assert entry is not None
    assert inspect.getmodule(entry.handler) is inspect.getmodule(PagedFastMCP)


async def test_an_observer_sees_each_page_with_its_rows_and_providers() -> None:
    seen: list[Read] = []
    shop = Shop(Shelf("hats", ["1", "2", "3"]), Shelf("coats", [], raising(ConnectionError())))
    with shop.manager.reads.observe(seen.append):
        await shop.pages()
        await shop.manager.respond("shop://info", surface="tool")
    assert [(read.surface, read.uri, read.outcome, read.rows) for read in seen] == [
        ("list", "resources/list", "partial", 3),
        ("list", "resources/list", "ok", 1),
        ("tool", "shop://info", "ok", None),
    ]
    assert set(seen[0].providers) == {"hats", "coats"}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_clients_learn_how_long_they_may_cache_a_complete_page(mode: Any) -> None:
    broken = Shelf("coats", ["1"], raising(ConnectionError()))
    shop = Shop(Shelf("hats", ["1"]), broken, size=9, ttl_seconds=60)
    async with Client(shop.server, mode=mode) as client:
        partial = await client.list_resources_mcp()
        broken.fault = None
        whole = await client.list_resources_mcp()
    assert (partial.ttl_ms, partial.cache_scope) == (0, "private")
    assert (whole.ttl_ms, whole.cache_scope) == (60_000 if mode == "auto" else 0, "private")
