"""Every row of mcp-list.csv in every world: mcp-parity compares both surfaces with each other and with the golden.

The admin's answers are data goldens. In another world, an answer has its own golden only if it differs from them.
"""

import json
import logging
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest
from mcp_parity import Answer as Observed
from mcp_parity.contract import (  # noqa: F401 - the tests
    test_both_surfaces_give_the_answer_of_the_golden,
    test_every_golden_has_a_case,
    test_every_line_of_the_configuration_applies,
    test_misspelt_uris_are_refused_on_both_surfaces,
    test_the_inventory_is_what_the_server_lists,
)

from quilt_mcp.demo.account import ACCOUNT_ID
from quilt_mcp.demo.world import World
from quilt_mcp.server import QuiltServer
from tests.contract.canaries import leaks, secrets_of
from tests.contract.cases import HOME, OF_QUILT
from tests.contract.identities import Recorder, Used, find_expected
from tests.contract.scrub import scrub
from tests.contract.surfaces import Answer, convert
from tests.support.worlds import enter_stopped
from tests.worlds.table import WORLDS

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
    "stack_error_without_path",
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
        if world.user is None:
            check_anonymous(answer, world)
        assert leaks(json.dumps(golden, ensure_ascii=False) + caplog.text, secrets | secrets_of(world)) == []
        if answer.resource_error is not None:
            assert world.name != HOME, f"{answer.uri} refuses the admin"
            check_refusal(answer, world.name)
        return scrub(golden, world)

    return check


def check_identity(used: Used, world: World) -> None:
    """Check that all calls for an answer are made as the user and role that the stack reports; as nobody without one.

    A signed-out user has no AWS credentials in the worlds, so no call to AWS is signed.
    """
    assert used.aws <= find_expected(world, world.user)
    assert used.users <= ({world.user.name} if world.user else set())
    assert used.hosts_with_token <= ({world.registry_url.removeprefix("https://")} if world.user else set())


def check_anonymous(answer: Answer, world: World) -> None:
    """Check that no part of an answer about Quilt or AWS names a user, a role or an account of the company."""
    if answer.uri.partition(":")[0] in OF_QUILT:
        text = json.dumps(answer.to_golden(), ensure_ascii=False)
        arns = [world.company.make_role_arn(role) for role in world.company.roles]
        users = [part for user in world.company.users for part in (user.name, user.email)]
        assert [part for part in (*users, *arns, ACCOUNT_ID) if part in text] == []
        assert find_values(answer.body, ("user_info", "user_identity", "access_token", "aws_expires_at")) <= {None}


def find_values(value: Any, names: Collection[str]) -> set[Any]:
    """Return the values of these keys at any depth; their text if they are objects."""
    if isinstance(value, list):
        return {found for one in value for found in find_values(one, names)}
    if not isinstance(value, dict):
        return set()
    own = {None if one is None else str(one) for name, one in value.items() if name in names}
    return own | {found for one in value.values() for found in find_values(one, names)}


def check_refusal(answer: Answer, world: str) -> None:
    """Check the requirements for every error."""
    body = answer.body
    assert body["error"] in ERRORS
    assert all(action.endswith((".", ")", "`")) for action in body["suggested_actions"])
    assert body["suggested_actions"]
    assert body["transient"] is (world in TEMPORARY)
    assert not body["transient"] or WHEN.search(body["suggested_actions"][0])
    assert body["error"] != "Unauthorized" or body["details"].startswith(REASONS)
