"""The answers to a client's first requests, kept in a file from one start of the server to the next.

These answers depend only on the version of the protocol, the settings, the installed packages and the code. A file
belongs to one combination of them, so a server that starts again can answer before its libraries are imported. This
module imports only the standard library.
"""

import json
import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from quilt_mcp.commands.handshake import MAX_BYTES, Question, parse

VARIABLES = ("QUILT_", "FASTMCP_", "MCP_", "SYMBOLIC_")
"""Prefixes of the environment variables that settings are read from."""
UNSTABLE = ("QUILT_MCP_JWT_", "QUILT_MCP_OIDC_", "QUILT_MCP_INTROSPECTION_", "QUILT_MCP_STATIC_TOKENS")
"""Prefixes of variables of which the effect also depends on files or on other servers. Nothing is kept with them."""
KEPT_FILES = 16


class Answers:
    """The known answers, and the file that keeps them.

    Args:
        path: the file; None if nothing is kept.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._results = _load(path) if path else {}

    @property
    def is_kept(self) -> bool:
        """Whether there is a file for the answers."""
        return self._path is not None

    def __bool__(self) -> bool:
        return bool(self._results)

    def find(self, question: Question) -> str | None:
        """Return the JSON text of the result; None if it is not known."""
        return self._results.get(question.key)

    def keep(self, question: Question, result: str | None) -> None:
        """Keep the JSON text of a result in the file, or remove the result from it.

        Raises:
            OSError: the file cannot be written.
        """
        if self._path is None:
            return
        self._results = _load(self._path)  # another process can have added to it
        if result is None:
            self._results.pop(question.key, None)
        else:
            self._results[question.key] = result
        _write(self._path, json.dumps(self._results))


def open_answers(folder: Path | None, arguments: Sequence[str]) -> Answers:
    """Open the file for servers with this code, these packages and settings, and these arguments.

    Args:
        folder: the cache directory of the user; None if there is none.
        arguments: those of the command line.
    """
    if any(name.upper().startswith(UNSTABLE) or name.upper().endswith("_FILE") for name in _list_variables()):
        return Answers(None)
    if folder is None or not folder.is_absolute():  # earlier versions of platformdirs return ~/.cache without a home
        return Answers(None)
    try:
        name = _make_key(arguments)
    except OSError:  # the code is in an archive, or .env is not readable
        return Answers(None)
    return Answers(folder / "first-answers" / f"{name}.json")


def is_setting(variable: str) -> bool:
    """Return whether settings are read from an environment variable with this name."""
    return variable.upper().startswith(VARIABLES)


def _make_key(arguments: Sequence[str]) -> str:
    """Return a hash of all that decides the answers: arguments, settings, Python, installed packages and our code."""
    package = Path(__file__).parents[1]
    dotenv = Path(".env")  # FastMCP reads it
    parts = [
        sys.version,
        sys.prefix,
        *arguments,
        *(f"{name}={os.environ[name]}" for name in _list_variables()),
        dotenv.read_text(encoding="utf-8", errors="replace") if dotenv.is_file() else "",
        *(name for folder in sys.path for name in _list_distributions(folder)),
        *_list_code(package),
    ]
    return sha256(json.dumps(parts).encode()).hexdigest()


def _list_variables() -> list[str]:
    return sorted(filter(is_setting, os.environ))


def _list_distributions(folder: str) -> list[str]:
    """Return the names and versions of the packages that are installed in a folder."""
    try:
        return sorted(name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info")))  # noqa: PTH208 - pathlib takes ten times as long
    except OSError:  # a zip file, or not there
        return []


def _list_code(package: Path) -> list[str]:
    """Return the path, size and time of change of each source file."""
    found, folders = [], [str(package)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    status = entry.stat()
                    found.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
    return sorted(found)


def _load(path: Path) -> dict[str, str]:
    try:
        with open(path, "rb", opener=_open_own) as file:  # Path.open has no opener
            content = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError):  # not there yet, or damaged: it is written again
        return {}
    return content if isinstance(content, dict) and all(map(_is_result, content.values())) else {}


def _open_own(path: str, flags: int) -> int:
    """Open a regular file of this user, without a wait for another process."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_uid == getattr(os, "geteuid", lambda: status.st_uid)():
        return descriptor
    os.close(descriptor)
    raise OSError(f"{path} is not a file of this user")


def _is_result(text: object) -> bool:
    """Return whether a text is a JSON object that can be part of a line."""
    return isinstance(text, str) and text.isascii() and text.isprintable() and parse(text.encode()) is not None


def _write(path: Path, text: str) -> None:
    """Write a temporary file and rename it, so that no process reads an incomplete file. Remove the oldest files."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
    with suppress(OSError):  # another process removes them too
        kept = sorted(path.parent.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in kept[KEPT_FILES:]:
            old.unlink()
