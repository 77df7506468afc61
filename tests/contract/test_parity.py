"""Every row of mcp-list.csv in every world: both surfaces give the same answer, and it is the golden's."""

import pytest
from syrupy.assertion import SnapshotAssertion

from quilt_mcp.demo.world import WORLDS, World
from tests.contract.cases import RESOURCES, Row
from tests.contract.scrub import scrubbed
from tests.contract.surfaces import AnyClient, ask
from tests.worlds import in_world


@in_world(*WORLDS)
@pytest.mark.parametrize("row", RESOURCES, ids=lambda row: row.example_uri)
async def test_both_surfaces_answer_as_the_golden_says(
    row: Row, world: World, client: AnyClient, golden: SnapshotAssertion
) -> None:
    answer = await ask(client, row.example_uri)

    failed = answer.resource_error is not None
    name = row.error_golden(world.name) if failed else row.data_golden(world.name)
    assert scrubbed(answer.observed(), world) == golden(name=name)
