"""AWS credentials that expire during a read: the server fetches new ones, and the answer is the same as always."""

import json

import pytest
from fastmcp import Client

from quilt_mcp.server import create_server
from tests.contract.cases import GOLDENS, HOME, RESOURCES, Row
from tests.contract.scrub import scrub
from tests.support.worlds import enter_stopped

GET_CREDENTIALS = "/api/auth/get_credentials"
FEW_CALLS = {
    "athena://databases",
    "athena://databases/{database}/tables{?cursor,limit}",
    "athena://query/{execution_id}/results{?cursor,limit}",
}
"""The resources that make fewer calls to AWS than the first credentials allow."""
MANY_CALLS = [
    row
    for row in RESOURCES
    if row.category in {"athena", "permissions"} and row.uri not in FEW_CALLS and "{table}" not in row.uri
]


@pytest.mark.parametrize("row", MANY_CALLS, ids=lambda row: row.uri)
async def test_a_read_during_which_the_credentials_expire_gives_the_usual_answer(row: Row) -> None:
    uri, golden = row.example_uri, row.data_golden(HOME)
    with enter_stopped("credentials_expire") as world:
        async with Client(create_server()) as client:
            result = await client.call_tool("get_resource", {"uri": uri}, raise_on_error=False)
        fetched = [call.path for call in world.stack.calls].count(GET_CREDENTIALS)
        body = {key: value for key, value in (result.structured_content or {}).items() if key != "timestamp"}
        assert scrub(body, world) == json.loads((GOLDENS / f"{golden}.json").read_text(encoding="utf-8"))
    assert fetched == 2
