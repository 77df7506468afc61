"""The page in Chromium: `make test-view`. Without Chromium and the extra `view`, these tests are skipped."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="the extra `view` is not installed")

from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]  # it has no type information

from quilt_mcp.server import create_server
from quilt_mcp.view import make_page
from tests.view.answers import read_answers, to_result
from tests.view.browser import CHROMIUM, ORIGIN, Host, Shown, open_host
from tests.view.demo import FILES, LIVER, open_demo, read, read_addresses
from tests.view.pictures import SHOWN as PICTURES

pytestmark = [
    pytest.mark.view,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.asyncio(loop_scope="module"),
]

THEMES = ("light", "dark")
SHOWN = PICTURES | {"refusal": "workflow://workflows/none/status", "trace": "requirements://requirements/REQ-001/trace"}
"""What a person would look at first, of each shape."""
HOSTILE = [
    "<img src=x onerror=\"parent.postMessage('pwned','*')\">",
    "</script><script>parent.postMessage('pwned','*')</script>",
    "javascript://%0aalert(1)",
    "data://text/html,<b>",
    "a" * 3000,
    "\u202egnp.exe\u200b",
    "<b>bold</b>",
    'x://"onmouseover=alert(1)',
    "{{constructor}}",
    "__proto__",
    "=HYPERLINK(1)",
]
NONSENSE = ("undefined", "[object", "NaN")
OPEN_ALL = """() => {
  for (const one of document.querySelectorAll("summary")) one.parentElement.open = true;
  [...document.querySelectorAll("main button[aria-expanded=false]")].slice(0, 12).forEach((one) => one.click());
  return new Promise((done) => setTimeout(done, 20));
}"""
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host() -> AsyncIterator[Host]:
    html = make_page(create_server().manager.registry.values()).text
    kept = "main, open, show, steps: () => trail.length"  # what the page keeps to itself
    names = f"Object.assign(globalThis, {{ {kept} }});"
    *before, end = html.rpartition("start();")
    async with open_demo() as ask, open_host(f"{''.join(before)}\n{names}{end}", ask) as opened:
        yield opened


HEAD = "<html><head></head><body>"
WRAPS = {
    "body": f"{HEAD}PAGE</body></html>",
    "no policy": "<!doctype html><html><body>PAGE</body></html>",
    "script": f"<!doctype html>{HEAD}<script>const h = 1, header = 2, root = 3; function open() {{}}</script>PAGE",
    "elements": f"{HEAD}<header>Host</header><main>Host</main><p role=status></p><div>PAGE</div></body></html>",
    "styles": f"{HEAD}<style>* {{ box-sizing: content-box; }} body {{ margin: 30px; font: 9px serif; }} "
    "body { text-align: end; } table, button { color: red; font-size: 30px; }</style>PAGE",
    "prototypes": f"{HEAD}<script>addEventListener('load', () => {{ if (`${{{{}}}}` !== '[object Object]') "
    "console.error('changed'); });</script>PAGE",
}
"""Documents of hosts with the page in them. Most are in quirks mode."""


@pytest.mark.parametrize("wrap", WRAPS)
async def test_the_page_works_in_a_document_of_the_host(wrap: str, host: Host) -> None:
    uri = SHOWN["permissions"]
    async with host.showing(uri=uri, width=800) as alone:
        expected = await alone.frame.locator("#quilt-mcp main").inner_text()
    async with host.showing(uri=uri, width=800, wrap=WRAPS[wrap]) as shown:
        page = shown.frame.locator("#quilt-mcp")
        await shown.frame.evaluate("() => new Promise((done) => setTimeout(done, 200))")  # it would grow for ever
        [*_, size] = await shown.messages("ui/notifications/size-changed")
        end = await page.evaluate("(one) => one.getBoundingClientRect().bottom")
        fonts = "() => [...document.querySelectorAll('#quilt-mcp td')].map((one) => getComputedStyle(one).fontSize)"
        assert end < size["height"] <= end + 2
        assert len(await shown.messages("ui/notifications/size-changed")) < 6
        assert await page.locator("main").inner_text() == expected
        assert set(await shown.frame.evaluate(fonts)) == {"14px"}
        await page.locator("main a").first.click()
        await page.get_by_role("link", name="Back").wait_for()
        assert shown.noises == []


DRAW_EACH = """async (bodies) => {
  const found = [], pause = (ms) => new Promise((done) => setTimeout(done, ms));
  for (const body of bodies) {
    show(body);
    for (const state of ["closed", "open"]) {
      found.push([document.documentElement.scrollWidth - innerWidth, main.innerText]);
      for (const one of document.querySelectorAll("summary")) one.parentElement.open = true;
      [...document.querySelectorAll("main button[aria-expanded=false]")].slice(0, 12).forEach((one) => one.click());
      if (state === "closed") await pause(1); // details draw when they open
    }
  }
  return found;
}"""


@pytest.mark.parametrize("width", [320, 800, 1280])
@pytest.mark.parametrize("theme", THEMES)
async def test_every_answer_fits_and_has_no_nonsense(width: int, theme: str, host: Host) -> None:
    answers = list(read_answers().items())
    assert len(answers) > 700
    wrong = []
    async with host.showing(uri="config://server", width=width, theme=theme) as shown:
        for start in range(0, len(answers), 50):
            part = answers[start : start + 50]
            found = await shown.frame.evaluate(DRAW_EACH, [body for _, body in part])
            for at, (wide, text) in enumerate(found):
                name, body = part[at // 2]
                nonsense = [one for one in NONSENSE if one in text and one not in json.dumps(body)]
                if wide > 0 or len(text) < 10 or nonsense:
                    wrong.append((name, wide, nonsense, text[:80]))
        assert shown.noises == []
    assert wrong == []


@pytest.mark.parametrize("width", [400, 800])
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", SHOWN)
async def test_the_page_is_accessible(name: str, theme: str, width: int, host: Host) -> None:
    async with host.showing(uri=SHOWN[name], width=width, theme=theme) as shown:
        await shown.frame.evaluate(OPEN_ALL)
        assert await violations(shown) == []
        assert shown.noises == []


async def violations(shown: Shown) -> list[tuple[str, str]]:
    """Return the rules of WCAG 2.2 AA that the page breaks, each with an element."""
    results = await Axe().run(shown.frame, options=RULES)
    return [(one["id"], one["nodes"][0]["html"][:160]) for one in results.response["violations"]]


ADDRESSES = [*read_addresses(), *FILES.values(), LIVER, f"{LIVER}/contents", f"{LIVER}/changes"]
PARTS = 4
"""Of all addresses: a part is checked within the time of a test, on a busy machine too."""


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("theme", "width"), [("light", 320), ("dark", 1200)])
async def test_every_address_of_the_demo_is_accessible(theme: str, width: int, part: int, host: Host) -> None:
    wrong = []
    async with host.showing(uri="config://server", width=width, theme=theme) as shown:
        for uri in ADDRESSES[part::PARTS]:
            await shown.frame.evaluate("body => show(body)", await read(host.ask, uri))
            await shown.frame.evaluate(OPEN_ALL)
            wrong += [(uri, *one) for one in await violations(shown)]
            if await shown.overflow() > 0:
                wrong.append((uri, "overflow", ""))
        assert shown.noises == []
    assert wrong == []


@pytest.mark.parametrize("width", [320, 400, 600])
async def test_every_address_of_the_demo_fits_at_twice_the_size(width: int, host: Host) -> None:
    """A window of 640, 800 or 1,200 pixels at 200 % has half as many for the page."""
    wrong = []
    async with host.showing(uri="config://server", width=width, scale=2) as shown:
        for uri in ADDRESSES:
            await shown.frame.evaluate("body => show(body)", await read(host.ask, uri))
            await shown.frame.evaluate(OPEN_ALL)
            if await shown.overflow() > 0:
                wrong.append(uri)
        assert shown.noises == []
    assert wrong == []


def make_hostile() -> list[dict[str, Any]]:
    rows = [
        {
            "name": one,
            "status": one,
            "uri": one,
            one: one,
            "can_read": one,
            "kids": [{"reference_id": one, "title": one}],
        }
        for one in HOSTILE
    ]
    deep: Any = "end"
    for _ in range(40):
        deep = {"inner": deep}
    data = {
        "title": HOSTILE[0],
        "description": HOSTILE[1],
        "__proto__": {"polluted": 1},
        "constructor": {"a": {"b": 1}, "__proto__": {"c": 2}},
        "rows": rows,
        "tree": [
            {
                "reference_id": HOSTILE[0],
                "title": HOSTILE[1],
                "kids": [{"reference_id": HOSTILE[2], "title": HOSTILE[6]}],
            }
        ],
        "text": "\n".join(HOSTILE),
        "list": HOSTILE,
        "deep": deep,
        "total_steps": 10**9,
        "a_steps": 1,
        "next_cursor": HOSTILE[0],
    }
    success = {"success": True, "uri": HOSTILE[0], "resource_name": HOSTILE[1], "data": data}
    failure = {"success": False, "uri": HOSTILE[0], "error": HOSTILE[1], "message": HOSTILE[0], "details": HOSTILE[4]}
    return [success, failure | {"suggested_actions": HOSTILE, "valid_uris": HOSTILE, "transient": True}]


@pytest.mark.parametrize("body", make_hostile(), ids=["success", "failure"])
async def test_hostile_texts_stay_texts(body: dict[str, Any], host: Host) -> None:
    async with host.showing(to_result(body), width=400) as shown:
        await shown.frame.evaluate(OPEN_ALL)
        tags = set(
            await shown.frame.evaluate(
                "() => [...document.querySelectorAll('header *, main *')].map((one) => one.localName)"
            )
        )
        assert tags.isdisjoint({"img", "b", "script", "iframe", "form", "object"})
        hrefs = set(
            await shown.frame.evaluate(
                "() => [...document.querySelectorAll('a')].map((one) => one.getAttribute('href'))"
            )
        )
        assert hrefs <= {"#"}
        assert await shown.frame.evaluate("() => [{}.polluted, document.scripts.length]") == [None, 2]
        assert "\u202e" not in await shown.frame.inner_text("main")
        assert "⟨U+202E⟩gnp.exe⟨U+200B⟩" in await shown.frame.inner_text("main")
        assert await shown.overflow() <= 0
        await shown.frame.evaluate("() => document.querySelectorAll('main a').forEach((one) => one.click())")
        links = [one["url"] for one in await shown.messages("ui/open-link")]
        assert [url for url in links if not url.startswith("https://")] == []
        assert [frame.url for frame in shown.page.frames] == [f"{ORIGIN}/", "about:srcdoc"]
        assert shown.noises == []
        assert [one for one in await shown.page.evaluate("() => log") if one.get("from") == "pwned"] == []


async def test_keys_that_every_object_has_are_only_keys(host: Host) -> None:
    keys = ("constructor", "toString", "__proto__", "hasOwnProperty", "valueOf", "")
    rows = [{"name": "all", **dict.fromkeys(keys, "own")}, {"name": "two", "toString": 2, "valueOf": None}]
    body = {"success": True, "uri": "x://y", "resource_name": "Keys", "data": {"rows": [*rows, {"name": "none"}]}}
    async with host.showing(to_result(body)) as shown:
        await shown.frame.evaluate(OPEN_ALL)
        for name in ("Constructor", "ToString"):
            await shown.frame.get_by_role("button", name=name).click()
        text = await shown.frame.inner_text("main")
        assert "own" in text
        assert [word for word in ("native code", "[object", "function") if word in text] == []
        assert shown.noises == []


POLICIES = [{"id": "1", "title": "Read"}]
RUN = "123e4567-e89b-12d3-a456-426614174000"
SAID: list[tuple[dict[str, Any], str, int]] = [
    ({"roles": [{"name": one, "policies": POLICIES} for one in "ab"]}, "Policies 1", 2),
    ({"first": POLICIES, "second": POLICIES}, "Read", 2),
    ({"ratio": 0.00012}, "0.00012", 1),
    ({"sample_size": 5000}, "5,000\n", 1),
    ({"matrix": [[7, 8], [9]], "mixed": [{"a": 5}, 6]}, "7,\n    8\n  ],", 1),
    ({"sample": RUN}, RUN, 1),
    ({"run": {"name": "x", "status": 0, "uri": "x://place"}}, "Status\n0\n", 1),
    ({"run": {"name": "x", "status": 0, "uri": "x://place"}}, "x://place", 1),
    ({"samples": {"s1": {"name": "foo"}, "s2": {"name": "bar"}}}, "S2\nbar", 1),
    ({"note": "a\U000e0041\u3164\x1b\u200d"}, "a⟨U+E0041⟩⟨U+3164⟩⟨U+1B⟩\u200d", 1),
    ({"text": '{"a": 9007199254740993, "a": 2}\n'}, '{"a": 9007199254740993, "a": 2}', 1),
    ({"digits": "1" * 1100}, "1" * 1100, 1),
    ({"buckets": [{"title": "A", "name": "name-of-a"}, {"title": "", "name": "name-of-b"}]}, "name-of-a", 1),
    ({"rows": [{"name": "a", "description": "said"}, {"name": "b", "description": None}]}, "said", 1),
    ({"at": "2026-05-01T12:00:00"}, "2026-05-01T12:00:00", 1),
    ({"total_steps": 5, "done_steps": 2, "percentage": 35}, "35 %", 1),
    ({"columns": None}, "No value: columns", 1),
    ({"rows": [{"name": "a"}], "names": ["b", "c"], "count": 2}, "Count\n2", 1),
]


async def test_the_page_says_all_that_the_answer_says_and_nothing_else(host: Host) -> None:
    async with host.showing(uri="config://server") as shown:
        for data, text, count in SAID:
            await shown.show({"success": True, "uri": "x://y", "resource_name": "X", "data": data})
            assert (await shown.frame.inner_text("main")).count(text) == count, data
        rows = [{"name": f'"{number}\\', "at": "\u202e"} for number in range(9)]
        await shown.show({"success": True, "uri": "\u202ex://y", "resource_name": "X", "data": {"rows": rows}})
        await shown.frame.locator("input[type=search]").fill('"7\\')
        assert await shown.frame.locator("tbody tr").count() == 1
        hints = "() => [...document.querySelectorAll('[title], [aria-label]')].map((one) => one.title + one.ariaLabel)"
        await shown.show({"success": True, "uri": "x://y", "resource_name": "X", "data": {"text": "see x://\u202ey"}})
        assert "x://⟨U+202E⟩y" in " ".join(await shown.frame.evaluate(hints))


LONG = {
    "words": "word " * 100_000,
    "no space": "a" * 500_000,
    "half a link": "a." * 250_000,
    "links": "x://y " * 83_333,
    "marks": "x://" + "!" * 499_996,
    "lines": "line\n" * 100_000,
    "JSON": json.dumps({"list": list(range(80_000))}),
}


@pytest.mark.parametrize("name", LONG)
async def test_half_a_million_characters_are_drawn(name: str, host: Host) -> None:
    text = LONG[name]
    data = {"title": text, "text": text, "list": [text], "rows": [{"name": text, "more": text}], "object": {"in": text}}
    body = {"success": True, "uri": "x://y", "resource_name": "Long", "data": data}
    async with host.showing(to_result(body), width=320) as shown:
        await shown.frame.evaluate(OPEN_ALL)
        assert await shown.overflow() <= 0
        await shown.show({"success": False, "uri": text, "error": "NotFound", "message": text, "details": text})
        assert (await shown.frame.locator("h1").text_content() or "")[:100] == text[:100]
        assert shown.noises == []


async def test_a_tree_of_forty_levels_opens_to_its_end(host: Host) -> None:
    node: dict[str, Any] = {"reference_id": "N-40", "title": "the deepest"}
    for level in range(39, 0, -1):
        node = {"reference_id": f"N-{level}", "title": f"level {level}", "children": [node]}
    body = {"success": True, "uri": "x://y", "resource_name": "Deep", "data": {"nodes": [node]}}
    async with host.showing(to_result(body), width=320) as shown:
        for level in range(1, 40):
            # by keyboard: the frame grows with each level, and a click could meet another line
            opener = shown.frame.get_by_role("button", name=f"Details of N-{level}", exact=True)
            if await opener.get_attribute("aria-expanded") == "false":
                await opener.press("Enter")
        assert await shown.frame.get_by_text("the deepest").is_visible()
        assert await shown.overflow() <= 0
        assert shown.noises == []


async def test_a_person_moves_between_answers_by_mouse_and_keyboard(host: Host) -> None:
    async with host.showing(uri="requirements://requirements") as shown:
        frame = shown.frame
        assert await frame.evaluate("() => document.activeElement === document.body")  # the person may be writing
        await frame.get_by_role("button", name="Next page").click()
        await frame.get_by_role("link", name="Back").wait_for()
        asked = (await shown.messages("tools/call"))[-1]
        assert asked["arguments"]["uri"].startswith("requirements://requirements?cursor=")
        assert await frame.evaluate("() => document.activeElement.localName") == "h1"
        await frame.get_by_role("link", name="Back").click()
        await frame.get_by_role("link", name="Back").wait_for(state="detached")
        assert await shown.title() == "All Requirements"
        await frame.locator("th button").first.focus()
        await shown.page.keyboard.press("Enter")
        assert await frame.locator("th").first.get_attribute("aria-sort") == "ascending"
        await frame.locator("input[type=search]").fill("REQ-01")
        assert 0 < await frame.locator("tbody tr").count() < 11
        await frame.locator("tbody button").first.focus()
        await shown.page.keyboard.press("Space")
        assert await frame.locator("td.detail").count() == 1
        await frame.get_by_role("button", name="Ask about this").click()
        assert "requirements://requirements" in (await shown.messages("ui/message"))[-1]["content"][0]["text"]
        await frame.get_by_role("link", name="All resources").click()
        await shown.wait_for_title("Available Resources")
        await frame.get_by_role("link", name="Back").press("Enter")
        await shown.wait_for_title("Requirements")
        assert shown.noises == []


async def test_a_keyboard_is_enough(host: Host) -> None:
    async with host.showing(uri="requirements://requirements") as shown:
        keyboard = shown.page.keyboard
        await shown.frame.focus("h1")

        async def reach(name: str) -> None:
            """Press Tab until the focus is on what has this name. The focus is visible."""
            for _ in range(120):
                await keyboard.press("Tab")
                found, outline = await shown.frame.evaluate(
                    """() => {
                      const one = document.activeElement, label = one.getAttribute("aria-label");
                      const text = one === document.body ? "" : one.textContent;
                      return [label ?? text, getComputedStyle(one).outlineStyle];
                    }"""
                )
                if name in found:
                    assert outline != "none", name
                    return
            raise AssertionError(name)

        await reach("Filter")
        await keyboard.type("REQ-01")
        await reach("Name")
        await keyboard.press("Enter")
        assert await shown.frame.locator("th").first.get_attribute("aria-sort") == "ascending"
        await reach("Details of REQ-01")
        await keyboard.press("Space")
        assert await shown.frame.locator("td.detail").count() == 1
        await reach("CSV")
        await keyboard.press("Enter")
        await reach("Copy CSV")
        await keyboard.press("Enter")
        await shown.frame.wait_for_function("() => /Copied|Selected/.test(document.body.textContent)")
        await reach("Next page")
        await keyboard.press("Enter")
        await shown.frame.get_by_role("link", name="Back").wait_for()
        await shown.frame.focus("h1")
        await keyboard.press("Shift+Tab")  # full screen
        await keyboard.press("Shift+Tab")  # ask about this
        await keyboard.press("Enter")
        assert len(await shown.messages("ui/message")) == 1
        await keyboard.press("Shift+Tab")  # all resources
        await keyboard.press("Shift+Tab")  # back
        await keyboard.press("Enter")
        await shown.frame.get_by_role("link", name="Back").wait_for(state="detached")
        assert "Next page" in await shown.frame.evaluate("() => document.activeElement.textContent")
        assert shown.noises == []


async def test_rows_and_templates_lead_to_resources(host: Host) -> None:
    async with host.showing(uri="athena://databases/acme_clinical/tables") as shown:
        await shown.frame.get_by_role("link", name="visits").click()
        await shown.wait_for_title("visits")
        await shown.frame.get_by_role("link", name="All resources").click()
        await shown.wait_for_title("Available Resources")
        await shown.frame.get_by_role("searchbox").fill("admin roles")
        assert "administrators" in await shown.frame.inner_text("tbody")
        await shown.frame.get_by_role("searchbox").fill("permissions://discover")
        assert "signed-in users" in await shown.frame.inner_text("tbody")
        await shown.frame.get_by_role("searchbox").fill("hierarchy")
        await shown.frame.get_by_role("link", name="Epic Hierarchy").click()
        await shown.frame.get_by_label("ID", exact=True).fill("EP-001")
        await shown.page.keyboard.press("Enter")
        await shown.wait_for_title("Intake of sequencing runs")
    for uri, leads in {
        "workflow://workflows": {"workflow://workflows/quarterly-aggregation/status"},
        "tabulator://buckets/acme-analysis-results/tables": {"quilt://buckets/acme-analysis-results/packages"},
    }.items():
        async with host.showing(uri=uri) as shown:
            titles = set(
                await shown.frame.evaluate("() => [...document.querySelectorAll('main a')].map((a) => a.title)")
            )
            assert leads <= titles
            assert {one.partition(":")[0] for one in titles} == {one.partition(":")[0] for one in leads}


def make_link_names(value: Any) -> list[str]:
    """Return the URIs of the rows of an answer."""
    if isinstance(value, dict):
        own = [one for key, one in value.items() if key == "uri" and isinstance(one, str)]
        return own + [one for inner in value.values() for one in make_link_names(inner)]
    return [one for inner in value for one in make_link_names(inner)] if isinstance(value, list) else []


FIND_LINKS = """async () => {
  const openers = "main button[aria-expanded=false], main details:not([open]) > summary, main .row > button";
  for (let round = 0; round < 4; round += 1) { // lists of ten rows, and what is in a row
    const found = [...document.querySelectorAll(openers)];
    found.filter((one) => /^$|more|fields|about/i.test(one.textContent)).forEach((one) => one.click());
    await new Promise((done) => setTimeout(done, 20));
  }
  return [...document.querySelectorAll("main a")].map((one) => one.title);
}"""


async def test_each_row_with_an_address_is_a_link(host: Host) -> None:
    missing = []
    async with host.showing(uri="config://server") as shown:
        for uri in read_addresses():
            body = await read(host.ask, uri)
            if not uri or "{" in json.dumps(make_link_names(body["data"])):
                continue
            await shown.frame.evaluate("body => show(body)", body)
            found = set(await shown.frame.evaluate(FIND_LINKS))
            missing += [(uri, one) for one in make_link_names(body["data"]) if one not in found | {uri}]
        assert shown.noises == []
    assert missing == []


WALKS = [
    [
        "quilt://buckets",
        "Analysis results",
        "Packages",
        "rnaseq/liver",
        "Revisions",
        "478afd82…",
        "Contents",
        "code",
        "normalize.R",
    ],
    [
        "requirements://requirements/REQ-001",
        "Relationships",
        "Copy at least 500 GB an hour from each instrument",
        "Trace",
    ],
    [
        "requirements://epics",
        "Intake of sequencing runs",
        "User stories",
        "Copy a finished run to the catalog",
        "Requirements",
    ],
    ["athena://databases", "acme_clinical", "visits"],
]
"""Clicks from an address."""


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk[0].partition(":")[0] + walk[0][-5:])
async def test_a_person_browses_by_clicks_and_goes_back(walk: list[str], host: Host) -> None:
    uri, *clicks = walk
    async with host.showing(uri=uri) as shown:
        main, trail = shown.frame.locator("main"), shown.frame.get_by_role("navigation", name="Trail")
        pages = [await main.inner_text()]
        for number, name in enumerate(clicks, 1):
            await main.get_by_role("link", name=name, exact=True).first.click()
            await shown.frame.wait_for_function("many => steps() === many", arg=number)
            assert await shown.said() == ""
            pages.append(await main.inner_text())
        assert "What to do next" not in pages[-1]
        assert len(set(pages)) == len(pages)
        assert await trail.get_by_role("link").count() <= 6
        for page in reversed(pages[:-1]):
            await shown.page.keyboard.press("Alt+ArrowLeft")
            assert await main.inner_text() == page
        assert await trail.get_by_role("link", name="Back").count() == 0
        assert len(await shown.messages("tools/call")) == len(clicks)  # what was read is not read again
        assert shown.noises == []


async def test_the_trail_leads_back_to_a_page_as_it_was_left(host: Host) -> None:
    async with host.showing(uri="quilt://buckets/acme-analysis-results/packages") as shown:
        frame, keyboard = shown.frame, shown.page.keyboard
        await frame.get_by_role("button", name="Details of rnaseq/atlas").click()
        await frame.get_by_role("link", name="rnaseq/liver").focus()
        await keyboard.press("ArrowUp")
        assert await frame.evaluate("() => document.activeElement.textContent") == "rnaseq/atlas"
        await keyboard.press("ArrowDown")
        await keyboard.press("Enter")
        await shown.wait_for_title("rnaseq/liver")
        await frame.get_by_role("link", name="Contents").click()
        await shown.wait_for_title("Contents")
        await frame.get_by_role("link", name="README.md").click()
        await shown.wait_for_title("README.md")
        trail = frame.get_by_role("navigation", name="Trail")
        steps = ["\u2039 Back · All resources", "Packages", "rnaseq/liver", "Contents", "README.md"]
        assert await trail.inner_text() == " \u203a ".join(steps)
        await trail.get_by_role("link", name="Packages").click()
        await shown.wait_for_title("Packages")
        assert (
            await frame.get_by_role("button", name="Details of rnaseq/atlas").get_attribute("aria-expanded") == "true"
        )
        assert await frame.evaluate("() => document.activeElement.textContent") == "rnaseq/liver"
        assert await trail.inner_text() == "All resources \u203a Packages"


async def test_a_folder_opens_in_its_place(host: Host) -> None:
    async with host.showing(uri=f"{LIVER}/contents") as shown:
        await shown.frame.get_by_role("button", name="Details of code").click()
        inside = shown.frame.locator("td.detail").get_by_role("link", name="normalize.R")
        await inside.wait_for()
        widths = "() => [...document.querySelectorAll('.size i')].map((one) => one.getBoundingClientRect().width)"
        assert max(await shown.frame.evaluate(widths)) > 10 * min(await shown.frame.evaluate(widths)) > 0
        await inside.click()
        await shown.wait_for_title("code/normalize.R")
        assert shown.noises == []
    async with host.showing(uri="permissions://discover") as shown:
        await shown.frame.get_by_role("link", name="acme-analysis-results").first.click()
        await shown.wait_for_title("Bucket Access")


async def test_json_and_csv_can_be_copied_and_saved(host: Host) -> None:
    async with host.showing(uri="admin://users") as shown:
        await shown.frame.locator("summary", has_text="JSON").click()
        text = await shown.frame.locator("details", has_text="Copy JSON").locator("pre").inner_text()
        assert json.loads(text) == (await read(host.ask, "admin://users"))["data"]
        await shown.frame.get_by_role("button", name="Copy JSON").click()
        await shown.frame.wait_for_function(
            "() => /Copied|Selected/.test(document.querySelector('[role=status]').textContent)"
        )
        await shown.frame.get_by_role("button", name="Download JSON").click()
        await shown.frame.locator("summary", has_text="CSV").first.click()
        await shown.frame.get_by_role("button", name="Download CSV").first.click()
        saved = [one["contents"][0]["resource"] for one in await shown.messages("ui/download-file")]
        assert [one["mimeType"] for one in saved] == ["application/json", "text/csv"]
        assert saved[1]["uri"] == "file:///admin-users.csv"
        assert saved[1]["text"].splitlines()[0].startswith('"')


async def test_cells_are_texts_to_a_spreadsheet(host: Host) -> None:
    rows = [{"name": one} for one in ("=1+1", "@SUM(A1)", 'a "quote"', "-2", "\uff1d1")]
    async with host.showing(
        to_result({"success": True, "uri": "x://y", "resource_name": "X", "data": {"rows": rows}})
    ) as shown:
        await shown.frame.locator("summary", has_text="CSV").click()
        await shown.frame.get_by_role("button", name="Download CSV").click()
        [saved] = [one["contents"][0]["resource"]["text"] for one in await shown.messages("ui/download-file")]
    assert saved.split("\r\n") == ['"name"', '"\'=1+1"', '"\'@SUM(A1)"', '"a ""quote"""', '"\'-2"', '"\'\uff1d1"']


