"""Reads the files of a git revision."""

import csv
import io
import json
import subprocess
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from mcp_parity.diff.places import NAMES, Places, Unreadable, find_places


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

    @property
    def goldens(self) -> list[str]:
        """The paths of the goldens."""
        folder = "" if self.places.golden == "." else f"{self.places.golden}/"
        return sorted(path for path in self.files if path.startswith(folder) and path.endswith(".json"))

    def find_lacking(self, *, goldens: bool = False) -> str:
        """Return a sentence about an inventory that does not exist, or goldens if some are needed; else nothing."""
        outcome = f"at {self.name}: nothing was compared"
        if self.places.rows not in self.files:
            return f"there is no inventory {outcome} (looked for {self.places.rows})"
        if goldens and not self.goldens:
            return f"there are no goldens {outcome} (looked in {self.places.golden})"
        return ""

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
        path = self.places.rows
        reader = csv.DictReader(io.StringIO(self.files.get(path, ""), newline=""))
        rows = list(reader)
        header = dict.fromkeys(reader.fieldnames or (), "")  # checked too: an empty file is no empty inventory
        lines = [header, *rows] if path in self.files else []
        if any(None in (line.get("type"), line.get("uri"), line.get("example_uri")) for line in lines):
            raise Unreadable(f"{path} at {self.name} is empty, or has a row without type, uri or example_uri")
        return rows


def read_revision(name: str, given: Places) -> Revision:
    """Read a revision of the repository that the current directory is in.

    Args:
        name: the revision.
        given: the places that the command line names; the configuration of the revision names the others.

    Raises:
        Unreadable: git does not know it, or its configuration cannot be parsed.
    """
    tree = _git("rev-parse", "--verify", "-q", "--end-of-options", f"{name}^{{commit}}", about=name).decode().strip()
    here = PurePosixPath(_git("rev-parse", "--show-prefix", about=name).decode(errors="replace").rstrip("\n"))
    paths = [str(folder / one) for folder in (here, *here.parents) for one in NAMES]
    found = {} if given.golden and given.rows else _read_files(tree, paths, name)
    places = find_places({path: found[path] for path in paths if path in found}, given, name)
    return Revision(name, _read_files(tree, [places.golden, places.rows, places.changelog], name), places)


def _read_files(tree: str, paths: list[str], about: str) -> dict[str, str]:
    """Return the texts of the files at the paths, and below them, by path."""
    listed = _git("ls-tree", "-r", "-z", "--full-tree", tree, "--", *paths, about=about)
    entries = [entry.partition("\t") for entry in listed.decode(errors="replace").split("\0") if entry]
    blobs = {path: meta.split()[2] for meta, _, path in entries}
    output = io.BytesIO(_git("cat-file", "--batch", about=about, stdin="\n".join([*blobs.values(), ""]).encode()))
    files = {}
    for path in blobs:
        size = int(output.readline().split()[2])
        files[path] = output.read(size).decode(errors="replace")
        output.readline()
    return files


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
