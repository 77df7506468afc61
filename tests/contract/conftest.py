"""Fixtures that tests of the contract share."""

import os
from collections.abc import Iterator

import botocore
import pytest
from mcp_parity import Component, Names

from quilt_mcp.core.registry import path_of
from tests.contract.cases import GOLDENS, HOME, RESOURCES
from tests.contract.identities import Recorder
from tests.worlds.table import WORLDS

RARE_WORLDS = {
    *("athena_throttled", "aws_throttled", "many_buckets"),  # large
    *("stack_endless", "stack_slow"),  # on a machine that stalls, the healthy parts reach the short time limits, too
    # another status for the same failure: their goldens equal those of stack_2022 and so on, or differ by the status
    *(f"stack_{age}_400" for age in ("2022", "2023", "2024_06", "2024_10", "2024_12", "2026_06")),
    *("stack_forbidden_graphql", "prefix_policy_404", "stack_error_html"),
}
"""The worlds that only `make soak` reads."""

NAMES = Names(row.example_uri for row in RESOURCES if row.example_uri)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """A recorder for all clients of AWS that are created during the test."""
    found = Recorder()
    botocore.register_initializer(found.register)
    yield found
    botocore.unregister_initializer(found.register)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of one part of the worlds, if GOLDEN_PART names it. `make soak` runs what can hardly differ."""
    seen: set[tuple[str, str]] = set()
    for item in items:
        if _world_of(item) in RARE_WORLDS or (_world_of(item) != HOME and _answers_like_another(item, seen)):
            item.add_marker(pytest.mark.soak)
    part = os.environ.get("GOLDEN_PART")
    if part is not None:
        worlds = worlds_of(part)
        config.hook.pytest_deselected(items=[item for item in items if _world_of(item) not in worlds])
        items[:] = [item for item in items if _world_of(item) in worlds]


def _answers_like_another(item: pytest.Item, seen: set[tuple[str, str]]) -> bool:
    """Return whether the answer to a case must equal that of an earlier world, which `make test` reads.

    Args:
        item: the case.
        seen: the URIs and goldens of the worlds before; extended.
    """
    callspec = getattr(item, "callspec", None)
    row = callspec.params.get("mcp_parity_case") if callspec else None
    if not isinstance(row, dict):
        return False
    uri, world = row["example_uri"], _world_of(item)
    files = [GOLDENS / f"{name}.json" for name in (NAMES.data(uri, world), NAMES.error(uri, world))]
    golden = next((file.read_text(encoding="utf-8") for file in files if file.exists()), None)
    if golden is None or (uri, golden) in seen:  # without a golden of its world, the admin's must fit
        return True
    seen.add((uri, golden))
    return False


def worlds_of(part: str) -> set[str]:
    """Return the worlds of one part, so that several processes can write goldens: `make golden` does this.

    The part `home` must be first, because a world has a golden only where it differs from home. `2/3` is the second
    third of the other worlds. All files that it writes have the names of its worlds, so no other part writes them.
    Names of worlds stand for themselves.

    Raises:
        UsageError: a name is that of no world.
    """
    if part == "home":
        return {HOME}
    if "/" not in part:
        if unknown := sorted({*part.split()} - {*WORLDS}):
            raise pytest.UsageError(f"no world {', '.join(unknown)}; worlds: {', '.join(WORLDS)}")
        return {*part.split()}
    number, count = map(int, part.split("/"))
    return {*[name for name in WORLDS if name != HOME][number - 1 :: count]}


def _world_of(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("mcp_world", HOME)) if callspec else HOME


def pytest_mcp_components(components: list[Component]) -> None:
    """Keep the rows of the registry and of tools, and fill the columns of tools.

    The entities of databases are no rows. A template with only optional variables is also listed as a resource.
    """
    templates = {path_of(one.row["uri"]) for one in components if one.row["type"] == "resource_template"}
    components[:] = [
        one
        for one in components
        if one.row["type"] != "resource" or ("category" in one.row and one.row["uri"] not in templates)
    ]
    for tool in (one for one in components if one.row["type"] == "tool"):
        [tool.row["category"]] = tool.listed["_meta"]["fastmcp"]["tags"]
        tool.row["requires_admin"] = "false"