async def test_the_theme_is_that_of_the_host(host: Host) -> None:
    colours = {"--color-background-primary": "light-dark(#fdf6e3, #002b36)", "--font-sans": "Georgia, serif"}
    names = "['backgroundColor', 'fontFamily']"
    style = f"() => {names}.map((one) => getComputedStyle(document.getElementById('quilt-mcp'))[one])"
    async with host.showing(uri="admin://users", context={"styles": {"variables": colours}}) as shown:
        assert await shown.frame.evaluate(style) == ["rgb(253, 246, 227)", "Georgia, serif"]
        await shown.send(method="ui/notifications/host-context-changed", params={"theme": "dark"})
        await shown.frame.wait_for_function(
            "() => getComputedStyle(document.body).backgroundColor === 'rgb(0, 43, 54)'"
        )
        await shown.frame.get_by_role("button", name="Full screen").click()
        await shown.frame.get_by_role("button", name="Smaller").wait_for()


async def test_a_host_that_offers_nothing_has_no_dead_buttons(host: Host) -> None:
    async with host.showing(uri="requirements://requirements", offers={}) as shown:
        assert await shown.frame.locator("table").count() == 1
        names = await shown.frame.get_by_role("button").all_inner_texts()
        assert [one for one in names if one in {"Next page", "Ask about this", "Download JSON"}] == []


