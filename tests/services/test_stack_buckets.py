"""quilt://buckets on stacks of different ages, and the cursors of all lists."""

import pytest

from quilt_mcp.core.cursors import compute_tag, encode
from quilt_mcp.demo.world import World
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


LISTS = {
    "quilt://buckets": "buckets",
    "admin://users": "users",
    "admin://roles": "roles",
    "permissions://discover": "bucket_permissions",
    "athena://databases/acme_sequencing/tables": "tables",
    "athena://databases/quilt-acme-icebergdatabase/tables": "tables",
    "tabulator://buckets/acme-raw-sequencing/tables": "tables",
}
"""Lists with several rows, and the names of the rows."""


async def test_a_cursor_reads_the_rest_of_its_own_list_only(fresh_world: World) -> None:
    for uri, rows in LISTS.items():
        pages, whole = await read_pages(f"{uri}?limit=1"), await read(uri)
        assert [page[rows][0]["name"] for page in pages] == [row["name"] for row in whole[rows]], uri
        for other in {*LISTS, "tabulator://buckets/acme-analysis-results/tables"} - {uri}:
            error = await read_error(f"{other}?cursor={pages[0]['next_cursor']}")
            assert error.error == "InvalidTemplateVariable", (uri, other)
    of_another_stack = encode("=a", compute_tag("buckets", "https://registry.example.com"))
    assert (await read_error(f"{LIST}?cursor={of_another_stack}")).error == "InvalidTemplateVariable"


async def test_the_name_in_a_link_is_encoded(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_queries(monkeypatch, {"bucketTitles": {"data": {"buckets": [make_bucket("../x?y#z")]}}})
    [row] = (await read(LIST))["buckets"]
    assert row["catalog_url"] == f"{fresh_world.url}/b/..%2Fx%3Fy%23z"
