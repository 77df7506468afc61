"""What each resource costs in the demo's admin world: its calls to AWS and to the stack, as data.

A resource without a row makes none.
"""

from collections import Counter
from typing import Any

import pytest
from botocore.client import BaseClient

from quilt_mcp import runtime_context
from quilt_mcp.demo.world import World
from quilt_mcp.settings import Settings
from tests.contract.cases import RESOURCES
from tests.contract.surfaces import AnyClient
from tests.worlds import in_world

WORKGROUPS = 4  # enabled in the demo
BUCKETS = 7
PROBES = {
    "sts:GetCallerIdentity": 1,
    "s3:ListBuckets": 1,
    "s3:HeadBucket": BUCKETS,
    "s3:HeadObject": BUCKETS,
    "stack:stackAccess": 1,
    "stack:rolesList": 1,  # an administrator's role tells what it may write
}
CALLS: dict[str, dict[str, int]] = {
    "auth://status": {"stack:me": 1},
    "auth://catalog/info": {"stack:/config.json": 1},
    "athena://databases": {"glue:GetDatabases": 1},
    "athena://workgroups": {"athena:ListWorkGroups": 1, "athena:GetWorkGroup": WORKGROUPS},
    "athena://query/history": {
        "athena:ListWorkGroups": 1,
        "athena:ListQueryExecutions": WORKGROUPS,
        "athena:BatchGetQueryExecution": WORKGROUPS,
    },
    "admin://users": {"stack:usersList": 1},
    "admin://roles": {"stack:rolesList": 1},
    "admin://config/sso": {"stack:ssoConfigGet": 1},
    "admin://config/tabulator": {"stack:tabulatorGetOpenQuery": 1},
    "permissions://discover": PROBES,
    "permissions://recommendations": PROBES,
    "tabulator://buckets": {"stack:tabulatorBuckets": 1},
}


@pytest.fixture
def aws_calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the operations that botocore is asked for. Its one entry for all of them is private, and has been there
    since its first release; if it moves, this fixture fails to set it.
    """
    counted: Counter[str] = Counter()
    original = BaseClient._make_api_call

    def counting(client: Any, operation: str, parameters: dict[str, Any]) -> Any:
        counted[f"{client.meta.service_model.service_name}:{operation}"] += 1
        return original(client, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", counting)
    return counted


def test_every_row_is_of_a_resource() -> None:
    assert CALLS.keys() <= {row.uri for row in RESOURCES}


@in_world("admin")
@pytest.mark.parametrize("row", RESOURCES, ids=lambda row: row.uri)
async def test_a_read_costs_these_calls_and_no_more(
    row: Any, world: World, client: AnyClient, aws_calls: Counter[str]
) -> None:
    runtime_context.use_settings(Settings())  # a new caller, as after start: nothing is left from the test before
    world.stack.calls.clear()

    assert not (await client.call_tool_mcp("get_resource", {"uri": row.example_uri})).is_error

    to_stack = Counter(f"stack:{call.operation or call.path}" for call in world.stack.calls)
    assert dict(aws_calls + to_stack) == CALLS.get(row.uri, {})
