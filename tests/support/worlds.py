"""Running a test in demo worlds."""

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
import time_machine
from botocore.retries.bucket import Clock

from quilt_mcp.commands.demo import world as demo
from quilt_mcp.commands.demo.records import Workflow
from quilt_mcp.commands.demo.workflow_sample import write_workflows
from quilt_mcp.commands.demo.world import World, demo_world
from quilt_mcp.settings import Settings
from quilt_mcp.workflows.settings import FILE_NAME

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
        patch.object(demo, "write_workflows", _copy_workflows),
        demo_world(name) as world,
    ):
        yield world


def _copy_workflows(settings: Settings, workflows: tuple[Workflow, ...]) -> None:
    """Do what `write_workflows` does with the same workflows at the same time, but write each file only once."""
    if workflows:
        file = settings.data_dir / FILE_NAME
        file.touch(mode=0o600)
        file.write_bytes(_write_once(workflows))


@cache
def _write_once(workflows: tuple[Workflow, ...]) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        write_workflows(Settings(data_dir=Path(directory)), workflows)
        return (Path(directory) / FILE_NAME).read_bytes()