async def test_an_answer_that_the_host_withholds_is_read_again_in_pages(host: Host) -> None:
    withheld = {"content": [{"type": "text", "text": "Result stored at /mnt/x.json"}]}
    async with host.showing(withheld, uri="admin://users") as shown:
        await shown.wait_for_title("Admin Users")
    async with host.showing(withheld, uri="requirements://requirements") as shown:
        await shown.frame.wait_for_selector("h1")
        assert (await shown.messages("tools/call"))[0]["arguments"]["uri"] == "requirements://requirements?limit=50"


async def test_the_last_question_wins_and_late_answers_are_ignored(host: Host) -> None:
    async with host.showing(uri="admin://users") as shown:
        await shown.page.evaluate("() => { hold = new Promise((done) => { window.release = done; }); }")
        await shown.frame.evaluate("() => { open('admin://roles'); }")
        await shown.frame.wait_for_function("() => document.querySelector('[role=status]').textContent === 'Loading …'")
        await shown.page.evaluate("() => { hold = null; }")
        await shown.frame.evaluate("() => { open('auth://status'); }")
        await shown.wait_for_title("Auth Status")
        await shown.page.evaluate("() => release()")
        await asyncio.sleep(0.2)  # an answer that is wrong would come now
        assert await shown.title() == "Auth Status"
        await shown.send(id=1, result={"content": []})  # an answer again
        await shown.send(id=77, result={})  # and one to no question
        assert await shown.title() == "Auth Status"
        assert shown.noises == []


