"""Cases of the AWS services that the goldens do not cover: other identities, partial refusals, writes, limits."""

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp.commands.demo.world import World
from quilt_mcp.services.auth_metadata import filesystem_status
from quilt_mcp.services.lists import fan_out
from quilt_mcp.services.stack.callers import current_caller
from tests.support.waiting import SECONDS


@pytest.mark.parametrize("next_key", ["NextToken", "ContinuationToken"])
def test_all_pages_are_read(next_key: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {None: {"Items": [1, 2], next_key: "n"}, "n": {"Items": [3]}}
    aws = current_caller().aws
    monkeypatch.setattr(aws, "call", lambda *_, **given: pages[given.get(next_key)])
    assert list(aws.list_items("athena", "list_work_groups", "Items", next_key=next_key)) == [1, 2, 3]


def test_late_items_are_missing_and_waiting_items_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    release, is_answered, started = threading.Event(), threading.Event(), []

    def call(item: int) -> int:
        started.append(item)
        if item:
            release.wait(SECONDS)
        return item

    def wait_for_the_first(futures: Iterable[Future[int]], timeout: float) -> tuple[set[Future[int]], set[Future[int]]]:
        """Begin to count the time when the item that must be in time has its answer."""
        [*waiting] = futures
        assert waiting[0].result(SECONDS) == 0
        is_answered.set()
        return wait(waiting, timeout)

    monkeypatch.setattr("quilt_mcp.services.lists.wait", wait_for_the_first)
    answers = fan_out(call, range(100), seconds=0.05)  # the first has answered before
    release.set()
    assert is_answered.is_set()
    assert answers == {0: 0}
    assert len(started) < 100


def test_a_directory_that_is_not_writable_has_an_error(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> Any:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    answer = filesystem_status()
    assert answer["status"] == "read_only"
    assert answer["directories"]["workflows"]["error"] == "OSError: Read-only file system"


FULL_DISK = """
import json, resource
from quilt_mcp.app import App
from quilt_mcp.services.auth_metadata import filesystem_status
from quilt_mcp.settings import Settings

resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # as on a full disk, files can be created, but nothing can be written
with App(Settings()).active():
    print(json.dumps(filesystem_status()))
"""


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="no module `resource`")
def test_a_directory_in_which_nothing_can_be_written_is_not_writable(tmp_path: Path) -> None:
    environment = os.environ | {
        "HOME": str(tmp_path),
        "QUILT_MCP_DATA_DIR": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK], capture_output=True, text=True, timeout=SECONDS, check=True, env=environment
    )
    answer = json.loads(done.stdout)
    assert answer["status"] == "read_only"
    workflows = answer["directories"]["workflows"]
    assert (workflows["exists"], workflows["writable"]) == (True, False)
    assert workflows["error"] == f"OSError: {os.strerror(errno.EFBIG)}"
