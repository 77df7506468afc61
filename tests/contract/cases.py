"""The contract's rows, read from mcp-list.csv, and the cases they make."""

import csv
from dataclasses import dataclass
from pathlib import Path

CSV = Path(__file__).parent.parent / "fixtures" / "mcp-list.csv"
HOME = "admin"  # the world whose goldens carry no suffix


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
        """The golden of the data in a world; without a suffix in the admin's."""
        return f"data/{self._path}" + ("" if world == HOME else f"--{world}")

    def error_golden(self, world: str) -> str:
        """The golden of the refusal in a world."""
        return f"errors/{self._path}--{world}"

    @property
    def _path(self) -> str:
        return self.example_uri.replace("://", "/")


def read_rows() -> list[Row]:
    with CSV.open(encoding="utf-8", newline="") as file:
        return [Row(**row) for row in csv.DictReader(file)]


ROWS = read_rows() if CSV.exists() else []
RESOURCES = [row for row in ROWS if row.type != "tool"]
