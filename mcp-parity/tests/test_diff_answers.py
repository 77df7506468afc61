"""Each change of a resource and of its answer is one line of the pull request's summary."""

from collections.abc import Callable
from typing import Any

from mcp_parity.values import shorten
from tests.repository import (
    CSV,
    GET_RESOURCE,
    RESOURCES,
    STATUS,
    STATUS_OF_MEMBER,
    STATUS_REFUSED,
    TEMPLATE,
    TYPO,
    USERS,
    USERS_OF_MEMBER,
    Files,
    answer,
    contract,
    refusal,
    row,
    summarize,
)

CHANGES: dict[str, tuple[Callable[[Files], Any], list[str]]] = {
    "another type": (
        lambda files: files[STATUS]["data"].update(count="3"),
        ["- *breaking*: `data.count` is string, was number (`home`, `member`)"],
    ),
    "null becomes a value": (
        lambda files: files[STATUS]["data"].update(user={"name": "ada"}),
        ['- *value*: `data.user` changed: `null` → `{"name": "ada"}` (`home`, `member`)'],
    ),
    "a value becomes null": (
        lambda files: files[STATUS]["data"].update(status=None),
        ['- *value*: `data.status` changed: `"authenticated"` → `null` (`home`, `member`)'],
    ),
    "another value in each world": (
        lambda files: [
            files.update({STATUS_OF_MEMBER: answer("auth://status", files[STATUS]["data"] | {"status": "b"})}),
            files[STATUS]["data"].update(status="a"),
        ],
        ["- *value*: `data.status` changed (`home`, `member`)"],
    ),
    "a template's answer": (
        lambda files: files[TEMPLATE]["data"].update(fields={}),
        ["- *breaking*: `data.fields.version` is gone (`home`, `member`)"],
    ),
    "another MIME type in each world": (
        lambda files: files.update(
            {STATUS_OF_MEMBER: files[STATUS] | {"mime_type": "b"}, STATUS: files[STATUS] | {"mime_type": "a"}}
        ),
        [
            '- *breaking*: `mime_type` changed: `"application/json"` → `"a"` (`home`)',
            '- *breaking*: `mime_type` changed: `"application/json"` → `"b"` (`member`)',
        ],
    ),
    "one more row, which lacks a field": (
        lambda files: files[USERS]["data"]["users"].append({"name": "dan", "role": {}}),
        ["- *value*: `data.users` has another length: 3 → 4 (`home`)"],
    ),
    "all rows removed": (
        lambda files: files[USERS]["data"].update(users=[]),
        ["- *value*: `data.users` has another length: 3 → 0 (`home`)"],
    ),
    "a field that all rows lose": (
        lambda files: [user.pop("active") for user in files[USERS]["data"]["users"]],
        ["- *breaking*: `data.users[].active` is gone (`home`)"],
    ),
    "a field that one row loses": (
        lambda files: files[USERS]["data"]["users"][0]["role"].clear(),
        ["- *breaking*: `data.users[].role.title` is gone from some items (`home`)"],
    ),
    "another order": (
        lambda files: files[USERS]["data"]["users"].reverse(),
        ["- *value*: `data.users` is in another order (`home`)"],
    ),
    "a value in a row, and a new row": (
        lambda files: [
            files[USERS]["data"]["users"][2].update(active=False),
            files[USERS]["data"]["users"].insert(0, {"name": "zoe", "role": None, "active": False}),
        ],
        [
            "- *value*: `data.users` has another length: 3 → 4 (`home`)",
            "- *value*: `data.users[].active` changed: `true` → `false` (`home`)",
        ],
    ),
    "a new row with a field that another row loses": (
        lambda files: [
            files[USERS]["data"]["users"][0].pop("active"),
            files[USERS]["data"]["users"].append({"name": "dan", "role": None, "active": True}),
        ],
        [
            "- *value*: `data.users` has another length: 3 → 4 (`home`)",
            "- *value*: `data.users[].active` is in other items than before (`home`)",
        ],
    ),
    "an item that is there twice now": (
        lambda files: files[USERS]["data"].update(tags=["a", "a"]),
        ['- *value*: `data.tags[]` changed: `"b"` → `"a"` (`home`)'],
    ),
    "items of another type": (
        lambda files: files[USERS]["data"].update(tags=[1, 2]),
        ["- *breaking*: `data.tags[]` is number, was string (`home`)"],
    ),
    "a renamed error": (
        lambda files: files.update({USERS_OF_MEMBER: refusal("admin://users", "NotFound", -32003)}),
        [
            '- *breaking*: `error` changed: `"Unauthorized"` → `"NotFound"` (`member`)',
            "- *breaking*: `code` changed: `-32002` → `-32003` (`member`)",
        ],
    ),
    "data becomes an error, and its golden remains": (
        lambda files: files.update(
            {STATUS_OF_MEMBER: files[STATUS], STATUS_REFUSED: refusal("auth://status", "NotFound", 1)}
        ),
        ["- *breaking*: the answer changed from data to the error `NotFound` (`member`)"],
    ),
    "an error becomes data": (
        lambda files: [
            files.update({"golden/data/admin/users--member.json": files[USERS]}),
            files.pop(USERS_OF_MEMBER),
        ],
        ["- *compatible*: the answer changed from the error `Unauthorized` to data (`member`)"],
    ),
    "a world gets an answer of its own": (
        lambda files: files.update({STATUS_OF_MEMBER: answer("auth://status", {"status": "x"})}),
        [
            "- *breaking*: `data.count` is gone (`member`)",
            "- *breaking*: `data.expires` is gone (`member`)",
            "- *breaking*: `data.user` is gone (`member`)",
            '- *value*: `data.status` changed: `"authenticated"` → `"x"` (`member`)',
        ],
    ),
    "a copy of the admin's answer": (lambda files: files.update({STATUS_OF_MEMBER: files[STATUS]}), []),
    "a new world": (
        lambda files: files.update({"golden/errors/auth/status--expired.json": refusal("auth://status", "X", 1)}),
        ["- *compatible*: the world `expired` is now checked"],
    ),
    "a removed world": (
        lambda files: files.pop(USERS_OF_MEMBER),
        ["- *value*: the world `member` is no longer checked"],
    ),
    "a removed golden": (
        lambda files: files.pop(STATUS),
        ["- *breaking*: the answer no longer has a golden (`home`, `member`)"],
    ),
    "a removed resource": (
        lambda files: [files[CSV].pop(1), files[RESOURCES].pop(1), files.pop(STATUS)],
        ["- *breaking*: the resource is gone"],
    ),
    "a new resource": (
        lambda files: files[CSV].append(row("auth://keys", "auth://keys")),
        ["- *compatible*: the resource is new"],
    ),
    "another description": (
        lambda files: [one[1].update(description="Better.") for one in (files[CSV], files[RESOURCES])],
        ['- *value*: `description` changed: `"What it is."` → `"Better."` (`inventory`, `resources/list`)'],
    ),
    "removed from discovery": (
        lambda files: files[GET_RESOURCE]["data"]["all"].pop(0),
        ["- *breaking*: the entry is gone (`get_resource()`)"],
    ),
    "another error for a malformed URI": (
        lambda files: files.update({TYPO: refusal("auth://statsu", "NotFound", -32602)}),
        ['- *breaking*: `error` changed: `"InvalidURI"` → `"NotFound"` (`typo`)'],
    ),
    "Markdown in a value": (
        lambda files: files[STATUS]["data"].update(status="`a`\n# а"),  # noqa: RUF001 - Cyrillic, which must show
        ['- *value*: `data.status` changed: `"authenticated"` → `"\\u0060a\\u0060\\n# \\u0430"` (`home`, `member`)'],
    ),
}