async def test_a_host_that_never_answers_blocks_nothing(host: Host) -> None:
    async with host.showing(uri="admin://users") as shown:
        await shown.page.evaluate("() => { silent = true; }")
        for _ in range(3):
            await shown.frame.get_by_role("link", name="All resources").click()
        assert await shown.said() == "Loading …"
        await shown.frame.get_by_role("button", name="Ask about this").click()
        await shown.frame.get_by_role("button", name="Full screen").click()
        await shown.frame.get_by_role("searchbox").fill("osei")
        assert await shown.frame.locator("tbody tr").count() == 1
        await shown.page.evaluate("() => { silent = false; }")
        await shown.frame.get_by_role("link", name="All resources").click()
        await shown.wait_for_title("Available Resources")
        assert await shown.said() == ""
        assert shown.noises == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"error": {"code": -32000, "message": "The server is away."}}, "The server is away."),
        ({"result": {"content": [{"type": "text", "text": "<b>timed out</b>"}], "isError": True}}, "no answer"),
        ({"result": {"content": []}}, "no answer"),
        ({"result": {}}, "no answer"),
        ({"result": None}, "no answer"),
        ({"result": {"structuredContent": {"other": 1}}}, "no answer"),
    ],
)
async def test_an_answer_without_a_resource_leaves_the_page_as_it_is(
    answer: dict[str, Any], said: str, host: Host
) -> None:
    async with host.showing(uri="admin://users") as shown:
        await shown.page.evaluate("() => { silent = true; }")
        await shown.frame.get_by_role("link", name="All resources").click()
        await shown.page.wait_for_function("() => log.some((one) => one.method === 'tools/call')")
        [call] = [one for one in await shown.page.evaluate("() => log") if one.get("method") == "tools/call"]
        await shown.send(id=call["id"], **answer)
        await shown.frame.wait_for_function(
            "said => document.querySelector('[role=status]').textContent.includes(said)", arg=said
        )
        assert await shown.title() == "Admin Users"
        await shown.page.evaluate("() => { silent = false; }")
        await shown.frame.get_by_role("link", name="All resources").click()
        await shown.wait_for_title("Available Resources")
        assert shown.noises == []


