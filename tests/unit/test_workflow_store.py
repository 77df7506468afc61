"""The workflow file: private, durable, shared by processes, and clear about what is wrong with it."""

import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp import identity, runtime_context
from quilt_mcp.errors import NotFound, ResourceExecutionError, Unavailable
from quilt_mcp.identity import Identity
from quilt_mcp.services import workflow_file, workflow_sql, workflow_store
from quilt_mcp.services.workflow_service import (
    workflow_add_step,
    workflow_create,
    workflow_get_status,
    workflow_ids,
    workflow_list_all,
    workflow_update_step,
)
from quilt_mcp.settings import Settings

pytestmark = pytest.mark.usefixtures("data_dir")


@pytest.fixture
def file(data_dir: Path) -> Path:
    """The workflow file, with one workflow in it."""
    workflow_create("w", "Title")
    return data_dir / "workflows.sqlite3"


def execute(file: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_file_and_directory_are_the_users_alone(data_dir: Path, file: Path) -> None:
    assert (mode(data_dir), mode(file)) == (0o700, 0o600)
    with workflow_store.writing() as store:
        store.count_by_status()
        assert {path.name: mode(path) for path in data_dir.iterdir()} == {
            "workflows.sqlite3": 0o600,
            "workflows.sqlite3-wal": 0o600,
            "workflows.sqlite3-shm": 0o600,
        }


def test_a_read_leaves_nothing_behind(data_dir: Path, file: Path) -> None:
    before = file.read_bytes()
    workflow_get_status("w")
    workflow_list_all()
    workflow_ids()
    assert list(data_dir.iterdir()) == [file]
    assert file.read_bytes() == before


def test_a_directory_that_is_there_keeps_its_mode(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o750)
    data_dir.chmod(0o750)
    workflow_create("w", "Title")
    assert mode(data_dir) == 0o750


def test_the_directorys_name_may_hold_anything(tmp_path: Path) -> None:
    runtime_context.use_settings(Settings(data_dir=tmp_path / "a b?mode=ro#%41" / "ü"))
    workflow_create("w", "Title")
    assert workflow_ids() == ["w"]
    assert (tmp_path / "a b?mode=ro#%41" / "ü" / "workflows.sqlite3").is_file()


def test_a_file_without_schema_reads_as_empty_and_is_filled_by_the_next_write(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "workflows.sqlite3").touch()
    assert workflow_list_all()["total_workflows"] == 0
    assert (data_dir / "workflows.sqlite3").stat().st_size == 0
    workflow_create("w", "Title")
    assert workflow_ids() == ["w"]


def test_the_file_is_in_write_ahead_mode_and_of_the_current_schema(file: Path) -> None:
    assert execute(file, "PRAGMA journal_mode") == [("wal",)]
    assert execute(file, "PRAGMA user_version") == [(2,)]


VERSION_1 = """
CREATE TABLE workflows (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL, metadata TEXT NOT NULL,
    created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
    status TEXT NOT NULL, started_at TEXT, completed_at TEXT);
CREATE INDEX workflows_by_update ON workflows (updated_at DESC, id);
CREATE TABLE steps (
    position INTEGER PRIMARY KEY,
    workflow_id TEXT NOT NULL REFERENCES workflows (id), id TEXT NOT NULL,
    description TEXT NOT NULL, step_type TEXT NOT NULL, dependencies TEXT NOT NULL, metadata TEXT NOT NULL,
    created_at TEXT NOT NULL,
    status TEXT NOT NULL, started_at TEXT, completed_at TEXT, error_message TEXT, result TEXT,
    UNIQUE (workflow_id, id));
CREATE TABLE log (
    position INTEGER PRIMARY KEY,
    workflow_id TEXT NOT NULL, step_id TEXT NOT NULL,
    timestamp TEXT NOT NULL, status_change TEXT NOT NULL, message TEXT,
    FOREIGN KEY (workflow_id, step_id) REFERENCES steps (workflow_id, id));
CREATE INDEX log_of_workflow ON log (workflow_id, position);
PRAGMA user_version = 1;
INSERT INTO workflows VALUES ('w', 'Title', 'For', '{"a": 1}', '2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z',
                              'in_progress', '2026-01-02T00:00:00Z', NULL);
INSERT INTO steps VALUES (7, 'w', 'b', 'Do b', 'manual', '[]', '{}', '2026-01-01T00:00:00Z',
                          'completed', '2026-01-02T00:00:00Z', '2026-01-02T00:00:00Z', NULL, '{"rows": 5}');
INSERT INTO steps VALUES (9, 'w', 'a', 'Do a', 'manual', '["b"]', '{}', '2026-01-01T00:00:00Z',
                          'pending', NULL, NULL, NULL, NULL);
INSERT INTO log VALUES (3, 'w', 'b', '2026-01-02T00:00:00Z', 'pending -> completed', 'done');
"""


@pytest.fixture
def old_file(data_dir: Path) -> Path:
    """A file as the first version wrote it."""
    data_dir.mkdir()
    with closing(sqlite3.connect(data_dir / "workflows.sqlite3")) as connection:
        connection.executescript(VERSION_1)
    return data_dir / "workflows.sqlite3"


@pytest.mark.parametrize("first", [workflow_ids, lambda: workflow_create("x", "Title")])
def test_the_first_versions_file_is_brought_up_to_date_and_is_the_local_persons(
    first: Callable[[], object], old_file: Path
) -> None:
    first()
    assert execute(old_file, "PRAGMA user_version") == [(2,)]
    assert execute(old_file, "PRAGMA foreign_key_check") == []
    found = workflow_get_status("w")["workflow"]
    assert (found["name"], found["metadata"], found["updated_at"]) == ("Title", {"a": 1}, "2026-01-02T00:00:00Z")
    assert [(step["id"], step["status"], step["result"]) for step in found["steps"]] == [
        ("b", "completed", {"rows": 5}),
        ("a", "pending", None),
    ]
    assert [entry["message"] for entry in found["execution_log"]] == ["done"]
    assert workflow_update_step("w", "a", "completed")["workflow"]["status"] == "completed"
    tables = {name for (name,) in execute(old_file, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {"workflows", "steps", "log"}
    for owner in ("workflows", "steps", "log"):
        assert set(execute(old_file, f"SELECT owner FROM {owner}")) == {("local",)}  # noqa: S608 - a table's name


def test_the_schema_is_the_same_whether_new_or_brought_up_to_date(old_file: Path, tmp_path: Path) -> None:
    workflow_ids()
    runtime_context.use_settings(Settings(data_dir=tmp_path / "new"))
    workflow_create("w", "Title")
    described = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    assert execute(old_file, described) == execute(tmp_path / "new" / "workflows.sqlite3", described)


def test_every_owner_has_workflows_of_its_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow_add_step("w", "a", "Do a")
    workflow_update_step("w", "a", "completed", "the local person's")
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
            with pytest.raises(NotFound, match="none has been created yet"):
                call()
        workflow_create("w", f"Of {who.issuer}")
        workflow_add_step("w", "a", "Do something else")
        workflow_update_step("w", "a", "in_progress", "mine")
        assert [row["name"] for row in workflow_list_all()["workflows"]] == [f"Of {who.issuer}"]
        assert [entry["message"] for entry in workflow_get_status("w")["workflow"]["execution_log"]] == ["mine"]
    monkeypatch.undo()
    runtime_context.use_settings(Settings(data_dir=file.parent))
    assert workflow_get_status("w") == before


def test_every_statement_over_rows_is_bound_to_an_owner() -> None:
    schema = {*workflow_sql.SCHEMA, *workflow_sql.FROM_VERSION_1}
    statements = [value for value in vars(workflow_sql).values() if isinstance(value, str) and value not in schema]
    over_rows = [one for one in statements if one.split()[0] in {"SELECT", "INSERT", "DELETE", "UPDATE"}]
    assert len(over_rows) == 10
    for statement in over_rows:
        tables = re.findall(r"(?:FROM|JOIN|INTO) (?:workflows|steps|log)\b", statement)
        assert tables
        assert statement.count(":owner") == len(tables)


def test_a_write_that_raises_is_rolled_back(file: Path) -> None:
    class Interrupted(Exception):
        pass

    def interrupted_write() -> None:
        with workflow_store.writing() as store:
            workflow = store.load("w")
            assert workflow is not None
            store.save(type(workflow)(**{**vars(workflow), "id": "other"}))
            assert store.ids() == ["other", "w"]
            raise Interrupted

    with pytest.raises(Interrupted):
        interrupted_write()
    assert workflow_ids() == ["w"]
    assert execute(file, "SELECT count(*) FROM workflows") == [(1,)]


def test_readers_see_the_last_commit_while_another_process_writes(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE workflows SET name = 'half done'")
        assert workflow_get_status("w")["workflow"]["name"] == "Title"


WRITER = """
import sys, time
from pathlib import Path
from quilt_mcp.services.workflow_service import workflow_add_step, workflow_create, workflow_update_step
me, go = sys.argv[1], Path(sys.argv[2])
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
for number in range(15):
    workflow_create("shared", "Title")
    workflow_create(f"own-{me}-{number}", "Title")
    workflow_add_step("shared", f"{me}-{number}", "Do it", dependencies=[f"{me}-{number - 1}"] if number else [])
    workflow_update_step("shared", f"{me}-{number}", "in_progress")
    workflow_update_step("shared", f"{me}-{number}", "completed", result={"by": me})
"""


def process(script: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True)


def test_processes_that_begin_and_write_at_once_lose_nothing(tmp_path: Path) -> None:
    names, go = ["a", "b", "c"], tmp_path / "go"
    writers = [process(WRITER, name, str(go)) for name in names]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    go.touch()
    for writer in writers:
        with writer:
            assert writer.wait(timeout=60) == 0
    workflow = workflow_get_status("shared")["workflow"]
    expected = {f"{name}-{number}" for name in names for number in range(15)}
    assert {step["id"] for step in workflow["steps"]} == expected
    assert all(step["result"] == {"by": step["id"][0]} for step in workflow["steps"])
    assert (workflow["status"], workflow["completed_steps"]) == ("completed", 45)
    assert len(workflow["execution_log"]) == 90
    assert workflow_list_all()["total_workflows"] == 46


KILLED = """
import os, signal
from quilt_mcp.services import workflow_service, workflow_store
workflow_service.workflow_create("w", "Title")
workflow_service.workflow_add_step("w", "a", "Do a")
workflow_service.workflow_update_step("w", "a", "completed", "done", {"rows": 5})
with workflow_store.writing() as store:
    store.save(store.load("w").with_step(store.load("w").steps[0].moved("failed", "2026-05-01T12:00:00Z"), "later"))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_is_committed_survives_a_kill_and_what_is_not_does_not(data_dir: Path) -> None:
    with process(KILLED) as killed:
        assert killed.wait(timeout=60) == -signal.SIGKILL
    assert (data_dir / "workflows.sqlite3-wal").exists()  # it was killed before it could tidy up
    workflow = workflow_get_status("w")["workflow"]
    assert workflow["status"] == "completed"
    assert workflow["steps"][0]["result"] == {"rows": 5}
    assert [entry["message"] for entry in workflow["execution_log"]] == ["done"]
    workflow_add_step("w", "b", "Do b")
    assert workflow_update_step("w", "b", "completed")["workflow"]["completed_steps"] == 2


def test_a_write_lock_held_too_long_is_unavailable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_file, "BUSY_SECONDS", 0.01)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="Another process is writing") as failure:
            workflow_create("x", "Title")
        assert (failure.value.transient, failure.value.details) == (True, "SQLITE_BUSY")
        assert workflow_ids() == ["w"]
    workflow_create("x", "Title")
    assert set(workflow_ids()) == {"x", "w"}


def test_writing_goes_on_when_another_process_keeps_the_journal_mode_from_changing(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow_file, "BUSY_SECONDS", 0.01)
    data_dir.mkdir()
    file = data_dir / "workflows.sqlite3"
    execute(file, "PRAGMA user_version = 0")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("CREATE TABLE other (x)")
        other.execute("BEGIN")
        other.execute("SELECT * FROM other").fetchall()
        with workflow_store.writing() as store:
            assert store.ids() == []
            other.execute("ROLLBACK")
    assert execute(file, "PRAGMA journal_mode") == [("delete",)]
    workflow_create("w", "Title")
    assert execute(file, "PRAGMA journal_mode") == [("wal",)]


def test_those_who_write_at_once_in_one_process_all_have_their_turn(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow_file, "BUSY_SECONDS", 0.0)
    names = [f"w{number}" for number in range(40)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda name: workflow_create(name, "Title"), names))
    assert sorted(workflow_ids()) == sorted(names)


def test_a_writer_does_not_wait_for_ever_for_the_others(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_file, "QUEUE_SECONDS", 0.01)
    with workflow_store.writing(), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(workflow_create, "x", "Title")
        assert isinstance(waiting.exception(), Unavailable)
    workflow_create("x", "Title")
    assert set(workflow_ids()) == {"x", "w"}


def connecting_with(pragma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each connection begin with a pragma, so that SQLite itself raises what a full or read-only disk would."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def connect_and_limit(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.execute(pragma)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_and_limit)


def create_many() -> None:
    """More than there is room for in the pages that the file has."""
    for number in range(9):
        workflow_create(f"x{number}", "Title", "x" * 1000, {"a": "x" * 4000})


@pytest.mark.parametrize(
    ("pragma", "problem", "code"),
    [
        ("PRAGMA max_page_count = 1", "disk is full", "SQLITE_FULL"),
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


@pytest.mark.parametrize("call", [workflow_list_all, workflow_ids, lambda: workflow_create("x", "Title")])
def test_a_newer_versions_file_is_left_alone(call: Callable[[], object], file: Path) -> None:
    execute(file, "PRAGMA user_version = 3")
    with pytest.raises(ResourceExecutionError, match="newer version") as failure:
        call()
    assert failure.value.details == "schema version 3; this version knows up to 2"
    assert failure.value.suggested_actions[0] == "Upgrade quilt-mcp on this machine."
    assert execute(file, "SELECT id FROM workflows") == [("w",)]


@pytest.mark.parametrize("call", [workflow_list_all, lambda: workflow_create("x", "Title")])
def test_a_file_that_is_no_database(call: Callable[[], object], data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "workflows.sqlite3").write_text("no database" * 100, encoding="utf-8")
    with pytest.raises(ResourceExecutionError, match="damaged") as failure:
        call()
    assert failure.value.details == "SQLITE_NOTADB"
    assert str(data_dir) not in failure.value.message + "".join(failure.value.suggested_actions)


def test_a_file_that_cannot_be_opened(data_dir: Path) -> None:
    (data_dir / "workflows.sqlite3").mkdir(parents=True)
    with pytest.raises(ResourceExecutionError, match="cannot be opened") as failure:
        workflow_list_all()
    assert failure.value.details == "SQLITE_CANTOPEN"
    with pytest.raises(ResourceExecutionError, match="cannot be opened") as failure:
        workflow_create("x", "Title")
    assert failure.value.details == "EISDIR"


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
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
    with pytest.raises(ResourceExecutionError, match="disk is full") as failure:
        workflow_create("x", "Title")
    assert failure.value.details == "ENOSPC"


@pytest.mark.parametrize(
    ("code", "problem"),
    [(sqlite3.SQLITE_IOERR_FSYNC, "The disk failed"), (sqlite3.SQLITE_CORRUPT_INDEX, "damaged")],
)
def test_failures_are_told_by_the_kind_of_their_code(code: int, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> sqlite3.Connection:
        error = sqlite3.OperationalError("any text")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr(sqlite3, "connect", failing)
    with pytest.raises(ResourceExecutionError, match=problem):
        workflow_create("x", "Title")


def test_a_bug_in_a_statement_stays_a_bug(file: Path) -> None:
    execute(file, "DROP TABLE log")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        workflow_get_status("w")
