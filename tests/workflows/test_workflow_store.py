"""The workflow file: private, durable, shared by processes, with failures that name the cause."""

import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Executable
from sqlalchemy.exc import OperationalError

from quilt_mcp.app import current_app, identity
from quilt_mcp.app.database.engines import Storage, make_file
from quilt_mcp.app.identity import Identity
from quilt_mcp.core.errors import NotFound, ResourceExecutionError, Unavailable
from quilt_mcp.workflows import store as statements
from quilt_mcp.workflows.model import LogEntry
from quilt_mcp.workflows.service import (
    Workflows,
    workflow_add_step,
    workflow_create,
    workflow_delete,
    workflow_get_status,
    workflow_ids,
    workflow_list_all,
    workflow_update_step,
)
from quilt_mcp.workflows.store import LOG_ENTRIES, MIGRATIONS
from tests.support import apps
from tests.support.settings import Settings
from tests.support.waiting import SECONDS
from tests.workflows.test_workflow_migrations import connected, differences

pytestmark = pytest.mark.usefixtures("data_dir")


@pytest.fixture
def file(data_dir: Path) -> Path:
    """The workflow file, with one workflow in it."""
    workflow_create("w", "Title")
    return data_dir / "workflows.sqlite3"


def workflows() -> Workflows:
    return current_app().part(Workflows)


def use_timeout(data_dir: Path, seconds: float) -> None:
    apps.use_settings(Settings(data_dir=data_dir, database_timeout_seconds=seconds))


