"""`quilt-mcp workflows`: backup and restore of the workflow file."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from quilt_mcp.app import current_app, identity
from quilt_mcp.app.identity import Identity
from quilt_mcp.commands.cli import main
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.settings import Settings
from quilt_mcp.workflows import backup as work
from quilt_mcp.workflows.service import workflow_add_step, workflow_create, workflow_delete, workflow_ids
from quilt_mcp.workflows.stores import Workflows
from tests.support import apps

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def file(data_dir: Path) -> Path:
    """The workflow file, with a workflow of two callers."""
    workflow_create("w", "Title")
    workflow_add_step("w", "s", "Do")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "current", lambda: Identity("ann", "https://issuer.example.com"))
        workflow_create("w", "Of Ann")
    return data_dir / "workflows.sqlite3"


def run(capsys: Captured, *arguments: str) -> tuple[int, str]:
    status = main(["workflows", *arguments])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def ids(path: Path) -> set[str]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        return {row[0] for row in connection.execute("SELECT id FROM workflows")}


def test_a_backup_is_restored_into_an_empty_directory(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    copy = tmp_path / "copy.sqlite3"
    assert run(capsys, "backup", str(copy)) == (0, f"Copied 2 workflows to {copy}.\n")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.sqlite3", "data"]
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    monkeypatch.setenv("QUILT_MCP_DATA_DIR", str(tmp_path / "new"))
    apps.use_environment()
    assert run(capsys, "restore", str(copy)) == (0, "Restored 2 workflows.\n")
    assert workflow_ids() == ["w"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == [file.name]
    assert stat.S_IMODE((tmp_path / "new" / file.name).stat().st_mode) == 0o600
    workflow_create("x", "Title")
    assert set(workflow_ids()) == {"w", "x"}


@pytest.fixture
def copy(file: Path, tmp_path: Path, capsys: Captured) -> Path:
    """A backup of the workflow file."""
    assert file.exists()
    assert run(capsys, "backup", str(tmp_path / "copy"))[0] == 0
    return tmp_path / "copy"


def test_an_existing_backup_is_replaced_only_on_request(file: Path, tmp_path: Path, capsys: Captured) -> None:
    assert file.exists()
    copy = tmp_path / "copy"
    copy.touch(0o644)  # as mktemp does
    status, text = run(capsys, "backup", str(copy))
    assert (status, copy.read_bytes(), "--overwrite" in text) == (1, b"", True)
    for expected in ({"w"}, {"w", "later"}):
        assert run(capsys, "backup", str(copy), "--overwrite")[0] == 0
        assert (ids(copy), stat.S_IMODE(copy.stat().st_mode)) == (expected, 0o600)
        workflow_create("later" if expected == {"w"} else "last", "Title")


def test_the_workflow_file_is_neither_replaced_by_its_backup_nor_restored_from_itself(
    file: Path, tmp_path: Path, capsys: Captured
) -> None:
    symbolic, hard = tmp_path / "symbolic", tmp_path / "hard"
    symbolic.symlink_to(file)
    hard.hardlink_to(file)
    before = file.stat().st_ino
    asked = [("backup", target, "--overwrite") for target in (file, symbolic, hard)]
    asked += [("restore", source, "--replace") for source in (file, symbolic)]
    for command, path, option in asked:
        status, text = run(capsys, command, str(path), option)
        assert (status, text.splitlines()[0]) == (1, f"{path} is the workflow file itself.")
    assert (file.stat().st_ino, symbolic.is_symlink(), workflow_ids()) == (before, True, ["w"])
    assert len(list(file.parent.iterdir())) == 1


def test_a_backup_replaces_only_a_backup(file: Path, tmp_path: Path, capsys: Captured) -> None:
    text_file, database, folder = tmp_path / "text", tmp_path / "requirements.sqlite3", tmp_path / "folder"
    text_file.write_text("mine")
    folder.mkdir()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE epics (id)")
    of_others = tmp_path / "other" / file.name  # of another data directory, where servers can use it
    of_others.parent.mkdir()
    shutil.copy(file, of_others)
    kept = {one: one.read_bytes() for one in (text_file, database, of_others)}
    for target in (*kept, folder, Path("/dev/null")):
        status, text = run(capsys, "backup", str(target), "--overwrite")
        assert (status, text.splitlines()[0]) == (1, f"{target} is not a backup of workflows. It was not replaced.")
    assert {one: one.read_bytes() for one in kept} == kept
    assert (folder.is_dir(), Path("/dev/null").is_char_device()) == (True, True)


WRITER = """
from quilt_mcp.services.workflow_service import workflow_create
number = 0
while True:
    workflow_create(f"n{number}", "Title", "x" * 900)
    print(number, flush=True)
    number += 1
