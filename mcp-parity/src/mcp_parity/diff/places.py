"""Finds where a revision has its contract: where its own configuration of pytest says."""

import posixpath
import tomllib
from configparser import ConfigParser, Error
from dataclasses import dataclass
from typing import Any

# The files that can configure pytest, in the order in which it looks for them in each directory.
NAMES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
_TABLES = {"pyproject.toml": ("tool", "pytest"), "setup.cfg": ("tool:pytest",)}


class Unreadable(Exception):
    """A revision, or a file in it, cannot be read; the message is one line."""


@dataclass(frozen=True)
class Places:
    """Where a repository has its contract, as paths from its root.

    Attributes:
        golden: the directory of the goldens.
        rows: the inventory.
        changelog: the file that announces breaking changes.
    """

    golden: str = "golden"
    rows: str = "golden/mcp-list.csv"
    changelog: str = "CHANGELOG.md"


def find_places(candidates: dict[str, str], given: Places, revision: str) -> Places:
    """Return the given places, and the configured ones where an empty path is given.

    Args:
        candidates: the texts of the files that can configure pytest, by path, the first first.
        given: the places that the command line names.
        revision: the name of the revision that has the files.

    Raises:
        Unreadable: the configuration cannot be parsed.
    """
    found = ((posixpath.dirname(path), _read_options(path, text, revision)) for path, text in candidates.items())
    default: tuple[str, Any] = ("", {})
    folder, options = next((one for one in found if one[1] is not None), default)
    golden = given.golden or posixpath.join(folder, str(options.get("mcp_golden", "golden")))
    inventory = str(options.get("mcp_inventory", ""))
    rows = given.rows or posixpath.join(*((folder, inventory) if inventory else (golden, "mcp-list.csv")))
    return Places(posixpath.normpath(golden), posixpath.normpath(rows), given.changelog)


def _read_options(path: str, text: str, revision: str) -> Any:
    """Return the options of pytest that a file has, or None if pytest goes on to the next file."""
    name = posixpath.basename(path)
    document: Any = ConfigParser(interpolation=None)
    try:
        if name.endswith(".toml"):
            document = tomllib.loads(text)
        else:
            document.read_string(text.removeprefix("\ufeff"))
    except (ValueError, Error) as error:
        raise Unreadable(f"{path} at {revision} cannot be read: {' '.join(str(error).split())}") from error
    for table in _TABLES.get(name, ("pytest",)):
        if table not in document:
            return {} if "pytest." in name else None
        document = document[table]
    return document.get("ini_options", document)