def execute(file: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_read_before_the_first_write_is_empty_and_creates_nothing(
    storage: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    assert workflow_list_all() == {
        "workflows": [],
        "status": None,
        "count": 0,
        "next_cursor": None,
        "total_workflows": 0,
        "active_workflows": 0,
        "completed_workflows": 0,
    }
    assert workflow_ids() == []
    with pytest.raises(NotFound, match="There are no workflows yet") as refusal:
        workflow_get_status("w")
    assert "workflow_create" in refusal.value.suggested_actions[0]
    assert not storage["data_dir"].exists()
    if url := storage.get("workflows_url"):
        name = urlsplit(url.get_secret_value()).path.strip("/")
        query = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'quilt%'"
        assert request.getfixturevalue("postgres").sql(query, database=name) == "0"


@pytest.mark.usefixtures("storage")
def test_the_oldest_log_entries_are_deleted() -> None:
    workflow_create("w", "Title")
    workflow_add_step("w", "s", "Do it")
    with workflows().writing() as store:
        workflow = store.load("w")
        assert workflow is not None
        for number in range(LOG_ENTRIES + 3):
            entry = LogEntry(timestamp="", step_id="s", status_change="pending -> failed", message=f"{number}")
            store.save(workflow, entry=entry)
    messages = [entry["message"] for entry in workflow_get_status("w")["workflow"]["execution_log"]]
    assert messages == [f"{number}" for number in range(3, LOG_ENTRIES + 3)]


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("unknown", ["a\0", "\ud800", "..", "x" * 129])
def test_an_id_that_no_workflow_can_have_is_not_found(unknown: str) -> None:
    workflow_create("w", "Title")
    for call in (
        partial(workflow_get_status, unknown),
        partial(workflow_add_step, unknown, "s", "Do it"),
        partial(workflow_update_step, unknown, "s", "failed"),
    ):
        with pytest.raises(NotFound, match="does not exist"):
            call()
    assert workflow_delete(unknown) == {"workflow_id": unknown, "deleted": False, "remaining_workflows": 1}


def test_only_the_user_can_read_the_file_and_the_directory(data_dir: Path, file: Path) -> None:
    assert (mode(data_dir), mode(file)) == (0o700, 0o600)
    with workflows().writing() as store:
        store.count_by_status()
        assert {path.name: mode(path) for path in data_dir.iterdir()} == {
            "workflows.sqlite3": 0o600,
            "workflows.sqlite3-wal": 0o600,
            "workflows.sqlite3-shm": 0o600,
        }


def test_a_read_changes_and_leaves_nothing(data_dir: Path, file: Path) -> None:
    before = file.read_bytes()
    workflow_get_status("w")
    workflow_list_all()
    workflow_ids()
    assert list(data_dir.iterdir()) == [file]
    assert file.read_bytes() == before


def test_an_existing_directory_keeps_its_mode(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o750)
    data_dir.chmod(0o750)
    workflow_create("w", "Title")
    assert mode(data_dir) == 0o750


def test_a_file_without_schema_reads_as_empty_and_is_filled_by_the_next_write(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "workflows.sqlite3").touch()
    assert workflow_list_all()["total_workflows"] == 0
    assert (data_dir / "workflows.sqlite3").stat().st_size == 0
    workflow_create("w", "Title")
    assert workflow_ids() == ["w"]


def test_every_owner_has_workflows_of_its_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow_add_step("w", "a", "Do a")
    workflow_update_step("w", "a", "completed", "of the local user")
    before = workflow_get_status("w")
    for who in (Identity("ann", "https://idp.example"), Identity("ann", "https://other.example"), Identity("local")):
        monkeypatch.setattr(identity, "current", partial(copy, who))
        assert workflow_list_all()["total_workflows"] == 0
        assert workflow_ids() == []
        calls: list[Callable[[], object]] = [
            lambda: workflow_get_status("w"),
            lambda: workflow_add_step("w", "b", "Do b"),
            lambda: workflow_update_step("w", "a", "failed"),
        ]
        for call in calls:
            with pytest.raises(NotFound, match="There are no workflows yet"):
                call()
        workflow_create("w", f"Of {who.issuer}")
        workflow_add_step("w", "a", "Do something else")
        workflow_update_step("w", "a", "in_progress", "mine")
        assert [row["name"] for row in workflow_list_all()["workflows"]] == [f"Of {who.issuer}"]
        assert [entry["message"] for entry in workflow_get_status("w")["workflow"]["execution_log"]] == ["mine"]
    monkeypatch.undo()
    apps.use_settings(Settings(data_dir=file.parent))
    assert workflow_get_status("w") == before


def test_every_statement_is_bound_to_an_owner() -> None:
    found = [value for value in vars(statements).values() if isinstance(value, Executable)]
    assert len(found) == 22
    for statement in found:
        text = str(statement)
        tables = re.findall(r"(?:FROM|JOIN|UPDATE|DELETE FROM) (?:workflows|steps|log)\b", text)
        inserts = re.findall(r"INSERT INTO \w+ \(.*\bowner\b", text)
        assert tables or inserts
        assert text.count(":of_owner") == len(tables)


WRITER = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from quilt_mcp.services.workflow_service import (
    workflow_add_step, workflow_create, workflow_list_all, workflow_update_step)
me, go = sys.argv[1], Path(sys.argv[2])

def create(number):
    workflow_create(f"own-{me}-{number}", "Title")
    workflow_list_all()

print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
with ThreadPoolExecutor(3) as pool:
    created = pool.map(create, range(40))
    for number in range(15):
        workflow_create("shared", "Title")
        workflow_add_step("shared", f"{me}-{number}", "Do it", dependencies=[f"{me}-{number - 1}"] if number else [])
        workflow_update_step("shared", f"{me}-{number}", "in_progress")
        workflow_update_step("shared", f"{me}-{number}", "completed", result={"by": me})
    list(created)
"""


def process(script: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment)


@pytest.mark.soak
def test_processes_and_threads_that_start_and_write_at_once_lose_nothing(
    storage: dict[str, Any], tmp_path: Path
) -> None:
    names, go, url = ["a", "b", "c"], tmp_path / "go", storage.get("workflows_url")
    environment = {"QUILT_MCP_WORKFLOWS_URL": url.get_secret_value()} if url else {}
    writers = [process(WRITER, name, str(go), **environment) for name in names]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    go.touch()
    for writer in writers:
        with writer:
            assert writer.wait(timeout=SECONDS) == 0
    workflow = workflow_get_status("shared")["workflow"]
    expected = {f"{name}-{number}" for name in names for number in range(15)}
    assert {step["id"] for step in workflow["steps"]} == expected
    assert all(step["result"] == {"by": step["id"][0]} for step in workflow["steps"])
    assert (workflow["status"], workflow["completed_steps"]) == ("completed", 45)
    assert len(workflow["execution_log"]) == 90
    assert set(workflow_ids()) == {"shared", *(f"own-{name}-{number}" for name in names for number in range(40))}
    with connected(storage) as connection:
        assert differences(connection) == []
        versions = connection.exec_driver_sql(f"SELECT * FROM {MIGRATIONS.version_table}")  # noqa: S608 - a constant
        assert len(versions.all()) == 1


KILLED = """
import os, signal
from quilt_mcp.app import current_app
from quilt_mcp.services import workflow_service
from quilt_mcp.workflows import model
from quilt_mcp.workflows.service import Workflows
workflow_service.workflow_create("w", "Title")
workflow_service.workflow_add_step("w", "a", "Do a")
workflow_service.workflow_update_step("w", "a", "completed", "done", {"rows": 5})
with current_app().part(Workflows).writing() as store:
    failed = model.set_status(store.load("w")["steps"][0], "failed", "2026-05-01T12:00:00Z")
    store.save(model.set_step(store.load("w"), failed, "later"))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.soak
def test_only_committed_writes_survive_a_kill(data_dir: Path) -> None:
    with process(KILLED) as killed:
        assert killed.wait(timeout=60) == -signal.SIGKILL
    assert (data_dir / "workflows.sqlite3-wal").exists()  # it was killed before it closed the file
    workflow = workflow_get_status("w")["workflow"]
    assert workflow["status"] == "completed"
    assert workflow["steps"][0]["result"] == {"rows": 5}
    assert [entry["message"] for entry in workflow["execution_log"]] == ["done"]
    workflow_add_step("w", "b", "Do b")
    assert workflow_update_step("w", "b", "completed")["workflow"]["completed_steps"] == 2


def test_a_write_lock_that_is_held_too_long_is_unavailable(file: Path) -> None:
    use_timeout(file.parent, 0.01)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="Another process is writing") as failure:
            workflow_create("x", "Title")
        assert (failure.value.transient, failure.value.details) == (True, "SQLITE_BUSY")
        assert workflow_ids() == ["w"]
    workflow_create("x", "Title")
    assert set(workflow_ids()) == {"x", "w"}


def test_writers_behind_one_that_waits_for_another_program_fail_with_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after another, the last of eight would wait eight times as long."""
    use_timeout(file.parent, 0.5)
    opened, begin = [], Storage.transaction

    def count(storage: Storage, *, writes: bool = False) -> Any:
        opened.append(writes)
        return begin(storage, writes=writes)

    monkeypatch.setattr(Storage, "transaction", count)
    ready = threading.Barrier(8)

    def create(number: int) -> str:
        ready.wait(SECONDS)
        with pytest.raises(Unavailable) as failure:
            workflow_create(f"w{number}", "Title")
        return failure.value.message

    with closing(sqlite3.connect(file, isolation_level=None)) as other, ThreadPoolExecutor(8) as threads:
        other.execute("BEGIN IMMEDIATE")
        messages = set(threads.map(create, range(8)))
    assert len(messages) == 1
    assert opened.count(True) < 8
    workflow_create("x", "Title")


def test_writes_work_while_another_process_prevents_the_change_of_the_journal_mode(data_dir: Path) -> None:
    use_timeout(data_dir, 0.01)
    data_dir.mkdir()
    file = data_dir / "workflows.sqlite3"
    execute(file, "VACUUM")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM sqlite_master").fetchall()
        with workflows().writing() as store:
            assert store.ids() == []
            other.execute("ROLLBACK")
    assert execute(file, "PRAGMA journal_mode") == [("delete",)]
    workflow_create("w", "Title")
    assert execute(file, "PRAGMA journal_mode") == [("wal",)]


def test_concurrent_writers_of_one_process_all_get_their_turn(data_dir: Path) -> None:
    use_timeout(data_dir, 0.001)
    names = [f"w{number}" for number in range(40)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda name: workflow_create(name, "Title"), names))
    assert sorted(workflow_ids()) == sorted(names)


def test_a_writer_stops_waiting_for_the_others_of_its_process(file: Path) -> None:
    impatient = Workflows(Settings(data_dir=file.parent), queue_seconds=0.01)  # the other writer never ends

    def write() -> None:
        with impatient.writing():
            pytest.fail("two writers at once")

    with impatient.writing(), ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(write).exception(), Unavailable)
    workflow_create("x", "Title")
    assert set(workflow_ids()) == {"x", "w"}


def connecting_with(pragma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each connection with a pragma, so that SQLite itself raises the errors of a full or read-only disk."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def connect_and_limit(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.execute(pragma)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_and_limit)


def create_many() -> None:
    """Write more than fits into the pages of the file."""
    for number in range(9):
        workflow_create(f"x{number}", "Title", "x" * 1000, {"a": "x" * 4000})


@pytest.mark.parametrize(
    ("pragma", "problem", "code"),
    [
        ("PRAGMA max_page_count = 1", "is full", "SQLITE_FULL"),
        ("PRAGMA query_only = ON", "cannot be opened or written", "SQLITE_READONLY"),
    ],
)
def test_a_full_or_read_only_disk(
    pragma: str, problem: str, code: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting_with(pragma, monkeypatch)
    with pytest.raises(ResourceExecutionError, match=problem) as failure:
        create_many()
    assert failure.value.details == code
    assert not isinstance(failure.value, Unavailable)
    assert failure.value.suggested_actions
    assert execute(file, "SELECT id FROM workflows") == [("w",)]


def test_a_file_that_cannot_be_opened(data_dir: Path) -> None:
    (data_dir / "workflows.sqlite3").mkdir(parents=True)
    with pytest.raises(ResourceExecutionError, match="cannot be opened") as failure:
        workflow_list_all()
    assert failure.value.details == "SQLITE_CANTOPEN"
    with pytest.raises(ResourceExecutionError, match="cannot be opened") as failure:
        workflow_create("x", "Title")
    assert failure.value.details == "SQLITE_CANTOPEN"


def test_a_directory_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file in its place", encoding="utf-8")
    assert workflow_ids() == []
    with pytest.raises(ResourceExecutionError, match="cannot be opened") as failure:
        workflow_create("x", "Title")
    assert failure.value.details == "EEXIST"
    assert "QUILT_MCP_DATA_DIR" in failure.value.suggested_actions[1]


def test_no_space_for_the_file_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "open", no_space)
    with pytest.raises(ResourceExecutionError, match="is full") as failure:
        workflow_create("x", "Title")
    assert failure.value.details == "ENOSPC"


@pytest.mark.parametrize(
    ("code", "problem"), [(sqlite3.SQLITE_IOERR_FSYNC, "The disk failed"), (sqlite3.SQLITE_CORRUPT_INDEX, "damaged")]
)
def test_the_kind_of_an_sqlite_code_decides_the_failure(
    code: int, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> sqlite3.Connection:
        error = sqlite3.OperationalError("any text")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr(sqlite3, "connect", failing)
    with pytest.raises(ResourceExecutionError, match=problem):
        workflow_create("x", "Title")


def test_a_bug_in_a_statement_stays_a_bug(file: Path) -> None:
    execute(file, "DROP TABLE log")
    with pytest.raises(OperationalError, match="no such table"):
        workflow_get_status("w")


def test_creating_the_file_again_keeps_the_locks_of_open_connections(tmp_path: Path) -> None:
    """Closing a descriptor of a file drops all locks that the process holds on it."""
    path = tmp_path / "w.sqlite3"
    make_file(path)
    try_to_lock = f"import sqlite3; sqlite3.connect({str(path)!r}, timeout=0).execute('BEGIN EXCLUSIVE')"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        make_file(path)
        other = subprocess.run([sys.executable, "-c", try_to_lock], capture_output=True, text=True, check=False)
    assert "database is locked" in other.stderr
