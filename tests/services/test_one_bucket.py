"""permissions://buckets/{bucket}/access, and what users see in the demo worlds."""

from collections import Counter

import pytest

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.demo.world import World
from quilt_mcp.services.bucket_access import list_stack_buckets
from tests.support import apps
from tests.support.python_caller import read, read_error
from tests.support.settings import Settings
from tests.support.worlds import in_world


async def read_bucket(name: str) -> JSONObject:
    return await read(f"permissions://buckets/{name}/access")


@in_world("member")
async def test_an_unlisted_bucket_can_be_read(world: World) -> None:
    data = await read_bucket("acme-athena-results")
    assert (data["named_by"], data["in_stack"]) == ([], False)
    assert data["read_evidence"] == "not tried: the bucket is empty"


@in_world("admin")
async def test_a_name_that_no_bucket_has_is_refused(world: World) -> None:
    missing = ("acme-no-such-bucket", "No_Such.Legacy-Name", "a.b", "a..b", "a_b_c", "ABC", "192.168.5.4", "x" * 64)
    invalid = ("ab", "-acme", "acme~data", "acme%20data", "x" * 129, "arn%3Aaws%3As3%3A%3A%3Aacme", "..a", "~")
    for name, error in (dict.fromkeys(missing, "NotFound") | dict.fromkeys(invalid, "InvalidTemplateVariable")).items():
        found = await read_error(f"permissions://buckets/{name}/access")
        assert (name, found.error) == (name, error)
        assert found.suggested_actions
        assert (await read_error(f"tabulator://buckets/{name}/tables")).error in ("NotFound", error), name


@in_world("admin")
def test_the_names_of_the_stacks_buckets_complete_the_uri(world: World) -> None:
    world.stack.calls.clear()
    assert list_stack_buckets("acme-c") == ["acme-clinical-trials"]
    assert [call.operation for call in world.stack.calls] == ["stackBucketNames"]


@in_world("admin")
async def test_one_bucket_is_tried_with_one_put(
    world: World, aws_calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUILT_MCP_PROBE_WRITES", "true")
    apps.use_settings(Settings())
    data = await read_bucket("acme-raw-sequencing")
    assert (data["can_write"], data["write"]) == (True, "verified")
    assert [one["result"] for one in data["evidence"] if one["call"] == "PutObject"] == ["allowed"]
    assert len(data["prefixes"]) > 1
    assert aws_calls["s3:PutObject"] == 1
    assert aws_calls.total() <= 20
