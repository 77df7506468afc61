"""The calls to AWS and to the stack that each resource makes in the demo's admin world.

A resource without a row makes no calls.
"""

from collections import Counter
from typing import Any

import pytest

from quilt_mcp.demo.world import World
from tests.contract.cases import RESOURCES
from tests.contract.surfaces import AnyClient
from tests.support.worlds import in_world

WORKGROUPS = 5  # enabled in the demo
BUCKETS = 7
OPENING = {"stack:/api/auth/get_credentials": 1, "stack:me": 2}
"""The first call to AWS of a caller. The user and role are read before and after the credentials are fetched."""
PACKAGE = "quilt://buckets/{bucket}/packages/{namespace}/{name}"
STATED = {"stack:stackBuckets": 1, "stack:rolesList": 1}
"""What the stack states. For administrators, their role shows which buckets they can write."""
PROBES = {
    "sts:GetCallerIdentity": 1,
    "s3:ListBuckets": 1,
    "s3:ListObjectsV2": BUCKETS + 3,  # one refuses the root, and two begin with many keys under .quilt/
    "s3:HeadObject": 9,  # up to three keys of each bucket
    **OPENING,
    **STATED,
}
CALLS: dict[str, dict[str, int]] = {
    "auth://status": {"stack:me": 1},
    "auth://catalog/info": {"stack:/config.json": 1},
    "athena://databases": {"glue:GetDatabases": 1, "athena:ListDataCatalogs": 1, **OPENING},
    "athena://databases/{database}/tables{?cursor,limit}": {"glue:GetTables": 1, **OPENING},
    "athena://databases/{database}/tables/{table}{?cursor,limit}": {"glue:GetTable": 1, **OPENING},
    "athena://workgroups": {
        "athena:ListWorkGroups": 1,
        "athena:GetWorkGroup": WORKGROUPS,
        "athena:GetDataCatalog": 1,
        "glue:GetDatabases": 1,
        "glue:GetTables": 1,
        "stack:/config.json": 1,
        **OPENING,
    },
    "athena://query/history": {
        "athena:ListWorkGroups": 1,
        "athena:ListQueryExecutions": WORKGROUPS,
        "athena:BatchGetQueryExecution": WORKGROUPS - 1,  # one has no queries
        **OPENING,
    },
    "athena://query/{execution_id}/results{?cursor,limit}": {
        "athena:GetQueryExecution": 1,
        "athena:GetQueryResults": 1,
        **OPENING,
    },
    "admin://users": {"stack:usersList": 1},
    "admin://roles": {"stack:rolesList": 1},
    "admin://api-keys": {"stack:apiKeysList": 1},
    "admin://config/sso": {"stack:ssoConfigGet": 1},
    "admin://config/tabulator": {"stack:tabulatorGetOpenQuery": 1},
    "permissions://discover": PROBES,
    "permissions://recommendations": PROBES,
    "permissions://buckets/{bucket}/access": {
        "sts:GetCallerIdentity": 1,
        "s3:ListBuckets": 1,
        "s3:ListObjectsV2": 5,
        "s3:HeadObject": 7,
        **OPENING,
        **STATED,
        "stack:usersList": 1,
    },
    "quilt://buckets{?cursor,limit}": {"stack:bucketTitles": 1},
    "quilt://buckets/{bucket}": {
        "stack:bucketOverview": 1,
        "s3:GetObject": 1,
        "s3:ListObjectsV2": 1,
        "cloudwatch:GetMetricData": 1,
        **OPENING,
    },
    "quilt://buckets/{bucket}/packages{?filter,order,cursor,limit}": {"stack:packages": 1},
    "quilt://buckets/{bucket}/objects{?prefix,cursor,limit}": {"s3:ListObjectsV2": 1, **OPENING},
    "quilt://buckets/{bucket}/object{?key,version,cursor,limit}": {
        "s3:GetObject": 1,
        "s3:ListObjectVersions": 1,
        **OPENING,
    },
    f"{PACKAGE}{{?revision}}": {"stack:package": 1},
    f"{PACKAGE}/revisions{{?cursor,limit}}": {"stack:packageRevisions": 1},
    f"{PACKAGE}/changes{{?from,to,cursor,limit}}": {"stack:packageNewest": 1},
    f"{PACKAGE}/contents{{?path,revision,cursor,limit}}": {"stack:packageContents": 1},
    "quilt://search/{query}{?buckets,kind,cursor,limit}": {"stack:searchPackages": 1},
    "metadata://workflows/{bucket}": {"s3:GetObject": 1, **OPENING},
    "tabulator://buckets": {"stack:tabulatorBuckets": 1},
    "tabulator://buckets/{bucket}/tables{?cursor,limit}": {
        "stack:bucketTabulatorTablesList": 1,
        "stack:/config.json": 1,
    },
}


def test_every_row_belongs_to_a_resource() -> None:
    assert CALLS.keys() <= {row.uri for row in RESOURCES}


@in_world("admin")
@pytest.mark.parametrize("row", RESOURCES, ids=lambda row: row.uri)
async def test_a_read_makes_exactly_these_calls(
    row: Any, world: World, aws_calls: Counter[str], client: AnyClient
) -> None:
    world.stack.calls.clear()

    assert not (await client.call_tool_mcp("get_resource", {"uri": row.example_uri})).is_error

    to_stack = Counter(f"stack:{call.operation or call.path}" for call in world.stack.calls)
    assert dict(aws_calls + to_stack) == CALLS.get(row.uri, {})
