"""Reads the files of a git revision."""

import csv
import io
import json
import subprocess
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Places:
    """Where a repository keeps its contract, as paths from its root.

    Attributes:
        golden: the directory of the goldens.
        rows: the inventory.
        changelog: the file that announces breaking changes.
    """

    golden: str = "golden"
    rows: str = "golden/mcp-list.csv"
    changelog: str = "CHANGELOG.md"


class Unreadable(Exception):
    """A revision, or a file in it, cannot be read; the message is one line."""


@dataclass(frozen=True)
class Revision:
    """The files of a revision that describe what clients see.

    Attributes:
        name: as it was passed to `read_revision`.
        files: their texts by path.
        places: where the contract is.
    """

    name: str
    files: dict[str, str]
    places: Places

    def json(self, path: str) -> Any:
        """Return the content of a JSON file.

        Raises:
            Unreadable: it is not valid JSON.
        """
        try:
            return json.loads(self.files[path])
        except json.JSONDecodeError as error:
            raise Unreadable(f"{path} at {self.name} is not valid JSON: {error}") from error

    def rows(self) -> list[dict[str, str]]:
        """Return the rows of the inventory, or none if there is no such file.

        Raises:
            Unreadable: a column that is needed here is missing.
        """
        rows = list(csv.DictReader(io.StringIO(self.files.get(self.places.rows, ""), newline="")))
        if any(None in (row.get("type"), row.get("uri"), row.get("example_uri")) for row in rows):
            raise Unreadable(f"{self.places.rows} at {self.name} has a row without type, uri or example_uri")
        return rows


def read_revision(name: str, places: Places) -> Revision:
    """Read a revision of the repository that the current directory is in.

    Raises:
        Unreadable: git does not know it.
    """
    paths = (places.golden, places.rows, places.changelog)
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", about=name)
    listed = _git("ls-tree", "-r", "-z", "--full-tree", commit.decode().strip(), "--", *paths, about=name)
    entries = [entry.partition("\t") for entry in listed.decode(errors="replace").split("\0") if entry]
    blobs = {path: meta.split()[2] for meta, _, path in entries}
    output = io.BytesIO(_git("cat-file", "--batch", about=name, stdin="\n".join([*blobs.values(), ""]).encode()))
    files = {}
    for path in blobs:
        size = int(output.readline().split()[2])
        files[path] = output.read(size).decode(errors="replace")
        output.readline()
    return Revision(name, files, places)


def _git(*arguments: str, about: str, stdin: bytes = b"") -> bytes:
    command = ["git", *arguments]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, check=True)  # noqa: S603 - git, and no shell
    except FileNotFoundError as error:
        raise Unreadable("git is not installed") from error
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip().partition("\n")[0] or "no such commit"
        raise Unreadable(f"git cannot read {about!r}: {reason}") from error
    return done.stdout
