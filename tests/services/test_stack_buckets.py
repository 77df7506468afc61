"""quilt://buckets on stacks of different ages."""

import pytest

from quilt_mcp.commands.demo.world import World
from quilt_mcp.core.cursors import compute_tag, encode
from tests.services.stack_calls import read_pages
from tests.support.python_caller import read, read_error
from tests.support.quilt_fakes import NOT_UNDERSTOOD, answer_queries, refuse

LIST = "quilt://buckets"


def make_bucket(name: str, **described: object) -> dict[str, object]:
    return {"name": name, "title": name.title(), "description": None, "tags": None, "relevance": 0} | described


def make_me(*, is_admin: bool) -> object:
    role = {"name": "Researcher"}
    me = {"name": "a", "email": "a@acme.example.com", "is_admin": is_admin, "role": role, "roles": [role]}
    return {"data": {"me": me}}


@pytest.mark.parametrize(
    ("me", "scope"),
    [(make_me(is_admin=True), "stack"), (make_me(is_admin=False), "role"), (NOT_UNDERSTOOD, None)],
    ids=["administrator", "member", "stack without me"],
)
async def test_older_stacks_list_what_the_caller_may_see(
    me: object, scope: str | None, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = {"data": {"bucketConfigs": [make_bucket("acme-raw")]}}
    answer_queries(
        monkeypatch,
        {"bucketTitles": NOT_UNDERSTOOD, "bucketConfigTitles": configs, "me": me, "meWithoutRole": NOT_UNDERSTOOD},
    )
    answer = await read(LIST)
    assert [row["name"] for row in answer["buckets"]] == ["acme-raw"]
    assert (answer["source"], answer["scope"]) == ("bucketConfigs", scope)


async def test_a_failed_fallback_does_not_hide_the_refusal(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_queries(monkeypatch, {"bucketTitles": refuse(["buckets"]), "bucketConfigTitles": refuse(["bucketConfigs"])})
    error = await read_error(LIST)
    assert (error.message, error.details) == ("The Quilt stack could not read the data.", "GraphQL error at buckets")


async def test_many_buckets_are_paged(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"acme-{at:04}" for at in range(1500)]
    buckets = [make_bucket(name) for name in reversed(names)]
    answer_queries(monkeypatch, {"bucketTitles": {"data": {"buckets": buckets}}})
    pages = await read_pages("quilt://buckets?limit=200")
    assert {page["count"] for page in pages} == {1500}
    assert [row["name"] for page in pages for row in page["buckets"]] == names


async def test_a_cursor_of_another_list_is_refused(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_queries(monkeypatch, {"bucketTitles": {"data": {"buckets": []}}})
    error = await read_error("quilt://buckets?cursor=WzEsIngiLCJ5Il0")
    assert error.error == "InvalidTemplateVariable"


async def test_a_cursor_of_another_stack_is_refused(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_queries(monkeypatch, {"bucketTitles": {"data": {"buckets": [make_bucket("a"), make_bucket("b")]}}})
    own, other = (
        encode("=a", compute_tag("buckets", url)) for url in (fresh_world.registry_url, "https://registry.example.com")
    )
    assert [row["name"] for row in (await read(f"quilt://buckets?cursor={own}"))["buckets"]] == ["b"]
    error = await read_error(f"quilt://buckets?cursor={other}")
    assert error.error == "InvalidTemplateVariable"


async def test_the_name_in_a_link_is_encoded(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_queries(monkeypatch, {"bucketTitles": {"data": {"buckets": [make_bucket("../x?y#z")]}}})
    [row] = (await read(LIST))["buckets"]
    assert row["catalog_url"] == f"{fresh_world.url}/b/..%2Fx%3Fy%23z"
