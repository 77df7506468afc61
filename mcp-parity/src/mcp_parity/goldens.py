"""The files of the goldens."""

import json
import os
import warnings
from pathlib import Path
from typing import Any

from syrupy.assertion import SnapshotAssertion
from syrupy.data import SnapshotCollection
from syrupy.extensions.json import JSONSnapshotExtension
from syrupy.location import PyTestLocation
from syrupy.types import SnapshotIndex

from mcp_parity.names import DIRECTORIES
from mcp_parity.settings import ContractError, Settings


class GoldenExtension(JSONSnapshotExtension):
    """Stores `snapshot(name="data/auth/status")` as golden/data/auth/status.json.

    What cannot be seen is written as a JSON escape: a reviewer should see all that clients receive.
    """

    root: Path

    def serialize(self, data: Any, **options: Any) -> str:
        """Return the text of the file."""
        text = str(super().serialize(data, **options))
        return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:  # noqa: ARG003 - goldens belong to cases, not to tests
        """Return the directory of all goldens."""
        return str(cls.root)

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: SnapshotIndex = 0) -> str:  # noqa: ARG003 - the name in syrupy
        """Return the name of the golden."""
        return str(index)

    def discover_snapshots(self, **_: Any) -> Any:
        """Find no unused goldens: a test of the contract does this, because other tests may be deselected."""
        return []

    @classmethod
    def write_snapshot_collection(cls, *, snapshot_collection: SnapshotCollection, **_: Any) -> None:
        """Write the whole file or nothing."""
        [snapshot] = snapshot_collection
        write_whole(Path(snapshot_collection.location), str(snapshot.data))


def use_goldens(snapshot: SnapshotAssertion, settings: Settings) -> SnapshotAssertion:
    """Return syrupy's assertion for the goldens of a contract."""
    return snapshot.use_extension(type("GoldenExtension", (GoldenExtension,), {"root": settings.golden}))


def write_golden(snapshot: SnapshotAssertion, name: str, value: Any) -> None:
    """Let syrupy write a golden. It would warn that the name is not that of the test.

    Raises:
        ContractError: the file cannot be written.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*Can not relate snapshot")
        if snapshot(name=name) != value:  # syrupy catches the error of the disk
            raise ContractError(f"{name}.json cannot be written: the disk is full, or a directory has this name")


def serialize(value: Any) -> Any:
    """Return the value as a golden holds it."""
    return json.loads(GoldenExtension().serialize(value))


def write_whole(path: Path, text: str) -> None:
    """Write a text file. If that fails, the old file stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_golden(settings: Settings, name: str) -> Any:
    """Return the content of a golden, or None if there is no such file.

    Raises:
        ContractError: the file is not JSON.
    """
    path = settings.golden / f"{name}.json"
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        advice = "restore it, or run pytest --snapshot-update"
        raise ContractError(f"{settings.show(path)} is not JSON: {error}; {advice}") from error


def find_goldens(settings: Settings) -> set[str]:
    """Return the names of the goldens that exist."""
    found = (path.relative_to(settings.golden).with_suffix("") for path in settings.golden.rglob("*.json"))
    return {path.as_posix() for path in found if path.parts[0] in DIRECTORIES}
