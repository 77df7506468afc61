"""Reads the files of a git revision."""

import csv
import io
import json
import subprocess
from dataclasses import dataclass
from typing import Any

ROWS = "tests/fixtures/mcp-list.csv"
CHANGELOG = "CHANGELOG.md"
PATHS = ("golden", ROWS, CHANGELOG)


class Unreadable(Exception):
    """A revision, or a file in it, cannot be read; the message is one line."""


@dataclass(frozen=True)
class Revision:
    """The files of a revision that tell what clients see.

    Attributes:
        name: as it was asked for.
        files: their texts by path.
    """

    name: str
    files: dict[str, str]

    def json(self, path: str) -> Any:
        """The content of a JSON file.

        Raises:
            Unreadable: it is no JSON.
        """
        try:
            return json.loads(self.files[path])
        except json.JSONDecodeError as error:
            raise Unreadable(f"{path} at {self.name} is no JSON: {error}") from error

    def rows(self) -> list[dict[str, str]]:
        """The rows of mcp-list.csv; none if there is no such file.

        Raises:
            Unreadable: a column that is needed here is missing.
        """
        rows = list(csv.DictReader(io.StringIO(self.files.get(ROWS, ""), newline="")))
        if any(None in (row.get("type"), row.get("uri"), row.get("example_uri")) for row in rows):
            raise Unreadable(f"{ROWS} at {self.name} has a row without type, uri or example_uri")
        return rows


def read_revision(name: str) -> Revision:
    """Read a revision of the repository that the current directory is in.

    Raises:
        Unreadable: git does not know it.
    """
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", about=name)
    listed = _git("ls-tree", "-r", "-z", "--full-tree", commit.decode().strip(), "--", *PATHS, about=name)
    entries = [entry.partition("\t") for entry in listed.decode(errors="replace").split("\0") if entry]
    blobs = {path: meta.split()[2] for meta, _, path in entries}
    output = _git("cat-file", "--batch", about=name, stdin="\n".join([*blobs.values(), ""]).encode())
    files = {}
    for path in blobs:
        header, _, output = output.partition(b"\n")
        size = int(header.split()[2])
        files[path], output = output[:size].decode(errors="replace"), output[size + 1 :]
    return Revision(name, files)


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
