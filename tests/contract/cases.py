"""The contract's rows, read from mcp-list.csv, and the test cases."""

import csv
from dataclasses import dataclass
from pathlib import Path

CSV = Path(__file__).parent.parent / "fixtures" / "mcp-list.csv"
GOLDENS = Path(__file__).parent.parent.parent / "golden"
HOME = "admin"  # the goldens of this world have no suffix
OF_QUILT = {"admin", "athena", "auth", "permissions", "quilt", "tabulator"}
"""The categories of the resources that read the stack and AWS, in which the worlds differ."""


@dataclass(frozen=True)
class Row:
    """One line of mcp-list.csv."""

    type: str
    uri: str
    name: str
    description: str
    category: str
    mime_type: str
    is_template: str
    template_variables: str
    requires_admin: str
    example_uri: str

    def data_golden(self, world: str) -> str:
        """Return the golden of the data in a world. In the admin's world it has no suffix."""
        return f"data/{self._path}" + ("" if world == HOME else f"--{world}")

    def error_golden(self, world: str) -> str:
        """Return the golden of the error in a world."""
        return f"errors/{self._path}--{world}"

    @property
    def _path(self) -> str:
        return self.example_uri.replace("://", "/")


def read_rows() -> list[Row]:
    with CSV.open(encoding="utf-8", newline="") as file:
        return [Row(**row) for row in csv.DictReader(file)]


ROWS = read_rows() if CSV.exists() else []
RESOURCES = [row for row in ROWS if row.type != "tool"]
