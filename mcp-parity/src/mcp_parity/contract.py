"""The tests of a contract. A test module that holds `from mcp_parity.contract import *` has them all."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from mcp_parity.checking import Check, NothingToCheck
from mcp_parity.settings import ContractError, Row

T = TypeVar("T")

__all__ = [
    "test_both_surfaces_give_the_answer_of_the_golden",
    "test_every_golden_has_a_case",
    "test_every_line_of_the_configuration_applies",
    "test_misspelt_uris_are_refused_on_both_surfaces",
    "test_the_inventory_is_what_the_server_lists",
    "test_the_lists_are_those_of_the_goldens",
]


def report(check: Callable[[], T]) -> T:
    """Run a check, and report a broken contract, or a golden that cannot be written, by its message alone."""
    try:
        return check()
    except (ContractError, OSError) as broken:
        skip, message = isinstance(broken, NothingToCheck), str(broken)
    if skip:
        pytest.skip(message)
    pytest.fail(message, pytrace=False)  # outside of the handler: pytest would also show the first exception


def test_the_inventory_is_what_the_server_lists(mcp_parity: Check) -> None:
    report(mcp_parity.check_inventory)


def test_the_lists_are_those_of_the_goldens(mcp_parity: Check) -> None:
    report(mcp_parity.check_lists)


def test_both_surfaces_give_the_answer_of_the_golden(mcp_parity_case: Row | str, mcp_parity: Check) -> None:
    if isinstance(mcp_parity_case, str):
        pytest.fail(mcp_parity_case, pytrace=False)
    report(lambda: mcp_parity.check_case(mcp_parity_case))


def test_misspelt_uris_are_refused_on_both_surfaces(mcp_parity: Check) -> None:
    report(mcp_parity.check_misspelt)


def test_every_golden_has_a_case(mcp_parity: Check) -> None:
    report(mcp_parity.check_leftovers)


def test_every_line_of_the_configuration_applies(mcp_parity: Check) -> None:
    if mcp_parity.update:
        pytest.skip("goldens are being written")
    report(mcp_parity.check_settings)
