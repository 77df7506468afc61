"""Every URI in an answer of the admin's world can be read: nobody builds one by hand."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from quilt_mcp.core.registry import path_of
from quilt_mcp.demo.world import World
from quilt_mcp.resources import RESOURCE_REGISTRY
from quilt_mcp.tools.resource_access import get_resource
from tests.contract.cases import GOLDENS, HOME, RESOURCES
from tests.support.worlds import in_world

SCHEMES = {row["category"] for row in RESOURCE_REGISTRY.values()}
LINK = re.compile(rf"(?:{'|'.join(sorted(SCHEMES))})://[^\s{{}}]+")
LISTS = {
    "quilt://buckets": "buckets",
    "quilt://buckets/{bucket}/packages": "packages",
    "quilt://buckets/{bucket}/packages/{namespace}/{name}/revisions": "revisions",
    "quilt://buckets/{bucket}/packages/{namespace}/{name}/contents": "entries",
    "quilt://buckets/{bucket}/packages/{namespace}/{name}/changes": "changes",
    "quilt://buckets/{bucket}/objects": "entries",
    "quilt://search/{query}": "packages",
    "athena://databases": "databases",
    "athena://databases/{database}/tables": "tables",
    "tabulator://buckets": "buckets",
    "permissions://discover": "bucket_permissions",
    "workflow://workflows": "workflows",
    "requirements://epics": "epics",
    "requirements://projects": "projects",
    "requirements://requirements": "requirements",
    "requirements://user-stories": "user_stories",
    "requirements://acceptance-criteria": "acceptance_criteria",
    "requirements://search/{query}": "results",
    "requirements://changes": "changes",
}
"""Lists of things that have an answer of their own: the path of the URI, and the field."""


def find_links(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from find_links(one)
    elif isinstance(value, list):
        for one in value:
            yield from find_links(one)
    elif isinstance(value, str) and LINK.fullmatch(value):
        yield value


def read_data(path: Path) -> object:
    return json.loads(path.read_text(encoding="utf-8"))["data"]


@in_world(HOME)
async def test_every_uri_of_an_answer_can_be_read(world: World) -> None:
    homes = [GOLDENS / f"{row.data_golden(HOME)}.json" for row in RESOURCES if row.category != "info"]
    links = sorted({link for path in homes for link in find_links(read_data(path))})
    assert len(links) > 200
    failed = {}
    for link in links:
        answer = await get_resource(link)
        if not answer.success:
            failed[link] = answer.message
    assert failed == {}


def test_each_row_that_names_a_thing_has_its_uri() -> None:
    rows = {path_of(row.uri): row for row in RESOURCES}
    for path, field in LISTS.items():
        data = read_data(GOLDENS / f"{rows[path].data_golden(HOME)}.json")
        assert isinstance(data, dict)
        assert data[field], path
        assert [one for one in data[field] if not one.get("uri")] == [], path
