"""The page for a review."""

import base64
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.repository import (
    CHANGELOG,
    CSV,
    STATUS,
    STATUS_OF_MEMBER,
    TOOLS,
    USERS,
    Files,
    Repository,
    answer,
    contract,
    row,
    summarize,
)

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f00050001ff56c7"
    "725d0000000049454e44ae426082"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def test_breaking_changes_come_first_and_unannounced_ones_are_on_top(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    del repository.files[STATUS]["data"]["expires"]
    repository.files[USERS]["data"]["more"] = 1
    repository.commit("head")
    assert repository.diff("base", "head", "--html", "review.html").stderr == ""
    page = (tmp_path / "review.html").read_text(encoding="utf-8")
    banner, rest = page.split("</section>")
    assert "Breaking changes that are not announced: 1" in banner
    assert "<li><code>auth://status</code></li>" in banner
    assert re.findall(r"<details( open)?><summary><span class=\"kind (\w+)\">\w+</span><code>(.*?)</code>", rest) == [
        (" open", "breaking", "auth://status"),
        ("", "compatible", "admin://users"),
    ]
    assert '<code>data.expires</code> is gone <span class="quiet">(home, member)</span>' in rest
    assert '<span class="minus">-    &quot;expires&quot;: &quot;2026&quot;,</span>' in rest


def test_worlds_with_the_same_diff_share_it() -> None:
    files = contract()
    files[STATUS]["data"]["count"] = 4
    assert "<summary>Answer in home, member</summary>" in summarize(contract(), files).page
    files[STATUS_OF_MEMBER] = answer("auth://status", {"status": "signed out"})
    page = summarize(contract(), files).page
    assert "<summary>Answer in home</summary>" in page
    assert "<summary>Answer in member</summary>" in page


def test_a_value_that_becomes_another_type_has_a_diff() -> None:
    files = contract()
    files[STATUS]["data"]["count"] = 3.0
    files[TOOLS][1]["inputSchema"]["properties"]["count"]["default"] = 1
    before = contract()
    before[TOOLS][1]["inputSchema"]["properties"]["count"]["default"] = True
    page = summarize(before, files).page
    assert "<summary>Answer in home, member</summary>" in page
    assert "<summary>Entry in tools/list</summary>" in page


def test_every_value_is_text() -> None:
    files = contract()
    files[STATUS]["data"]["<script>alert(1)</script>"] = "</pre><img src=x>\u202e"
    page = summarize(contract(), files).page
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "\u202e" not in page
    assert "default-src 'none'" in page


def test_the_diff_shows_a_field_named_image() -> None:
    files = [contract(), contract()]
    for number, one in enumerate(files):
        one[STATUS]["data"]["image"] = f"{number}.png"
    page = summarize(*files).page
    assert re.findall(r"&quot;image&quot;: &quot;(.*?)&quot;", page) == ["0.png", "1.png"]


def test_images_are_side_by_side() -> None:
    def content(image: bytes) -> dict[str, object]:
        blob = {"bytes": len(image), "sha256": "0", "image": base64.b64encode(image).decode()}
        return {"contents": [{"mime_type": "image/png", "blob": blob}]}

    page = summarize(contract() | {STATUS: content(PNG)}, contract() | {STATUS: content(PNG + b"\0")}).page
    assert page.count("<img") == 2
    assert f'alt="before" src="data:image/png;base64,{base64.b64encode(PNG).decode()}"' in page
    assert page.index('alt="before"') < page.index('alt="after"')
    assert "&quot;image&quot;: &quot;…&quot;" in page


def make_resources(count: int) -> Files:
    files = contract()
    for number in range(count):
        uri = f"shop://items/{number}"
        files[CSV].append(row(uri, uri))
        files[f"golden/data/shop/items/{number}.json"] = answer(uri, {"name": f"item {number}", "price": 1})
    return files


def test_equal_changes_of_many_resources_are_one_entry() -> None:
    files = make_resources(300)
    for number in range(300):
        del files[f"golden/data/shop/items/{number}.json"]["data"]["name"]
    summary = summarize(make_resources(300), files)
    assert summary.status == 1
    assert len(summary.text) < 3_000
    assert summary.lines == ["- *breaking*: `data.name` is gone (`home`, `member`)"]
    assert "### `shop://items/0` and 299 more\n\nThe same in `shop://items/1`, " in summary.text
    banner = summary.page.partition("</section>")[0]
    assert banner.count("<li>") == 6
    assert "<li>… and 295 more</li>" in banner
    for name in ("shop://items/*", "shop://items/{number}"):
        files[CHANGELOG] = f"## [Unreleased]\n\n### Breaking\n\n- `{name}`: no names any more.\n"
        assert summarize(make_resources(300), files).status == 0
    files[CHANGELOG] = "## [Unreleased]\n\n### Breaking\n\n- `shop://items/1*`: no names any more.\n"
    assert summarize(make_resources(300), files).status == 1


def test_the_page_names_the_revisions_and_what_closed_rows_contain(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.files[STATUS]["data"]["count"] = 4
    repository.files[USERS]["data"]["more"] = 1
    repository.commit("head")
    repository.diff("base", "head", "--html", "review.html")
    page = (tmp_path / "review.html").read_text(encoding="utf-8")
    assert re.search(r"<p><code>base \([0-9a-f]{7}\)</code> → <code>head \([0-9a-f]{7}\)</code></p>", page)
    assert "1 compatible, 1 value, 3 unchanged." in page
    change = "<code>data.count</code> changed: <code>3</code> → <code>4</code>"
    assert f'<code>auth://status</code> <span class="quiet">{change}' in page
    assert f"<li>{change} <span" in page


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_browser_shows_500_changes(tmp_path: Path) -> None:
    files = make_resources(500)
    for number in range(500):
        data = files[f"golden/data/shop/items/{number}.json"]["data"]
        data["price"] = 2
        if number % 5 == 0:
            del data["name"]
    page = tmp_path / "review.html"
    page.write_text(summarize(make_resources(500), files).page, encoding="utf-8")
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, check=True).stdout
    assert re.findall(r'kind (\w+)">\w+</span><code>(.*?)</code>(.*?)<', shown) == [
        ("breaking", "shop://items/0", " and 99 more"),
        ("value", "shop://items/1", " and 399 more "),
    ]
    assert shown.count("<summary>Answer in home, member</summary>") == 500
