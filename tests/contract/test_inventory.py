"""The rows, the server and the files in golden/ name each other, with nothing left over."""

import pytest
from syrupy.assertion import SnapshotAssertion

from quilt_mcp.demo.world import FAILING_WORLDS, WORLDS
from quilt_mcp.resources import RESOURCE_REGISTRY
from tests.contract.cases import CSV, HOME, RESOURCES
from tests.contract.mcp_list import csv_text
from tests.contract.scrub import goldens_on_disk
from tests.contract.surfaces import AnyClient
from tests.contract.test_bad_input import BAD_ARGUMENTS, BAD_URIS
from tests.contract.test_discovery import A_PAGE, DISCOVERY
from tests.golden import GOLDEN
from tests.worlds import in_world


@in_world("admin")
async def test_the_csv_is_what_the_live_server_lists(client: AnyClient) -> None:
    assert CSV.read_text(encoding="utf-8") == await csv_text(client), "run `make mcp-list`"


def test_every_resource_of_the_registry_has_a_row() -> None:
    assert sorted(row.uri for row in RESOURCES) == sorted(RESOURCE_REGISTRY)


def test_every_golden_has_a_case_and_every_case_at_most_one(request: pytest.FixtureRequest) -> None:
    """In a world other than the admin's a case without a golden answers the admin's; test_parity holds it to that."""
    if request.config.option.update_snapshots:
        pytest.skip("goldens are being written; `make golden` verifies them in a second run")
    found = goldens_on_disk(GOLDEN)
    for row in RESOURCES:
        assert row.data_golden(HOME) in found, f"{row.example_uri} has no golden"
        for world in (*WORLDS, *FAILING_WORLDS):
            named = {row.data_golden(world), row.error_golden(world)} & found
            assert len(named) <= 1, f"{row.example_uri} in {world} is both data and a refusal: {sorted(named)}"
            found -= named
    bad_input = {*BAD_URIS, *(f"argument-{name}" for name in BAD_ARGUMENTS)}
    assert found == {*DISCOVERY, A_PAGE, *(f"errors/bad-input/{name}" for name in bad_input)}


def test_goldens_hold_no_unnamed_snapshot(golden: SnapshotAssertion) -> None:
    with pytest.raises(ValueError, match="a golden is named"):
        golden(name="elsewhere/x").__eq__({})


def test_nothing_in_a_golden_is_hidden_from_who_reviews_it() -> None:
    hidden = {
        f"{path.name}: {one!r}"
        for path in GOLDEN.rglob("*.json")
        for one in path.read_text(encoding="utf-8")
        if not one.isprintable() and one != "\n"
    }
    assert hidden == set()
