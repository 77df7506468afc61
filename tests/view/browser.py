"""The page in Chromium, inside of a small host of MCP Apps."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import Any

from playwright.async_api import Browser, Frame, Page, Route, async_playwright

from tests.view.answers import Answer, to_result

HOST = Path(__file__).with_name("host.html")
CHROMIUM = which("chromium") or which("chromium-browser") or which("google-chrome")
OFFERS: dict[str, Any] = {
    "openLinks": {},
    "downloadFile": {},
    "serverTools": {},
    "message": {"text": {}},
    "updateModelContext": {"text": {}},
}
ORIGIN = "http://host.test"
Ask = Callable[[str, Answer], Awaitable[Answer]]
"""Returns the result of a request, given its method and parameters."""


@dataclass
class Shown:
    """A page that a host shows.

    Attributes:
        page: the host.
        frame: the page of the view.
        noises: what the browser complained of, and requests to anywhere.
    """

    page: Page
    frame: Frame
    noises: list[str] = field(default_factory=list)

    async def send(self, **message: Any) -> None:
        """Let the host send a message to the view."""
        await self.page.evaluate("message => post(message)", message)

    async def show(self, body: Answer) -> None:
        """Let the host send the result of a tool, and wait until it is drawn."""
        await self.send(method="ui/notifications/tool-result", params=to_result(body))
        await self.frame.evaluate("() => new Promise((done) => setTimeout(done, 5))")

    async def messages(self, method: str) -> list[Answer]:
        """Return the parameters of the messages with this method that the view has sent."""
        log: list[Answer] = await self.page.evaluate("() => log")
        return [one.get("params", {}) for one in log if one.get("from") == "view" and one.get("method") == method]

    async def overflow(self) -> int:
        """Return by how many pixels the page is wider than its frame."""
        found: int = await self.frame.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        return found

    async def title(self) -> str:
        """Return the text of the heading."""
        return await self.frame.locator("h1").first.inner_text()

    async def said(self) -> str:
        """Return what the page announced last."""
        return await self.frame.get_by_role("status").inner_text()

    async def wait_for_title(self, text: str) -> None:
        """Wait until the heading has this text."""
        await self.frame.wait_for_function("text => document.querySelector('h1')?.textContent.includes(text)", arg=text)


class Host:
    """Shows pages in one browser.

    Args:
        browser: the browser.
        html: the page of the view.
        ask: the server.
        modules: the folder with the official host, which then answers the page.
    """

    def __init__(self, browser: Browser, html: str, ask: Ask, modules: Path | None = None) -> None:
        self.browser, self.html, self.ask, self.modules = browser, html, ask, modules

    @asynccontextmanager
    async def showing(
        self,
        result: Answer | None = None,
        *,
        uri: str = "",
        width: int = 800,
        theme: str = "light",
        offers: Answer | None = None,
        context: Answer | None = None,
        wrap: str = "",
        scale: float = 1,
        question: str = "",
    ) -> AsyncIterator[Shown]:
        """Show the result, or the answer of a URI."""
        given: Answer = {
            "args": {"uri": uri} if uri else {},
            "result": result or await self.ask("tools/call", {"name": "show_resource", "arguments": {"uri": uri}}),
        }
        looks: Answer = {"width": width, "theme": theme, "scale": scale, "question": question}
        async with self.opening(**looks, offers=offers, context=context, wrap=wrap, **given) as shown:
            await shown.frame.wait_for_selector("#quilt-mcp main > *")
            yield shown

    @asynccontextmanager
    async def opening(
        self,
        *,
        width: int = 800,
        theme: str = "light",
        offers: Answer | None = None,
        context: Answer | None = None,
        silent: bool = False,
        scale: float = 1,
        **given: Any,
    ) -> AsyncIterator[Shown]:
        """Open the page. A silent host answers nothing."""
        setup = {
            "html": self.html,
            "theme": theme,
            "width": width,
            "offers": OFFERS if offers is None else offers,
            "modes": ["inline", "fullscreen"],
            "isJudged": self.modules is not None,
            "isSilent": silent,
            "context": context or {},
        }
        page = await self.browser.new_page(viewport={"width": width + 32, "height": 900}, device_scale_factor=scale)
        shown = Shown(page, page.main_frame)
        page.on("console", lambda one: shown.noises.append(one.text) if one.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: shown.noises.append(str(error)))
        page.on("request", lambda one: None if one.url.startswith((ORIGIN, "about:")) else shown.noises.append(one.url))

        async def answer(method: str, params: Answer) -> str:
            return json.dumps(await self.ask(method, params))

        await page.route(f"{ORIGIN}/**", self._serve)
        await page.expose_function("call", answer)
        await page.add_init_script(f"window.setup = {json.dumps(setup | given)}")
        try:
            await page.goto(f"{ORIGIN}/")
            await page.evaluate("() => begin()")
            shown.frame = page.frames[1]
            yield shown
        finally:
            await page.close()

    async def _serve(self, route: Route) -> None:
        """Answer a request of the browser: for the page of the host, or for a module of the official one."""
        path = route.request.url.removeprefix(ORIGIN)
        if path.startswith("/node_modules/") and self.modules:
            await route.fulfill(path=self.modules / path[1:], content_type="text/javascript")
        elif path == "/judge.js":
            await route.fulfill(path=HOST.with_name("judge.js"), content_type="text/javascript")
        else:
            await route.fulfill(path=HOST, content_type="text/html")


@asynccontextmanager
async def open_host(html: str, ask: Ask, modules: Path | None = None) -> AsyncIterator[Host]:
    """Start Chromium."""
    async with async_playwright() as playwright:
        arguments = ["--no-sandbox", "--force-color-profile=srgb"]
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield Host(browser, html, ask, modules)
        finally:
            await browser.close()
