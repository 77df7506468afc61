"""A wrong use of the tool leads to the right call: what is surely meant is the only suggested action."""

import json
from typing import Any

import pytest
from fastmcp import Client
from mcp_types import ResourceTemplateReference

from quilt_mcp.demo.world import World
from quilt_mcp.server import create_server
from tests.contract.cases import HOME
from tests.support.worlds import in_world

PACKAGE = "quilt://buckets/acme-analysis-results/packages/rnaseq/liver"
MEANT = {
    "auth://whoami": "auth://status",
    "permissions://": "permissions://discover",
    "permissions://acme-analysis-results": "permissions://buckets/acme-analysis-results/access",
    "quilt://acme-analysis-results": "quilt://buckets/acme-analysis-results",
    "tabulator://acme-analysis-results": "tabulator://buckets/acme-analysis-results/tables",
    "athena://acme_sequencing": "athena://databases/acme_sequencing/tables",
    "workflow://quarterly-aggregation": "workflow://workflows/quarterly-aggregation/status",
    "requirements://REQ-001": "requirements://requirements/REQ-001",
    "requirements://US-001": "requirements://user-stories/US-001",
    "requirements://EP-001": "requirements://epics/EP-001",
    "requirements://AC-001": "requirements://acceptance-criteria/AC-001",
    "requirements://search?query=intake": "requirements://search/intake",
    "requirements://search?query=intake&limit=5": "requirements://search/intake?limit=5",
    "quilt://search?query=liver%20cohort": "quilt://search/liver%20cohort",
    "quilt://packages": "quilt://search",
    f"{PACKAGE}/contents/README.md": f"{PACKAGE}/contents?path=README.md",
    f"{PACKAGE}/contents/counts/liver.parquet": f"{PACKAGE}/contents?path=counts%2Fliver.parquet",
    "quilt://buckets/acme-analysis-results/objects/reports/": "quilt://buckets/acme-analysis-results/objects?prefix=reports%2F",
    "quilt://buckets/acme-analysis-results/object/README.md": "quilt://buckets/acme-analysis-results/object?key=README.md",
    "acme-analysis-results": "quilt://buckets/acme-analysis-results",
    "rnaseq/liver": "quilt://search/rnaseq%2Fliver",
}
ARGUMENTS: list[tuple[dict[str, Any], str | None]] = [
    ({"uri": "requirements://requirements", "limit": 5}, "requirements://requirements?limit=5"),
    (
        {"uri": "requirements://requirements?status=Draft", "limit": "5"},
        "requirements://requirements?status=Draft&limit=5",
    ),
    ({"uri": f"{PACKAGE}/contents", "path": "data/a b.csv"}, f"{PACKAGE}/contents?path=data%2Fa%20b.csv"),
    ({"url": "permissions://discover"}, "permissions://discover"),
    (
        {"resource": "quilt+s3://acme-analysis-results#package=rnaseq/liver"},
        "quilt+s3://acme-analysis-results#package=rnaseq/liver",
    ),
    ({"uri": "auth://status", "limit": 5}, None),
    ({"uri": "requirements://requirements?limit=5", "limit": 6}, None),
    ({"url": "permissions://discover", "limit": 5}, None),
    ({"url": "nothing://x"}, None),
    ({"uri": "auth://status", "verbose": True}, None),
    ({"uri": 5, "limit": 5}, None),
    ({"x": ["a"]}, None),
    ({"": ""}, None),
]


async def ask(arguments: dict[str, Any]) -> dict[str, Any]:
    async with Client(create_server()) as client:
        found = await client.call_tool_mcp("get_resource", arguments)
    assert found.is_error
    return found.structured_content or {}


@in_world(HOME)
async def test_what_is_surely_meant_is_the_only_suggestion_and_can_be_read(world: World) -> None:
    async with Client(create_server()) as client:
        for uri, meant in MEANT.items():
            body = (await client.call_tool_mcp("get_resource", {"uri": uri})).structured_content or {}
            assert (uri, body["error"], body["suggested_actions"]) == (uri, "InvalidURI", [f"Read {meant}."])
            assert len(body["valid_uris"]) > 50
            answer = (await client.call_tool_mcp("get_resource", {"uri": meant})).structured_content or {}
            assert answer["success"], (meant, answer)


@in_world(HOME)
async def test_other_arguments_lead_to_the_uri_that_they_mean(world: World) -> None:
    for arguments, meant in ARGUMENTS:
        body = await ask(arguments)
        assert body["error"] == "InvalidURI"
        if meant:
            assert body["suggested_actions"] == [f'Call get_resource with {{"uri": {json.dumps(meant)}}}.']
        else:
            assert "Call get_resource with" not in body["suggested_actions"][0]


@pytest.mark.parametrize(
    ("uri", "known"),
    [
        ("quilt://buckets/acme-raw-sequencing/packages/runs/", {"250519"}),
        ("quilt://buckets/acme-analysis-results/packages/rnaseq/", {"atlas", "liver"}),
        ("athena://databases/acme_clinical/tables/", {"visits"}),
    ],
)
@in_world(HOME)
async def test_existing_values_are_those_of_the_uri(uri: str, known: set[str], world: World) -> None:
    body = await ask({"uri": uri})
    [line] = [action for action in body["suggested_actions"] if action.startswith("Existing values: ")]
    assert set(line.removeprefix("Existing values: ").split(", ")) == known


@in_world(HOME)
async def test_completion_uses_the_other_variables(world: World) -> None:
    table = "athena://databases/{database}/tables/{table}{?cursor,limit}"
    package = "quilt://buckets/{bucket}/packages/{namespace}/{name}{?revision}"
    async with Client(create_server()) as client:

        async def complete(uri: str, name: str, **known: str) -> list[str]:
            reference = ResourceTemplateReference(type="ref/resource", uri=uri)
            return list((await client.complete(reference, {"name": name, "value": ""}, known)).values)

        assert await complete(table, "table", database="acme_clinical") == ["visits"]
        assert "run_metrics" in await complete(table, "table", database="acme_sequencing")
        assert await complete(package, "namespace", bucket="acme-raw-sequencing") == ["runs"]
        assert await complete(package, "name", bucket="acme-analysis-results", namespace="reports") == ["2025-q1"]
        assert await complete(package, "name", bucket="no-such-bucket", namespace="reports") == []
        assert await complete(package, "name", bucket="/") != []  # what is not valid does not count
