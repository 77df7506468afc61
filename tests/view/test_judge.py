"""The page under the official host of MCP Apps, whose schemas check each message: `make test-view`.

npm fetches the host once into pytest's cache. Without npm or a network, these tests are skipped; in CI they fail.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from fastmcp import Client

pytest.importorskip("playwright", reason="the extra `view` is not installed")

from quilt_mcp.server import create_server
from quilt_mcp.view import META, make_page
from tests.support.npm_packages import install_packages
from tests.view.answers import Answer
from tests.view.browser import CHROMIUM, Host, Shown, open_host
from tests.view.demo import APP_CLIENT, open_demo, read

pytestmark = [
    pytest.mark.view,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.asyncio(loop_scope="module"),
]

PROTOCOL = "2026-01-26"


@pytest.fixture(scope="module")
def modules(request: pytest.FixtureRequest) -> Path:
    """Return the folder with the official host."""
    return install_packages(Path(request.config.cache.mkdir("view-judge")), Path(__file__).with_name("package.json"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge(modules: Path) -> AsyncIterator[Host]:
    html = make_page(create_server().manager.registry.values()).text
    async with open_demo() as ask, open_host(html, ask, modules) as opened:
        yield opened


async def refusals(shown: Shown) -> list[str]:
    """Return what the schemas of the host did not accept."""
    found: list[str] = await shown.page.evaluate("() => refused")
    return found


async def methods(shown: Shown) -> list[str]:
    """Return the methods that the page has sent, in their order, each once."""
    log: list[Answer] = await shown.page.evaluate("() => log")
    return list(dict.fromkeys(one["method"] for one in log if one.get("from") == "view" and "method" in one))


async def test_the_page_introduces_itself_before_it_says_anything(judge: Host) -> None:
    async with judge.showing(uri="requirements://requirements") as shown:
        [introduced] = [one for one in await shown.page.evaluate("() => log") if one.get("from") == "judge"]
        assert introduced["app"]["name"] == "quilt-mcp"
        assert introduced["capabilities"] == {"availableDisplayModes": ["inline", "fullscreen"]}
        await shown.page.wait_for_function("() => log.some((one) => one.method === 'ui/notifications/size-changed')")
        first = ["ui/initialize", "ui/notifications/initialized", "ui/notifications/size-changed"]
        assert await methods(shown) == first
        assert (await shown.messages("ui/initialize"))[0]["protocolVersion"] == PROTOCOL
        [size] = (await shown.messages("ui/notifications/size-changed"))[-1:]
        assert size["height"] > 100
        assert await refusals(shown) == []


async def test_all_that_a_person_can_ask_for_is_valid(judge: Host) -> None:
    async with judge.showing(uri="requirements://requirements") as shown:
        frame = shown.frame
        await frame.get_by_role("button", name="Next page").click()
        await frame.get_by_role("link", name="Back").click()
        await frame.get_by_role("link", name="Back").wait_for(state="detached")
        await shown.show(await read(judge.ask, "auth://statsu"))
        await frame.get_by_role("button", name="Ask in chat").first.click()
        await shown.show(await read(judge.ask, "requirements://requirements"))
        await frame.get_by_role("button", name="Ask about this").click()
        await frame.locator("summary", has_text="JSON").click()
        await frame.get_by_role("button", name="Download JSON").click()
        await frame.locator("summary", has_text="CSV").first.click()
        await frame.get_by_role("button", name="Download CSV").click()
        await frame.get_by_role("button", name="Full screen").click()
        await frame.get_by_role("button", name="Smaller").wait_for()
        await shown.show(await read(judge.ask, "auth://status"))
        await frame.get_by_role("link", name="https://").first.click()
        await shown.page.wait_for_function("() => log.some((one) => one.method === 'ui/open-link')")
        assert set(await methods(shown)) == {
            "ui/initialize",
            "ui/notifications/initialized",
            "ui/notifications/size-changed",
            "tools/call",
            "ui/update-model-context",
            "ui/message",
            "ui/download-file",
            "ui/request-display-mode",
            "ui/open-link",
        }
        assert len(await shown.messages("ui/message")) == 2
        assert len(await shown.messages("ui/download-file")) == 2
        assert await refusals(shown) == []
        assert shown.noises == []


async def test_the_page_answers_and_follows_the_host(judge: Host) -> None:
    async with judge.showing(uri="admin://users") as shown:
        background = "() => getComputedStyle(document.body).backgroundColor"
        assert await shown.page.evaluate("() => bridge.request({ method: 'ping' })") == {}
        light = await shown.frame.evaluate(background)
        await shown.page.evaluate("() => bridge.sendHostContextChange({ theme: 'dark', displayMode: 'fullscreen' })")
        await shown.frame.get_by_role("button", name="Smaller").wait_for()
        assert await shown.frame.evaluate(background) != light
        await shown.page.evaluate("() => bridge.sendToolInputPartial({ arguments: { uri: 'auth://st' } })")
        await shown.page.evaluate("() => bridge.sendToolCancelled({ reason: 'no time' })")
        await shown.frame.wait_for_function(
            "() => document.querySelector('[role=status]').textContent.includes('cancelled')"
        )
        await shown.show(await read(judge.ask, "auth://status"))
        assert await shown.title() == "Auth Status"
        assert await shown.page.evaluate("() => bridge.teardownResource({})") == {}
        assert await refusals(shown) == []
        assert shown.noises == []


async def test_a_host_that_offers_nothing_is_asked_for_nothing(judge: Host) -> None:
    bodies = [
        await read(judge.ask, uri) for uri in ("auth://status", "requirements://requirements", "", "auth://statsu")
    ]
    async with judge.showing(uri="auth://status", offers={}, context={"availableDisplayModes": []}) as shown:
        for body in bodies:
            await shown.show(body)
            await shown.frame.evaluate(
                "() => document.querySelectorAll('main a, header button, main button').forEach((one) => one.click())"
            )
        asked = await methods(shown)
        assert asked == ["ui/initialize", "ui/notifications/initialized", "ui/notifications/size-changed"]
        assert await refusals(shown) == []


async def test_the_page_says_what_went_wrong(judge: Host) -> None:
    async with judge.showing(uri="requirements://requirements") as shown:
        await shown.page.evaluate("() => { failing = 'The server is away.'; }")
        await shown.frame.get_by_role("button", name="Next page").click()
        await shown.frame.wait_for_function(
            "() => document.querySelector('[role=status]').textContent.includes('away')"
        )
        assert await shown.title() == "All Requirements"
        await shown.page.evaluate("() => { failing = null; }")
        await shown.frame.get_by_role("button", name="Next page").click()
        await shown.frame.get_by_role("link", name="Back").wait_for()


async def test_the_link_and_the_page_are_as_the_host_expects(judge: Host) -> None:
    server = create_server()
    [address] = server.manager.documents
    async with Client(server, extensions=APP_CLIENT) as client:
        tools = {one.name: one.model_dump(mode="json", by_alias=True) for one in await client.list_tools()}
        [page] = (await client.read_resource_mcp(address)).contents
    async with judge.showing(uri="auth://status") as shown:
        found = await shown.page.evaluate(
            """async ([shows, reads, meta]) => {
              const sdk = await import("@modelcontextprotocol/ext-apps/app-bridge");
              return {
                address: sdk.getToolUiResourceUri(shows), none: sdk.getToolUiResourceUri(reads) ?? null,
                isForModelsOnly: sdk.isToolVisibilityModelOnly(reads), mimeType: sdk.RESOURCE_MIME_TYPE,
                version: sdk.LATEST_PROTOCOL_VERSION, meta: sdk.McpUiResourceMetaSchema.parse(meta.ui),
                allow: sdk.buildAllowAttribute(meta.ui.permissions),
              };
            }""",
            [tools["show_resource"], tools["get_resource"], page.meta],
        )
    assert found == {
        "address": address,
        "none": None,
        "isForModelsOnly": False,
        "mimeType": page.mime_type,
        "version": PROTOCOL,
        "meta": META["ui"],
        "allow": "clipboard-write",
    }
