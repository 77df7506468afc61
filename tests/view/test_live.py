"""The page of a running server: `quilt-mcp serve --demo` over HTTP answers its reads. Part of `make test-view`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="the extra `view` is not installed")

from fastmcp import Client
from mcp.client.extension import advertise

from quilt_mcp.core.introduction import APPS
from quilt_mcp.view import MIME_TYPE
from tests.support.server_process import serve_http
from tests.support.serving import PROTOCOLS
from tests.support.waiting import SECONDS
from tests.view.answers import Answer
from tests.view.browser import CHROMIUM, Host, Shown, open_host

pytestmark = [
    pytest.mark.view,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.asyncio(loop_scope="module"),
]


@dataclass
class Chat:
    """A host with a client of a server, as chats have them.

    Attributes:
        host: shows the page that the server links to its tool.
        asked: the URIs that the page has read.
    """

    host: Host
    asked: list[str]


@asynccontextmanager
async def chatting(url: str, mode: str) -> AsyncIterator[Chat]:
    """Connect to a server, find the tool with a page, and read the page."""
    asked: list[str] = []
    extensions = [advertise(APPS, {"mimeTypes": [MIME_TYPE]})]
    async with Client(url, mode=mode, extensions=extensions, timeout=SECONDS, init_timeout=SECONDS) as client:

        async def ask(method: str, params: Answer) -> Answer:
            assert method == "tools/call"
            if params["name"] == "get_resource":
                asked.append(params["arguments"].get("uri", ""))
            result = await client.call_tool_mcp(params["name"], params["arguments"])
            found: Answer = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            return found

        [address] = [tool.meta["ui"]["resourceUri"] for tool in await client.list_tools() if "ui" in (tool.meta or {})]
        [page] = (await client.read_resource_mcp(address)).contents
        assert page.mime_type == MIME_TYPE
        async with open_host(page.text, ask) as host:
            yield Chat(host, asked)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=PROTOCOLS)
async def chat(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chat]:
    async with (
        serve_http(tmp_path_factory.mktemp("server"), "--demo", NO_PROXY="127.0.0.1") as server,
        chatting(server.url, request.param) as opened,
    ):
        yield opened
    assert "Traceback" not in server.log


async def rows(shown: Shown) -> list[str]:
    """Return the texts of the first cells."""
    return await shown.frame.locator("tbody td:first-child .name").all_inner_texts()


async def test_a_person_reads_page_after_page(chat: Chat) -> None:
    chat.asked.clear()
    async with chat.host.showing(uri="requirements://requirements?limit=50") as shown:
        first = await rows(shown)
        assert chat.asked == []  # the result of the tool has the answer
        for number in (2, 3, 4):
            await shown.frame.get_by_role("button", name="Next page").click()
            await shown.frame.wait_for_function(
                "old => !document.querySelector('main').innerText.includes(old)", arg=first[0]
            )
            assert f"cursor={number}" not in chat.asked[-1]
            found = await rows(shown)
            assert set(first).isdisjoint(found)
            first = found
        assert await shown.frame.get_by_role("button", name="Next page").count() == 0  # 180 requirements
        assert [one.split("?")[0] for one in chat.asked] == ["requirements://requirements"] * 3
        for _ in range(3):
            await shown.frame.get_by_role("link", name="Back").click()
        assert await shown.frame.get_by_role("link", name="Back").count() == 0
        assert len(chat.asked) == 3  # what was read is not read again
        assert shown.noises == []


async def test_a_person_sorts_and_filters(chat: Chat) -> None:
    async with chat.host.showing(uri="admin://users") as shown:
        before = await rows(shown)
        head = shown.frame.get_by_role("button", name="Name", exact=True)
        await head.click()
        rising = await rows(shown)
        assert rising == sorted(rising, key=str.lower)
        await head.click()
        assert await shown.frame.locator("th").first.get_attribute("aria-sort") == "descending"
        assert (await rows(shown))[0] > rising[-1]
        await head.click()
        assert await rows(shown) == before
        await shown.frame.get_by_role("searchbox").fill("OSEI")
        assert await rows(shown) == ["amara_osei"]
        await shown.frame.get_by_role("searchbox").fill("nobody at all")
        assert "No match" in await shown.frame.inner_text("main")
        assert shown.noises == []


async def test_links_open_inside_of_the_view(chat: Chat) -> None:
    async with chat.host.showing(uri="permissions://discover") as shown:
        chat.asked.clear()
        await shown.frame.get_by_role("link", name="acme-raw-sequencing").first.click()
        await shown.wait_for_title("Bucket Access")
        await shown.frame.get_by_role("link", name="All resources").click()
        await shown.wait_for_title("Available Resources")
        await shown.frame.get_by_role("searchbox").fill("requirements://epics/{id}/hierarchy")
        await shown.frame.get_by_role("link", name="Epic Hierarchy").click()
        await shown.frame.get_by_label("ID", exact=True).fill("EP-001")
        await shown.frame.get_by_role("button", name="Open").click()
        await shown.wait_for_title("Intake of sequencing runs")
        assert chat.asked == [
            "permissions://buckets/acme-raw-sequencing/access",
            "",
            "requirements://epics/EP-001/hierarchy",
        ]
        await shown.page.wait_for_function(
            "() => log.filter((one) => one.method === 'ui/update-model-context').length === 3"
        )
        told = [one["content"][0]["text"] for one in await shown.messages("ui/update-model-context")]
        assert [text.split("opened ")[1] for text in told] == [
            "permissions://buckets/acme-raw-sequencing/access.",
            "the list of resources.",
            "requirements://epics/EP-001/hierarchy.",
        ]
        assert shown.noises == []


async def test_an_error_offers_what_to_do_next(chat: Chat) -> None:
    async with chat.host.showing(uri="auth://statsu") as shown:
        assert "not recognized" in await shown.title()
        await shown.frame.get_by_role("button", name="Ask in chat: Did you mean auth://status").click()
        assert "auth://status" in (await shown.messages("ui/message"))[-1]["content"][0]["text"]
        await shown.frame.locator("summary", has_text="Valid URIs").click()
        await shown.frame.locator("details a").first.wait_for()
        assert await shown.frame.locator("details a").count() > 50
        await shown.frame.get_by_role("link", name="auth://status", exact=True).first.click()
        await shown.wait_for_title("Auth Status")
        await shown.frame.get_by_role("link", name="Back").click()
        await shown.frame.get_by_role("link", name="get_resource()").click()
        await shown.wait_for_title("Available Resources")
    async with chat.host.showing(uri="requirements://epics/EP-999") as shown:
        assert await shown.frame.get_by_role("button", name="Ask in chat").count() >= 1
        assert await shown.frame.get_by_role("button", name="Try again").count() == 0  # it would fail again
        assert shown.noises == []


async def test_a_withheld_answer_is_read_again_in_pages(chat: Chat) -> None:
    withheld = {"content": [{"type": "text", "text": "The result is too large. It was stored at /mnt/result.json."}]}
    chat.asked.clear()
    async with chat.host.showing(withheld, uri="requirements://requirements") as shown:
        await shown.frame.wait_for_selector("tbody")
        assert "50" in await shown.frame.locator("h2").first.inner_text()
        await shown.frame.get_by_role("button", name="Next page").click()
        await shown.frame.get_by_role("link", name="Back").wait_for()
        assert chat.asked[0] == "requirements://requirements?limit=50"
        assert chat.asked[1].startswith("requirements://requirements?limit=50&cursor=")
    chat.asked.clear()
    async with chat.host.showing(withheld, uri="admin://users") as shown:
        await shown.wait_for_title("Admin Users")
        assert chat.asked == ["admin://users"]  # it has no pages
