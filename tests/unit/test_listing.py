"""`resources/list`, page by page, over providers that the tests make up: through a client, as it is used."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any

import anyio
import mcp_types
import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.server.middleware.caching import ResponseCachingMiddleware
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from quilt_mcp import trace
from quilt_mcp.errors import NotSignedIn, Unavailable
from quilt_mcp.listing import Listing
from quilt_mcp.manager import ResourceManager
from quilt_mcp.page_cache import PageCache
from quilt_mcp.paged_server import PARTIAL, PagedFastMCP
from quilt_mcp.registry import define, registry_of
from quilt_mcp.surfaces import add_surfaces

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

    async def page(self, after: str, limit: int, scope: Any) -> list[mcp_types.Resource]:
        self.asked.append((after, limit))
        await anyio.sleep(self.delay)
        if self.fault:
            self.fault()
        return [mcp_types.Resource(uri=self.prefix + one, name=one) for one in self.ids if one > after][:limit]


def raising(error: Exception) -> Fault:
    def fault() -> None:
        raise error

    return fault


def nothing() -> dict[str, Any]:
    """Nothing."""
    return {}


def left_out(page: mcp_types.ListResourcesResult) -> list[str]:
    """The providers that the page names as left out."""
    found: list[str] = (page.meta or {}).get(PARTIAL, [])
    return found


class Shop:
    """A server with static resources and shelves."""

    def __init__(self, *shelves: Shelf, size: int = 3, static: Sequence[str] = (), **options: Any) -> None:
        self.scope: Any = "everyone"
        self.manager = ResourceManager(
            registry_of([define(uri, nothing, name=uri) for uri in static or ["shop://info"]]),
            **{name: options.pop(name) for name in ("admit",) if name in options},
        )
        listing = Listing(
            shelves,
            scope=self._scope,
            page_size=lambda: size,
            seconds=lambda: options.pop("seconds", 5.0),
            translate=lambda error: Unavailable("down") if isinstance(error, ConnectionError) else None,
            **{name: options.pop(name) for name in ("cache", "is_cached", "generation") if name in options},
        )
        self.server = PagedFastMCP("shop", listing=listing, manager=self.manager)
        add_surfaces(self.server, self.manager)

    async def _scope(self) -> Any:
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


async def test_pages_hold_everything_once_in_the_order_of_uris() -> None:
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
async def test_no_page_is_empty_but_that_of_an_empty_list(number: int) -> None:
    shop = Shop(Shelf("hats", [f"{place}" for place in range(number)]), size=2)
    pages = await shop.pages()
    assert [len(page) for page in pages] == [2] * ((number + 1) // 2) + [1] * ((number + 1) % 2)


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


async def test_a_page_asks_only_the_providers_that_it_reaches_and_only_for_what_it_lacks() -> None:
    first, second, third = Shelf("a", ["1", "2"]), Shelf("b", ["1", "2"]), Shelf("c", ["1"])
    shop = Shop(first, second, third, size=3)
    await shop.pages()
    assert first.asked == [("", 4)]  # one more than the page, which tells whether another follows
    assert second.asked == [("", 2), ("1", 4)]
    assert third.asked == [("", 3)]


async def test_what_is_deleted_or_added_behind_makes_no_other_row_go_missing_or_appear_twice() -> None:
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


async def test_a_slow_provider_is_a_failing_one() -> None:
    page = await Shop(Shelf("hats", ["1"], delay=30), Shelf("coats", ["1"]), seconds=0.05).page()
    assert left_out(page) == ["hats"]
    assert len(page.resources) == 2


async def test_when_all_providers_fail_the_list_fails() -> None:
    shop = Shop(Shelf("hats", ["1"], raising(ConnectionError("hunter2"))))
    with pytest.raises(MCPError) as refused:
        await shop.page()
    assert refused.value.error.code == -32001
    assert refused.value.error.data["transient"] is True
    assert refused.value.error.data["details"] == "No answer from hats"
    assert "hunter2" not in str(refused.value.error)


async def test_a_bug_in_a_provider_is_masked_and_never_a_page(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(MCPError) as refused:
        await Shop(Shelf("hats", ["1"], raising(KeyError("hunter2"))), Shelf("coats", ["1"])).page()
    assert refused.value.error.code == -32603
    assert "correlation id" in refused.value.error.data["details"]
    assert "hunter2" not in caplog.text + str(refused.value.error)


async def test_a_caller_without_a_scope_is_refused_with_the_reason() -> None:
    shop = Shop(Shelf("hats", ["1"]))
    shop.scope = NotSignedIn("who are you?")
    with pytest.raises(MCPError) as refused:
        await shop.page()
    assert (refused.value.error.code, refused.value.error.data["error"]) == (-32002, "Unauthorized")


async def test_a_cursor_ends_with_the_scope_it_was_given_in() -> None:
    shop = Shop(Shelf("hats", ["1", "2", "3", "4"]))
    cursor = (await shop.page()).next_cursor
    assert len((await shop.page(cursor)).resources) == 2
    shop.scope = "someone else"
    with pytest.raises(MCPError) as refused:
        await shop.page(cursor)
    assert refused.value.error.code == -32602
    assert "Start again without a cursor" in refused.value.error.data["suggested_actions"][0]


async def test_who_is_not_admitted_gets_no_page() -> None:
    @asynccontextmanager
    async def closed(_: trace.Read) -> AsyncIterator[None]:
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


async def test_fastmcps_response_cache_does_not_answer_the_first_page_for_each() -> None:
    shop = Shop(Shelf("hats", ["1", "2", "3", "4"]))
    shop.server.add_middleware(ResponseCachingMiddleware())
    assert [len(page) for page in await shop.pages()] == [3, 2]


async def test_fastmcp_answers_the_list_with_our_method() -> None:
    """Fails when FastMCP's internals change: then PagedFastMCP must change with them."""
    shop = Shop()
    handler = shop.server._mcp_server.get_request_handler("resources/list")
    assert handler is not None
    assert handler.handler == shop.server._on_list_resources
    assert PagedFastMCP._on_list_resources is not FastMCP._on_list_resources


