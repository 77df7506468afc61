"""The file that an export writes: it appears when it is complete, and replaces no database."""

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from quilt_mcp.core.errors import ResourceExecutionError

_SQLITE_START = b"SQLite format 3\0"


@contextmanager
def open_target(path: Path | None) -> Iterator[TextIO]:
    """Open a file that appears when it is complete, or stdout. A pipe or a device is written directly."""
    if path is None:
        if isinstance(sys.stdout, TextIOWrapper):  # with the encoding of the terminal
            sys.stdout.reconfigure(encoding="utf-8", newline="")
        yield sys.stdout
        sys.stdout.flush()
        return
    path = path.resolve()  # a link stays a link
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="") as device:
            yield device
        return
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        before = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
        # the umask limits the mode of a new file only
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if before is None else 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            if before is not None:
                unfinished.chmod(before)
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        error.filename = str(path)  # the user does not know the name of the unfinished file
        raise
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):  # the second one if a parent is a file
            unfinished.unlink()


def refuse_database(path: Path, own: Path | None) -> None:
    """Refuse a file of an SQLite database: itself, or its log, which an export must not replace.

    Raises:
        ResourceExecutionError: it is one.
    """
    name, dash, ending = path.resolve().name.rpartition("-")
    is_beside = bool(dash) and ending in {"wal", "shm", "journal"}
    file = path.resolve().with_name(name) if is_beside else path.resolve()
    is_database = own is not None and file == own.resolve()  # which does not need to exist yet
    if not is_database and file.is_file():
        with file.open("rb") as opened:
            is_database = opened.read(len(_SQLITE_START)) == _SQLITE_START
    if is_database:
        raise ResourceExecutionError(
            f"{path} belongs to an SQLite database. It was not changed.", suggested_actions=["Use another name."]
        )
