"""A server in a demo world answers before the world is built, and no read sees the world half built."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import pytest

from quilt_mcp.app.domain import Domain, Scene
from quilt_mcp.demo.late import LateWorld, late_world
from tests.commands.test_stdio import DISCOVER, INITIALIZE, INITIALIZED, READ, request

NOW = datetime(2026, 11, 28, tzinfo=UTC)
REPORT = """
import sys
from quilt_mcp.commands.entry import main
from quilt_mcp.commands.stdio import Client
write = Client.write
def report(self, content):
    print("moto" in sys.modules, content.decode(), file=sys.stderr, flush=True)
    write(self, content)
Client.write = report
sys.argv = ["quilt-mcp", "serve", "--demo"]
sys.exit(main())
"""


def ask(*messages: Mapping[str, object]) -> list[tuple[bool, dict[str, object]]]:
    """Return each answer of a new server, and whether its process had imported the libraries of the world."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT],
        input="".join(f"{json.dumps(one)}\n" for one in messages),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.partition(" ") for line in done.stderr.splitlines() if line.startswith(("True {", "False {"))]
    return [(flag == "True", json.loads(text)) for flag, _, text in lines]


@pytest.mark.parametrize("first", [DISCOVER, pytest.param(INITIALIZE, marks=pytest.mark.soak)])
def test_the_first_answer_needs_no_library_of_the_world_and_a_read_has_all_of_it(first: Mapping[str, object]) -> None:
    handshake = [first] if first is INITIALIZE else [first, INITIALIZE]
    (had_world, _), *_, (has_world, answer) = ask(*handshake, INITIALIZED, request(2, "tools/list"), READ)
    assert (had_world, has_world, "result" in answer) == (False, True, True)


def test_threads_that_need_it_at_the_same_time_build_it_once_and_everything_is_restored_after_it() -> None:
    scenes: list[Scene] = []
    environment = dict(os.environ)
    domain = Domain(name="witness", fill_demo=scenes.append)
    with late_world("admin", domains=[domain], now=NOW) as world:
        world.start()
        threads = [Thread(target=world.build) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert "HTTPS_PROXY" in os.environ
    assert [scene.now for scene in scenes] == [NOW]
    assert dict(os.environ) == environment


def test_a_world_that_was_left_is_never_built(tmp_path: Path) -> None:
    world = LateWorld("admin", [Domain(name="witness", fill_demo=lambda _: pytest.fail("it was built"))], NOW, tmp_path)
    world.close()
    world.start()
    world.build()