async def test_a_host_that_refuses_the_page_is_heard(host: Host) -> None:
    async with host.opening(offers={}, silent=True) as shown:
        await shown.page.wait_for_function("() => log.some((one) => one.method === 'ui/initialize')")
        await shown.send(id=1, error={"code": -32602, "message": "Unsupported protocol version"})
        await shown.frame.wait_for_function("() => document.body.textContent.includes('Unsupported protocol')")
        assert await shown.messages("ui/notifications/initialized") == []
        assert shown.noises == []


@pytest.mark.parametrize(
    "context", [{"locale": "en_US", "timeZone": "Mars/Olympus"}, {"styles": {}}, {"theme": "sepia"}]
)
async def test_an_odd_context_of_the_host_breaks_nothing(context: dict[str, Any], host: Host) -> None:
    async with host.showing(uri="workflow://workflows/quarterly-aggregation/status", context=context) as shown:
        assert await shown.title() == "Workflow Status"
        assert "2026" in await shown.frame.inner_text("main")
        assert shown.noises == []


async def test_a_torn_down_page_is_silent(host: Host) -> None:
    async with host.showing(uri="admin://users") as shown:
        await shown.page.evaluate("() => { hold = new Promise((done) => { window.release = done; }); }")
        await shown.frame.evaluate("() => { open('admin://roles'); }")
        await shown.send(id="gone", method="nonsense")
        await shown.send(id="end", method="ui/resource-teardown", params={})
        await shown.page.evaluate("() => release()")
        await shown.page.wait_for_function("() => log.some((one) => one.from === 'view' && one.id === 'end')")
        replies = {
            one["id"]: one
            for one in await shown.page.evaluate("() => log")
            if one.get("id") in {"gone", "end"} and one["from"] == "view"
        }
        assert replies["gone"]["error"]["code"] == -32601
        assert replies["end"]["result"] == {}
        await asyncio.sleep(0.2)  # a page that goes on would draw now
        assert await shown.title() == "Admin Users"
        assert shown.noises == []


