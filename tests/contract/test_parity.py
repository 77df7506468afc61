"""Every row of mcp-list.csv in every world: mcp-parity compares both surfaces with each other and with the golden.

The admin's answers are data goldens. In another world, an answer has its own golden only if it differs from them.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mcp_parity.contract import (  # noqa: F401 - the tests
    test_both_surfaces_give_the_answer_of_the_golden,
    test_every_golden_has_a_case,
    test_every_line_of_the_configuration_applies,
    test_misspelt_uris_are_refused_on_both_surfaces,
    test_the_inventory_is_what_the_server_lists,
)
from mcp_parity.observing import Answer as Observed

from quilt_mcp.commands.demo.world import World
from quilt_mcp.commands.demo.worlds import WORLDS
from quilt_mcp.server import QuiltServer
from tests.contract.canaries import leaks, secrets_of
from tests.contract.cases import HOME
from tests.contract.identities import Recorder, Used, find_expected
from tests.contract.scrub import scrub
from tests.contract.surfaces import Answer, convert
from tests.support.worlds import enter_stopped

ERRORS = {
    "InvalidURI",
    "MissingTemplateVariable",
    "InvalidTemplateVariable",
    "Unauthorized",
    "NotFound",
    "ResourceExecutionError",
}
TEMPORARY = {
    "aws_throttled",
    "aws_broken",
    "aws_unreachable",
    "stack_refused",
    "stack_error_json",
    "stack_error_html",
    "stack_error_not_json",
    "stack_slow",
    "stack_endless",
    "database_unreachable",
}
WHEN = re.compile(r"\b(second|minute)s?\b")
REASONS = ("not signed in", "needs admin", "refused by AWS", "refused by the stack", "unknown user")


@pytest.fixture(scope="module", params=WORLDS)
def mcp_world(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def world(mcp_world: str) -> Iterator[World]:
    with enter_stopped(mcp_world) as entered:
        yield entered


@pytest.fixture
def mcp_parity_server(server: QuiltServer) -> QuiltServer:
    return server


@pytest.fixture
def mcp_to_golden(world: World, recorder: Recorder, caplog: pytest.LogCaptureFixture) -> Callable[[Observed], Any]:
    """Check what only our answers promise, and hide what differs by machine."""
    caplog.set_level(logging.DEBUG, "quilt_mcp")
    recorder.forget(world)
    secrets = secrets_of(world)
    if world.name in {"expired", "renewal_race"}:
        world.stack.grants.clear()  # the previous read has renewed the token
    if world.name == "renewal_race":
        world.stack.refresh_tokens.clear()

    def check(found: Observed) -> Any:
        answer = convert(found)
        check_identity(recorder.collect(world), world)
        golden = answer.to_golden()
        assert leaks(json.dumps(golden, ensure_ascii=False) + caplog.text, secrets | secrets_of(world)) == []
        if answer.resource_error is not None:
            assert world.name != HOME, f"{answer.uri} refuses the admin"
            check_refusal(answer, world.name)
        return scrub(golden, world)

    return check


def check_identity(used: Used, world: World) -> None:
    """Check that all calls for an answer are made as the user and role that the stack reports."""
    if world.user:
        assert used.aws <= find_expected(world, world.user)
        assert used.users <= {world.user.name}
        assert used.hosts_with_token <= {world.registry_url.removeprefix("https://")}


def check_refusal(answer: Answer, world: str) -> None:
    """Check the requirements for every error."""
    body = answer.body
    assert body["error"] in ERRORS
    assert all(action.endswith((".", ")", "`")) for action in body["suggested_actions"])
    assert body["suggested_actions"]
    assert body["transient"] is (world in TEMPORARY)
    assert not body["transient"] or WHEN.search(body["suggested_actions"][0])
    assert body["error"] != "Unauthorized" or body["details"].startswith(REASONS)
