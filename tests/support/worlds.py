"""Running a test in demo worlds."""

import json
import os
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import quilt3.session
import quilt3.util
import time_machine

from quilt_mcp.demo import world as demo
from quilt_mcp.demo.records import User
from quilt_mcp.demo.stack import FakeStack
from quilt_mcp.demo.world import PEOPLE, Plan, World
from quilt_mcp.requirements import sample as requirements_sample
from quilt_mcp.server import find_domains
from quilt_mcp.services.stack import sign_in as local_sign_in
from quilt_mcp.workflows import sample as workflows_sample
from quilt_mcp.workflows.sample import Sample, write_workflows
from quilt_mcp.workflows.settings import FILE_NAME
from tests.support.settings import Settings
from tests.worlds.table import WORLDS

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
"""The time in every world."""

PATIENCE = {"many_buckets": {"QUILT_MCP_PROBE_SECONDS": "240", "QUILT_MCP_DEADLINE_SECONDS": "280"}}
"""Time limits that a busy machine does not reach: at the default, some of a thousand buckets were not probed."""

PLACE = "<quilt3's directory>"
CREDENTIALS = {
    "access_key": "AccessKeyId",
    "secret_key": "SecretAccessKey",
    "token": "SessionToken",
    "expiry_time": "Expiration",
}
"""What quilt3 calls the parts of AWS credentials, and what the stack calls them."""


def in_world(*names: str, soak: Iterable[str] = ()) -> pytest.MarkDecorator:
    """Run the test once in each of these worlds. pytest runs the tests of one module and world one after the other.

    Args:
        names: the worlds.
        soak: the worlds in which only `make soak` runs it.
    """
    rare = [pytest.param(name, marks=pytest.mark.soak) for name in soak]
    return pytest.mark.parametrize("world", [*names, *rare], indirect=True)


def demo_world(
    name: str = "admin", *, now: datetime | None = None, plans: Mapping[str, Plan] = PEOPLE
) -> AbstractContextManager[World]:
    """Return a context in which this process is in a world, with the data of all domains."""
    return demo.demo_world(name, domains=find_domains(), now=now, plans=plans)


@contextmanager
def enter_stopped(name: str) -> Iterator[World]:
    """Enter a world in which the clock stands still at NOW.

    time.monotonic runs on. Pauses before another look for a renewed token take no time.
    """
    with (
        patch.dict(os.environ, PATIENCE.get(name, {})),
        time_machine.travel(NOW, tick=False),
        patch.object(local_sign_in, "time", SimpleNamespace(sleep=lambda _: time.sleep(0))),
        patch.object(demo, "log_in", _write_login),
        patch.object(requirements_sample, "zlib", SimpleNamespace(decompress=_decompress_once)),
        patch.object(workflows_sample, "write_workflows", _copy_workflows),
        demo_world(name, plans=WORLDS) as world,
    ):
        yield world


def _write_login(stack: FakeStack, user: User | None) -> None:
    """Write the files that `log_in` writes, with one request to each catalog: requests took half of the time."""
    quilt3.util.BASE_PATH.mkdir(parents=True, exist_ok=True)
    configuration = _configure_once(stack.url, json.dumps(stack.describe_catalog()))
    quilt3.util.CONFIG_PATH.write_text(configuration.replace(PLACE, quilt3.util.BASE_PATH.as_uri()), encoding="utf-8")
    if user:
        tokens = stack.renew_tokens(stack.sign_in(user))
        _write_secret(quilt3.session.AUTH_PATH, {stack.registry_url: tokens})
    if user and user.role:
        issued = stack.issue_credentials(user)
        _write_secret(quilt3.session.CREDENTIALS_PATH, {name: issued[key] for name, key in CREDENTIALS.items()})


@cache
def _configure_once(url: str, catalog: str) -> str:
    """Return quilt3's configuration for a catalog that describes itself so."""
    del catalog
    quilt3.util.configure_from_url(url)
    written: str = quilt3.util.CONFIG_PATH.read_text(encoding="utf-8")
    return written.replace(quilt3.util.BASE_PATH.as_uri(), PLACE)


def _write_secret(file: Path, content: object) -> None:
    file.touch(mode=0o600)
    file.write_text(json.dumps(content), encoding="utf-8")


_decompress_once = cache(zlib.decompress)
"""Each world has the same sample of requirements."""


def _copy_workflows(settings: Settings, workflows: tuple[Sample, ...]) -> None:
    """Do what `write_workflows` does with the same workflows at the same time, but write each file only once."""
    if workflows:
        file = settings.data_dir / FILE_NAME
        file.touch(mode=0o600)
        file.write_bytes(_write_once(workflows))


@cache
def _write_once(workflows: tuple[Sample, ...]) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        write_workflows(Settings(data_dir=Path(directory)), workflows)
        return (Path(directory) / FILE_NAME).read_bytes()
