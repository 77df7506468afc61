"""The contract's rows, read from mcp-list.csv, and the test cases."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mcp_parity

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
        return _names().data(self.example_uri, "" if world == HOME else world)

    def error_golden(self, world: str) -> str:
        """Return the golden of the error in a world."""
        return _names().error(self.example_uri, world)


def read_rows() -> list[Row]:
    return [Row(**row) for row in mcp_parity.read_rows(mcp_parity.Settings(CSV.parent, inventory=CSV))]


@cache
def _names() -> mcp_parity.Names:
    return mcp_parity.Names(row.example_uri for row in ROWS if row.example_uri)


ROWS = read_rows()
RESOURCES = [row for row in ROWS if row.type != "tool"]
