"""Fixtures that all tests share: the clock, the worlds, a client, goldens."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import time_machine
from fastmcp import Client
from fastmcp.client.transports import FastMCPTransport
from syrupy.assertion import SnapshotAssertion

from quilt_mcp import runtime_context
from quilt_mcp.demo.world import World, demo_world
from quilt_mcp.server import create_server
from quilt_mcp.settings import Settings
from tests.golden import GoldenExtension

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The world that a test asks for by `in_world(...)`, with the clock stopped in it."""
    with time_machine.travel(NOW, tick=False), demo_world(request.param) as entered:
        yield entered


@pytest.fixture
def fresh_world() -> Iterator[World]:
    """The admin's world for one test, which may change it."""
    with time_machine.travel(NOW, tick=False), demo_world("admin") as entered:
        yield entered


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the workflows of this test are kept; it does not exist yet."""
    monkeypatch.setenv("QUILT_MCP_DATA_DIR", str(tmp_path / "data"))
    before = runtime_context.settings()
    runtime_context.use_settings(Settings())
    yield tmp_path / "data"
    runtime_context.use_settings(before)


@pytest.fixture
async def client(world: World) -> AsyncIterator[Client[FastMCPTransport]]:
    """An in-memory client of a server in the world."""
    del world  # entered before the server is made
    async with Client(create_server()) as connected:
        yield connected


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(GoldenExtension)
