"""Writes record files: JSON Lines and CSV.

A spreadsheet evaluates cells that start with `=`, `+`, `-` or `@`. So a CSV file has an apostrophe before them, which
the import removes. A cell that already has apostrophes before such a character gets one more, so that nothing is lost.
The same apostrophe distinguishes an empty text from no text.
"""

import csv
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TextIO

COLUMNS = (
    "kind",
    "id",
    "reference_id",
    "username",
    "email",
    "name",
    "user_id",
    "project_id",
    "role",
    "epic_id",
    "user_story_id",
    "acceptance_criteria_id",
    "type_id",
    "source_requirement_id",
    "target_requirement_id",
    "relationship_type_id",
    "author_id",
    "creator_id",
    "assignee_id",
    "created_by",
    "priority",
    "status",
    "title",
    "description",
    "created_at",
    "updated_at",
)
"""The fields of all records, in the order in which they are written."""
# with the wide forms, and with tabs and line breaks, which spreadsheets remove before they look at the next character
_DANGEROUS = "=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20"
_TO_PROTECT = re.compile(rf"'*([{_DANGEROUS}]|\Z)")
_PROTECTED = re.compile(rf"'+([{_DANGEROUS}]|\Z)")


class Writer:
    """Writes records to a text file, which must not translate line endings."""

    def __init__(self, file: TextIO, form: Literal["jsonl", "csv"]) -> None:
        self._file = file
        # with the line ending of RFC 4180, Python also puts quotation marks around cells that contain only \r
        self._csv = csv.DictWriter(file, COLUMNS, lineterminator="\r\n") if form == "csv" else None
        if self._csv:
            self._csv.writeheader()

    def write(self, values: Mapping[str, object]) -> None:
        """Write one record without the values that are None."""
        given = {name: _format(values[name]) for name in COLUMNS if values.get(name) is not None}
        if self._csv:
            self._csv.writerow({name: protect(cell) for name, cell in given.items()})
        else:
            self._file.write(json.dumps(given, ensure_ascii=False) + "\n")

    def finish(self) -> None:
        """Write what follows the last record: nothing."""


def protect(cell: object) -> object:
    """Return a cell that no spreadsheet evaluates."""
    return f"'{cell}" if isinstance(cell, str) and _TO_PROTECT.match(cell) else cell


def unprotect(cell: str) -> str:
    """Return the value of a cell; the inverse of `protect`. Other cells stay as they are."""
    return cell[1:] if _PROTECTED.match(cell) else cell


def _format(value: object) -> object:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
