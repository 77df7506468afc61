"""The pictures of docs: `make pictures` takes them from the demo's answers, in Chromium."""

import asyncio
from pathlib import Path

from quilt_mcp.server import create_server
from quilt_mcp.view import make_page
from tests.view.browser import CHROMIUM, Host, open_host
from tests.view.demo import FILES, LIVER, open_demo

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
SHOWN = {
    "discovery": "",
    "permissions": "permissions://discover",
    "access": "permissions://buckets/acme-analysis-results/access",
    "workflow": "workflow://workflows/quarterly-aggregation/status",
    "hierarchy": "requirements://epics/EP-001/hierarchy",
    "coverage": "requirements://coverage",
    "columns": "athena://databases/acme_clinical/tables/visits",
    "users": "admin://users",
    "epics": "requirements://epics",
    "contents": f"{LIVER}/contents",
    "changes": f"{LIVER}/changes",
    "file": FILES["csv"],
    "history": "athena://query/history",
    "error": "auth://statsu",
}
"""One of each shape, by name of the picture."""
QUESTIONS = {"file": "Show me the samples of the liver package."}
"""What the person asked, above the picture in README."""
THEMES = ("light", "dark")
WIDTHS = (400, 800)
TALLEST = 1400


async def take(host: Host, name: str, theme: str, width: int) -> None:
    """Take one picture."""
    question = QUESTIONS.get(name, "")
    async with host.showing(uri=SHOWN[name], theme=theme, width=width, question=question) as shown:
        await shown.page.wait_for_timeout(200)  # the frame follows the height of its page
        height = min(TALLEST, await shown.page.evaluate("() => Math.ceil(frame.getBoundingClientRect().bottom) + 16"))
        await shown.page.set_viewport_size({"width": width + 32, "height": height})
        await shown.page.screenshot(path=FOLDER / f"{name}-{theme}-{width}.png")


async def take_all() -> None:
    """Take all pictures."""
    html = make_page(create_server().manager.registry.values()).text
    FOLDER.mkdir(exist_ok=True)
    async with open_demo() as ask, open_host(html, ask) as host:
        for name in SHOWN:
            for theme in THEMES:
                for width in WIDTHS:
                    await take(host, name, theme, width)


if __name__ == "__main__":
    if CHROMIUM is None:
        raise SystemExit("Chromium is not installed: install it, for example with `apt-get install chromium`.")
    asyncio.run(take_all())
