"""After a switch of the role in the catalog, no answer mixes the old and the new role."""

from dataclasses import replace
from functools import partial

from fastmcp import Client

from quilt_mcp.demo.records import User
from quilt_mcp.demo.world import World
from quilt_mcp.server import create_server
from tests.contract.identities import Recorder, find_expected
from tests.contract.surfaces import ask


async def test_a_switch_of_the_role_during_a_read_does_not_mix_two_roles_in_one_answer(
    fresh_world: World, recorder: Recorder
) -> None:
    async with Client(create_server()) as client:
        await ask(client, "athena://databases")
        recorder.on_call = partial(switch_role, fresh_world, "FinanceAudit")
        body = (await client.call_tool("get_resource", {"uri": "permissions://discover"})).structured_content
        first = await recorder.record(client, fresh_world, "permissions://discover")
    assert body
    assert body["data"]["user_identity"]["role_name"] == "Quilt-DataPlatform"
    assert {row["name"] for row in body["data"]["bucket_permissions"] if row["can_read"]} >= {"acme-raw-sequencing"}
    assert first.aws == find_expected(fresh_world, switch_role(fresh_world, "FinanceAudit"))


def switch_role(world: World, role: str) -> User:
    """Switch the role of the signed-in user, as the menu of the catalog does."""
    assert world.user
    user = replace(world.user, role=role)
    for grant in world.stack.grants.values():
        grant.user = user
    return user
