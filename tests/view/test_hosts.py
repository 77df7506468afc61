"""The page in hosts that people use: two inspectors from npm, with a running server. Part of `make test-view`.

Without npm, a network or a new Node, these tests are skipped; in CI they fail.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="the extra `view` is not installed")

from playwright.async_api import Browser, Error, Frame, Page, Route, async_playwright

from tests.support.npm_packages import find_node, install_packages
from tests.support.server_process import serve_http
from tests.support.waiting import until_awaited
from tests.view.browser import CHROMIUM

pytestmark = [
    pytest.mark.view,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.asyncio(loop_scope="module"),
]

LOCAL = ("http://127.0.0.1", "http://localhost", "data:", "blob:")


@dataclass
class Inspector:
    """A host from npm.

    Attributes:
        script: what Node runs, in node_modules.
        arguments: of the command, for the address of a server and free ports.
        environment: of the command, for free ports.
        call: calls the tool with a page, for a URI.
        shows_errors: whether the page shows an error. Else the host shows it, without the page.
    """

    script: str
    arguments: Callable[[str, list[int]], list[str]]
    environment: Callable[[list[int]], dict[str, str]]
    call: Callable[[Page, list[int], str, str], Awaitable[None]]
    shows_errors: bool


async def call_in_official(page: Page, ports: list[int], server: str, uri: str) -> None:
    del server
    await page.goto(f"http://localhost:{ports[0]}/")
    await page.get_by_role("switch", name="Connect").click(force=True)
    await page.get_by_text("Apps", exact=True).first.click()
    await page.get_by_text("Show resource").first.click()
    await page.get_by_role("textbox", name="uri").fill(uri)
    await page.get_by_role("button", name="Open App").click()


async def call_in_mcp_use(page: Page, ports: list[int], server: str, uri: str) -> None:
    await page.goto(f"http://localhost:{ports[0]}/inspector?autoConnect={server}")
    await page.get_by_test_id("tool-item-show_resource").click()
    await page.get_by_test_id("tool-param-uri").fill(uri)
    await page.get_by_test_id("tool-execution-execute-button").click()


HOSTS = {
    "inspector": Inspector(
        script="@modelcontextprotocol/inspector/clients/launcher/build/index.js",
        arguments=lambda server, _: ["--web", "--transport", "http", "--server-url", server],
        environment=lambda ports: {
            "CLIENT_PORT": str(ports[0]),
            "MCP_SANDBOX_PORT": str(ports[1]),
            "MCP_APP_ORIGIN_PORT": str(ports[2]),
            "MCP_AUTO_OPEN_ENABLED": "false",
            "DANGEROUSLY_OMIT_AUTH": "true",
        },
        call=call_in_official,
        shows_errors=True,
    ),
    "mcp-use": Inspector(
        script="@mcp-use/inspector/dist/cli.js",
        arguments=lambda server, ports: ["--url", server, "--port", str(ports[0]), "--no-open"],
        environment=lambda _: {},
        call=call_in_mcp_use,
        shows_errors=False,
    ),
}


def find_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@asynccontextmanager
async def running(command: list[str], environment: Mapping[str, str], port: int, log: Path) -> AsyncIterator[None]:
    """Run a host, and wait until it listens."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        await until_awaited(lambda: listens(port, process))
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def listens(port: int, process: asyncio.subprocess.Process) -> bool:
    assert process.returncode is None
    try:
        _, writer = await asyncio.open_connection("localhost", port)
    except OSError:
        return False
    writer.close()
    return True


