"""The columns of a table for people: what names a row, then what tells most about it, as in the view's page."""

import json
import re
from collections.abc import Mapping, Sequence

Row = Mapping[str, object]

REFERENCES = ("", "reference_id")
NAMES = (
    "title",
    "name",
    "username",
    "bucket_name",
    "path",
    "key",
    "query",
    "rule",
    "bucket",
    "category",
    "id",
    "description",
)
"""The fields that name a row: the first one that it has."""
ADDRESS = "uri"
FLAG = re.compile(r"^(can|is|has)_")
WORTH = [
    re.compile(pattern)
    for pattern in (
        r"^can_",
        r"(^|_)(status|state|level|write|result)$",
        r"^(type|priority|role|link|progress)$",
        FLAG.pattern,
        r"^(?!.*(_at$|time|last|modif))",
        r"updat|last|time|modif",
        r"_at$",
    )
]
"""Rights, states, kinds, flags, others, times."""
MOST = 6
LONG = 35
FEW = 3
"""In so few rows, a column tells something even if its values are the same."""


def name_columns(rows: Sequence[Row]) -> list[str]:
    """Return the columns that name the rows: a reference, a name, or the first field."""
    keys = list_keys(rows)
    names = [key for key in REFERENCES if key in keys][:1]
    name = next((key for key in NAMES if any(isinstance(row.get(key), str) and row[key] for row in rows)), None)
    return [*names, *([name] if name else [])] or keys[:1]


def choose_columns(rows: Sequence[Row]) -> list[str]:
    """Return the columns of a table in the order of their worth, the names first.

    A column is left out if its values are long, missing, or the same in all rows. The address of a row is the last one.
    """
    names, keys = name_columns(rows), list_keys(rows)
    chosen = [key for key in keys if key not in {*names, ADDRESS} and _tells(key, rows)]
    best = sorted(chosen, key=_find_worth)[:MOST]
    return [*names, *best, *([ADDRESS] if ADDRESS in keys and ADDRESS not in names else [])]


def list_keys(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def _find_worth(key: str) -> int:
    return next(place for place, pattern in enumerate(WORTH) if pattern.search(key) or place == len(WORTH) - 1)


def _tells(key: str, rows: Sequence[Row]) -> bool:
    values = [row.get(key) for row in rows]
    short = [value for value in values if not _is_noise(key, value) and not _is_long(value)]
    differ = len(rows) < FEW or key.startswith("can_") or len({json.dumps(one, sort_keys=True) for one in values}) > 1
    return differ and len(short) * 3 >= len(rows) and not key.endswith(("_evidence", "_id"))


def _is_noise(key: str, value: object) -> bool:
    is_empty = value is None or value in ("", [], {})
    return (is_empty and not FLAG.search(key)) or (value is False and key.endswith("_truncated"))


def _is_long(value: object) -> bool:
    has_objects = isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict) for one in value))
    return has_objects or len(str(value)) > LONG
