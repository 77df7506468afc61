"""Each change of a resource and of its answer is one line of the pull request's summary."""

from collections.abc import Callable
from typing import Any

from mcp_parity.values import MASK, shorten
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
    "an object becomes null": (
        lambda files: files[TEMPLATE]["data"].update(fields=None),
        ["- *breaking*: `data.fields` is null, was object (`home`, `member`)"],
    ),
    "a list becomes null": (
        lambda files: files[USERS]["data"].update(tags=None),
        ["- *breaking*: `data.tags` is null, was array (`home`)"],
    ),
    "all of the data becomes null": (
        lambda files: files[TEMPLATE].update(data=None),
        ["- *breaking*: `data` is null, was object (`home`, `member`)"],
    ),
    "an object of one row becomes null": (
        lambda files: files[USERS]["data"]["users"][0].update(role=None),
        ["- *breaking*: `data.users[].role` is null in some items (`home`)"],
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
        ['- *description*: `description` changed: `"What it is."` → `"Better."` (`inventory`, `resources/list`)'],
    ),
    "removed from discovery": (
        lambda files: files[GET_RESOURCE]["data"]["all"].pop(0),
        ["- *breaking*: the entry is gone (`get_resource()`)"],
    ),
    "a description that is removed": (
        lambda files: files[RESOURCES][1].pop("description"),
        ['- *description*: `description` is gone: `"What it is."` → `null` (`resources/list`)'],
    ),
    "another error for a malformed URI": (
        lambda files: files.update({TYPO: refusal("auth://statsu", "NotFound", -32602)}),
        ['- *breaking*: `error` changed: `"InvalidURI"` → `"NotFound"` (`typo`)'],
    ),
    "a description in an error, which is no description of a component": (
        lambda files: files[TYPO]["tool"].update(description="Ask."),
        ['- *compatible*: `description` is new: `null` → `"Ask."` (`typo`)'],
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


def test_the_lines_of_a_text_that_looks_like_json_are_values() -> None:
    plain, lined = content({"a": 1}), {"contents": [{"mime_type": "text/plain", "data": {"a": 1}, "lines": ["{", "}"]}]}
    plain["contents"][0]["mime_type"] = "text/plain"  # type: ignore[index]  # JSON
    for before, after in ((plain, lined), (lined, plain)):
        summary = summarize(contract() | {STATUS: before}, contract() | {STATUS: after})
        assert summary.status == 0
        assert summary.lines[0].startswith("- *value*: `contents[].lines` has another length: ")


def test_an_answer_that_becomes_public_is_breaking() -> None:
    before, after = (content({"a": 1}) | {"cache": {"cacheScope": scope}} for scope in ("private", "public"))
    for one, other, breaking in ((content({"a": 1}), after, True), (before, after, True), (after, before, False)):
        summary = summarize(contract() | {STATUS: one}, contract() | {STATUS: other})
        line = "`cache.cacheScope` is now public: a proxy may give the answer to other users (`home`, `member`)"
        assert (f"- *breaking*: {line}" in summary.lines, summary.status) == (breaking, int(breaking))


VALUE = {"object": {"a": 1}, "list": [1]}


def content(*data: object) -> dict[str, object]:
    return {"contents": [shorten({"mime_type": "application/json", "data": one}) for one in data]}


CONTENTS: dict[str, tuple[dict[str, object], dict[str, object], list[str]]] = {
    "one fewer": (
        content({"a": 1}, {"a": 2}),
        content({"a": 1}),
        ["- *breaking*: `contents` has fewer items: 2 → 1 (`home`, `member`)"],
    ),
    "all gone": (content({"a": 1}), content(), ["- *breaking*: `contents` has fewer items: 1 → 0 (`home`, `member`)"]),
    "one more": (
        content({"a": 1}),
        content({"a": 1}, {"b": 2}),
        ["- *compatible*: `contents` has more items: 1 → 2 (`home`, `member`)"],
    ),
    "one more at the start": (
        content({"a": 1}),
        content({"a": 2}, {"a": 1}),
        [
            "- *breaking*: `contents` has its items at other positions (`home`, `member`)",
            "- *compatible*: `contents` has more items: 1 → 2 (`home`, `member`)",
            "- *value*: `contents[].data.a` changed: `1` → `2` (`home`, `member`)",
        ],
    ),
    "exchanged": (
        content({"a": 1}, {"a": 2}),
        content({"a": 2}, {"a": 1}),
        [
            "- *breaking*: `contents` has its items at other positions (`home`, `member`)",
            "- *value*: `contents[].data.a` changed (`home`, `member`)",
        ],
    ),
    "exchanged and changed": (
        content({"a": 1}, {"b": 2}),
        content({"b": 3}, {"a": 4}),
        [
            "- *breaking*: `contents[].data.a` is gone (`home`, `member`)",
            "- *breaking*: `contents[].data.b` is gone (`home`, `member`)",
            "- *compatible*: `contents[].data.b` is new (`home`, `member`)",
            "- *compatible*: `contents[].data.a` is new (`home`, `member`)",
        ],
    ),
    "the second one is changed": (
        content({"a": 1}, {"b": 2}),
        content({"a": 1}, {"b": 3}),
        ["- *value*: `contents[].data.b` changed: `2` → `3` (`home`, `member`)"],
    ),
}


def test_clients_take_contents_by_their_position() -> None:
    wrong = {}
    for name, (before, after, lines) in CONTENTS.items():
        summary = summarize(contract() | {STATUS: before}, contract() | {STATUS: after})
        if (summary.lines, summary.status) != (lines, int(any("*breaking*" in line for line in lines))):
            wrong[name] = summary.lines, summary.status
    assert wrong == {}


ENTIRELY_VOLATILE: dict[str, tuple[dict[str, object], str]] = {
    "the contents": ({"contents": MASK}, "contents"),
    "a content": ({"contents": [MASK]}, "contents[]"),
    "the data": (content(MASK), "contents[].data"),
    "an object": (content({"object": MASK, "list": [1]}), "contents[].data.object"),
    "a list": (content({"object": {"a": 1}, "list": MASK}), "contents[].data.list"),
    "the type": ({"contents": [{"mime_type": MASK, "data": VALUE}]}, "contents[].mime_type"),
}


def test_what_becomes_volatile_as_a_whole_is_breaking_because_it_hides_all_changes() -> None:
    for name, (after, path) in ENTIRELY_VOLATILE.items():
        summary = summarize(contract() | {STATUS: content(VALUE)}, contract() | {STATUS: after})
        line = f"- *breaking*: `{path}` is now volatile, so nothing in it is checked (`home`, `member`)"
        assert (summary.lines, summary.status) == ([line], 1), name
        assert "<details open>" in summary.page
    summary = summarize(contract() | {STATUS: content("a")}, contract() | {STATUS: content(MASK)})
    assert summary.status == 1
    summary = summarize(contract() | {STATUS: content(["a"])}, contract() | {STATUS: content([MASK])})
    assert summary.lines == ["- *value*: `contents[].data[]` is now volatile (`home`, `member`)"]


def test_a_value_that_becomes_volatile_changes_nothing_for_clients() -> None:
    pinned, volatile = content({"count": 3, "a": 1}), content({"count": "<differs>", "a": 1})
    for before, after, what in ((pinned, volatile, "is now"), (volatile, pinned, "is no longer")):
        summary = summarize(contract() | {STATUS: before}, contract() | {STATUS: after})
        assert summary.lines == [f"- *value*: `contents[].data.count` {what} volatile (`home`, `member`)"]
        assert summary.status == 0


LARGE_CHANGES: list[tuple[dict[str, object], str]] = [
    ({"id": "1", "of": {"a": 1}}, 'id` has other types: `"number"` → `"string"`'),
    ({"of": None}, 'of` has other types: `"object"` → `"null"`'),
]


def test_an_answer_that_grows_too_large_to_be_pinned_in_full_is_compared_by_its_shape() -> None:
    small, large = [{"id": 1}], [{"id": number} for number in range(20_000)]
    summary = summarize(contract() | {STATUS: content(small)}, contract() | {STATUS: content(large)})
    assert summary.status == 0
    assert [line.partition(" changed")[0] for line in summary.lines] == [
        "- *value*: `contents[].large.characters`",
        "- *value*: `contents[].large.sha256`",
    ]
    for change, breaking in LARGE_CHANGES:
        after = [{"id": number} | change for number in range(20_000)]
        before = [{"id": number, "of": {"a": 1}} for number in range(20_000)]
        summary = summarize(contract() | {STATUS: content(before)}, contract() | {STATUS: content(after)})
        line = f"- *breaking*: `contents[].large.shape.[].{breaking} (`home`, `member`)"
        assert (line in summary.lines, summary.status) == (True, 1)
    other = [{"number": number} for number in range(20_000)]
    summary = summarize(contract() | {STATUS: content(small)}, contract() | {STATUS: content(other)})
    assert "- *breaking*: `contents[].large.shape.[].id` is gone (`home`, `member`)" in summary.lines
    assert summary.status == 1