def test_each_change_of_an_answer_is_one_line_and_breaking_changes_fail() -> None:
    wrong = {}
    for name, (edit, lines) in CHANGES.items():
        files = contract()
        edit(files)
        summary = summarize(contract(), files)
        if (summary.lines, summary.status) != (lines, int(any("*breaking*" in line for line in lines))):
            wrong[name] = summary.lines, summary.status
    assert wrong == {}


def content(data: object) -> dict[str, object]:
    return {"contents": [shorten({"mime_type": "application/json", "data": data})]}


def test_a_value_that_becomes_volatile_changes_nothing_for_clients() -> None:
    pinned, volatile = content({"count": 3, "a": 1}), content({"count": "<differs>", "a": 1})
    for before, after, what in ((pinned, volatile, "is now"), (volatile, pinned, "is no longer")):
        summary = summarize(contract() | {STATUS: before}, contract() | {STATUS: after})
        assert summary.lines == [f"- *value*: `contents[].data.count` {what} volatile (`home`, `member`)"]
        assert summary.status == 0


def test_an_answer_that_grows_too_large_to_be_pinned_in_full_is_compared_by_its_shape() -> None:
    small, large = [{"id": 1}], [{"id": number} for number in range(20_000)]
    summary = summarize(contract() | {STATUS: content(small)}, contract() | {STATUS: content(large)})
    assert summary.status == 0
    assert [line.partition(" changed")[0] for line in summary.lines] == [
        "- *value*: `contents[].large.characters`",
        "- *value*: `contents[].large.sha256`",
    ]
    other = [{"number": number} for number in range(20_000)]
    summary = summarize(contract() | {STATUS: content(small)}, contract() | {STATUS: content(other)})
    assert "- *breaking*: `contents[].large.shape.[].id` is gone (`home`, `member`)" in summary.lines
    assert summary.status == 1
