"""The directories of the user, for users who can have no home directory."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class NoHomeError(RuntimeError):
    """The user has no home directory: neither a variable of the environment nor an account names one."""

    def __init__(self) -> None:
        variable = "USERPROFILE" if sys.platform == "win32" else "HOME"
        super().__init__(
            f"You have no home directory. Set {variable} to the absolute path of a directory that you may write."
        )


def ask_for_directory(find: Callable[[], T]) -> T:
    """Return what a function of pathlib or platformdirs finds.

    Raises:
        NoHomeError: it needs the home directory, and there is none.
    """
    try:
        return find()
    except RuntimeError as error:
        raise NoHomeError from error


def find_home() -> Path:
    """Return the home directory.

    Raises:
        NoHomeError: there is none, or the environment names one that is not an absolute path.
    """
    home = ask_for_directory(Path.home)
    if not home.is_absolute() or os.environ.get("HOME") == "":
        raise NoHomeError
    return home
