"""Workflows in a PostgreSQL that machines share; a real one, which the tests start themselves."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import time_machine
from pydantic import SecretStr

from quilt_mcp import identity, runtime_context
from quilt_mcp.errors import NotFound, ResourceExecutionError, Unavailable
from quilt_mcp.http.readiness import Readiness
from quilt_mcp.identity import Identity
from quilt_mcp.readiness_checks import READINESS_CHECKS
from quilt_mcp.services import workflow_arguments, workflow_postgres, workflow_store
from quilt_mcp.services.workflow_rules import WorkflowRuleError
from quilt_mcp.services.workflow_service import (
    workflow_add_step,
    workflow_create,
    workflow_get_status,
    workflow_ids,
    workflow_list_all,
    workflow_update_step,
)
from quilt_mcp.settings import Settings
from tests.postgres_server import NoPostgres, PostgresServer, postgres_server
from tests.waiting import SECONDS

_numbers = count()
WRITER = """
import sys
from quilt_mcp.services.workflow_service import workflow_add_step, workflow_create, workflow_update_step
workflow_create("shared", "Title")
for number in range(8):
    step = f"{sys.argv[1]}-{number}"
    workflow_add_step("shared", step, "Do it")
    workflow_update_step("shared", step, "completed")
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    try:
        with postgres_server() as server:
            yield server
    except NoPostgres as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """A database of the test's own."""
    return postgres.create(f"workflows-{os.getpid()}-{next(_numbers)}")


def name_of(url: str) -> str:
    return urlsplit(url).path.strip("/")


def use(url: str, data_dir: Path, **options: Any) -> None:
    runtime_context.use_settings(Settings(workflows_url=SecretStr(url), data_dir=data_dir, **options))


