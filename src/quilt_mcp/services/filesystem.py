"""The directories of this machine that Quilt and its workflows use."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Literal

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.app import current_app, identity
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import find_quilt_paths

GIB = 2**30
PROBE = bytes(4096)
"""The content of the test file. A full file system can still create an empty file."""


class DirectoryStatus(TypedDict):
    """One directory.

    Attributes:
        path: the absolute path; null for remote callers.
        exists: whether it exists.
        writable: whether a file could be created and written in it, or in its nearest existing parent.
        free_gib: free space on its file system, in whole GiB; null if unknown, and for remote callers.
        error: why it is not writable; null if it is.
    """

    path: str | None
    exists: bool
    writable: bool
    free_gib: int | None
    error: str | None


class FilesystemAnswer(TypedDict):
    """The answer of auth://filesystem/status.

    Attributes:
        status: whether all, some or none of the directories are writable.
        directories: by name: quilt_data, quilt_cache, workflows, temporary, current.
    """

    status: Literal["full_access", "limited_access", "read_only"]
    directories: dict[str, DirectoryStatus]


def filesystem_status() -> FilesystemAnswer:
    """Whether the server can write to Quilt's directories.

    For each directory: `path`, `exists`, `writable` (tested with an unnamed temporary file that leaves nothing behind,
    in the nearest existing parent if the directory does not exist yet), `free_gib` (whole GiB) and `error`. `status` is
    full_access, limited_access or read_only.

    Callers who sign in to this server get the workflows directory only, without its path and its free space. The other
    directories are those of the local user.
    """
    is_local = identity.current().is_local
    directories = {name: _probe(path) for name, path in _list_directories().items() if is_local or name == "workflows"}
    if not is_local:
        directories["workflows"] |= {"path": None, "free_gib": None}
    writable = [one["writable"] for one in directories.values()]
    return {
        "status": "full_access" if all(writable) else "limited_access" if any(writable) else "read_only",
        "directories": directories,
    }


def _list_directories() -> dict[str, Path]:
    paths = find_quilt_paths()
    return {
        "quilt_data": paths.data,
        "quilt_cache": paths.cache,
        "workflows": current_app().settings_as(QuiltSettings).data_dir,
        "temporary": _find_temporary(),
        "current": Path(),
    }


def _find_temporary() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # no candidate can be written: the disk can be full
        return Path(os.environ.get("TMPDIR", "/tmp"))  # noqa: S108 - only its state is shown


def _probe(path: Path) -> DirectoryStatus:
    row: DirectoryStatus = {"path": "", "exists": False, "writable": False, "free_gib": None, "error": None}
    try:
        # Fails if the current directory was deleted. A name that is not UTF-8 is shown with escapes.
        row["path"] = os.fsencode(path.absolute()).decode("utf-8", "backslashreplace")
        row["exists"] = path.is_dir()
        parent = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
        row["free_gib"] = shutil.disk_usage(parent).free // GIB
        with tempfile.TemporaryFile(dir=parent, buffering=0) as file:
            row["writable"] = file.write(PROBE) == len(PROBE)
            os.fsync(file.fileno())  # some file systems report only here that they are full
    except OSError as error:
        row["error"] = f"{type(error).__name__}: {error.strerror}"
    return row