"""


@pytest.mark.soak
def test_a_backup_during_writes_contains_every_write_that_was_acknowledged_before(
    file: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert file.exists()
    acknowledged: list[int] = []
    writer = subprocess.Popen([sys.executable, "-c", WRITER], stdout=subprocess.PIPE, text=True)
    assert writer.stdout
    lines = writer.stdout

    def collect() -> None:
        acknowledged.extend(int(line) for line in lines)

    first = int(lines.readline())
    reader = threading.Thread(target=collect)
    reader.start()
    try:
        for number in range(3):
            before = max([first, *acknowledged])
            assert run(capsys, "backup", str(tmp_path / f"copy-{number}"))[0] == 0
            found = ids(tmp_path / f"copy-{number}")
            assert {f"n{one}" for one in range(before + 1)} <= found
            assert {int(name[1:]) for name in found - {"w"}} == set(range(len(found) - 1))
    finally:
        writer.kill()
        reader.join()
        writer.wait()
        lines.close()
    assert {f"n{one}" for one in acknowledged} <= ids(file)


def test_a_restore_replaces_existing_workflows_only_on_request(file: Path, copy: Path, capsys: Captured) -> None:
    workflow_create("later", "Title")
    status, text = run(capsys, "restore", str(copy))
    assert (status, set(workflow_ids()), "--replace" in text) == (1, {"w", "later"}, True)
    with current_app().part(Workflows).reading() as store:  # a server that reads
        assert set(store.ids()) == {"w", "later"}
        status, text = run(capsys, "restore", str(copy), "--replace")
        assert (status, set(store.ids())) == (0, {"w", "later"})
    assert workflow_ids() == ["w"]
    before = file.with_name(f"{file.name}.before-restore")
    assert (str(before) in text, ids(before)) == (True, {"w", "later"})
    workflow_delete("w")
    assert ids(copy) == {"w"}


def test_every_restore_can_be_undone(file: Path, copy: Path, capsys: Captured) -> None:
    first, second, third = (file.with_name(f"{file.name}.before-restore{end}") for end in ("", "-2", "-3"))
    workflow_create("later", "Title")

    def restore(source: Path, count: int, kept: Path) -> None:
        text = f"Restored {count} workflows.\nWhat was there before is in {kept}.\n"
        assert run(capsys, "restore", str(source), "--replace") == (0, text)

    restore(copy, 2, first)
    restore(first, 3, second)
    assert set(workflow_ids()) == {"w", "later"}
    workflow_create("last", "Title")
    restore(copy, 2, third)
    assert workflow_ids() == ["w"]
    assert (ids(first), ids(second), ids(third)) == ({"w", "later"}, {"w"}, {"w", "later", "last"})


def test_a_failed_restore_leaves_no_empty_file(file: Path, copy: Path, capsys: Captured) -> None:
    name = f"{file.name}.before-restore"
    unfinished = file.with_name(f"{name}.{os.getpid()}.part")
    unfinished.mkdir()  # so that nothing can be copied
    assert run(capsys, "restore", str(copy), "--replace")[0] == 1
    assert not file.with_name(name).exists()
    unfinished.rmdir()
    assert run(capsys, "restore", str(copy), "--replace")[0] == 0
    assert ids(file.with_name(name)) == {"w"}


def test_tables_of_a_newer_version_or_another_program_are_replaced_only_on_request(
    file: Path, copy: Path, tmp_path: Path, capsys: Captured
) -> None:
    foreign = "DROP TABLE workflows_schema_version; PRAGMA user_version = 0"
    for change in (NEWER, foreign):
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.executescript(change)
        assert run(capsys, "backup", str(tmp_path / "none"))[0] == 1
        assert run(capsys, "restore", str(copy))[0] == 1
        assert run(capsys, "restore", str(copy), "--replace")[0] == 0
        assert workflow_ids() == ["w"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data"]


NEWER = "UPDATE workflows_schema_version SET version_num = '9999'"


def test_a_file_that_is_not_a_backup_is_refused(file: Path, copy: Path, tmp_path: Path, capsys: Captured) -> None:
    """Without advice about the workflow file or the settings."""
    content: dict[str, bytes] = {"damaged": b"SQLite format 3\0" + b"x" * 5000, "text": b"hello" * 1000, "empty": b""}
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
    with closing(sqlite3.connect(tmp_path / "other")) as connection:
        connection.execute("CREATE TABLE x (y)")
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute(NEWER)
    for path in (*(tmp_path / name for name in (*content, "other")), copy):
        status, text = run(capsys, "restore", str(path), "--replace")
        assert (status, text.splitlines()[0]) == (1, f"{path} is not a backup of workflows that this version can use.")
        assert "Use a file that `quilt-mcp workflows backup` wrote." in text
        assert "QUILT_MCP" not in text
    assert "schema 9999; this version supports up to" in text
    assert str(tmp_path / "none") in run(capsys, "restore", str(tmp_path / "none"), "--replace")[1]
    assert workflow_ids() == ["w"]
    assert not file.with_name(f"{file.name}.before-restore").exists()


def test_a_damaged_page_is_noticed(file: Path, tmp_path: Path, capsys: Captured) -> None:
    for number in range(30):
        workflow_create(f"w{number}", "Title", "x" * 900)
    copy = tmp_path / "copy"
    assert run(capsys, "backup", str(copy))[0] == 0
    data = bytearray(copy.read_bytes())
    data[-4096:] = b"\xff" * 4096
    copy.write_bytes(data)
    assert run(capsys, "restore", str(copy), "--replace")[0] == 1
    shutil.copy(copy, file)
    assert run(capsys, "backup", str(tmp_path / "second"))[0] == 1
    assert not (tmp_path / "second").exists()


def test_without_workflows_there_is_nothing_to_back_up(data_dir: Path, tmp_path: Path, capsys: Captured) -> None:
    status, text = run(capsys, "backup", str(tmp_path / "copy"))
    assert (status, "There are no workflows yet" in text, data_dir.exists()) == (1, True, False)


def test_a_target_that_cannot_be_written_is_named(file: Path, tmp_path: Path, capsys: Captured) -> None:
    for target, reason in (
        (tmp_path / "none" / "copy", "No such file or directory"),
        (file / "copy", "Not a directory"),
    ):
        assert run(capsys, "backup", str(target)) == (1, f"{target}: {reason}.\n")


@pytest.mark.parametrize(("command", "tool"), [("backup", "pg_dump"), ("restore", "pg_restore")])
def test_for_postgresql_its_own_tools_are_named(
    command: str, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("QUILT_MCP_WORKFLOWS_URL", "postgresql://u:zq-secret@127.0.0.1:1/x")
    status, text = run(capsys, command, str(tmp_path / "copy"))
    assert (status, tool in text, "zq-secret" in text) == (1, True, False)


@pytest.mark.soak
def test_a_lock_that_is_held_too_long_is_unavailable(file: Path, tmp_path: Path) -> None:
    settings = Settings(data_dir=file.parent, database_timeout_seconds=0.01)  # of a lock that is never free
    work.backup(settings, tmp_path / "copy")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="Another process is writing"):
            work.restore(settings, tmp_path / "copy", replace=True)
    assert workflow_ids() == ["w"]
