"""The page that `mcp-parity diff` writes for a review, in Chromium."""

import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="the extra `view` is not installed")

from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]  # it has no type information
from playwright.async_api import Browser, async_playwright

from mcp_parity.cli import compare
from mcp_parity.revisions import Places, Revision
from tests.test_review import CHROMIUM

pytestmark = [
    pytest.mark.view,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.asyncio(loop_scope="module"),
]

GROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}
URI = "shop://items/{number}/with/a/path/that/is/longer/than/a/phone/is/wide"


def make_revision(name: str, data: dict[str, Any]) -> Revision:
    """Return a revision with 30 equal resources, and one that has a long text and another description."""
    uris = [URI.format(number=number) for number in range(30)]
    rows = ["type,uri,example_uri,description", *(f"resource,{uri},{uri},Item." for uri in uris)]
    rows.append(f"resource,shop://text,shop://text,The text of {name}.")
    files = {"golden/mcp-list.csv": "\n".join(rows)}
    for uri in uris:
        content = {"contents": [{"mime_type": "application/json", "data": data}]}
        files[f"golden/data/{uri.replace('://', '/')}.json"] = json.dumps(content)
    files["golden/data/shop/text.json"] = json.dumps({"contents": [{"lines": ["x" * 400, name]}]})
    return Revision(name, files, Places(), "abcdef0123")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    before, after = make_revision("main", {"name": "a", "price": 1}), make_revision("HEAD", {"price": 2})
    path = tmp_path_factory.mktemp("review") / "review.html"
    path.write_text(compare(before, after)[1], encoding="utf-8")
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        await chromium.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("theme", GROUNDS)
async def test_the_page_fits_and_can_be_read(browser: Browser, page: Path, theme: Any, width: int) -> None:
    context = await browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    shown = await context.new_page()
    await shown.goto(page.as_uri())
    picture = await shown.screenshot()
    assert struct.unpack(">II", picture[16:24]) == (width, 900)
    assert await shown.evaluate("() => getComputedStyle(document.body).backgroundColor") == GROUNDS[theme]
    for selector in ("h1", ".banner h2", "details"):  # what a reviewer needs is on the first screen
        box = await shown.locator(selector).first.bounding_box()
        assert box is not None
        assert box["y"] < 900
    await shown.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert await shown.evaluate("() => document.documentElement.scrollWidth") == width
    found = await Axe().run(shown, options={"runOnly": ["color-contrast", "document-title", "html-has-lang", "list"]})
    assert [one["id"] for one in found.response["violations"]] == []
    await context.close()