@pytest.fixture
def shared(url: str, tmp_path: Path) -> Iterator[str]:
    """The URL of the database that is in use."""
    before = runtime_context.settings()
    use(url, tmp_path / "data")
    yield url
    runtime_context.use_settings(before)


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes another the caller."""

    def change(subject: str) -> None:
        monkeypatch.setattr(identity, "current", partial(Identity, subject, "https://issuer.example.com"))

    return change


@pytest.mark.usefixtures("shared")
def test_before_the_first_write_it_is_empty_and_nothing_is_made(postgres: PostgresServer, shared: str) -> None:
    assert workflow_list_all()["workflows"] == []
    assert workflow_ids() == []
    with pytest.raises(NotFound, match="none has been created yet"):
        workflow_get_status("w")
    assert (
        postgres.sql("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'quilt%'", database=name_of(shared)) == "0"
    )


def test_what_it_answers_is_what_the_file_answers(shared: str, tmp_path: Path) -> None:
    def scenario() -> list[Any]:
        answers: list[Any] = []
        workflow_create("rna", "RNA 💡", "Counts", {"team": ["a", 1, None, True, 0.5, "\x01"]})
        workflow_create("Dna", "DNA")
        for step in ("a", "b", "c"):
            workflow_add_step("rna", step, f"Do {step}", dependencies=["a"] if step == "b" else None)
        workflow_update_step("rna", "a", "completed", "well", {"rows": 5})
        workflow_update_step("rna", "b", "failed", error_message="no space")
        workflow_update_step("rna", "c", "skipped")
        for _ in range(52):
            workflow_update_step("rna", "b", "in_progress")
            workflow_update_step("rna", "b", "failed")
        answers += [workflow_list_all(), workflow_ids(), workflow_get_status("rna"), workflow_get_status("Dna")]
        with workflow_store.reading() as store:
            answers += [len(store.load("rna").execution_log), store.ids(1), store.count_by_status()]  # type: ignore[union-attr]
        return answers

    with time_machine.travel(0, tick=False):  # else those that last changed in one second would be listed by their ids
        kept_in_postgres = scenario()
        runtime_context.use_settings(Settings(data_dir=tmp_path / "file"))
        kept_in_a_file = scenario()
    assert without_times(kept_in_postgres) == without_times(kept_in_a_file)
    assert not (tmp_path / "data").exists()


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        times = {"created_at", "updated_at", "started_at", "completed_at", "timestamp"}
        return {key: without_times(item) if key not in times else bool(item) for key, item in value.items()}
    return [without_times(item) for item in value] if isinstance(value, list) else value


@pytest.mark.usefixtures("shared")
def test_every_owner_has_workflows_of_its_own(become: Callable[[str], None]) -> None:
    become("ann")
    workflow_create("w", "Ann's")
    workflow_add_step("w", "s", "Do it")
    become("ben")
    assert workflow_ids() == []
    workflow_create("w", "Ben's")
    assert workflow_get_status("w")["workflow"]["steps"] == []
    become("ann")
    assert workflow_list_all()["workflows"][0]["name"] == "Ann's"


@pytest.mark.usefixtures("shared")
def test_what_a_block_wrote_before_it_failed_is_not_kept() -> None:
    workflow_create("w", "Title")

    class Bug(Exception):
        pass

    def write_and_fail() -> None:
        with workflow_store.writing() as store:
            store.save(workflow_arguments.new_workflow("x", "Other", "", None, "2026-01-01T00:00:00Z"))
            raise Bug

    with pytest.raises(Bug):
        write_and_fail()
    assert workflow_ids() == ["w"]


def test_processes_that_write_at_once_lose_nothing(shared: str, tmp_path: Path) -> None:
    environment = os.environ | {"QUILT_MCP_WORKFLOWS_URL": shared, "QUILT_MCP_DATA_DIR": str(tmp_path / "none")}
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name], env=environment) for name in "abc"]
    assert [writer.wait(timeout=SECONDS) for writer in writers] == [0, 0, 0]
    workflow = workflow_get_status("shared")["workflow"]
    assert (workflow["status"], workflow["completed_steps"], len(workflow["execution_log"])) == ("completed", 24, 24)


def failing() -> list[str]:
    """What keeps this server from being ready, of what workflows need."""
    return asyncio.run(Readiness({"workflows": READINESS_CHECKS["workflows"]}).failing())


def test_a_database_that_is_down_is_unavailable_and_no_secret_is_told(tmp_path: Path) -> None:
    with postgres_server() as own:
        address = own.create("w").replace("tests@", "tests:hidden@")
        before = runtime_context.settings()
        use(address, tmp_path)
        workflow_create("w", "Title")
        assert failing() == []
        own.stop()
        assert failing() == ["workflows"]
        with pytest.raises(Unavailable, match="cannot be reached") as refused:
            workflow_list_all()
        own.start()
        assert workflow_ids() == ["w"]
        runtime_context.use_settings(before)
    told = (refused.value.message, refused.value.details, *refused.value.suggested_actions)
    assert "hidden" not in str(told)
    assert refused.value.transient


def test_a_writer_does_not_wait_for_ever_for_another(shared: str, tmp_path: Path) -> None:
    use(shared, tmp_path, database_timeout_seconds=0.2)
    with workflow_store.writing(), pytest.raises(Unavailable, match="another writer") as refused:
        workflow_create("w", "Title")
    assert refused.value.transient


@pytest.mark.parametrize("last_word", [b"SET TRANSACTION", b"pg_advisory_xact_lock", b"COMMIT"])
async def test_a_database_that_falls_silent_is_given_up(
    last_word: bytes, postgres: PostgresServer, shared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow_postgres, "MARGIN_SECONDS", 0.2)
    async with falling_silent(postgres, last_word) as port, asyncio.timeout(SECONDS):
        use(f"postgresql://tests@127.0.0.1:{port}/{name_of(shared)}", tmp_path, database_timeout_seconds=0.2)
        with pytest.raises(Unavailable, match="cannot be reached") as refused:
            await asyncio.to_thread(workflow_create, "w", "Title")
    assert refused.value.transient


@asynccontextmanager
async def falling_silent(postgres: PostgresServer, last_word: bytes) -> AsyncIterator[int]:
    """The port of a proxy to the server, which swallows all that a client sends from the first bytes with this word."""

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
def test_a_user_who_may_not_write_is_told_so(name: str, postgres: PostgresServer, shared: str, tmp_path: Path) -> None:
    workflow_create("w", "Title")
    postgres.sql(f"DROP ROLE IF EXISTS {name}; CREATE ROLE {name} LOGIN")
    if name == "reader":
        postgres.sql(
            "GRANT USAGE ON SCHEMA quilt_mcp_workflows TO reader;"
            "GRANT SELECT ON ALL TABLES IN SCHEMA quilt_mcp_workflows TO reader",
            database=name_of(shared),
        )
    use(shared.replace("tests@", f"{name}@"), tmp_path)
    with pytest.raises(ResourceExecutionError, match="does not allow this") as refused:
        workflow_create("x", "Title")
    assert not refused.value.transient
    if name == "reader":
        assert workflow_ids() == ["w"]


def test_workflows_of_a_newer_version_are_left_alone(postgres: PostgresServer, shared: str) -> None:
    workflow_create("w", "Title")
    postgres.sql("UPDATE quilt_mcp_workflows.schema_version SET number = 99", database=name_of(shared))
    for use_it in (workflow_ids, partial(workflow_create, "x", "Title")):
        with pytest.raises(ResourceExecutionError, match="newer version"):
            use_it()


def test_a_nul_is_refused_where_it_can_be_kept_and_where_it_cannot(shared: str, tmp_path: Path) -> None:
    assert shared
    for _ in range(2):
        with pytest.raises(WorkflowRuleError, match="NUL"):
            workflow_create("w", "a\0b")
        runtime_context.use_settings(Settings(data_dir=tmp_path))


@pytest.mark.parametrize("address", ["mysql://host/name", "host", ""])
def test_another_address_is_a_wrong_setting(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_WORKFLOWS_URL", address)
    with pytest.raises(ValueError, match="it does not begin with postgresql"):
        Settings()
