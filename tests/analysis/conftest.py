"""Sandboxes that all tests share: the start of a zygote takes longer than most analyses."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from quilt_mcp.analysis.sandbox import Sandbox
from tests.analysis.sandboxes import UNGATED, running


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that share a sandbox in its event loop."""
    for item in items:
        is_async = item.get_closest_marker("asyncio") is not None
        shared = {"sandbox", "ungated"}.intersection(getattr(item, "fixturenames", ()))
        if is_async and shared and item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sandbox() -> AsyncIterator[Sandbox]:
    """The sandbox of a server."""
    async with running() as found:
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def ungated() -> AsyncIterator[Sandbox]:
    """A sandbox that runs any code in the jail."""
    async with running(UNGATED) as found:
        yield found
