"""The directories of the user, for users who can have no home directory."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import platformdirs


class NoHomeError(RuntimeError):
    """The user has no home directory: neither a variable of the environment nor an account names one."""

    def __init__(self) -> None:
        variable = "USERPROFILE" if sys.platform == "win32" else "HOME"
        super().__init__(
            f"You have no home directory. Set {variable} to the absolute path of a directory that you may write."
        )


def ask_for_directory(find: Callable[[], Path]) -> Path:
    """Return what a function of pathlib or platformdirs finds.

    Raises:
        NoHomeError: it needs the home directory, and the environment names none, a relative path, or a file: /dev/null.
    """
    try:
        directory = find()
    except RuntimeError as error:
        raise NoHomeError from error
    places = (directory, *directory.parents)
    existing = next(one for one in places if os.path.exists(one))  # noqa: PTH110 - Path.exists raises without rights
    if not (directory.is_absolute() and existing.is_dir()):  # an old platformdirs returns ~/…
        raise NoHomeError
    return directory


def find_home() -> Path:
    """Return the home directory. Raise NoHomeError if there is none."""
    if os.environ.get("HOME") == "":  # it would be the root directory
        raise NoHomeError
    return ask_for_directory(Path.home)


def find_data_directory() -> Path:
    """Return the directory for the data of this program. Raise NoHomeError if it would be below a missing home."""
    return ask_for_directory(lambda: platformdirs.user_data_path("quilt-mcp", appauthor=False))
