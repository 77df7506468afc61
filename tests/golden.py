"""Where goldens live: golden/<kind>/<case>.json, one reviewed file a case."""

import json
import re
from pathlib import Path
from typing import Any

from syrupy.extensions.json import JSONSnapshotExtension
from syrupy.location import PyTestLocation
from syrupy.types import SnapshotIndex

GOLDEN = Path(__file__).parent.parent / "golden"
_NAME = re.compile(r"(data|errors|discovery)(/[A-Za-z0-9]+([._-]+[a-z0-9]+)*)+")


class GoldenExtension(JSONSnapshotExtension):
    """Stores `golden(name="data/auth/status")` as golden/data/auth/status.json.

    What cannot be seen is written as an escape, such as \\u202e: a reviewer should see all that clients receive.
    """

    def serialize(self, data: Any, **options: Any) -> str:
        text = str(super().serialize(data, **options))
        return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(GOLDEN)

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: SnapshotIndex = 0) -> str:
        if not isinstance(index, str) or not _NAME.fullmatch(index):
            raise ValueError(f"a golden is named <kind>/<case>, not {index!r}")
        return index

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        return True  # goldens are named after cases: which test compares them does not matter
