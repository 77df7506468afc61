"""Users, API keys and roles as administrators ask for them, who can use a bucket, and rows that cannot be read."""

from collections.abc import Mapping
from typing import Any

import pytest

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.demo.company import ACME, API_KEYS
from quilt_mcp.demo.graphql import Endpoint
from quilt_mcp.demo.world import World
from quilt_mcp.services.tabulator_service import _list_groups
from tests.services.stack_calls import read_pages
from tests.support.python_caller import read, read_error
from tests.support.quilt_fakes import answer_queries
from tests.support.worlds import in_world

EU = "acme-imaging-eu"
ACCESS = f"permissions://buckets/{EU}/access"
PACKAGE = "quilt://buckets/acme-analysis-results/packages/rnaseq/liver"
USER = {
    "name": "ann",
    "email": "ann@acme.example",
    "created_at": "2026-01-01",
    "last_login_at": "2026-01-02",
    "is_active": True,
    "is_admin": False,
    "is_sso_only": False,
    "is_service": False,
    "role": None,
    "extra_roles": [],
}


def list_names(answer: JSONObject) -> list[Any]:
    return [user["name"] for user in answer["users"]]


@in_world("admin")
async def test_users_are_filtered_and_sorted(world: World) -> None:
    users = ACME.users
    assert list_names(await read("admin://users?active=false")) == sorted(
        one.name for one in users if not one.is_active
    )
    audit = sorted(one.name for one in users if "FinanceAudit" in {one.role, *one.extra_roles})
    assert list_names(await read("admin://users?role=FinanceAudit")) == audit
    assert "amara_osei" in audit  # only after a switch
    without = await read("admin://users?role=none&active=true")
    assert (list_names(without), without["count"]) == (["nikolai_volkov"], 1)
    asleep = [one.name for one in sorted(users, key=lambda one: (one.last_login, one.name))]
    assert list_names(await read("admin://users?sort=last_login_at")) == asleep
    pages = await read_pages("admin://users?sort=last_login_at&limit=7")
    assert [name for page in pages for name in list_names(page)] == asleep
    cursor = pages[0]["next_cursor"]
    assert (await read_error(f"admin://users?cursor={cursor}")).error == "InvalidTemplateVariable"
    for wrong in ("active=yes", "sort=email"):
        assert "must be one of" in (await read_error(f"admin://users?{wrong}")).message
    assert (await read("admin://users?role=Nobody"))["users"] == []


@in_world("admin")
async def test_api_keys_are_sorted_by_owner_by_expiry_and_by_last_use(world: World) -> None:
    found = await read("admin://api-keys")
    assert found["count"] == len(API_KEYS)
    assert [key["owner"] for key in found["api_keys"]] == sorted(key["owner"] for key in found["api_keys"])
    keys = (await read("admin://api-keys?sort=expires_at&status=active"))["api_keys"]
    assert [key["name"] for key in keys] == ["notebooks", "laptop", "ingest"]
    unused = (await read("admin://api-keys?sort=last_used_at"))["api_keys"]
    assert (unused[0]["name"], unused[0]["last_used_at"]) == ("laptop", None)
    assert [key["name"] for key in (await read("admin://api-keys?status=expired"))["api_keys"]] == ["etl"]
    pages = await read_pages("admin://api-keys?limit=1")
    assert [page["api_keys"][0] for page in pages] == found["api_keys"]


@in_world("stack_2024_12")
async def test_a_stack_without_api_keys_says_since_when_they_exist(world: World) -> None:
    error = await read_error("admin://api-keys")
    assert "since January 2026" in error.suggested_actions[0]


@in_world("member")
async def test_api_keys_are_for_administrators(world: World) -> None:
    assert (await read_error("admin://api-keys")).error == "Unauthorized"


@in_world("admin")
async def test_the_people_of_a_bucket_are_those_of_current_and_of_extra_roles(world: World) -> None:
    found = await read(ACCESS)
    levels = {role.name: role.permissions[EU] for role in ACME.roles if EU in role.permissions}
    expected = [
        {"name": user.name, "right": levels[name], "role": name, "needs_switch": name != user.role}
        for user in sorted(ACME.users, key=lambda one: one.name)
        for name in (user.role, *user.extra_roles)
        if user.is_active and name in levels
    ]
    assert found["collaborators"] == expected
    assert {"name": "grace_mwangi", "right": "READ", "role": "DataPlatform", "needs_switch": True} in expected
    assert "LegacyPipeline" in found["collaborators_reason"]
    assert found["own_roles"] == [
        {"name": "DataPlatform", "is_current": True, "right": "READ"},
        {"name": "FinanceAudit", "is_current": False, "right": "none"},
    ]
    administrators = sorted(one.name for one in ACME.users if one.is_admin and one.is_active)
    assert [one["name"] for one in found["administrators"]] == administrators
    assert found["explanation"].startswith("You may read. Whether you may write is not known")


