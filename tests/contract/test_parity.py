"""Every row of mcp-list.csv in every world: both surfaces give the same answer, and it is the golden's.

The admin's answers are data goldens. In another world, an answer has a golden of its own where it differs from them.
"""

import json
import logging
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from quilt_mcp.demo.world import FAILING_WORLDS, WORLDS, World
from tests.contract.canaries import leaks, secrets_of
from tests.contract.cases import HOME, RESOURCES, Row
from tests.contract.scrub import scrubbed
from tests.contract.surfaces import Answer, AnyClient, ask
from tests.golden import GOLDEN
from tests.worlds import in_world

ERRORS = {
    "InvalidURI",
    "MissingTemplateVariable",
    "InvalidTemplateVariable",
    "Unauthorized",
    "NotFound",
    "ResourceExecutionError",
}
MEND_THEMSELVES = {
    "aws_throttled",
    "aws_broken",
    "aws_unreachable",
    "stack_refused",
    "stack_error_json",
    "stack_error_html",
    "stack_error_not_json",
    "stack_slow",
    "database_unreachable",
}
REASONS = ("not signed in", "needs admin", "refused by AWS", "unknown user")


@in_world(*WORLDS, *FAILING_WORLDS)
@pytest.mark.parametrize("row", RESOURCES, ids=lambda row: row.example_uri)
async def test_both_surfaces_answer_as_the_golden_says(
    row: Row, world: World, client: AnyClient, golden: SnapshotAssertion, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "quilt_mcp")
    secrets = secrets_of(world)
    if world.name == "expired":
        world.stack.grants.clear()  # the read before has renewed the token
    answer = await ask(client, row.example_uri)
    assert leaks(json.dumps(answer.observed(), ensure_ascii=False) + caplog.text, secrets | secrets_of(world)) == []

    observed = scrubbed(answer.observed(), world)
    if answer.resource_error is not None:
        check_refusal(answer, world.name)
        assert observed == golden(name=row.error_golden(world.name))
    elif world.name == HOME or observed != admins(row):
        assert observed == golden(name=row.data_golden(world.name))
    else:
        assert not (GOLDEN / f"{row.data_golden(world.name)}.json").exists(), "it says what the admin's says: remove it"


def admins(row: Row) -> Any:
    """The golden of the admin's world."""
    return json.loads((GOLDEN / f"{row.data_golden(HOME)}.json").read_text(encoding="utf-8"))


def check_refusal(answer: Answer, world: str) -> None:
    """What holds for every refusal."""
    body = answer.body
    assert body["error"] in ERRORS
    assert all(action.endswith((".", ")", "`")) for action in body["suggested_actions"])
    assert body["suggested_actions"]
    assert body["transient"] is (world in MEND_THEMSELVES)
    assert not body["transient"] or "again in" in body["suggested_actions"][0]
    assert body["error"] != "Unauthorized" or body["details"].startswith(REASONS)
