"""What changed between two revisions of a package, with quilt3 as a second judge."""

from typing import Any

import pytest
import quilt3

from quilt_mcp.demo.world import World
from tests.support.python_caller import read, read_error
from tests.support.quilt_fakes import NOT_UNDERSTOOD, answer_queries
from tests.support.worlds import demo_world

BUCKET = "acme-analysis-results"
PACKAGE = f"quilt://buckets/{BUCKET}/packages/rnaseq/liver"
NO_HASH = "0" * 64


async def find_hashes(package: str = PACKAGE) -> list[str]:
    """Return the top hashes of a package, the newest first."""
    return [row["hash"] for row in (await read(f"{package}/revisions"))["revisions"]]


async def test_by_default_the_newest_revision_is_compared_with_the_one_before(fresh_world: World) -> None:
    newest, before, first = await find_hashes()
    found = await read(f"{PACKAGE}/changes")
    assert (found["older"]["hash"], found["newer"]["hash"]) == (before, newest)
    assert (found["added"], found["removed"], found["modified"], found["count"]) == (6, 1, 2, 9)
    rows = {row["path"]: (row["change"], row["what"], row["size_before"], row["size"]) for row in found["changes"]}
    assert rows["counts/liver.parquet"] == ("modified", ["content", "size", "physical_key"], 1058, 2903)
    assert rows["code/normalize.R"] == ("modified", ["physical_key"], 255, 255)
    assert rows["drafts/notes.txt"] == ("removed", [], 62, None)
    assert rows["LICENSE"] == ("added", [], None, 111)
    assert found["metadata"] == {"added": ["reviewer"], "removed": ["draft"], "modified": []}
    same = await read(f"{PACKAGE}/changes?from={before[:8]}&to={newest[:8]}")
    assert same["changes"] == found["changes"]
    only = [await read(f"{PACKAGE}/changes?{one}") for one in (f"to={newest}", "to=latest", f"from={before}")]
    assert [one["changes"] for one in only] == [found["changes"]] * 3
    assert (await read(f"{PACKAGE}/changes?to={before}"))["older"]["hash"] == first
    assert (await read(f"{PACKAGE}?revision={before}"))["changes"] == f"{PACKAGE}/changes?to={before}"


async def test_the_first_revision_has_only_added_files_and_one_has_no_changes_to_itself(fresh_world: World) -> None:
    newest, _, first = await find_hashes()
    found = await read(f"{PACKAGE}/changes?to={first}")
    assert found["older"] is None
    assert found["added"] == found["count"] == (await read(f"{PACKAGE}?revision={first}"))["entries"]
    assert found["python"][1] == "older = quilt3.Package()"
    itself = await read(f"{PACKAGE}/changes?from={newest}&to={newest}")
    assert (itself["count"], itself["changes"]) == (0, [])


async def test_pages_have_all_changes_once(fresh_world: World) -> None:
    whole = (await read(f"{PACKAGE}/changes"))["changes"]
    seen, cursor = list[dict[str, Any]](), ""
    while cursor is not None:
        page = await read(f"{PACKAGE}/changes?limit=4{f'&cursor={cursor}' if cursor else ''}")
        seen += page["changes"]
        cursor = page["next_cursor"]
    assert seen == whole
    newest, _, first = await find_hashes()
    other = (await read(f"{PACKAGE}/changes?limit=1&from={first}&to={newest}"))["next_cursor"]
    assert (await read_error(f"{PACKAGE}/changes?cursor={other}")).error == "InvalidTemplateVariable"


async def test_revisions_that_do_not_exist_are_named(fresh_world: World) -> None:
    newest, *_ = await find_hashes()
    other = f"quilt://buckets/{BUCKET}/packages/reports/2025-q1"
    [foreign, *_] = await find_hashes(other)
    cases = [
        (f"{PACKAGE}/changes?to={NO_HASH}", "InvalidTemplateVariable", f"before {NO_HASH} is not known"),
        (f"{PACKAGE}/changes?from={NO_HASH}", "NotFound", NO_HASH),
        (f"{PACKAGE}/changes?from={NO_HASH}&to={newest}", "NotFound", NO_HASH),
        (f"{PACKAGE}/changes?from={newest}&to={foreign}", "NotFound", foreign),  # of another package
        (f"{PACKAGE}/changes?to=1700000000", "InvalidTemplateVariable", "before 1700000000 is not known"),
        (f"{PACKAGE}s/changes", "NotFound", "rnaseq/livers"),
    ]
    for uri, error, text in cases:
        found = await read_error(uri)
        assert (uri, found.error) == (uri, error)
        assert text in found.message, uri
        assert found.suggested_actions


async def test_large_revisions_are_not_compared_and_the_answer_says_how(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"modified_at": "2025-01-01T00:00:00+00:00", "message": None, "user_meta": {"a": 1}}
    page = [row | {"hash": "b" * 64, "files": None}, row | {"hash": "a" * 64, "files": {}, "user_meta": None}]
    answer_queries(monkeypatch, {"packageNewest": {"data": {"package": {"revisions": {"page": page}}}}})
    found = await read(f"{PACKAGE}/changes")
    assert [found[key] for key in ("added", "removed", "modified", "changes", "count", "next_cursor")] == [None] * 6
    assert found["not_compared"] == (
        "The Quilt stack does not list all files of both revisions. "
        "A revision has more than 5,000 files, or its manifest cannot be read."
    )
    assert found["metadata"]["added"] == ["a"]
    assert 'top_hash="' + "b" * 64 in found["python"][2]


async def test_a_stack_that_does_not_know_the_query_says_what_to_use(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_queries(monkeypatch, {"packageNewest": NOT_UNDERSTOOD})
    assert "quilt3" in (await read_error(f"{PACKAGE}/changes")).suggested_actions[0]


@pytest.mark.filterwarnings("ignore:pathlib.PurePath.is_reserved:DeprecationWarning")  # in quilt3, since Python 3.13
async def test_quilt3_finds_the_same_changes() -> None:
    with demo_world():
        hashes = await find_hashes()
        for older in hashes:
            for newer in hashes:
                found = await read(f"{PACKAGE}/changes?from={older}&to={newer}&limit=200")
                names: dict[str, Any] = {}
                exec("\n".join(found["python"]), names)  # noqa: S102 - the lines that the answer gives
                reported = {
                    kind: [row for row in found["changes"] if row["change"] == kind] for kind in ("added", "removed")
                }
                assert sorted(names["added"]) == [row["path"] for row in reported["added"]]
                assert sorted(names["removed"]) == [row["path"] for row in reported["removed"]]
                content = [row["path"] for row in found["changes"] if "content" in row["what"]]
                assert sorted(names["modified"]) == content  # quilt3 compares hashes and sizes
        assert len(hashes) == 3
        assert quilt3.Package.browse("rnaseq/liver", f"s3://{BUCKET}").top_hash == hashes[0]