@in_world("member")
async def test_others_read_whom_the_stack_names_and_why_the_rest_is_unknown(world: World) -> None:
    found = await read(ACCESS)
    assert (found["collaborators"], found["administrators"]) == (None, None)
    assert "does not list the bucket" in found["collaborators_reason"]
    assert "Ask the person who gave you your Quilt login" in found["administrators_reason"]
    assert found["own_roles"] == [{"name": "Researcher", "is_current": True, "right": None}]
    own = await read("permissions://buckets/acme-analysis-results/access")
    assert own["collaborators"]
    assert {one["role"] for one in own["collaborators"]} == {None}
    assert "current role" in own["collaborators_reason"]


@in_world("admin")
async def test_people_who_cannot_be_read_are_unknown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.stack, "endpoint", Endpoint(failing_fields=["UserAdminQueries.list"]))
    found = await read(ACCESS)
    assert found["administrators"] is None
    assert "could not be read" in found["administrators_reason"]
    assert "current role" in found["collaborators_reason"]


def users(*rows: object, errors: object = None) -> Mapping[str, object]:
    data = {"admin": {"user": {"list": list(rows)}}}
    return {"usersList": {"data": data, **({"errors": errors} if errors else {})}}


@in_world("admin")
async def test_one_row_that_cannot_be_read_does_not_hide_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {**USER, "name": "bob"}
    failed = [{"message": "No.", "path": ["admin", "user", "list", 1, "role"]}]
    for payload in (users(USER, other, errors=failed), users(USER, {**other, "last_login_at": None})):
        answer_queries(monkeypatch, payload)
        found = await read("admin://users")
        assert (list_names(found), found["count"], found["unreadable_count"]) == (["ann"], 1, 1)
    everywhere = [{"message": "No.", "path": ["admin", "user", "list", 0, "role"]}]
    answer_queries(monkeypatch, users(USER, errors=everywhere))
    assert (await read_error("admin://users")).message == "The Quilt stack could not read the data."
    answer_queries(monkeypatch, users({"name": 1}))
    assert "none of 1 rows" in str((await read_error("admin://users")).details)


@in_world("admin")
async def test_one_hit_without_a_size_does_not_refuse_the_search(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    hit = {"bucket": "b", "key": "k", "version": "v", "size": 1.0, "modified_at": "2026-01-01", "is_deleted": False}
    page = {"kind": "ObjectsSearchResultSetPage", "cursor": None, "objects": [{**hit, "size": None}, hit]}
    result = {"kind": "ObjectsSearchResultSet", "total": 2, "firstPage": page}
    answer_queries(monkeypatch, {"searchObjects": {"data": {"found": result}}})
    found = await read("quilt://search/k?kind=objects")
    assert ([one["key"] for one in found["objects"]], found["unreadable_count"]) == (["k"], 1)


def nest(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = {"a": value}
    return value


class Revision(dict[str, object]):
    """A response with a revision, which has metadata in the first response only."""

    def __init__(self, whole: JSONObject, meta: object) -> None:
        known = {name: whole[name] for name in ("hash", "modified_at", "message", "entries", "size", "workflow")}
        self._bodies = [{**known, "user_meta": meta}, known]
        super().__init__(package=None)

    def __getitem__(self, name: str) -> object:
        revision = self._bodies.pop(0)
        return {"data": {"package": {"revisions": {"total": 1}, "revision": revision, "guide": None}}}


@pytest.mark.parametrize(
    ("meta", "shown"),
    [
        ({"half": "a\ud800b"}, {"half": "a\ufffdb"}),
        ({"other half \udc00": 1}, {"other half \ufffd": 1}),
        ({"pair": "😀\\ud800"}, {"pair": "😀\\ud800"}),
        ({"deep": nest(300)}, None),
    ],
    ids=["half of a pair", "the other half", "a pair, and a backslash", "deep"],
)
@in_world("admin")
async def test_odd_metadata_does_not_hide_the_package(
    meta: object, shown: object, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await read(PACKAGE)
    asked = answer_queries(monkeypatch, Revision(whole, meta))
    found = await read(PACKAGE)
    assert (found["user_meta"], found["hash"]) == (shown, whole["hash"])
    assert ("too many levels" in found.get("user_meta_error", "")) == (shown is None)
    assert asked.count("package") == 1 + (shown is None)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (r"^runs/(?<run>[0-9]+)/(?P<lane>\d)$", ["run", "lane"]),
        (r"\(?<no>", []),
        (r"[(?<z>]", []),
        (r"[^](?<z>]x(?<y>.)", ["y"]),
        (r"[\](?<z>](?<y>.)", ["y"]),
        (r"(?<a>.)(?<a>.)", ["a"]),
        (r"(?<=a)(?<!b)(?:c)", []),
        ("\\\\(?<a>.)", ["a"]),
    ],
)
def test_the_groups_of_a_pattern(pattern: str, names: list[str]) -> None:
    assert _list_groups(pattern, "") == names
