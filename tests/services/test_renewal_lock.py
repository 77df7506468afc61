"""Several processes with the same login: one of them renews the token, and the others read it from quilt3's file."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import pytest
import quilt3.session

from quilt_mcp.core.errors import Unavailable
from quilt_mcp.demo.world import World
from quilt_mcp.services.governance_service import admin_users_list
from quilt_mcp.services.stack import quilt_files
from quilt_mcp.services.stack.failures import NotSignedInToQuilt
from quilt_mcp.services.stack.login import Stack
from quilt_mcp.services.stack.renewal_lock import NAME, hold_lock
from quilt_mcp.services.stack.sign_in import LocalSignIn
from tests.support.settings import Settings
from tests.support.waiting import until
from tests.support.worlds import demo_world
from tests.worlds.sign_in_mishaps import add_login

SECONDS = 60
PROCESSES, ROUNDS = 2, 20
READER = """
import sys
from quilt_mcp.services.governance_service import admin_users_list
print("ready", flush=True)
for _ in sys.stdin:
    print(admin_users_list()["count"], flush=True)
"""


def count_calls(world: World, path: str) -> int:
    return [call.path for call in world.stack.calls].count(path)


def store_other_tokens(world: World, *, rotates: bool) -> None:
    """Renew the token as another process does, at a stack that spends the refresh token or leaves it valid."""
    assert world.user
    tokens = world.stack.issue_tokens(world.user)
    if rotates:
        world.stack.refresh_tokens = {str(tokens["refresh_token"]): world.user}
    else:
        tokens["refresh_token"] = next(iter(world.stack.refresh_tokens))
    add_login(world.registry_url, tokens)


@contextmanager
def locked() -> Iterator[None]:
    """Hold the lock, as another process does."""
    with hold_lock(quilt3.session.AUTH_PATH.parent, SECONDS):
        yield


def test_a_process_that_keeps_the_lock_is_reported_and_no_token_is_spent(fresh_world: World) -> None:
    timeout = Settings().timeout
    stack = Stack(fresh_world.url, fresh_world.registry_url, None)
    sign_in = LocalSignIn(stack, quilt_files.take_fingerprint(), timeout, spare_seconds=0.05 - sum(timeout))
    with locked(), pytest.raises(Unavailable, match="Another process is renewing the Quilt login") as caught:
        sign_in.renew(sign_in.open())
    assert caught.value.transient
    assert count_calls(fresh_world, "/api/token") == 0
    assert admin_users_list()["count"] > 0


@pytest.mark.parametrize("old_token", ["spent", "still valid"])
async def test_a_reader_waits_for_the_process_that_renews_and_uses_its_tokens(
    old_token: str, fresh_world: World
) -> None:
    fresh_world.stack.grants.clear()
    with ThreadPoolExecutor() as threads:
        with locked():
            reader = threads.submit(admin_users_list)
            await until(lambda: count_calls(fresh_world, "/graphql"))
            store_other_tokens(fresh_world, rotates=old_token == "spent")
            assert not reader.done()
        assert reader.result(SECONDS)["count"] > 0
    assert count_calls(fresh_world, "/api/token") == 0


def test_the_lock_is_free_after_a_failed_renewal(fresh_world: World) -> None:
    fresh_world.stack.grants.clear()
    fresh_world.stack.refresh_tokens.clear()
    with pytest.raises(NotSignedInToQuilt):
        admin_users_list()
    with locked():
        pass


@pytest.mark.parametrize("content", [None, b"not a database"])
def test_where_no_file_can_be_locked_the_token_is_renewed_without_the_lock(
    content: bytes | None, fresh_world: World
) -> None:
    lock: Path = quilt3.session.AUTH_PATH.parent / NAME
    if content is None:
        lock.mkdir()
    else:
        lock.write_bytes(content)
    fresh_world.stack.grants.clear()
    assert admin_users_list()["count"] > 0
    assert count_calls(fresh_world, "/api/token") == 1


@contextmanager
def start_readers(world: World) -> Iterator[list[subprocess.Popen[str]]]:
    """Start processes with the login of the world. Each reads the users once for each line that it gets."""
    Path(os.environ["XDG_DATA_HOME"]).mkdir(exist_ok=True)
    (Path(os.environ["XDG_DATA_HOME"]) / "Quilt").symlink_to(quilt3.session.AUTH_PATH.parent)
    with ExitStack() as stack:
        readers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            for _ in range(PROCESSES)
        ]
        for reader in readers:
            stack.callback(reader.kill)
        assert [read_line(reader) for reader in readers] == ["ready"] * PROCESSES
        world.stack.calls.clear()
        yield readers


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def ask(process: subprocess.Popen[str]) -> None:
    stdin: IO[str] | None = process.stdin
    assert stdin
    stdin.write("\n")
    stdin.flush()


@pytest.mark.soak
def test_of_two_processes_with_an_expired_token_exactly_one_renews_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process has sent the old access token before the stack answers the renewal."""
    with demo_world("admin") as world, start_readers(world) as readers:
        renew, spent = world.stack.renew_tokens, []

        def renew_later(refresh_token: str) -> dict[str, object] | None:
            renewed = renew(refresh_token)
            while count_calls(world, "/graphql") < PROCESSES and not world.stack.closing.wait(0.01):
                pass
            return renewed

        monkeypatch.setattr(world.stack, "renew_tokens", renew_later)
        monkeypatch.setattr(world.stack, "on_spent_token", lambda: spent.append(True))
        for _ in range(ROUNDS):
            world.stack.calls.clear()
            world.stack.grants.clear()
            for reader in readers:
                ask(reader)
            assert [read_line(reader) for reader in readers] == [str(len(world.company.users))] * PROCESSES
            assert (count_calls(world, "/api/token"), spent) == (1, [])