async def test_very_many_rows_are_drawn_in_steps(host: Host) -> None:
    rows = [{"name": f"row-{number}", "size": number * 1000, "note": "x" * 30} for number in range(10_000)]
    body = {"success": True, "uri": "x://y", "resource_name": "Many", "data": {"rows": rows}}
    async with host.showing(to_result(body)) as shown:
        assert await shown.frame.locator("tbody tr").count() == 10
        await shown.frame.get_by_role("button", name="more").click()
        assert await shown.frame.locator("tbody tr").count() == 200
        await shown.frame.locator("input[type=search]").fill("row-9999")
        assert await shown.frame.locator("tbody tr").count() == 1
        assert "MB" in await shown.frame.inner_text("tbody")


FILE: dict[str, Any] = {"path": "a/file", "first_line": 7, "size": 3, "mime_type": "text/plain"}
MARKDOWN = """\
# Title

See x://y and <b>bold</b>.

1. one
2. two

```python
import os
```

| a | b |
| - | - |
<script>alert(1)</script>
"""
SHOWN_FILES: list[tuple[dict[str, Any], list[str]]] = [
    ({"text": "first\n\n<b>third</b>\n"}, ["first", "<b>third</b>"]),
    (
        {"text": MARKDOWN, "mime_type": "text/markdown"},
        ["Title", "<b>bold</b>", "one", "import os", "| - | - |", "<script>alert(1)"],
    ),
    ({"text": "#" * 9000, "mime_type": "text/markdown"}, ["#" * 9000]),
    ({"text": "- " * 9000, "mime_type": "text/markdown"}, ["-"]),
    (
        {"table": {"columns": [{"name": "<i>n</i>", "type": "int64"}], "rows": [[1], [None], ["\u202e"]]}},
        ["<i>n</i>", "int64", "⟨U+202E⟩"],
    ),
    (
        {
            "notebook": {
                "cells": [
                    {
                        "number": 1,
                        "kind": "code",
                        "source": "x = 1",
                        "outputs": [{"kind": "stream", "text": "<p>", "is_cut": False}],
                    }
                ]
            }
        },
        ["Code 1", "x = 1", "<p>"],
    ),
    (
        {"pdf": {"page_count": 2, "pages": [{"number": 2, "text": "<b>two", "is_cut": True}]}},
        ["Page 2", "<b>two", "Page count"],
    ),
    ({"table": {"columns": [{"name": "a", "type": "x"}], "rows": "no rows"}}, ["no rows"]),
    ({"notebook": {"cells": [1]}, "pdf": {"pages": [{"text": 5}]}}, ["Notebook"]),
]