@dataclass
class Chat:
    """A host that runs, with a server."""

    inspector: Inspector
    ports: list[int]
    server: str
    browser: Browser

    @asynccontextmanager
    async def calling(self, uri: str, theme: str) -> AsyncIterator[Page]:
        """Let the host call the tool with a page, and yield the page of the host."""
        page = await self.browser.new_page(
            viewport={"width": 1400, "height": 1000},
            color_scheme="dark" if theme == "dark" else "light",
        )
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        await page.route("**/*", stay_here)
        try:
            await self.inspector.call(page, self.ports, self.server, uri)
            yield page
            assert errors == []
        finally:
            await page.close()

    @asynccontextmanager
    async def showing(self, uri: str, theme: str) -> AsyncIterator[Frame]:
        """Let the host show a resource, and yield the frame of the page."""
        async with self.calling(uri, theme) as page:
            await until_awaited(lambda: find_frame(page), seconds=30)
            frame = await find_frame(page)
            assert frame
            yield frame


async def stay_here(route: Route) -> None:
    """Refuse what would leave this machine: fonts and statistics of the hosts."""
    if route.request.url.startswith(LOCAL):
        await route.continue_()
    else:
        await route.abort()


async def find_frame(page: Page) -> Frame | None:
    """Return the frame with a page that has an answer."""
    for frame in page.frames:
        with suppress(Error):  # hosts replace their frames
            if frame != page.main_frame and await frame.locator("#quilt-mcp h1").count():
                return frame
    return None


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=HOSTS)
async def chat(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chat]:
    folder = install_packages(Path(request.config.cache.mkdir("view-judge")), Path(__file__).with_name("package.json"))
    home, inspector, ports = tmp_path_factory.mktemp("host"), HOSTS[request.param], find_ports(3)
    async with serve_http(home, "--demo", NO_PROXY="127.0.0.1,localhost") as server, async_playwright() as playwright:
        script = folder / "node_modules" / inspector.script
        command = [str(find_node(folder)), str(script), *inspector.arguments(server.url, ports)]
        environment = {**os.environ, "HOME": str(home), **inspector.environment(ports)}
        async with running(command, environment, ports[0], home / "host.log"):
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            try:
                yield Chat(inspector, ports, server.url, browser)
            finally:
                await browser.close()


BRIGHTNESS = """(one) => ["color", "backgroundColor"].map((name) => {
  const drawing = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
  drawing.fillStyle = getComputedStyle(one)[name]; // a host can name colours in any form
  drawing.fillRect(0, 0, 1, 1);
  const [red, green, blue] = drawing.getImageData(0, 0, 1, 1).data;
  return red + green + blue;
})"""


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_person_browses_from_a_bucket_to_a_file_and_back(theme: str, chat: Chat) -> None:
    clicks = {
        "Analysis results": "Package count",
        "Packages": "rnaseq/atlas",
        "rnaseq/liver": "Counts per biopsy",
        "Contents": "samples.csv",
        "samples.csv": "fibrosis_stage",
    }
    async with chat.showing("quilt://buckets", theme) as frame:
        main = frame.locator("#quilt-mcp main")
        assert "acme-partner-exchange" in await main.inner_text()
        for name, seen in clicks.items():
            # by keyboard: a host moves its frame after each answer, and a click could meet the host
            await main.get_by_role("link", name=name, exact=True).first.press("Enter")
            await main.get_by_text(seen).first.wait_for()
        ink, paper = await frame.locator("#quilt-mcp").evaluate(BRIGHTNESS)
        assert (ink > paper) == (theme == "dark")
        assert abs(ink - paper) > 380
        for _ in clicks:
            await frame.get_by_role("link", name="Back").press("Enter")
        assert await frame.get_by_role("link", name="Back").count() == 0
        assert "acme-partner-exchange" in await main.inner_text()


async def test_an_error_is_shown_by_the_page_or_by_the_host(chat: Chat) -> None:
    if chat.inspector.shows_errors:
        async with chat.showing("auth://statsu", "light") as frame:
            await frame.get_by_role("link", name="auth://status").first.press("Enter")
            await frame.get_by_text("amara_osei", exact=True).first.wait_for()
    else:
        async with chat.calling("auth://statsu", "light") as page:
            await page.get_by_text("Did you mean auth://status?").first.wait_for()
            assert await find_frame(page) is None