async def test_an_observer_sees_each_page_with_its_rows_and_providers() -> None:
    seen: list[trace.Read] = []
    shop = Shop(Shelf("hats", ["1", "2", "3"]), Shelf("coats", [], raising(ConnectionError())))
    with trace.observed_by(seen.append):
        await shop.pages()
        await shop.manager.respond("shop://info", surface="tool")
    assert [(read.surface, read.uri, read.outcome, read.rows) for read in seen] == [
        ("list", "resources/list", "partial", 3),
        ("list", "resources/list", "ok", 1),
        ("tool", "shop://info", "ok", None),
    ]
    assert set(seen[0].providers) == {"hats", "coats"}


class Cached(Shop):
    """A shop whose pages are kept."""

    def __init__(self, *shelves: Shelf, on: bool = True) -> None:
        self.number = 0
        super().__init__(
            *shelves,
            cache=PageCache[list[mcp_types.Resource]](lambda: 60.0),
            is_cached=lambda: on,
            generation=self._generation,
        )

    async def _generation(self) -> int:
        return self.number


async def test_a_kept_page_is_answered_again_until_something_is_written() -> None:
    shelf = Shelf("hats", ["1", "2"])
    shop = Cached(shelf)
    assert await shop.pages() == await shop.pages()
    assert len(shelf.asked) == 1
    shop.number += 1
    shelf.ids.append("3")
    assert sum(map(len, await shop.pages())) == 4
    assert len(shelf.asked) == 3


async def test_a_page_is_kept_for_one_scope_alone() -> None:
    shelf = Shelf("hats", ["1", "2"])
    shop = Cached(shelf)
    await shop.page()
    shop.scope = "someone else"
    await shop.page()
    assert len(shelf.asked) == 2


async def test_nothing_is_kept_unless_the_setting_says_so() -> None:
    shelf = Shelf("hats", ["1", "2"])
    shop = Cached(shelf, on=False)
    await shop.page()
    await shop.page()
    assert len(shelf.asked) == 2


async def test_a_partial_page_is_never_kept() -> None:
    broken = Shelf("coats", ["1"], raising(ConnectionError()))
    shop = Cached(Shelf("hats", ["1"]), broken)
    assert left_out(await shop.page()) == ["coats"]
    broken.fault = None
    page = await shop.page()
    assert left_out(page) == []
    assert len(page.resources) == 3


async def test_those_who_ask_together_let_one_of_them_ask_the_database() -> None:
    shelf = Shelf("hats", ["1", "2"], delay=0.05)
    shop = Cached(shelf)
    async with Client(shop.server) as client, anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(client.list_resources_mcp)
    assert len(shelf.asked) == 1


async def test_a_page_that_is_given_up_is_made_by_the_next_who_waits() -> None:
    cache = PageCache[str](lambda: 60.0)
    made: list[str] = []

    async def slow() -> tuple[str, bool]:
        await anyio.sleep(30)
        return "never", True

    async def quick() -> tuple[str, bool]:
        made.append("page")
        return "page", True

    async with anyio.create_task_group() as group:
        with anyio.move_on_after(0.05):
            await cache.get("key", slow)
        group.start_soon(cache.get, "key", quick)
        group.start_soon(cache.get, "key", quick)
    assert made == ["page"]
