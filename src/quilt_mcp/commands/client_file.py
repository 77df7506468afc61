"""The configuration file of an MCP client: read it, keep a copy, and replace it."""

import errno
import glob
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

EMPTY = "{}\n"
WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class ConfigError(Exception):
    """A file cannot be read or changed as the configuration of an MCP client."""


class ClientFile:
    """A configuration file, as it is now.

    Args:
        path: where the client reads it. A symbolic link to the file stays one.

    Attributes:
        text: its content, with its byte order mark; empty if there is no file.

    Raises:
        ConfigError: the path leads to no file, or to one that is not UTF-8.
        OSError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._is_link = path.is_symlink()
        self._target = _follow_links(path)
        self._content = _read(self._target)
        try:
            self.text = (self._content or b"").decode()
        except UnicodeDecodeError as error:
            raise ConfigError(f"it is not UTF-8 (at byte {error.start}): save it as UTF-8") from error

    def check_writable(self) -> None:
        """Check that the file is not write-protected: renaming another file to its name needs no right to write it.

        Raises:
            ConfigError: the file is write-protected.
        """
        if self._content is not None and not (
            self._target.stat().st_mode & WRITABLE and os.access(self._target, os.W_OK)
        ):
            raise ConfigError("it is read-only: make it writable, then run this command again")

    def read_copies(self) -> Iterator[str]:
        """Yield the texts of the copies that `replace` made, and of other files with such names."""
        pattern = f"{glob.escape(self._target.name)}.bak*"
        for path in sorted(filter(Path.is_file, self._target.parent.glob(pattern))):
            with suppress(OSError, UnicodeDecodeError):  # not a copy
                yield path.read_bytes().decode()

    def replace(self, text: str | None) -> Path | None:
        """Write the file, or delete it if the text is None. A symbolic link keeps its target, with an empty object.

        Returns:
            A copy of the previous file; None if there was none.

        Raises:
            ConfigError: the file has changed since it was read.
            OSError: the file cannot be written.
        """
        if _read(self._target) != self._content:
            raise ConfigError("another program changed it at the same time: run this command again")
        copy = self._copy()
        if text is None and not self._is_link:
            self._target.unlink()
        else:
            _write(self._target, (EMPTY if text is None else text).encode())
        return copy

    def _copy(self) -> Path | None:
        """Copy the file to a new name, unless there is such a copy. The first copy is the user's own file."""
        if self._content is None:
            return None
        names = (f"{self._target.name}.bak{f'-{number}' if number > 1 else ''}" for number in count(1))
        for copy in map(self._target.with_name, names):
            if not os.path.lexists(copy):
                shutil.copy2(self._target, copy)
                return copy
            if copy.is_file() and copy.read_bytes() == self._content:
                return copy
        raise AssertionError("the names have no end")


def _follow_links(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        for place in (path, *path.parents):
            if place.is_symlink() and not place.exists():
                where = "it" if place == path else str(place)
                raise ConfigError(
                    f"{where} is a symbolic link to {place.readlink()}, which does not exist: "
                    "create that file or directory, or remove the link"
                ) from None
        return path
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ConfigError("it is a symbolic link that leads to itself: remove the link") from error


def _read(path: Path) -> bytes | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError("it is not a file")
    return path.read_bytes()


def _write(path: Path, content: bytes) -> None:
    """Write a temporary file and rename it, so that clients never read an incomplete file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
