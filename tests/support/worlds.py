"""Running a test in demo worlds."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from unittest.mock import patch

import pytest
import time_machine
from botocore.retries.bucket import Clock

from quilt_mcp.commands.demo.world import World, demo_world

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
"""The time in every world."""

PATIENCE = {"many_buckets": {"QUILT_MCP_PROBE_SECONDS": "240", "QUILT_MCP_DEADLINE_SECONDS": "280"}}
"""Time limits that a busy machine does not reach: at the default, some of a thousand buckets were not probed."""


def in_world(*names: str, soak: Iterable[str] = ()) -> pytest.MarkDecorator:
    """Run the test once in each of these worlds. pytest runs the tests of one module and world one after the other.

    Args:
        names: the worlds.
        soak: the worlds in which only `make soak` runs it.
    """
    rare = [pytest.param(name, marks=pytest.mark.soak) for name in soak]
    return pytest.mark.parametrize("world", [*names, *rare], indirect=True)


@contextmanager
def enter_stopped(name: str) -> Iterator[World]:
    """Enter a world in which the clock stands still at NOW.

    time.monotonic runs on. botocore's adaptive retries use it here, because they wait until time.time has moved: for
    ever, if it stands still.
    """
    with (
        patch.dict(os.environ, PATIENCE.get(name, {})),
        time_machine.travel(NOW, tick=False),
        patch.object(Clock, "current_time", lambda _: time.monotonic()),
        demo_world(name) as world,
    ):
        yield world