async def test_what_is_in_a_file_comes_first_and_stays_text(host: Host) -> None:
    async with host.showing(uri="config://server") as shown:
        for data, texts in SHOWN_FILES:
            await shown.show({"success": True, "uri": "x://y", "resource_name": "X", "data": {**FILE, **data}})
            said = await shown.frame.inner_text("main")
            assert [text for text in texts if text not in said] == [], data
            assert await shown.frame.locator("main b, main i, main script").count() == 0
        assert shown.noises == []
        lines = "() => [...document.querySelectorAll('.lines span')].map((one) => one.dataset.line)"
        await shown.show({"success": True, "uri": "x://y", "resource_name": "X", "data": {**FILE, **SHOWN_FILES[0][0]}})
        assert await shown.frame.evaluate(lines) == ["7", "8", "9"]
        assert await shown.title() == "a/file"


async def test_a_picture_is_drawn_and_a_damaged_one_is_said_to_be(host: Host) -> None:
    picture = read_answers()["files/picture.json"]
    async with host.showing(to_result(picture)) as shown:
        image = shown.frame.locator("main img")
        assert await image.evaluate("one => one.decode().then(() => [one.naturalWidth, one.naturalHeight])") == [
            160,
            120,
        ]
        damaged = {"mime_type": "image/png", "blob": {"image": "AAAA"}}
        await shown.show(picture | {"attachments": [damaged]})
        await shown.frame.wait_for_function("() => document.body.innerText.includes('The picture cannot be shown.')")
        page = {"mime_type": "image/svg+xml", "blob": {"image": "PHN2Zy8+"}}
        await shown.show(picture | {"attachments": [page]})
        assert await image.count() == 0
