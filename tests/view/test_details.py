"""What a person meets on a page: digits, flags, empty lists, filters, shapes of data, and hosts that behave oddly."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("playwright", reason="the extra `view` is not installed")

from quilt_mcp.server import create_server
from quilt_mcp.view import make_page
from tests.view.answers import to_result
from tests.view.browser import CHROMIUM, Host, Shown, open_host
from tests.view.demo import LIVER, open_demo

pytestmark = [
    pytest.mark.view,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.asyncio(loop_scope="module"),
]

LARGE = 9007199254740993
"""It has no exact value as a number of JavaScript."""
OPEN_ALL = """async () => {
  for (const one of document.querySelectorAll("summary")) one.parentElement.open = true;
  await new Promise((done) => setTimeout(done, 20));
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host() -> AsyncIterator[Host]:
    html = make_page(create_server().manager.registry.values()).text
    async with open_demo() as ask, open_host(html, ask) as opened:
        yield opened


def answer(data: dict[str, Any], **others: Any) -> dict[str, Any]:
    return to_result({"success": True, "uri": "x://y", "resource_name": "X", "data": data, **others})


async def text_of(shown: Shown) -> str:
    return await shown.frame.inner_text("main")


async def test_large_numbers_keep_their_digits_on_the_page_and_in_files(host: Host) -> None:
    data = {"id": LARGE, "meta": {"exact": -LARGE}, "rows": [{"name": "a", "count": LARGE}, {"name": "b", "count": 1}]}
    async with host.showing(answer(data)) as shown:
        await shown.frame.evaluate(OPEN_ALL)
        text = await text_of(shown)
        assert text.count("9,007,199,254,740,993") == 3
        assert f'"id": {LARGE}' in text
        assert "740992" not in text.replace(",", "")
        assert "≈" not in text
        for name in ("JSON", "CSV"):
            await shown.frame.get_by_role("button", name=f"Download {name}").click()
        saved = [one["contents"][0]["resource"]["text"] for one in await shown.messages("ui/download-file")]
        assert json.loads(saved[0]) == data
        assert f'"a","{LARGE}"' in saved[1]
        await shown.frame.get_by_role("button", name="Count").click()
        assert (await shown.frame.locator("tbody tr td").first.inner_text()).strip() == "b"
        assert shown.noises == []


@pytest.mark.parametrize("reads", [True, False])
async def test_numbers_that_the_host_has_rounded_are_read_again_or_marked(reads: bool, host: Host) -> None:  # noqa: FBT001 - a case
    rounded = {"success": True, "uri": "config://server", "resource_name": "X", "data": {"id": LARGE}}
    given = {"content": [{"type": "text", "text": "The person sees it."}], "structuredContent": rounded}
    async with host.showing(given, offers=None if reads else {}) as shown:
        if reads:
            await shown.wait_for_title("Server Configuration")
            assert [one["name"] for one in await shown.messages("tools/call")] == ["get_resource"]
        else:
            assert "≈ 9,007,199,254,740,992" in await text_of(shown)
        assert shown.noises == []


async def test_an_absent_flag_is_not_unknown(host: Host) -> None:
    rows = [{"name": "a", "is_repeated": True}, {"name": "b"}, {"name": "c", "is_repeated": None}]
    async with host.showing(answer({"rows": rows})) as shown:
        cells = await shown.frame.locator("tbody tr td:last-child").all_inner_texts()
    assert cells == ["✓ yes", "\u2013", "? unknown"]


EMPTY = {
    "quilt://search/zzzz": ("No packages.", "Packages or objects with a text"),
    "metadata://workflows/acme-analysis-results": ("No workflows.", "What a bucket checks on a push"),
    "requirements://requirements?status=Nothing": ("`status` must be one of", "What to do next"),
}


@pytest.mark.parametrize("uri", EMPTY)
async def test_an_empty_list_says_what_would_be_there_and_what_to_do(uri: str, host: Host) -> None:
    async with host.showing(uri=uri) as shown:
        text = await text_of(shown)
        assert [one for one in EMPTY[uri] if one not in text] == []
        await shown.frame.get_by_role("button", name=re.compile("^Ask (what to do|in chat)")).first.click()
        assert len(await shown.messages("ui/message")) == 1
        assert await shown.frame.locator("table").count() == 0


async def test_a_filter_says_how_far_it_reaches(host: Host) -> None:
    for uri, (name, heading) in {
        "requirements://requirements": (r"Filter (\d+) requirements on this page", "Requirements {} of 180"),
        "requirements://epics": (r"Filter (\d+) epics", "Epics 9"),
    }.items():
        async with host.showing(uri=uri) as shown:
            search = shown.frame.get_by_role("searchbox")
            label = re.fullmatch(name, await search.get_attribute("aria-label") or "")
            assert label
            assert heading.format(label[1]) in (await text_of(shown)).replace("\n", " ")
            await search.fill("no such thing")
            assert re.fullmatch(r"No match( on this page)?\.", await shown.frame.locator("main .row p").inner_text())


async def test_what_was_asked_for_comes_first(host: Host) -> None:
    for uri, table, fact in (
        ("permissions://discover", "acme-analysis-results", "User identity"),
        ("permissions://recommendations", "Primary recommendations", "Operation type"),
        ("quilt://buckets", "Imaging (EU)", "Scope"),
        (f"{LIVER}/contents", "README.md", "Catalog URL"),
    ):
        async with host.showing(uri=uri) as shown:
            text = await text_of(shown)
            assert 0 < text.index(table) < text.index(fact), uri


@pytest.mark.parametrize("width", [320, 800])
async def test_nothing_is_shown_twice(width: int, host: Host) -> None:
    rows = [{"name": one, "status": one, "note": f"note {one}", "size": 5, "size_before": 4} for one in "abc"]
    rows += [{"name": "d/e/f", "path": "d/e/f/", "status": "x", "note": "last", "size": 1, "size_before": 1}]
    async with host.showing(answer({"rows": rows, "kind": "z"}), width=width) as shown:
        await shown.frame.get_by_role("button", name="Details of d/e/f").click()
        text = await text_of(shown)
        assert text.count("last") == 1
        assert text.count("d/e/f") == 2  # the name, and the path with its slash
    keys = [{"name": one, "key": f"folder/{one}", "kind": "file"} for one in "ab"]
    async with host.showing(answer({"rows": keys}), width=width) as shown:
        assert await shown.frame.locator("th").all_inner_texts() == ["Name", "Kind"]


async def test_times_of_queries_are_on_the_page(host: Host) -> None:
    async with host.showing(uri="athena://query/history", width=800) as shown:
        shown_times = await shown.frame.locator("tbody tr td:nth-child(2)").all_inner_texts()
        assert all(re.fullmatch(r"\d+ \w+ 2026, \d\d:\d\d", one) for one in shown_times)
        assert await shown.frame.locator("tbody tr td:nth-child(2)").first.is_visible()
        assert await shown.frame.locator(".line i").count() == len(shown_times)


async def test_long_addresses_stay_on_few_lines(host: Host) -> None:
    address = f"{LIVER}?revision={'0123456789abcdef' * 4}&cursor={'x' * 400}"
    async with host.showing(answer({"rows": [{"name": "a"}]}, uri=address), width=320) as shown:
        height = await shown.frame.locator("header .uri").evaluate("(one) => one.getBoundingClientRect().height")
        assert height < 24
        assert await shown.overflow() <= 0


def make_table(rows: int, columns: int) -> dict[str, Any]:
    names = [f"column_{number}" for number in range(columns)]
    heads = [{"name": name, "type": "int64" if at % 2 else "string"} for at, name in enumerate(names)]
    cells: list[list[Any]] = [[LARGE if at % 2 else f"text {row}" for at in range(columns)] for row in range(rows)]
    return {"path": "a.csv", "size": 5, "mime_type": "text/csv", "table": {"columns": heads, "rows": cells}}


def make_tree(levels: int) -> dict[str, Any]:
    tree: dict[str, Any] = {"reference_id": f"N-{levels}", "title": "the deepest"}
    for level in range(levels - 1, 0, -1):
        tree = {"reference_id": f"N-{level}", "title": "a level with a name", "children": [tree]}
    return {"nodes": [tree]}


WORD = "w" * 10_000
BODIES: dict[str, tuple[dict[str, Any], str]] = {
    "a word": (
        {
            "title": WORD,
            "note": WORD,
            "rows": [{"name": WORD, "status": WORD, "size": 1, "path": WORD}],
            "table": {"columns": [{"name": WORD, "type": WORD}], "rows": [[WORD]]},
        },
        WORD,
    ),
    "a wide table": (make_table(200, 30), "9007199254740993"),
    "a table of rows": (
        {"rows": [{f"column_{at}": f"{row} {at}" for at in range(30)} for row in range(200)]},
        "Filter 200 rows",
    ),
    "a deep tree": (make_tree(12), "N-1"),
    "a megabyte": (
        {"rows": [{"name": f"row {row}", "note": "n" * 900, "size": row} for row in range(1100)]},
        "row 0",
    ),
    "right to left": (
        {"rows": [{"name": "\u202eabc\u200b", "note": "\u0633\u0644\u0627\u0645"}]},
        "⟨U+202E⟩abc⟨U+200B⟩",
    ),
}


@pytest.mark.parametrize("width", [320, 800, 1200])
@pytest.mark.parametrize("name", BODIES)
async def test_bodies_of_any_size_fit(name: str, width: int, host: Host) -> None:
    data, text = BODIES[name]
    async with host.showing(answer(data), width=width, theme="dark") as shown:
        await shown.frame.evaluate(OPEN_ALL)
        assert text in await text_of(shown) or await shown.frame.get_by_placeholder(text).count()
        assert await shown.overflow() <= 0
        assert shown.noises == []


async def test_a_megabyte_of_small_rows_is_drawn(host: Host) -> None:
    async with host.showing(answer({"rows": [{"a": 1}] * 150_000})) as shown:
        await shown.frame.get_by_role("searchbox", name="Filter 150,000 rows").wait_for()
        assert shown.noises == []


async def test_numbers_of_a_preview_stand_below_their_names(host: Host) -> None:
    async with host.showing(answer(make_table(3, 4))) as shown:
        aligned = "(all) => all.map((one) => getComputedStyle(one).textAlign)"
        heads = await shown.frame.locator("th").evaluate_all(aligned)
        assert heads == await shown.frame.locator("tbody tr:first-child td").evaluate_all(aligned)
        assert heads == ["left", "right", "left", "right"]


async def test_a_host_that_answers_twice_changes_nothing(host: Host) -> None:
    async with host.showing(uri="admin://users") as shown:
        await shown.page.evaluate("() => { silent = true; }")
        await shown.frame.get_by_role("link", name="All resources").click()
        await shown.page.wait_for_function("() => log.some((one) => one.method === 'tools/call')")
        [call] = [one for one in await shown.page.evaluate("() => log") if one.get("method") == "tools/call"]
        await shown.send(id=call["id"], result=answer({"rows": [{"name": "first"}]}))
        await shown.wait_for_title("X")
        await shown.send(id=call["id"], result=answer({"rows": [{"name": "second"}]}, resource_name="Second"))
        await shown.frame.evaluate("() => new Promise((done) => setTimeout(done, 50))")
        assert await shown.title() == "X"
        await shown.frame.get_by_role("link", name="Back").click()
        assert await shown.title() == "Admin Users"
        assert await shown.frame.get_by_role("link", name="Back").count() == 0
        assert shown.noises == []


async def test_a_host_that_sends_the_result_twice_does_not_disturb(host: Host) -> None:
    async with host.showing(uri="admin://users") as shown:
        await shown.frame.get_by_role("link", name="All resources").click()
        await shown.page.evaluate("() => post({ method: 'ui/notifications/tool-result', params: setup.result })")
        await shown.wait_for_title("Available Resources")
        await shown.page.evaluate("() => post({ method: 'ui/notifications/tool-result', params: setup.result })")
        await shown.frame.get_by_role("link", name="Back").click()
        assert await shown.title() == "Admin Users"
        await shown.show({"success": True, "uri": "x://y", "resource_name": "Other", "data": {"rows": [{"name": "a"}]}})
        assert await shown.title() == "Other"
        assert shown.noises == []


async def test_a_host_that_denies_a_display_mode_is_taken_at_its_word(host: Host) -> None:
    async with host.showing(uri="admin://users") as shown:
        await shown.page.evaluate("() => { answers['ui/request-display-mode'] = () => ({ mode: 'inline' }); }")
        await shown.frame.get_by_role("button", name="Full screen").click()
        await shown.page.wait_for_function("() => log.some((one) => one.method === 'ui/request-display-mode')")
        assert await shown.frame.get_by_role("button", name="Full screen").count() == 1
        await shown.page.evaluate(
            "() => { answers['ui/request-display-mode'] = () => { throw new Error('Not allowed here.'); }; }"
        )
        await shown.frame.get_by_role("button", name="Full screen").click()
        await shown.frame.wait_for_function("() => document.body.textContent.includes('Not allowed here.')")
        assert await shown.frame.get_by_role("button", name="Full screen").count() == 1
        await shown.send(method="ui/notifications/host-context-changed", params={"availableDisplayModes": []})
        await shown.frame.get_by_role("button", name="Full screen").wait_for(state="detached")
        assert await shown.title() == "Admin Users"
        assert shown.noises == []


async def test_theme_and_size_can_change_while_a_page_loads(host: Host) -> None:
    async with host.showing(uri="requirements://requirements", width=1200) as shown:
        await shown.page.evaluate("() => { hold = new Promise((done) => { window.release = done; }); }")
        await shown.frame.get_by_role("button", name="Next page").click()
        for theme, width in (("dark", 320), ("light", 900), ("dark", 400)):
            await shown.send(method="ui/notifications/host-context-changed", params={"theme": theme})
            await shown.page.evaluate("(width) => { document.body.style.width = `${width}px`; }", width)
        assert await shown.said() == "Loading …"
        await shown.page.evaluate("() => release()")
        await shown.frame.get_by_role("link", name="Back").wait_for()
        await shown.frame.wait_for_function("() => innerWidth <= 400")
        assert await shown.overflow() <= 0
        colour = "() => getComputedStyle(document.getElementById('quilt-mcp')).backgroundColor"
        assert await shown.frame.evaluate(colour) == "rgb(31, 30, 29)"
        *_, size = await shown.messages("ui/notifications/size-changed")
        end = await shown.frame.locator("#quilt-mcp").evaluate("(one) => one.getBoundingClientRect().bottom")
        assert end < size["height"] <= end + 2
        assert shown.noises == []
