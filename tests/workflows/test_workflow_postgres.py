"""Workflows in a PostgreSQL database that machines share. The tests start a real server."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import time_machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from quilt_mcp.app import App, current_app
from quilt_mcp.core.errors import NotFound, ResourceExecutionError, Unavailable
from quilt_mcp.http.app import Readiness
from quilt_mcp.workflows.model import WorkflowRuleError
from quilt_mcp.workflows.resources import WORKFLOWS
from quilt_mcp.workflows.service import (
    Workflows,
    workflow_add_step,
    workflow_create,
    workflow_get_status,
    workflow_ids,
    workflow_list_all,
    workflow_update_step,
)
from tests.support import apps
from tests.support.examples import count_examples
from tests.support.postgres_server import PostgresServer, postgres_server
from tests.support.settings import Settings
from tests.support.waiting import SECONDS

_numbers = count()


def workflows() -> Workflows:
    return current_app().part(Workflows)


def name_of(url: str) -> str:
    return urlsplit(url).path.strip("/")


def use(url: str, data_dir: Path, **options: Any) -> None:
    apps.use_settings(Settings(workflows_url=SecretStr(url), data_dir=data_dir, **options))


@pytest.fixture
def shared(url: str, tmp_path: Path) -> Iterator[str]:
    """The URL of the database that is in use."""
    before = apps.current_settings()
    use(url, tmp_path / "data")
    yield url
    apps.use_settings(before)


STATUSES = ["pending", "in_progress", "completed", "failed", "skipped"]
TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
IDS = st.sampled_from(["a", "B", "b.c", "~"])
DATA = st.sampled_from([None, {"team": ["a", 1, None, True, 0.5, "\x01💡"]}])
CREATES = st.tuples(
    st.just(workflow_create), st.tuples(IDS, st.sampled_from(["Title", "💡 'it'"]), st.just("Counts"), DATA)
)
ADDS = st.tuples(
    st.just(workflow_add_step), st.tuples(IDS, IDS, st.just("Do it"), st.just("manual"), st.lists(IDS, max_size=2))
)
UPDATES = st.tuples(st.just(workflow_update_step), st.tuples(IDS, IDS, st.sampled_from(STATUSES), TEXTS, DATA))
READS = st.tuples(st.just(workflow_get_status), st.tuples(IDS))


@settings(max_examples=count_examples(8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(CREATES | ADDS | UPDATES | READS, min_size=5, max_size=25))
def test_any_sequence_of_calls_gives_the_same_answers_as_a_file(
    calls: list[tuple[Callable[..., object], tuple[Any, ...]]], postgres: PostgresServer, tmp_path: Path
) -> None:
    number = next(_numbers)
    both = [
        Settings(workflows_url=SecretStr(postgres.create(f"any-{os.getpid()}-{number}"))),
        Settings(data_dir=tmp_path / str(number)),
    ]
    answers: list[list[object]] = [[], []]
    with time_machine.travel(0, tick=False) as clock:
        for where, found in zip(both, answers, strict=True):
            clock.move_to(0)
            with App(where).active():
                for function, arguments in [*calls, (workflow_list_all, ()), (workflow_ids, ())]:
                    clock.shift(0.4)
                    try:
                        found.append(function(*arguments))
                    except (WorkflowRuleError, NotFound) as error:
                        found.append(repr(error))
    assert answers[0] == answers[1]


def failing() -> list[str]:
    """Return the failed readiness checks of the workflow domain."""
    return asyncio.run(Readiness(WORKFLOWS.checks).find_failing())


@pytest.mark.soak
def test_a_database_that_is_down_is_unavailable_and_no_failure_contains_the_password(tmp_path: Path) -> None:
    with postgres_server() as own:
        address = own.create("w").replace("tests@", "tests:hidden@")
        before = apps.current_settings()
        use(address, tmp_path)
        workflow_create("w", "Title")
        assert failing() == []
        own.stop()
        assert failing() == ["workflows"]
        with pytest.raises(Unavailable, match="cannot be reached") as refused:
            workflow_list_all()
        own.start()
        assert workflow_ids() == ["w"]
        apps.use_settings(before)
    texts = (refused.value.message, refused.value.details, *refused.value.suggested_actions)
    assert "hidden" not in str(texts)
    assert refused.value.transient


def test_a_writer_stops_waiting_for_another(shared: str, tmp_path: Path) -> None:
    impatient = Settings(
        workflows_url=SecretStr(shared),
        data_dir=tmp_path,
        database_timeout_seconds=0.2,  # the other writer never ends
    )
    with workflows().writing(), pytest.raises(Unavailable, match="in time") as refused:
        write(Workflows(impatient))
    assert refused.value.transient


@pytest.mark.parametrize("last_word", [b"standard_conforming", b"BEGIN ISOLATION", b"pg_advisory_xact_lock", b"COMMIT"])
async def test_a_database_that_no_longer_responds_is_unavailable(
    last_word: bytes, postgres: PostgresServer, shared: str, tmp_path: Path
) -> None:
    async with falling_silent(postgres, last_word) as port, asyncio.timeout(SECONDS):
        url = SecretStr(f"postgresql://tests@127.0.0.1:{port}/{name_of(shared)}")
        impatient = Settings(
            workflows_url=url,
            data_dir=tmp_path,
            database_timeout_seconds=0.2,  # the server is silent
        )
        with pytest.raises(Unavailable, match="in time") as refused:
            await asyncio.to_thread(write, Workflows(impatient))
    assert refused.value.transient


def write(workflows: Workflows) -> None:
    with workflows.writing():
        pass


@asynccontextmanager
async def falling_silent(postgres: PostgresServer, last_word: bytes) -> AsyncIterator[int]:
    """Yield the port of a proxy to the server. From the first bytes with this word on, it drops what a client sends."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_clients: bool) -> None:
        try:
            while data := await reader.read(65_536):
                if is_clients and last_word in data:
                    await reader.read()
                    return
                writer.write(data)
        finally:
            writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(postgres.directory / ".s.PGSQL.5432")
        ways = carry(reader, to_server, is_clients=True), carry(from_server, writer, is_clients=False)
        await asyncio.gather(*ways, return_exceptions=True)

    async with await asyncio.start_server(connect, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("name", ["reader", "newcomer"])
def test_a_user_who_may_not_write(name: str, postgres: PostgresServer, shared: str, tmp_path: Path) -> None:
    workflow_create("w", "Title")
    postgres.sql(f"DROP ROLE IF EXISTS {name}; CREATE ROLE {name} LOGIN")
    if name == "reader":
        postgres.sql(
            "GRANT USAGE ON SCHEMA quilt_mcp_workflows TO reader;"
            "GRANT SELECT ON ALL TABLES IN SCHEMA quilt_mcp_workflows TO reader",
            database=name_of(shared),
        )
    use(shared.replace("tests@", f"{name}@"), tmp_path)
    with pytest.raises(ResourceExecutionError, match="not allowed to do this") as refused:
        workflow_create("x", "Title")
    assert not refused.value.transient
    if name == "reader":
        assert workflow_ids() == ["w"]


@pytest.mark.parametrize("address", ["mysql://host/name", "host", ""])
def test_another_address_is_not_valid(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_WORKFLOWS_URL", address)
    with pytest.raises(ValueError, match="it must start with postgresql"):
        Settings()
