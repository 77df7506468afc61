"""The identity in an answer is that of its calls. test_parity compares the calls for every answer."""

from fastmcp import Client

from quilt_mcp.demo.world import World
from quilt_mcp.server import create_server
from tests.contract.identities import Recorder, find_expected
from tests.contract.surfaces import ask
from tests.support.worlds import in_world


@in_world("admin", "two_stacks", soak=("api_key", "role_switched", "custom_role", "prefix_policy"))
async def test_the_identity_in_the_answers_is_that_of_the_calls(world: World, recorder: Recorder) -> None:
    [expected] = find_expected(world, world.user)
    async with Client(create_server()) as client:
        status = (await ask(client, "auth://status")).body["data"]
        used = await recorder.record(client, world, "permissions://discover")
        identity = (await ask(client, "permissions://discover")).body["data"]["user_identity"]
    assert used.aws == {expected}
    assert world.user
    assert (status["user_info"]["username"], status["user_info"]["role"]) == (world.user.name, world.user.role)
    assert (identity["role_name"], identity["user_name"]) == (expected.role_arn.rpartition("/")[2], expected.session)
