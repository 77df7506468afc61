"""Copies of the workflow file, while servers use it. PostgreSQL has its own tools for that.

Both directions use SQLite's online backup: a copy is one snapshot, and a restored file changes in one transaction. A
running server is not disturbed, and sees the restored workflows with its next read.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection

from quilt_mcp.app.database.engines import make_file, make_sqlite_engine, sqlite_uri, translate
from quilt_mcp.core.errors import ResourceExecutionError, Unavailable
from quilt_mcp.workflows.failures import FAILURES, SCHEMA
from quilt_mcp.workflows.schema_state import examine
from quilt_mcp.workflows.settings import FILE_NAME, WorkflowSettings

BEFORE = ".before-restore"
"""Follows the name of the workflow file, for the copy that `restore` makes of it. Later copies also get a number."""
_USE_BACKUP = "Use a file that `quilt-mcp workflows backup` wrote."


class Copied(NamedTuple):
    """The result of a command."""

    number: int
    """The number of copied workflows, of all owners."""
    before: Path | None = None
    """A copy of what was replaced."""


def backup(settings: WorkflowSettings, target: Path, *, overwrite: bool = False) -> Copied:
    """Copy the workflow file. The copy contains every write that was acknowledged before.

    Args:
        settings: `workflows_url`, `data_dir` and `database_timeout_seconds`.
        target: the new file. Only the user can read it.
        overwrite: replace an existing file, if it is empty or a backup.

    Raises:
        ResourceFailure: there are no workflows, they cannot be read, or they are in PostgreSQL.
        OSError: the target cannot be written.
    """
    source = _find_file(settings, f"Use pg_dump --schema={SCHEMA} to back it up.")
    if not source.exists():
        raise ResourceExecutionError(
            "There are no workflows yet.", suggested_actions=["Check QUILT_MCP_DATA_DIR: it is the directory."]
        )
    if target.exists():
        _refuse_itself(target, source)
        if not overwrite:
            raise ResourceExecutionError(
                f"{target} exists.", suggested_actions=["Use another name, or add --overwrite to replace a backup."]
            )
        _check_replaceable(target, settings.database_timeout_seconds)
    return Copied(_copy_to_new_file(source, target, settings.database_timeout_seconds, check=True))


def restore(settings: WorkflowSettings, source: Path, *, replace: bool = False) -> Copied:
    """Replace the content of the workflow file by that of a copy, in one transaction.

    Args:
        settings: as for `backup`.
        source: a file that `backup` wrote.
        replace: replace existing workflows, or tables of a newer version or another program. A copy of them is kept.

    Raises:
        ResourceFailure: the source is damaged, no copy of workflows, or the workflow file itself; the workflow file
            cannot be replaced; or workflows are in PostgreSQL.
        OSError: a file cannot be read or written.
    """
    target = _find_file(settings, "Use psql or pg_restore to restore what pg_dump has written.")
    seconds = settings.database_timeout_seconds
    with source.open("rb"):  # raises an OSError that names the file
        pass
    _refuse_itself(source, target)
    _check_backup(source, seconds)
    before = None
    if not _is_empty(target, seconds):
        if not replace:
            raise ResourceExecutionError(
                "The workflow file is not empty.",
                details=str(target),
                suggested_actions=["Add --replace to replace its content. A copy of it is kept beside it."],
            )
        before = _keep(target, seconds)
    make_file(target)
    with _opened(source, "ro") as reading, _opened(target) as writing:
        reading.execute("BEGIN")  # what is copied is what is counted
        _copy(reading, writing, seconds)
        number: int = reading.execute("SELECT count(*) FROM workflows").fetchone()[0]
    return Copied(number, before)


def _find_file(settings: WorkflowSettings, advice: str) -> Path:
    if settings.workflows_url is not None:
        raise ResourceExecutionError(
            "The workflows are in PostgreSQL, and this command is for the file.", suggested_actions=[advice]
        )
    return settings.data_dir / FILE_NAME


def _refuse_itself(path: Path, workflows: Path) -> None:
    if workflows.exists() and path.samefile(workflows):
        raise ResourceExecutionError(f"{path} is the workflow file itself.", suggested_actions=["Use another file."])


def _keep(file: Path, seconds: float) -> Path:
    """Copy the workflow file, under a name that no file has. Return the copy."""
    for number in count(1):
        kept = file.with_name(f"{file.name}{BEFORE}{f'-{number}' if number > 1 else ''}")
        with suppress(FileExistsError):
            os.close(os.open(kept, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))  # also if another process looks for one
            break
    try:
        _copy_to_new_file(file, kept, seconds, check=False)
    except (ResourceExecutionError, OSError):
        kept.unlink()
        raise
    return kept


def _copy_to_new_file(source: Path, target: Path, seconds: float, *, check: bool) -> int:
    """Copy a file, and put the complete copy in its place. Return how many workflows it contains, if it is checked."""
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        error.filename = str(target)  # the user does not know the name of the unfinished file
        raise
    try:
        with _opened(source) as reading, _opened(unfinished) as writing:
            _copy(reading, writing, seconds)
            writing.execute("PRAGMA journal_mode = DELETE")  # so that the copy is one file
        number = _check(unfinished, seconds) if check else 0
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return number


def _check(path: Path, seconds: float) -> int:
    """Return how many workflows a file contains.

    Raises:
        ResourceFailure: it is damaged, or contains no workflow tables that this version can use.
    """
    with _connected(path, seconds) as connection:
        if connection.exec_driver_sql("PRAGMA integrity_check").scalars().all() != ["ok"]:
            raise ResourceExecutionError(
                "The workflow file is damaged.",
                details="SQLite's integrity check fails",
                suggested_actions=["Restore a backup: run `quilt-mcp workflows restore`."],
            )
        if examine(connection).state == "empty":
            raise ResourceExecutionError("There are no workflows yet.", details="it contains no tables of workflows")
        return int(connection.exec_driver_sql("SELECT count(*) FROM workflows").scalar_one())


def _check_backup(path: Path, seconds: float) -> None:
    try:
        _check(path, seconds)
    except Unavailable:
        raise
    except ResourceExecutionError as error:  # it describes the workflow file
        raise ResourceExecutionError(
            f"{path} is not a backup of workflows that this version can use.",
            details=error.details,
            suggested_actions=[_USE_BACKUP],
        ) from error


def _check_replaceable(path: Path, seconds: float) -> None:
    """Check that a backup can replace a file: it is empty, or a backup. What servers use has a write-ahead log."""
    if path.is_file():
        if path.stat().st_size == 0:
            return
        with suppress(ResourceExecutionError), _connected(path, seconds) as connection:
            has_log = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
            if examine(connection).state != "empty" and not has_log:
                return
    raise ResourceExecutionError(
        f"{path} is not a backup of workflows. It was not replaced.", suggested_actions=["Use another name."]
    )


def _is_empty(path: Path, seconds: float) -> bool:
    """Return whether a file contains no tables, of any program."""
    if not path.exists():
        return True
    with _connected(path, seconds) as connection:
        return connection.exec_driver_sql("SELECT 1 FROM sqlite_master").first() is None


@contextmanager
def _connected(path: Path, seconds: float) -> Iterator[Connection]:
    engine = make_sqlite_engine(path, seconds)
    with translate(FAILURES), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def _opened(path: Path, mode: str = "rw") -> Iterator[sqlite3.Connection]:
    uri = sqlite_uri(path).replace("mode=rw", f"mode={mode}")
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise ResourceExecutionError(
            f"{path} cannot be copied.",
            details=getattr(error, "sqlite_errorname", None),
            suggested_actions=["Check the disk, and that the file is an SQLite database that you can write."],
        ) from error


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, seconds: float) -> None:
    until = time.monotonic() + seconds

    def stop_waiting(_: int, remaining: int, total: int) -> None:
        if remaining == total and time.monotonic() > until:  # nothing is copied while another process has the lock
            raise Unavailable("Another process is writing to the workflow database and did not finish in time.")

    target.execute("PRAGMA synchronous = FULL")
    source.backup(target, progress=stop_waiting)
